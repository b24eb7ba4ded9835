"""Writes on from a prompt, token by token: greedy, by lot, or the best of several beams.

A causal network reads the prompt from left to right; a permutation network reads it as a whole,
and fills the blank behind it, then the next one.

Shape letters: B texts written at a time, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Optional

import numpy as np

from xlnet.serving import choosing
from xlnet.serving.settings import GenerationSettings, stop_texts
from xlnet.tokenization.tokenizer import WORD_START, Tokenizer

if TYPE_CHECKING:
    from xlnet.serving.language_model import LanguageModel, Reading


class Written(NamedTuple):
    """A text written on. ended: by "stop", "document" (the model wrote <eod>) or "length".
    log_probability: of all that was written, the end of the document included, in nats."""
    text: str
    log_probability: float
    tokens: int
    ended: str


class Part(NamedTuple):
    """More of text `number`; with the last part comes all of it."""
    number: int
    text: str
    whole: Optional[Written] = None


# ---- pieces to text ----

class _Text:
    """What a text is as its tokens come: released as soon as it cannot be part of a stop text.

    Every step costs the same however long the text is.
    """

    def __init__(self, pieces: _Pieces, stops: tuple[str, ...]):
        self._pieces, self._stops = pieces, stops
        self._bytes = b""           # of a character that is not complete yet
        self._held = ""             # may be the beginning of a stop text
        self._at_line_start = False
        self.is_stopped = False

    def copy(self) -> _Text:
        other = _Text(self._pieces, self._stops)
        other.__dict__.update(self.__dict__)
        return other

    def add(self, id: int) -> str:
        """The text that this token makes sure of."""
        self._held += self._characters(id)
        found = [self._held.find(stop) for stop in self._stops if stop in self._held]
        if found:
            self.is_stopped = True
            released, self._held = self._held[:min(found)], ""
            return released
        length = max((size for stop in self._stops for size in range(1, len(stop))
                      if self._held.endswith(stop[:size])), default=0)
        cut = len(self._held) - length
        released, self._held = self._held[:cut], self._held[cut:]
        return released

    def rest(self) -> str:
        """What is left at the end."""
        return self._held + self._bytes.decode("utf-8", "replace")

    def _characters(self, id):
        byte = self._pieces.byte_of.get(id)
        if byte is not None:
            self._bytes += bytes([byte])
            try:
                text, self._bytes = self._bytes.decode("utf-8"), b""
                return text
            except UnicodeDecodeError as e:
                if e.reason == "unexpected end of data":
                    return ""
        broken, self._bytes = self._bytes.decode("utf-8", "replace"), b""
        if byte is not None:
            return broken
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
        self.is_banned = tokenizer.is_special.copy()                            # [V]
        self.is_banned[[id for id in (self.end_id, tokenizer.eop_id) if id is not None]] = False

    def text_of(self, id: int) -> str:
        if id == self._tokenizer.eop_id:
            return "\n"
        return self._tokenizer.id_to_piece(id).replace(WORD_START, " ")


# ---- writing ----

def write(model: LanguageModel, tokenizer: Tokenizer, prompt: str, settings: GenerationSettings,
          stops: tuple[str, ...] = ()) -> Iterator[Part]:
    """Yields `Part`s of the texts that go on from a prompt, as they are written; those of beams
    when all are. The texts begin where the prompt ends, with a space if there is one between.

    An empty prompt is the beginning of a document.
    """
    ids = tokenizer.ids(prompt) or [tokenizer.eod_id]
    pieces = _Pieces(tokenizer)
    # An even number, so that windows of half of it fit side by side.
    size = (min(settings.context, len(ids) + settings.max_tokens) + 1) // 2 * 2
    stops = stops + stop_texts(settings.stop)
    with model.reading(size) as reading:
        following = _Following(reading, ids, size, model.is_causal)
        if settings.method == "beam":
            best = _beams(following, pieces, stops, settings)
            yield from (Part(number, written.text, written)
                        for number, written in enumerate(best[:settings.samples]))
        else:
            yield from _side_by_side(following, pieces, stops, settings)


class _Following:
    """The log probabilities of the next token: at first of one text, the prompt.

    A prompt that is longer than `size` is read in windows of half of it, each with the half before
    it as memory, as in training.
    """

    def __init__(self, reading: Reading, ids: Sequence[int], size: int, is_causal: bool):
        self._reading, self._is_causal = reading, is_causal
        window = size if len(ids) <= size else size // 2
        self._position = 0
        for begin in range(0, len(ids), window):
            self._read(np.array([ids[begin:begin + window]]))

    def _read(self, ids):
        end = self._position + ids.shape[1]
        self.log_probabilities = self._reading.read(                            # [B,V]
            ids, range(self._position, end), () if self._is_causal else [end])[:, 0]
        self._position = end

    def add(self, parents: Sequence[int], ids: Sequence[int]) -> None:
        """Goes on with texts number `parents`, each with one more token."""
        if list(parents) != list(range(len(self.log_probabilities))):
            self._reading.keep(parents)
        self._read(np.array(ids)[:, None])


class _Writing:
    """One text on its way."""

    def __init__(self, text: _Text):
        self.text = text
        self.released: list[str] = []
        self.log_probability = 0.
        self.tokens = 0

    def copy(self) -> _Writing:
        other = _Writing(self.text.copy())
        other.released = [*self.released]
        other.log_probability, other.tokens = self.log_probability, self.tokens
        return other

    def add(self, id: int, log_probability: float, end_id: int) -> Optional[str]:
        """Adds a token; returns what the text ended by, if it did."""
        self.tokens += 1
        self.log_probability += log_probability
        if id == end_id:
            return "document"
        self.released.append(self.text.add(id))
        return "stop" if self.text.is_stopped else None

    def whole(self, ended: str) -> Written:
        """The text at its end; what was held back until then is the last of `released`."""
        self.released.append("" if ended == "stop" else self.text.rest())
        return Written("".join(self.released), self.log_probability, self.tokens, ended)


def _side_by_side(following, pieces, stops, settings):
    """Yields the parts of texts that are sampled, or of the one greedy one, as they come."""
    count = settings.samples
    writings = [_Writing(_Text(pieces, stops)) for _ in range(count)]
    randoms = [np.random.default_rng([settings.seed, number]) for number in range(count)]
    active, parents = list(range(count)), [0] * count       # numbers; rows that they go on from
    for step in range(settings.max_tokens):
        going_on: list[tuple[int, int, int]] = []           # number, row, token
        for number, row in zip(active, parents):
            log_probabilities = following.log_probabilities[row]
            id = _choose(log_probabilities, pieces, settings, randoms[number])
            writing = writings[number]
            shown = len(writing.released)
            ended = writing.add(id, float(log_probabilities[id]), pieces.end_id)
            if not ended and step == settings.max_tokens - 1:
                ended = "length"
            whole = writing.whole(ended) if ended else None
            yield Part(number, "".join(writing.released[shown:]), whole)
            if not ended:
                going_on.append((number, row, id))
        if not going_on:
            return
        active, parents, ids = map(list, zip(*going_on))
        following.add(parents, ids)
        parents = list(range(len(active)))


def _choose(log_probabilities, pieces, settings, random):
    allowed = np.where(pieces.is_banned, -np.inf, log_probabilities)
    if settings.method == "greedy":
        return int(allowed.argmax())
    return choosing.draw(choosing.distribution(
        allowed, settings.temperature, settings.top_k, settings.top_p), random)


def _beams(following, pieces, stops, settings):
    """The best texts of a beam search, list of `Written`, the best first.

    Of the B likeliest texts with one more token those that end are set aside; then the search
    stops, if B of them are, or goes on with the B likeliest that do not end.
    """
    width = settings.beams
    alive, done = [_Writing(_Text(pieces, stops))], []
    for step in range(settings.max_tokens):
        sums = np.array([writing.log_probability for writing in alive])[:, None]
        scores = np.where(pieces.is_banned, -np.inf, sums + following.log_probabilities)
        going_on = []                                       # writing, row, token
        for rank, (row, id) in enumerate(zip(*choosing.best(scores, 2 * width))):
            writing = alive[row].copy()
            ended = writing.add(int(id), float(following.log_probabilities[row, id]),
                                pieces.end_id)
            if not ended:
                going_on.append((writing, int(row), int(id)))
            elif rank < width:
                done.append(writing.whole(ended))
            if len(going_on) == width:
                break
        alive = [writing for writing, _, _ in going_on]
        if len(done) >= width or not alive or step == settings.max_tokens - 1:
            break
        following.add([row for _, row, _ in going_on], [id for _, _, id in going_on])
    if len(done) < width:
        done += [writing.whole("length") for writing in alive]
    return sorted(done, key=lambda written: -written.log_probability
                  / max(written.tokens, 1) ** settings.length_penalty)
