"""Generates text that continues prompts, token by token: greedy, sampled, or by beam search.

Shape letters: B texts generated side by side, b of one prompt, V vocabulary, S slots.
"""

# How a text is generated:
# 1. The prompt is read. Its keys and values stay in the memory of a `Reading`, S slots, so that
#    each further token is one step of the network, however long the text is.
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
# A step of the network costs about as much for twenty texts as for one, so all texts share a batch.
# No thread of its own generates: a thread that waits for its next token makes a step for all texts,
# and the other threads find their tokens when they look. A prompt joins between two steps.
#
# All texts end at the same position, that of the newest token. Attention depends on distances
# alone, so a prompt that joins is read as if its text had begun that much later. Example: "a mat"
# joins when "the cat sat" has been read, S = 4; a dot is a slot that the text does not see:
#
#   positions         0    1    2    3            1    2    3    4
#   first text            the  cat  sat    ->    the  cat  sat  on
#   second text        .    .    a   mat          .    a   mat  .. its next token

from __future__ import annotations

import codecs
import collections
import copy
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import scipy.special

from xlnet.corpus.tokenizer import WORD_START, Tokenizer
from xlnet.inference import session
from xlnet.inference.inference import Call, Inference, require_finite
from xlnet.inference.language_model import LanguageModel, Reading
from xlnet.inference.settings import (
    CONTEXT,
    GenerationSettings,
    from_keywords,
    stop_texts,
)
from xlnet.inference.texts import as_text, count_unknown

_MOST_TEXTS = 32  # side by side; prompts wait for a place
_MOST_TOKENS = (
    2048  # of prompts that are read in a step, padding included, or a single prompt
)
_SLOTS_MULTIPLE = 32  # few sizes, as each new one copies all keys and values


class GeneratedText(NamedTuple):
    """A generated text.

    Attributes:
      text: without the prompt.
      log_probability: of all its tokens, the end of the document included [nats].
      tokens: their number.
      ended: by "stop", "document" (the model wrote <eod>) or "length".
      unknown_tokens: how many tokens of the prompt are not in the vocabulary.
    """

    text: str
    log_probability: float
    tokens: int
    ended: str
    unknown_tokens: Optional[int] = None


class TextChunk(NamedTuple):
    """More of a text; the last chunk has all of it as `whole`. probability: of the token that gave
    it; None: of a beam search, whose one chunk is the complete text."""

    text: str
    whole: Optional[GeneratedText] = None
    probability: Optional[float] = None


def generation_call(
    inference: Inference, stop: Union[None, str, Sequence[str]] = None, **settings: Any
) -> Call:
    """The call that continues prompts: a `GeneratedText` for each.

    Args:
      stop: a text, or several, before which a text ends.
      settings: the others of `GenerationSettings`.
    """
    chosen = from_keywords(GenerationSettings, dict(settings, stop=stop))
    tokenizer, batch = inference.tokenizer, batch_of(inference)

    def prepare(prompt: Any) -> tuple[str, int]:
        text = as_text(prompt)
        return text, count_unknown(tokenizer, [text]) if text.strip() else 0

    def compute(prompts: list[tuple[str, int]]) -> list[GeneratedText]:
        found = []
        texts = batch.texts([prompt for prompt, _ in prompts], chosen)
        for (_, unknown), text in zip(prompts, texts):
            found.append(text._replace(unknown_tokens=unknown))
        return found

    return Call(prepare, compute, max(inference.batch_size // chosen.beams, 1))


def batch_of(inference: Inference) -> GenerationBatch:
    """The batch in which all threads that use a model generate."""
    model = inference.language_model()
    with inference.lock:
        if inference.generation_batch is None:
            inference.generation_batch = GenerationBatch(model, inference.tokenizer)
        return inference.generation_batch


# ---- a text that grows ----


class _Pieces:
    """The texts of a vocabulary's pieces, and which of them are never written."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self.byte_of = {
            id: int(tokenizer.id_to_piece(id)[3:5], 16) for id in tokenizer.byte_ids
        }
        self.end_id = tokenizer.eod_id
        self.is_banned = tokenizer.is_special.copy()  # [V]
        self.is_banned[self.end_id] = False
        if tokenizer.eop_id is not None:
            self.is_banned[tokenizer.eop_id] = False

    def text_of(self, id: int) -> str:
        if id == self._tokenizer.eop_id:
            return "\n"
        return self._tokenizer.id_to_piece(id).replace(WORD_START, " ")


class _Text:
    """A text that is being generated. Characters are released as soon as it is clear that no stop
    text begins with them."""

    # Only the characters that are held back are searched for stop texts, so that the cost of a
    # token does not grow with the text.
    def __init__(self, pieces: _Pieces, stops: tuple[str, ...]):
        self._pieces, self._stops = pieces, stops
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # may be the beginning of a stop text
        self._at_line_start = False
        self.released = ""
        self.log_probability = 0.0
        self.tokens = 0

    def copy(self) -> _Text:
        other = copy.copy(self)
        other._decoder = copy.copy(self._decoder)
        return other

    def add(self, id: int, log_probability: float) -> Optional[str]:
        """Adds a token; returns what the text ended by, if it did."""
        self.tokens += 1
        self.log_probability += log_probability
        if id == self._pieces.end_id:
            return "document"
        self._held += self._characters(id)
        found = [self._held.find(stop) for stop in self._stops if stop in self._held]
        if found:
            self.released += self._held[: min(found)]
            return "stop"
        # The longest end that is the beginning of a stop text is held back.
        length = 0
        for stop in self._stops:
            for size in range(1, min(len(stop), len(self._held) + 1)):
                if self._held.endswith(stop[:size]):
                    length = max(length, size)
        cut = len(self._held) - length
        self.released += self._held[:cut]
        self._held = self._held[cut:]
        return None

    def whole(self, ended: str) -> GeneratedText:
        """The text at its end, with what was held back until then."""
        if ended != "stop":
            self.released += self._held + self._decoder.decode(b"", final=True)
        return GeneratedText(self.released, self.log_probability, self.tokens, ended)

    def _characters(self, id: int) -> str:
        # A character outside the vocabulary is several pieces, each a byte of its UTF-8.
        byte = self._pieces.byte_of.get(id)
        if byte is not None:
            self._at_line_start = False
            return self._decoder.decode(bytes([byte]))
        broken = self._decoder.decode(
            b"", final=True
        )  # a character that is not complete
        text = self._pieces.text_of(id)
        if self._at_line_start:
            text = text.lstrip(" ")
        self._at_line_start = text.endswith("\n")
        return broken + text


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


# What a step takes: log probabilities [b,V] of the next token of each text, at first of the prompt
# alone, and whether it is the last step. What it gives: the chunk that is complete, and the texts
# that continue, (row of the log probabilities, token) each.
Step = tuple[Optional[TextChunk], list[tuple[int, int]]]


class _Sample:
    """A text that is sampled, or greedy."""

    def __init__(self, pieces: _Pieces, settings: GenerationSettings):
        self._pieces, self._settings = pieces, settings
        self._text = _Text(pieces, stop_texts(settings.stop))
        self._seed = settings.seed
        if self._seed is None:
            self._seed = int(np.random.default_rng().integers(1 << 62))

    def step(self, log_probabilities: np.ndarray, is_last: bool) -> Step:
        text = self._text
        allowed = np.where(
            self._pieces.is_banned, -np.inf, log_probabilities[0].astype(np.float64)
        )
        id = sample(allowed, self._settings, self._seed or 0, text.tokens)
        log_probability = float(log_probabilities[0, id])
        before = len(text.released)
        ended = text.add(id, log_probability)
        if not ended and is_last:
            ended = "length"
        whole = text.whole(ended) if ended else None
        chunk = TextChunk(text.released[before:], whole, math.exp(log_probability))
        return chunk, [] if ended else [(0, id)]


class _Beams:
    """The best text of a beam search."""

    def __init__(self, pieces: _Pieces, settings: GenerationSettings):
        self._pieces, self._width = pieces, settings.beams
        self._alive = [_Text(pieces, stop_texts(settings.stop))]
        self._done: list[GeneratedText] = []

    def step(self, log_probabilities: np.ndarray, is_last: bool) -> Step:
        before = np.array([[text.log_probability] for text in self._alive])  # [b,1]
        scores = np.where(
            self._pieces.is_banned, -np.inf, before + log_probabilities
        )  # [b,V]
        # The candidates are the texts with one more token, the likeliest ones first. Those among
        # the first `beams` that end are set aside; the search ends once there are `beams` of them.
        # Until then it continues with the `beams` likeliest candidates that do not end. Each beam
        # has one candidate that ends with <eod>, so 2 x `beams` candidates have enough that do not
        # (fewer only if many complete a stop text).
        alive, continued = [], []
        for rank, (row, id) in enumerate(zip(*best(scores, 2 * self._width))):
            text = self._alive[row].copy()
            ended = text.add(int(id), float(log_probabilities[row, id]))
            if not ended:
                alive.append(text)
                continued.append((int(row), int(id)))
            elif rank < self._width:
                self._done.append(text.whole(ended))
            if len(alive) == self._width:
                break
        self._alive = alive
        if len(self._done) < self._width and alive and not is_last:
            return None, continued
        if len(self._done) < self._width:
            self._done += [text.whole("length") for text in alive]
        # A longer text has more factors: texts are compared by the mean of their tokens.
        found = max(
            self._done, key=lambda text: text.log_probability / max(text.tokens, 1)
        )
        return TextChunk(found.text, found), []


# ---- the batch ----


class _Generation:
    """The text that is being generated for one prompt.

    Attributes:
      slots: the tokens that it has at the end, at most `CONTEXT`.
      chunks: of the text, which nobody has taken yet.
      rows: the batch elements of its text, or of its beams.
      is_done: whether no chunk follows those of `chunks`.
      is_left: whether nobody waits for it any more.
      error: what ended it.
    """

    def __init__(
        self,
        search: Union[_Sample, _Beams],
        ids: Sequence[int],
        settings: GenerationSettings,
    ) -> None:
        self.search, self.ids, self.beams = search, ids, settings.beams
        self.slots = min(CONTEXT, len(ids) + settings.max_tokens)
        self.steps_left = settings.max_tokens
        self.chunks: collections.deque[TextChunk] = collections.deque()
        self.rows = range(0)
        self.is_done = self.is_left = False
        self.error: Optional[Exception] = None


class GenerationBatch:
    """The batch in which the texts of a network are generated; any number of threads may use it."""

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer) -> None:
        self._model, self._tokenizer = model, tokenizer
        self._pieces = _Pieces(tokenizer)
        self._step_lock = threading.Lock()
        self._waiting: collections.deque[_Generation] = collections.deque()
        self._running: list[_Generation] = []
        self._context: Any = None  # of `_reading`
        self._reading: Optional[Reading] = None
        self._log_probabilities = np.zeros(
            (0, 0), np.float32
        )  # [B,V], of each text's next token
        self._position = 0  # of the next token

    def texts(
        self, prompts: Sequence[str], settings: GenerationSettings
    ) -> list[GeneratedText]:
        """The texts that continue some prompts."""
        found: list[Any] = [None] * len(prompts)
        for number, chunk in self._chunks(prompts, settings):
            if chunk.whole:  # the last chunk of a text
                found[number] = chunk.whole
        return found

    def stream(self, prompt: str, settings: GenerationSettings) -> Iterator[TextChunk]:
        """Yields the `TextChunk`s of the text that continues a prompt as it is generated; that of
        beams when it is complete. A text begins where the prompt ends, perhaps with a space.

        An empty prompt is the beginning of a document. Of a long one the end is read.
        """
        for _, chunk in self._chunks([prompt], settings):
            yield chunk

    def _chunks(
        self, prompts: Sequence[str], settings: GenerationSettings
    ) -> Iterator[tuple[int, TextChunk]]:
        """Yields (number of the prompt, `TextChunk`) as they come."""
        generations = []
        for prompt in prompts:
            ids = self._tokenizer.ids(prompt)[-CONTEXT:] or [self._tokenizer.eod_id]
            search_type = _Beams if settings.beams > 1 else _Sample
            generations.append(
                _Generation(search_type(self._pieces, settings), ids, settings)
            )
        if settings.beams == 1:
            yield from self._join(generations)
            return
        # The beams of a prompt would slow the texts of others down: they have a batch of their own.
        for number, each in enumerate(generations):
            own_batch = GenerationBatch(self._model, self._tokenizer)
            for _, chunk in own_batch._join([each]):
                yield number, chunk

    def _join(
        self, generations: Sequence[_Generation]
    ) -> Iterator[tuple[int, TextChunk]]:
        # The generations end if the caller takes no more chunks.
        try:
            self._waiting.extend(generations)
            while True:
                for number, each in enumerate(generations):
                    while each.chunks:
                        yield number, each.chunks.popleft()
                    if each.error:
                        raise each.error
                session.caller().check()
                with self._step_lock:
                    # Another thread may have made the step while this one waited for the lock.
                    if any(each.chunks or each.error for each in generations):
                        continue
                    if all(each.is_done for each in generations):
                        return
                    self._step()
        finally:
            for each in generations:
                each.is_left = True
            self._release_if_left()

    def _release_if_left(self) -> None:
        # A thread that makes a step drops texts that nobody waits for. After the last step no
        # thread would, so it is done here. If another thread has the lock, that thread does it.
        if self._step_lock.acquire(blocking=False):
            try:
                if all(each.is_left for each in self._running):
                    self._running = []
                    self._release()
            finally:
                self._step_lock.release()

    def _step(self) -> None:
        """Generates a token of each text, and lets prompts join."""
        try:
            with session.as_shared():
                self._continue()
                self._admit_waiting_prompts()
        except BaseException as e:
            # The step fails for all texts, as some have chosen a token that was not read. An
            # interrupt (Ctrl-C) is raised in this thread only; the others get an error.
            error = RuntimeError("the step of all texts was interrupted")
            for each in self._running:
                each.error = e if isinstance(e, Exception) else error
                each.is_done = True
            self._running = []
            self._release()
            if not isinstance(e, Exception):
                raise

    def _continue(self) -> None:
        # Each prompt chooses tokens from its own rows of the batch. The texts that continue make
        # the next batch: `parents` has the row that each of them continues, `chosen` its new token.
        parents: list[int] = []
        chosen: list[int] = []
        running = []
        for each in self._running:
            if each.is_left:
                continue
            each.steps_left -= 1
            log_probabilities = self._log_probabilities[
                each.rows.start : each.rows.stop
            ]
            try:
                require_finite(log_probabilities)
                chunk, continued = each.search.step(
                    log_probabilities, each.steps_left == 0
                )
            except Exception as e:  # of this prompt alone: nothing was read for it yet
                each.error = e
                each.is_done = True
                continue
            begin = len(parents)
            for row, id in continued:
                parents.append(each.rows[row])
                chosen.append(id)
            each.rows = range(begin, len(parents))
            if continued:
                running.append(each)
            each.is_done = not continued
            if chunk:
                each.chunks.append(chunk)
        self._running = running
        if not parents:
            self._release()  # later texts begin with another number of slots
            return
        assert self._reading is not None
        if parents != list(range(len(self._log_probabilities))):
            self._reading.keep(parents)
        position = self._position
        self._log_probabilities = self._reading.read(
            np.array(chosen)[:, None], [position], self._asked(position + 1)
        )[:, 0]
        self._position += 1

    def _asked(self, position: int) -> list[int]:
        """The positions that have a query. A causal network predicts the token after the last one;
        any other network the token at a position that has a query."""
        return [] if self._model.is_causal else [position]

    def _admit_waiting_prompts(self) -> None:
        """Reads the waiting prompts, as many as may join the batch."""
        # All prompts end at the same position. Shorter ones begin with padding that no token sees,
        # so each gets the log probabilities that it would get alone, up to rounding.
        joining: list[_Generation] = []
        while self._waiting:
            each = self._waiting[0]
            if not each.is_left:
                if not self._has_place(each, joining):
                    break
                joining.append(each)
            self._waiting.popleft()
        if not joining:
            return
        before = len(self._log_probabilities)
        for number, each in enumerate(joining):
            each.rows = range(before + number, before + number + 1)
        self._running += joining  # already here, so that an error is theirs, too
        slots = max(each.slots for each in self._running)
        slots = min(-(-slots // _SLOTS_MULTIPLE) * _SLOTS_MULTIPLE, CONTEXT)
        if self._reading is None:
            self._context = self._model.reading(slots)
            self._reading = self._context.__enter__()
            self._position = 0
        self._reading.add_texts(range(before), len(joining), slots, self._position)
        longest = max(len(each.ids) for each in joining)
        ids = np.zeros((len(joining), longest), int)
        padding = np.ones((len(joining), longest), bool)
        for number, each in enumerate(joining):
            ids[number, longest - len(each.ids) :] = each.ids
            padding[number, longest - len(each.ids) :] = False
        read = self._reading.read_prompts(
            ids, self._position, self._asked(self._position), padding, before
        )[:, 0]
        kept = [self._log_probabilities] if before else []
        self._log_probabilities = np.concatenate([*kept, read])

    def _has_place(self, new: _Generation, joining: Sequence[_Generation]) -> bool:
        """Whether a prompt may join those that run and those that are joining."""
        # All prompts of a step are as long as the longest one, so a long prompt among short ones
        # would multiply the cost.
        texts = sum(each.beams for each in [*self._running, *joining, new])
        if len(self._running) + len(joining) and texts > _MOST_TEXTS:
            return False
        longest = max(len(each.ids) for each in [*joining, new])
        return not joining or (len(joining) + 1) * longest <= _MOST_TOKENS

    def _release(self) -> None:
        context, self._context, self._reading = self._context, None, None
        self._log_probabilities = self._log_probabilities[:0]
        if context is not None:
            context.__exit__(None, None, None)
