"""Generates text that continues prompts, token by token: greedy, sampled, or by beam search.

Shape letters: B texts generated side by side, b of one prompt, T tokens, V vocabulary, S slots.
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

_MOST_TOKENS = 2048  # of the prompts that are read together, padding included


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
    """More of a text that is being generated. A beam search has one chunk, the complete text.

    Attributes:
      text: what follows the chunks before.
      whole: all of the text, in its last chunk; None in the others.
      probability: of the token that the chunk comes with; None for a beam search.
    """

    text: str
    whole: GeneratedText | None = None
    probability: float | None = None


class Generation(Method):
    """Continues prompts: a `GeneratedText` for each. With an empty prompt the text is the beginning
    of a document; of a long prompt the last `CONTEXT` tokens are read.

    Args:
      settings: those of `GenerationSettings`.
    """

    def __init__(self, model: RestoredModel, /, **settings: Any) -> None:
        self._settings = from_keywords(GenerationSettings, settings)
        self._model, self._tokenizer = model, model.tokenizer
        self._network = model.language_model()
        # Each beam is a row of the batch.
        self.at_once = max(model.batch_size // self._settings.beams, 1)

    def prepare(self, item: Any) -> list[int]:
        """The ids of a prompt, which may have none."""
        text = as_text(item)
        # A prompt may be empty; any other has a token that the vocabulary has.
        if text.strip():
            require_known(self._tokenizer, [text])
        return self._tokenizer.ids(text)

    def compute(self, items: list[list[int]]) -> list[Computed]:
        """The `GeneratedText` of each prompt, in their order. items: the ids of each."""
        # All prompts of a batch are padded to the longest one, so long prompts have small batches.
        longest = min(max(map(len, items)), CONTEXT)
        batch_size = max(_MOST_TOKENS // max(longest, 1), 1)  # all prompts may be empty
        computed: list[Any] = [None] * len(items)
        for begin in range(0, len(items), batch_size):
            for number, chunk in self._generate(items[begin : begin + batch_size]):
                tokens = len(items[begin + number])
                read = min(tokens, CONTEXT)
                # Each chunk replaces the one before: the last one of a text has all of it.
                computed[begin + number] = Computed(chunk.whole, read, tokens)
        return computed

    def stream(self, prompt: Any) -> Iterator[TextChunk]:
        """Yields the `TextChunk`s of the text that continues a prompt, as it is generated. The text
        begins where the prompt ends, perhaps with a space."""
        for _, chunk in self._generate([self.prepare(prompt)]):
            yield chunk

    def _generate(self, prompts: list[list[int]]) -> Iterator[tuple[int, TextChunk]]:
        """Generates texts for prompts that are one batch. Yields (index of the prompt, `TextChunk`)
        after each token of a text; in a beam search at its end.

        Args:
          prompts: the ids of each.
        """
        tokenizer, settings = self._tokenizer, self._settings
        is_banned = banned(tokenizer)

        is_cut = [len(prompt) > CONTEXT for prompt in prompts]
        self._model.note_cut(np.array(is_cut), CONTEXT)
        # The prompts, cut and padded on the left: [B,T]. <eod> stands for an empty one.
        starts = [prompt[-CONTEXT:] or [tokenizer.eod_id] for prompt in prompts]
        longest = max(map(len, starts))
        ids = np.zeros((len(starts), longest), int)
        padding = np.ones(ids.shape, bool)
        searches = []  # of each prompt
        for number, start in enumerate(starts):
            searches.append(_Search(tokenizer, settings, number))
            ids[number, -len(start) :] = start
            padding[number, -len(start) :] = False

        # Read the prompts, then the tokens that were chosen, one of each text at a time.
        slots = min(CONTEXT, longest + settings.max_tokens)
        with self._network.reading(slots, texts=len(starts)) as reading:
            positions: Sequence[int] = range(longest)
            for step in range(settings.max_tokens):
                # A causal network predicts the token after the last one, any other one the token at
                # a position that it is given.
                next_position = [positions[-1] + 1]
                read = reading.read(ids, positions, next_position, padding=padding)
                log_probabilities = read[:, 0]  # [B,1,V] -> [B,V]
                log_probabilities[:, is_banned] = -np.inf
                is_last = step + 1 == settings.max_tokens

                # Each search chooses tokens from its own rows of the batch. The texts that continue
                # make the next batch: of each the row that it continues, and its next token.
                next_batch: list[tuple[int, int]] = []
                for number, search in enumerate(searches):
                    if not search.rows:  # its text is complete
                        continue
                    chunk, continued = search.step(log_probabilities, is_last)
                    begin = len(next_batch)
                    next_batch += continued
                    search.rows = list(range(begin, len(next_batch)))
                    if chunk:
                        yield number, chunk
                if not next_batch:
                    return
                parents, next_ids = zip(*next_batch)
                # If each text continues the row in which it is, nothing is copied.
                if parents != tuple(range(len(ids))):
                    reading.select(parents)
                ids = np.array(next_ids)[:, None]
                padding = np.zeros(ids.shape, bool)
                positions = next_position


# ---- a text that grows ----


class _Text:
    """A text that is being generated, without its prompt; attributes as of `GeneratedText`."""

    def __init__(self, tokenizer: Tokenizer, stop: str | None):
        self._tokenizer, self._stop = tokenizer, stop or ""  # "": no stop text
        self.text = ""
        self.log_probability = 0.0
        self.tokens = 0

    def add(self, id: int, log_probability: float) -> str | None:
        """Adds a token. Returns "document" if it is <eod>, "stop" if it completes the stop text,
        which is removed; None: the text goes on."""
        self.tokens += 1
        self.log_probability += log_probability
        if id == self._tokenizer.eod_id:
            return "document"
        characters = "\n"  # of <eop>, the end of a paragraph
        if id != self._tokenizer.eop_id:
            characters = self._tokenizer.id_to_piece(id).replace(WORD_START, " ")
            if self.text.endswith("\n"):  # a paragraph does not begin with a space
                characters = characters.lstrip(" ")
        self.text += characters
        if self._stop:
            self.text, stop, _ = self.text.partition(self._stop)
            if stop:
                return "stop"
        return None

    @property
    def released(self) -> str:
        """The part of the text that may be shown: without an end that may be the beginning of the
        stop text. With the stop text "abc" that of "xab" is "x"."""
        # The longest such end is taken, at last the empty one.
        begin = max(len(self.text) - len(self._stop), 0)
        while not self._stop.startswith(self.text[begin:]):
            begin += 1
        return self.text[:begin]

    def whole(self, ended: str) -> GeneratedText:
        """The complete text. ended: as of `GeneratedText`."""
        return GeneratedText(self.text, self.log_probability, self.tokens, ended)


def banned(tokenizer: Tokenizer) -> np.ndarray:
    """Whether a piece is never generated, bool [V]: special pieces other than the ends of a
    paragraph and of the document, and bytes, as a byte alone is not a character."""
    is_banned = tokenizer.is_special.copy()
    is_banned[list(tokenizer.byte_ids)] = True
    is_banned[tokenizer.eod_id] = False
    if tokenizer.eop_id is not None:
        is_banned[tokenizer.eop_id] = False
    return is_banned


# ---- how tokens are chosen ----


def likeliest(logs: np.ndarray, top_k: int, top_p: float) -> np.ndarray:
    """The ids of the tokens that may be sampled, int [at most V], the likeliest first.

    Args:
      logs: float [V], log probabilities, plus any constant.
      top_k: how many tokens, at most; 0: all.
      top_p: of these tokens the fewest that have this probability together (nucleus sampling,
        https://arxiv.org/abs/1904.09751); 1: all. With top_p = 0.7, of the probabilities 0.5, 0.1,
        0.3 and 0.1 these are the first and the third.
    """
    ids = np.argsort(-logs, kind="stable")
    if top_k:
        ids = ids[:top_k]
    # A token is kept if those before it do not have this probability yet.
    probabilities = scipy.special.softmax(logs[ids])
    before = np.cumsum(probabilities) - probabilities
    return ids[before < top_p]


def sample(
    logs: np.ndarray, settings: GenerationSettings, seed: int, position: int
) -> int:
    """The id of a token, sampled by temperature, `top_k` and `top_p` of the settings; the likeliest
    token if the temperature is 0.

    Args:
      logs: float [V], log probabilities; -inf for tokens that are never chosen.
      settings: how text is generated.
      seed: of the text.
      position: that of the token in the text, from 0 on.
    """
    if not settings.temperature:
        return int(logs.argmax())
    with np.errstate(over="ignore"):  # a small temperature makes -inf of most
        scaled = (logs - logs.max()) / settings.temperature
    # The token with the largest sum of log probability and Gumbel noise is a sample of the
    # distribution. Its noise depends on the seed and on its place in the text alone: so rounding,
    # which differs between batches, changes the token only where two are equally good.
    noisy = scaled + np.random.default_rng([seed, position]).gumbel(size=len(scaled))
    if not settings.top_k and settings.top_p == 1:  # all tokens may be sampled
        return int(noisy.argmax())
    allowed = likeliest(scaled, settings.top_k, settings.top_p)
    return int(allowed[noisy[allowed].argmax()])


def largest(scores: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """The indices of the `count` largest scores of an array of any shape, the largest first;
    fewer if the others are -inf. Returns an int array for each axis, such as (rows, columns)."""
    # A partition finds the best ones in linear time. Only these are sorted; equal ones by index.
    flat = scores.ravel()
    count = min(count, len(flat))
    indices = np.argpartition(-flat, count - 1)[:count]
    indices = indices[np.lexsort((indices, -flat[indices]))]
    indices = indices[flat[indices] > -np.inf]
    return np.unravel_index(indices, scores.shape)


class _Search:
    """The search for the text that continues a prompt: greedy, by sampling, or by beams.

    Args:
      row: of the prompt in the batch.

    Attributes:
      rows: those of the batch that belong to the texts that are followed, one for each; none when
        the search has ended. The caller sets them after each step, as batches change.
    """

    def __init__(self, tokenizer: Tokenizer, settings: GenerationSettings, row: int):
        self.rows = [row]
        self._settings, self._beams = settings, settings.beams
        self._growing = [_Text(tokenizer, settings.stop)]  # in the order of `rows`
        self._ended: list[GeneratedText] = []
        # The seed of the settings; a random one if they have none.
        self._seed: Any = np.random.SeedSequence(settings.seed).entropy

    def step(
        self, batch_log_probabilities: np.ndarray, is_last: bool
    ) -> tuple[TextChunk | None, list[tuple[int, int]]]:
        """Adds a token to each text.

        Args:
          batch_log_probabilities: float32 [B,V], of the next token of each row of the batch; -inf
            for tokens that are never chosen.
          is_last: whether texts end now.

        Returns:
          (chunk, continued). The chunk is None in a beam search before its end. `continued` has
          (the row of the batch that it continues, the id of its token) for each text that
          continues; none when the search has ended.
        """
        # The candidates are the texts with one more token, the likeliest ones first. Those among
        # the first `beams` that end are set aside; the search ends once there are `beams` of them.
        # Until then it continues with the `beams` likeliest candidates that do not end. Each beam
        # has one candidate that ends with <eod>, so 2 x `beams` candidates have enough that do not
        # (fewer only if many complete a stop text). A sample is the only candidate.
        before = self._growing
        log_probabilities = batch_log_probabilities[self.rows]  # [b,V]
        if self._beams == 1:
            logs = log_probabilities[0].astype(float)
            numbers = [0]  # of the texts in `before`
            position = before[0].tokens  # of the new token in the text, from 0 on
            ids = [sample(logs, self._settings, self._seed, position)]
        else:
            sums = np.array([text.log_probability for text in before])  # [b]
            scores = sums[:, None] + log_probabilities  # [b,V]
            numbers, ids = map(np.ndarray.tolist, largest(scores, 2 * self._beams))

        # Add the tokens; divide the texts into those that grow further and those that end.
        growing, continued = [], []
        for rank, (number, id) in enumerate(zip(numbers, ids)):
            text = copy.copy(before[number])  # several candidates may continue it
            ended = text.add(id, float(log_probabilities[number, id]))
            if not ended:
                growing.append(text)
                continued.append((self.rows[number], id))
            elif rank < self._beams:
                self._ended.append(text.whole(ended))
            if len(growing) == self._beams:
                break
        self._growing = growing

        # At the end of the search choose the best text.
        whole = None
        if len(self._ended) >= self._beams or is_last or not growing:
            # Texts that still grow are compared only if too few have ended.
            if len(self._ended) < self._beams:
                self._ended += [text.whole("length") for text in growing]
            # A longer text has more factors: texts are compared by the mean of their tokens.
            whole = max(
                self._ended, key=lambda text: text.log_probability / text.tokens
            )
            continued = []

        # Without beams the chunk is what this token adds to the part that may be shown.
        chunk = None
        if self._beams == 1:
            released = whole.text if whole else growing[0].released
            probability = math.exp(log_probabilities[0, ids[0]])
            chunk = TextChunk(released[len(before[0].released) :], whole, probability)
        elif whole:
            chunk = TextChunk(whole.text, whole)
        return chunk, continued
