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
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.special

from xlnet.corpus.tokenizer import WORD_START, Tokenizer
from xlnet.inference.method import (
    Computed,
    Method,
    RestoredModel,
    as_text,
    require_known,
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


class Generation(Method):
    """Continues prompts: a `GeneratedText` for each. An empty one is the beginning of a document;
    of a long one the end is read.

    Args:
      settings: those of `GenerationSettings`.
    """

    def __init__(self, model: RestoredModel, **settings: Any) -> None:
        self._settings = from_keywords(GenerationSettings, settings)
        self._network, self._tokenizer = model.language_model(), model.tokenizer
        self.at_once = max(model.batch_size // self._settings.beams, 1)

    def prepare(self, item: Any) -> list[int]:
        """The ids of a prompt."""
        text = as_text(item)
        if text.strip():
            require_known(self._tokenizer, [text])
        return self._tokenizer.ids(text)

    def compute(self, items: list[list[int]]) -> list[Computed]:
        # All prompts of a batch are as long as the longest one, so long prompts have small batches.
        longest = min(max(map(len, items)), CONTEXT)
        size = max(_MOST_TOKENS // max(longest, 1), 1)
        computed: list[Any] = [None] * len(items)
        for begin in range(0, len(items), size):
            for number, chunk in self._generate(items[begin : begin + size]):
                tokens = len(items[begin + number])
                read = min(tokens, CONTEXT)
                # The last chunk of a text has all of it.
                computed[begin + number] = Computed(chunk.whole, read, tokens)
        return computed

    def stream(self, prompt: Any) -> Iterator[TextChunk]:
        """Yields the `TextChunk`s of the text that continues a prompt as it is generated; that of
        beams when it is complete. A text begins where the prompt ends, perhaps with a space."""
        for _, chunk in self._generate([self.prepare(prompt)]):
            yield chunk

    def _generate(self, prompts: list[list[int]]) -> Iterator[tuple[int, TextChunk]]:
        """Yields (number of the prompt, `TextChunk`) of prompts that are one batch, as they
        come."""
        network, tokenizer = self._network, self._tokenizer
        settings = self._settings
        is_banned = banned(tokenizer)
        starts = [prompt[-CONTEXT:] or [tokenizer.eod_id] for prompt in prompts]
        longest = max(map(len, starts))
        ids = np.zeros((len(starts), longest), int)
        padding = np.ones(ids.shape, bool)
        searches = []
        for number, start in enumerate(starts):
            searches.append(_Search(tokenizer, settings, number))
            ids[number, -len(start) :] = start
            padding[number, -len(start) :] = False
        slots = min(CONTEXT, longest + settings.max_tokens)
        with network.reading(slots, texts=len(starts)) as reading:
            positions: Sequence[int] = range(longest)
            for step in range(settings.max_tokens):
                # A causal network predicts the token after the last one, any other one the token at
                # the position that it is asked for.
                following = [positions[-1] + 1]
                found = reading.read(ids, positions, following, padding=padding)
                log_probabilities = found[:, 0]  # [B,V], of the next tokens
                log_probabilities[:, is_banned] = -np.inf
                is_last = step + 1 == settings.max_tokens
                # Each prompt chooses tokens from its own rows of the batch. The texts that continue
                # make the next batch: of each the row that it continues, and its next token.
                batch: list[tuple[int, int]] = []
                for number, search in enumerate(searches):
                    if not search.rows:
                        continue
                    chunk, continued = search.step(log_probabilities, is_last)
                    begin = len(batch)
                    batch += continued
                    search.rows = list(range(begin, len(batch)))
                    if chunk:
                        yield number, chunk
                if not batch:
                    return
                parents, chosen = zip(*batch)
                if parents != tuple(range(len(ids))):
                    reading.keep(parents)
                ids = np.array(chosen)[:, None]
                padding = np.zeros(ids.shape, bool)
                positions = following


# ---- a text that grows ----


class _Text:
    """A text that is being generated, without its prompt."""

    def __init__(self, tokenizer: Tokenizer, stop: str | None):
        self._tokenizer, self._stop = tokenizer, stop or ""
        self.text = ""
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
            if self.text.endswith("\n"):
                characters = characters.lstrip(" ")
        self.text += characters
        if self._stop:
            self.text, stop, _ = self.text.partition(self._stop)
            if stop:
                return "stop"
        return None

    @property
    def released(self) -> str:
        """The text without the longest end with which the stop text may begin."""
        begin = max(len(self.text) - len(self._stop), 0)
        while not self._stop.startswith(self.text[begin:]):
            begin += 1
        return self.text[:begin]

    def whole(self, ended: str) -> GeneratedText:
        """The text at its end."""
        return GeneratedText(self.text, self.log_probability, self.tokens, ended)


def banned(tokenizer: Tokenizer) -> np.ndarray:
    """Whether a piece is never generated, bool [V]: the special ones but for the ends of a
    paragraph and of the document, and bytes, as a byte alone is not a character."""
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
    """The text that continues a prompt: greedy, sampled, or the best one of a beam search.

    Attributes:
      rows: those of the batch, one for each text that is followed; none at the end.
    """

    def __init__(self, tokenizer: Tokenizer, settings: GenerationSettings, row: int):
        self.rows = [row]
        self._settings, self._width = settings, settings.beams
        self._alive = [_Text(tokenizer, settings.stop)]
        self._done: list[GeneratedText] = []
        # The given seed, or a random one.
        self._seed: Any = np.random.SeedSequence(settings.seed).entropy

    def step(
        self, of_batch: np.ndarray, is_last: bool
    ) -> tuple[TextChunk | None, list[tuple[int, int]]]:
        """Adds a token to each text.

        Args:
          of_batch: [B,V], log probabilities of the next token; -inf for tokens that are never
            chosen.
          is_last: whether texts end now.

        Returns:
          (the chunk that is complete; of each text that continues (the row of the batch, the
          token)).
        """
        # The candidates are the texts with one more token, the likeliest ones first. Those among
        # the first `beams` that end are set aside; the search ends once there are `beams` of them.
        # Until then it continues with the `beams` likeliest candidates that do not end. Each beam
        # has one candidate that ends with <eod>, so 2 x `beams` candidates have enough that do not
        # (fewer only if many complete a stop text). A sample is the only candidate.
        first = self._alive[0]
        log_probabilities = of_batch[self.rows]  # [b,V]
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
                continued.append((self.rows[row], id))
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
            whole = max(self._done, key=lambda text: text.log_probability / text.tokens)
            continued = []
        chunk = None
        if self._width == 1:
            released = whole.text if whole else alive[0].released
            probability = math.exp(log_probabilities[0, ids[0]])
            chunk = TextChunk(released[len(first.released) :], whole, probability)
        elif whole:
            chunk = TextChunk(whole.text, whole)
        return chunk, continued
