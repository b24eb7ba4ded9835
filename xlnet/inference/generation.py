"""Generates text that continues prompts, token by token: greedy, sampled, or by beam search.

Shape letters: B texts generated side by side, b of one prompt, V vocabulary, S slots.
"""

# How texts are generated:
# 1. The prompts are read together; shorter ones begin with padding that no token sees. Their keys
#    and values stay in the memory of a `Reading`, S slots, so that each further token is one step
#    of the network, however long the texts are.
# 2. The mask. In a causal network a token sees those on its left, and the last one predicts the
#    next. In a permutation network the tokens of the prompt all see each other, as the known tokens
#    of pretraining do; the token after them is a target position: its query sees all of them and
#    predicts it. Then it is read itself, as the next one in a factorization order from left to
#    right, and sees all that was read before, which does not see it.
# 3. A token is chosen: the likeliest, a sample, or those of the best beams.
# 4. Texts that ended (<eod>, a stop text, the length) leave the batch; beams that continue from one
#    parent share its keys and values, which are copied (`Reading.keep`).
# 5. When the slots are full, the newest token takes the slot of the oldest one.
#
# A step of the network costs about as much for twenty texts as for one, so a list is one batch.

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.special

from xlnet.corpus.tokenizer import WORD_START, Tokenizer
from xlnet.inference.inference import (
    Call,
    Computed,
    Inference,
    as_text,
    count_unknown,
)
from xlnet.inference.settings import (
    CONTEXT,
    GenerationSettings,
    from_keywords,
)

_MOST_TOKENS = 2048  # of prompts that are read together, padding included, or of one


class GeneratedText(NamedTuple):
    """A generated text.

    Attributes:
      text: without the prompt.
      log_probability: of all its tokens, the end of the document included [nats].
      tokens: their number.
      ended: by "stop", "document" (the model wrote <eod>) or "length".
    """

    text: str
    log_probability: float
    tokens: int
    ended: str


class TextChunk(NamedTuple):
    """More of a text; the last chunk has all of it as `whole`. probability: of the token that gave
    it; None: of a beam search, whose one chunk is the complete text."""

    text: str
    whole: GeneratedText | None = None
    probability: float | None = None


class _Prompt(NamedTuple):
    """The tokens of a prompt that are read, and how many it has, and does not know."""

    ids: Sequence[int]
    tokens: int
    unknown: int


def generation_call(inference: Inference, **settings: Any) -> Call:
    """The call that continues prompts: a `GeneratedText` for each.

    Args:
      settings: those of `GenerationSettings`.
    """
    chosen = from_keywords(GenerationSettings, settings)
    inference.language_model()  # an error comes before that of a prompt

    def compute(prompts: list[_Prompt]) -> list[Computed]:
        # All prompts of a batch are as long as the longest one, so long prompts have small batches.
        longest = max(len(prompt.ids) for prompt in prompts)
        size = max(_MOST_TOKENS // longest, 1)
        found: list[Any] = [None] * len(prompts)
        for begin in range(0, len(prompts), size):
            batch = prompts[begin : begin + size]
            for number, chunk in _generate(inference, batch, chosen):
                found[begin + number] = chunk.whole  # of the last chunk of a text
        computed = []
        for prompt, text in zip(prompts, found):
            read = min(prompt.tokens, CONTEXT)
            computed.append(Computed(text, read, prompt.tokens, prompt.unknown))
        return computed

    at_once = max(inference.batch_size // chosen.beams, 1)
    return Call(compute, at_once, functools.partial(_prompt, inference))


def stream(
    inference: Inference, prompt: Any, settings: GenerationSettings
) -> Iterator[TextChunk]:
    """Yields the `TextChunk`s of the text that continues a prompt as it is generated; that of beams
    when it is complete. A text begins where the prompt ends, perhaps with a space."""
    for _, chunk in _generate(inference, [_prompt(inference, prompt)], settings):
        yield chunk


def _prompt(inference: Inference, item: Any) -> _Prompt:
    """A prompt. An empty one is the beginning of a document; of a long one the end is read."""
    text, tokenizer = as_text(item), inference.tokenizer
    unknown = count_unknown(tokenizer, [text]) if text.strip() else 0
    ids = tokenizer.ids(text)
    return _Prompt(ids[-CONTEXT:] or [tokenizer.eod_id], len(ids), unknown)


# ---- a text that grows ----


class _Text:
    """A text that is being generated. Characters are released as soon as it is clear that the stop
    text does not begin with them."""

    # Only the characters that are held back are searched for the stop text, so that the cost of a
    # token does not grow with the text.
    def __init__(self, tokenizer: Tokenizer, stop: str | None):
        self._tokenizer, self._stop = tokenizer, stop or ""
        self._held = ""  # may be the beginning of the stop text
        self._at_line_start = False
        self.released = ""
        self.log_probability = 0.0
        self.tokens = 0

    def add(self, id: int, log_probability: float) -> str | None:
        """Adds a token; returns what the text ended by, if it did."""
        self.tokens += 1
        self.log_probability += log_probability
        if id == self._tokenizer.eod_id:
            return "document"
        characters = "\n"
        if id != self._tokenizer.eop_id:
            characters = self._tokenizer.id_to_piece(id).replace(WORD_START, " ")
            if self._at_line_start:
                characters = characters.lstrip(" ")
        self._at_line_start = characters.endswith("\n")
        self._held += characters
        if self._stop:
            before, stop, _ = self._held.partition(self._stop)
            if stop:
                self.released += before
                return "stop"
        # The longest end that is the beginning of the stop text is held back.
        while self._held and not self._stop.startswith(self._held):
            self.released += self._held[0]
            self._held = self._held[1:]
        return None

    def whole(self, ended: str) -> GeneratedText:
        """The text at its end, with what was held back until then."""
        if ended != "stop":
            self.released += self._held
        return GeneratedText(self.released, self.log_probability, self.tokens, ended)


def banned(tokenizer: Tokenizer) -> np.ndarray:
    """Pieces that are never written, bool [V]: special ones, but for the ends of a paragraph and of
    the document; a byte alone is not a character."""
    is_banned = tokenizer.is_special.copy()
    is_banned[list(tokenizer.byte_ids)] = True
    is_banned[tokenizer.eod_id] = False
    if tokenizer.eop_id is not None:
        is_banned[tokenizer.eop_id] = False
    return is_banned


# ---- how tokens are chosen ----


def likeliest(logs: np.ndarray, top_k: int, top_p: float) -> np.ndarray:
    """The ids of the tokens that may be sampled by log probabilities [V], the likeliest first.

    With top_p = 0.7, of 0.5, 0.1, 0.3 and 0.1 these are the first and the third.
    """
    order = np.argsort(-logs, kind="stable")
    if top_k:
        order = order[:top_k]
    # Of these, the fewest likeliest ones whose probabilities sum up to `top_p` (nucleus sampling,
    # https://arxiv.org/abs/1904.09751): those before which the sum was below it.
    probabilities = scipy.special.softmax(logs[order])
    before = np.cumsum(probabilities) - probabilities
    return order[before < top_p]


def sample(
    logs: np.ndarray, settings: GenerationSettings, seed: int, token: int
) -> int:
    """The id of a token, sampled by log probabilities float [V].

    Args:
      logs: -inf for tokens that are never chosen.
      seed: of the text.
      token: the number of the token in the text.
    """
    # The token with the largest sum of log probability and Gumbel noise is a sample of the
    # distribution. Its noise depends on the seed and on its place in the text alone: so rounding,
    # which differs between batches, changes the token only where two are equally good.
    if not settings.temperature:
        return int(logs.argmax())
    with np.errstate(over="ignore"):
        scaled = (logs - logs.max()) / settings.temperature
    noise = np.random.default_rng([seed, token]).gumbel(size=len(scaled))
    if not settings.top_k and settings.top_p == 1:
        return int((scaled + noise).argmax())
    kept = likeliest(scaled, settings.top_k, settings.top_p)
    return int(kept[(scaled + noise)[kept].argmax()])


def best(scores: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """The indices of the `count` largest scores that are not -inf, the largest first: one array for
    each axis."""
    # A partition finds the best ones in linear time. Only these are sorted; equal ones by index.
    flat = scores.ravel()
    count = min(count, len(flat))
    found = np.argpartition(-flat, count - 1)[:count]
    found = found[np.lexsort((found, -flat[found]))]
    return np.unravel_index(found[flat[found] > -np.inf], scores.shape)


class _Search:
    """The text that continues a prompt: greedy, sampled, or the best one of a beam search."""

    def __init__(self, tokenizer: Tokenizer, settings: GenerationSettings):
        self._settings, self._width = settings, settings.beams
        self._alive = [_Text(tokenizer, settings.stop)]
        self._done: list[GeneratedText] = []
        random = int(np.random.default_rng().integers(1 << 62))
        self._seed = random if settings.seed is None else settings.seed

    def step(
        self, log_probabilities: np.ndarray, is_last: bool
    ) -> tuple[TextChunk | None, list[tuple[int, int]]]:
        """Adds a token to each text.

        Args:
          log_probabilities: [b,V], of the next token of each text, at first of the prompt alone;
            -inf for tokens that are never chosen.
          is_last: whether texts end now.

        Returns:
          (the chunk that is complete, the texts that continue: row of the log probabilities and
          token of each).
        """
        # The candidates are the texts with one more token, the likeliest ones first. Those among
        # the first `beams` that end are set aside; the search ends once there are `beams` of them.
        # Until then it continues with the `beams` likeliest candidates that do not end. Each beam
        # has one candidate that ends with <eod>, so 2 x `beams` candidates have enough that do not
        # (fewer only if many complete a stop text). A sample is the only candidate.
        first = self._alive[0]
        if self._width == 1:
            logs = log_probabilities[0].astype(float)
            rows = [0]
            ids = [sample(logs, self._settings, self._seed, first.tokens)]
        else:
            before = np.array([[text.log_probability] for text in self._alive])  # [b,1]
            scores = before + log_probabilities  # [b,V]
            rows, ids = map(np.ndarray.tolist, best(scores, 2 * self._width))
        alive, continued = [], []
        for rank, (row, id) in enumerate(zip(rows, ids)):
            text = copy.copy(self._alive[row])
            ended = text.add(id, float(log_probabilities[row, id]))
            if not ended:
                alive.append(text)
                continued.append((row, id))
            elif rank < self._width:
                self._done.append(text.whole(ended))
            if len(alive) == self._width:
                break
        self._alive = alive
        whole = None
        if len(self._done) >= self._width or is_last or not alive:
            if len(self._done) < self._width:
                self._done += [text.whole("length") for text in alive]
            # A longer text has more factors: texts are compared by the mean of their tokens.
            whole = max(self._done, key=_mean_log_probability)
            continued = []
        if self._width == 1:
            released = whole.text if whole else alive[0].released
            probability = math.exp(log_probabilities[0, ids[0]])
            return TextChunk(
                released[len(first.released) :], whole, probability
            ), continued
        return TextChunk(whole.text, whole) if whole else None, continued


def _mean_log_probability(text: GeneratedText) -> float:
    return text.log_probability / max(text.tokens, 1)


# ---- the batch ----


def _generate(
    inference: Inference, prompts: Sequence[_Prompt], settings: GenerationSettings
) -> Iterator[tuple[int, TextChunk]]:
    """Yields (number of the prompt, `TextChunk`) of prompts that are one batch, as they come."""
    model, tokenizer = inference.language_model(), inference.tokenizer
    is_banned = banned(tokenizer)
    searches: list[_Search] = []
    longest = max(len(prompt.ids) for prompt in prompts)
    ids = np.zeros((len(prompts), longest), int)
    padding = np.ones((len(prompts), longest), bool)
    for number, prompt in enumerate(prompts):
        searches.append(_Search(tokenizer, settings))
        begin = longest - len(prompt.ids)
        ids[number, begin:] = prompt.ids
        padding[number, begin:] = False
    slots = min(CONTEXT, longest + settings.max_tokens)
    with model.reading(slots, texts=len(prompts)) as reading:
        positions = range(longest)
        # The prompts that are continued, and the rows of the batch that each has.
        alive = [(number, [number]) for number in range(len(prompts))]
        for step in range(settings.max_tokens):
            # A causal network predicts the token after the last one, any other one where it is
            # asked to.
            asked = [] if model.is_causal else [positions[-1] + 1]
            found = reading.read(ids, positions, asked, padding=padding)
            log_probabilities = found[:, 0]  # [B,V], of the next tokens
            log_probabilities[:, is_banned] = -np.inf
            is_last = step + 1 == settings.max_tokens
            # Each prompt chooses tokens from its own rows of the batch. The texts that continue
            # make the next batch: `parents` has the row that each of them continues.
            parents: list[int] = []
            chosen: list[int] = []
            continuing = []
            for number, rows in alive:
                search = searches[number]
                chunk, continued = search.step(log_probabilities[rows], is_last)
                begin = len(parents)
                for row, id in continued:
                    parents.append(rows[row])
                    chosen.append(id)
                if continued:
                    continuing.append((number, list(range(begin, len(parents)))))
                if chunk:
                    yield number, chunk
            if not parents:
                return
            if parents != list(range(len(ids))):
                reading.keep(parents)
            alive, ids = continuing, np.array(chosen)[:, None]
            padding = np.zeros(ids.shape, bool)
            positions = range(positions[-1] + 1, positions[-1] + 2)
