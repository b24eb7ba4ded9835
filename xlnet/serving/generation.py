"""Generates text that continues a prompt, token by token: greedy, sampled, or by beam search.

Shape letters: B texts generated side by side, b of one prompt, V vocabulary.
"""

# How a text is generated:
# 1. The prompt is read. Its keys and values stay in the memory of a `Reading`, S slots, so that
#    each further token is one step of the network, however long the text is (`joint_generation`).
# 2. The mask. In a causal network a token sees those on its left, and the last one predicts the
#    next. In a permutation network the tokens of the prompt all see each other, as the known tokens
#    of pretraining do; the token after them is a target position: its query sees all of them and
#    predicts it. Then it is read itself, as the next one in a factorization order from left to
#    right, and sees all that was read before, which does not see it.
# 3. The log probabilities are adjusted (`_adjusted`: banned pieces, repetition), and a token is
#    chosen: the likeliest, a sample (`sampling.distribution`), or those of the best beams.
# 4. Texts that ended (<eod>, a stop text, the length) leave the batch; beams that continue from one
#    parent share its keys and values, which are copied (`Reading.keep`).
# 5. When the slots are full, the newest token takes the slot of the oldest one.

from __future__ import annotations

import codecs
import collections
import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from xlnet.serving import joint_generation, sampling
from xlnet.serving.batched_calls import BatchedCall, Computed
from xlnet.serving.generated_text import GeneratedText, Search, Step, TextChunk
from xlnet.serving.joint_generation import Generation, JointGeneration, copies_of
from xlnet.serving.settings import GenerationSettings, from_keywords, stop_texts
from xlnet.serving.texts import as_text
from xlnet.tokenization.tokenizer import WORD_START, Tokenizer

if TYPE_CHECKING:
    from xlnet.serving.inference import Inference
    from xlnet.serving.language_model import LanguageModel

Stop = Union[None, str, Sequence[str]]


def generation_call(inference: Inference, stop: Stop = None, **settings: Any) -> BatchedCall:
    """The call that continues prompts: a `GeneratedText` for each, a list of them with several
    samples.

    Args:
      stop: a text, or several, before which a text ends.
      settings: the others of `GenerationSettings`.
    """
    chosen = from_keywords(GenerationSettings, dict(settings, stop=stop))
    model, tokenizer = inference.language_model(), inference.tokenizer

    def compute(prompts: list[str]) -> list[Computed]:
        computed = []
        for prompt, texts in zip(prompts, write_all(model, tokenizer, prompts, chosen)):
            tokens = len(tokenizer.ids(prompt))  # a long prompt is read in windows, all of it
            computed.append(Computed(texts if chosen.samples > 1 else texts[0], tokens, tokens))
        return computed

    # A batch of the network has a row for each beam or sample of each prompt.
    return BatchedCall(as_text, compute, max(inference.batch_size // copies_of(chosen), 1))


# ---- pieces to text ----


class _Text:
    """A text that grows by one token after the other. Characters are released as soon as it is
    clear that no stop text begins with them."""

    # Only the characters that are held back are searched for stop texts, so that the cost of a
    # token does not grow with the text.
    def __init__(self, pieces: _Pieces, stops: tuple[str, ...]):
        self._pieces, self._stops = pieces, stops
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # may be the beginning of a stop text
        self._at_line_start = False
        self.is_stopped = False

    def copy(self) -> _Text:
        other = copy.copy(self)
        other._decoder = copy.copy(self._decoder)
        return other

    def add(self, id: int) -> str:
        """Adds a token; returns the characters that it releases."""
        self._held += self._characters(id)
        found = [self._held.find(stop) for stop in self._stops if stop in self._held]
        if found:
            self.is_stopped = True
            released, self._held = self._held[: min(found)], ""
            return released
        # The longest end that is the beginning of a stop text is held back.
        length = 0
        for stop in self._stops:
            for size in range(1, min(len(stop), len(self._held) + 1)):
                if self._held.endswith(stop[:size]):
                    length = max(length, size)
        cut = len(self._held) - length
        released, self._held = self._held[:cut], self._held[cut:]
        return released

    def rest(self) -> str:
        """The characters that are not released yet, at the end."""
        return self._held + self._decoder.decode(b"", final=True)

    def _characters(self, id: int) -> str:
        # A character outside the vocabulary is several pieces, each a byte of its UTF-8.
        byte = self._pieces.byte_of.get(id)
        if byte is not None:
            self._at_line_start = False
            return self._decoder.decode(bytes([byte]))
        broken = self._decoder.decode(b"", final=True)  # a character that is not complete
        text = self._pieces.text_of(id)
        if self._at_line_start:
            text = text.lstrip(" ")
        self._at_line_start = text.endswith("\n")
        return broken + text


class _Pieces:
    """The texts of a vocabulary's pieces, and which of them are never written."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self.byte_of = {id: int(tokenizer.id_to_piece(id)[3:5], 16) for id in tokenizer.byte_ids}
        self.end_id = tokenizer.eod_id
        self.is_banned = tokenizer.is_special.copy()  # [V]
        self.is_banned[[id for id in (self.end_id, tokenizer.eop_id) if id is not None]] = False

    def text_of(self, id: int) -> str:
        if id == self._tokenizer.eop_id:
            return "\n"
        return self._tokenizer.id_to_piece(id).replace(WORD_START, " ")


# ---- one prompt, or several side by side ----


def write(
    model: LanguageModel, tokenizer: Tokenizer, prompt: str, settings: GenerationSettings
) -> Iterator[TextChunk]:
    """Yields the `TextChunk`s of the texts that continue a prompt as they are generated; those of
    beams when all are complete. A text begins where the prompt ends, perhaps with a space.

    An empty prompt is the beginning of a document.
    """
    for _, chunk in _chunks(model, tokenizer, [prompt], settings):
        yield chunk


def write_all(
    model: LanguageModel, tokenizer: Tokenizer, prompts: Sequence[str], settings: GenerationSettings
) -> list[list[GeneratedText]]:
    """The texts that continue each prompt, all prompts as one batch."""
    texts_of: list[dict[int, GeneratedText]] = [{} for _ in prompts]  # by their numbers
    for prompt_number, chunk in _chunks(model, tokenizer, prompts, settings):
        if chunk.whole:  # the last chunk of a text
            texts_of[prompt_number][chunk.number] = chunk.whole
    in_order = []
    for texts in texts_of:
        in_order.append([texts[number] for number in sorted(texts)])
    return in_order


def _chunks(
    model: LanguageModel, tokenizer: Tokenizer, prompts: Sequence[str], settings: GenerationSettings
) -> Iterator[tuple[int, TextChunk]]:
    """Yields (number of the prompt, `TextChunk`)."""
    pieces = _Pieces(tokenizer)
    search_type: Callable[..., Search] = _Beams if settings.method == "beam" else _Samples
    generations = []
    for prompt in prompts:
        ids = tokenizer.ids(prompt) or [tokenizer.eod_id]
        generations.append(Generation(search_type(pieces, ids, settings), ids, settings))

    # Long generations have a batch of their own, one after the other; all others share one.
    joined = []
    for number, generation in enumerate(generations):
        if not generation.is_alone:
            joined.append(number)
            continue
        own_batch = JointGeneration(model)
        try:
            for _, chunk in own_batch.parts([generation]):
                yield number, chunk
        finally:
            own_batch.close()
    shared_batch = joint_generation.of(model)
    for index, chunk in shared_batch.parts([generations[number] for number in joined]):
        yield joined[index], chunk


# ---- the texts of one prompt ----


class _Writing:
    """A text that is being generated.

    Attributes:
      ids: of the prompt and the text, the last `context` of them.
      score: sum of the log probabilities by which the tokens were chosen (`_adjusted`).
    """

    def __init__(self, text: _Text, prompt: Sequence[int], context: int):
        self.text = text
        self.ids: collections.deque[int] = collections.deque(prompt, context)
        self.released: list[str] = []
        self.log_probability = self.score = 0.0
        self.tokens = 0

    def copy(self) -> _Writing:
        other = copy.copy(self)
        other.text, other.released = self.text.copy(), [*self.released]
        other.ids = self.ids.copy()
        return other

    def add(self, id: int, log_probability: float, end_id: int) -> Optional[str]:
        """Adds a token; returns what the text ended by, if it did."""
        self.tokens += 1
        self.log_probability += log_probability
        self.ids.append(id)
        if id == end_id:
            return "document"
        self.released.append(self.text.add(id))
        return "stop" if self.text.is_stopped else None

    def whole(self, ended: str) -> GeneratedText:
        """The text at its end; the last of `released` is what was held back until then."""
        self.released.append("" if ended == "stop" else self.text.rest())
        return GeneratedText("".join(self.released), self.log_probability, self.tokens, ended)


def _adjusted(
    log_probabilities: np.ndarray, writing: _Writing, pieces: _Pieces, settings: GenerationSettings
) -> np.ndarray:
    """The log probabilities [V] by which the next token of a text is chosen; -inf: never."""
    allowed = np.where(pieces.is_banned, -np.inf, log_probabilities)
    scores = allowed.copy()
    if writing.tokens < settings.min_tokens:
        scores[pieces.end_id] = -np.inf

    # Tokens that the text has already are less likely: their log probabilities are negative, and
    # are multiplied by a factor above 1.
    if settings.repetition_penalty != 1:
        scores[np.unique(writing.ids)] *= settings.repetition_penalty

    # A token that would complete an n-gram a second time is never chosen.
    size = settings.no_repeat_ngram_size
    if 0 < size <= len(writing.ids):
        ids = np.array(writing.ids)
        ngrams = np.lib.stride_tricks.sliding_window_view(ids, size)  # [n,size]
        begun = ids[len(ids) - size + 1 :]  # the last size - 1 tokens
        has_this_beginning = (ngrams[:, :-1] == begun).all(axis=1)
        scores[ngrams[has_this_beginning, -1]] = -np.inf

    if scores.max() == -np.inf:  # no token is left: repeat rather than write what is banned
        return allowed
    return scores


class _Samples:
    """Texts that are sampled, or the one greedy text."""

    def __init__(self, pieces: _Pieces, prompt: Sequence[int], settings: GenerationSettings):
        self._pieces, self._settings = pieces, settings
        numbers, stops = range(settings.samples), stop_texts(settings.stop)
        self._writings = [_Writing(_Text(pieces, stops), prompt, settings.context) for _ in numbers]
        self._randoms = [
            np.random.default_rng(None if settings.seed is None else [settings.seed, number])
            for number in numbers
        ]
        self._rows = [(number, 0) for number in numbers]  # of the texts that continue

    def step(self, log_probabilities: np.ndarray, is_last: bool) -> Step:
        # Each text has random numbers of its own: the texts next to it change nothing.
        chunks, continued, numbers = [], [], []
        for number, row in self._rows:
            writing = self._writings[number]
            id = self._choose(
                _adjusted(log_probabilities[row], writing, self._pieces, self._settings),
                self._randoms[number],
            )
            shown = len(writing.released)
            log_probability = float(log_probabilities[row, id])
            ended = writing.add(id, log_probability, self._pieces.end_id)
            if not ended and is_last:
                ended = "length"
            whole = writing.whole(ended) if ended else None
            new_text = "".join(writing.released[shown:])
            chunks.append(TextChunk(number, new_text, whole, math.exp(log_probability)))
            if not ended:
                continued.append((row, id))
                numbers.append(number)
        self._rows = [(number, row) for row, number in enumerate(numbers)]
        return chunks, continued

    def _choose(self, allowed: np.ndarray, random: np.random.Generator) -> int:
        """The id of the next token; allowed: as of `_adjusted`."""
        settings = self._settings
        if settings.method == "greedy":
            return int(allowed.argmax())
        probabilities = sampling.distribution(
            allowed, settings.temperature, settings.top_k, settings.top_p
        )
        return int(random.choice(len(allowed), p=probabilities))


class _Beams:
    """The best texts of a beam search, the best first."""

    def __init__(self, pieces: _Pieces, prompt: Sequence[int], settings: GenerationSettings):
        self._pieces, self._settings = pieces, settings
        self._alive = [_Writing(_Text(pieces, stop_texts(settings.stop)), prompt, settings.context)]
        self._done: list[tuple[float, GeneratedText]] = []  # with their scores

    def step(self, log_probabilities: np.ndarray, is_last: bool) -> Step:
        width = self._settings.beams
        scores = np.array(
            [  # [b,V]
                writing.score + _adjusted(of_text, writing, self._pieces, self._settings)
                for writing, of_text in zip(self._alive, log_probabilities)
            ]
        )
        # The candidates are the texts with one more token, the likeliest ones first. Those among
        # the first `beams` that end are set aside; the search ends once there are `beams` of them.
        # Until then it continues with the `beams` likeliest candidates that do not end. Each beam
        # has one candidate that ends with <eod>, so 2 x `beams` candidates have enough that do not
        # (fewer only if many complete a stop text).
        continued = []  # writing, row, token
        for rank, (row, id) in enumerate(zip(*sampling.best(scores, 2 * width))):
            writing = self._alive[row].copy()
            writing.score = float(scores[row, id])
            ended = writing.add(int(id), float(log_probabilities[row, id]), self._pieces.end_id)
            if not ended:
                continued.append((writing, int(row), int(id)))
            elif rank < width:
                self._done.append((writing.score, writing.whole(ended)))
            if len(continued) == width:
                break
        self._alive = [writing for writing, _, _ in continued]
        if len(self._done) < width and self._alive and not is_last:
            return [], [(row, id) for _, row, id in continued]
        return self._best(), []

    def _best(self) -> list[TextChunk]:
        """The chunks of all texts, each a complete text."""
        done = self._done
        if len(done) < self._settings.beams:
            done += [(writing.score, writing.whole("length")) for writing in self._alive]
        done.sort(
            key=lambda each: -each[0] / max(each[1].tokens, 1) ** self._settings.length_penalty
        )
        return [
            TextChunk(number, written.text, written)
            for number, (_, written) in enumerate(done[: self._settings.samples])
        ]
