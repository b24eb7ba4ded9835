"""Tokens to streams of sequences: how many, in which direction, where they begin, what follows.

A sequence of Q tokens:

    | reused: reuse_len | segment A | <sep> | segment B | <sep> | <cls> |
    | segment id 0      | 0         | 0     | 1         | 1     | 2     |

B continues A (label 1), or is text from elsewhere (label 0). A sequence of a backward stream is the
same with the text reversed; <sep> and <cls> stay at the end. The next sequence of the stream begins
`reuse_len` tokens later, and memories hold what was reused:

    text       |-- reuse_len --|-- reuse_len --|-- reuse_len --|-- ...
    sequence 0 | reused        | A ...  <sep> B ... <sep> <cls>|     B: the text after A, or other
    sequence 1                 | reused        | A ...  <sep> B ... <sep> <cls>|

Pure functions of arrays and a seed, without files. A corpus is an array of tokens, uint32, whose
upper bits say where sentences and documents begin.

Shape letters: T tokens of a part or a cell, N sentences, W sequences, V vocabulary, Q tokens of a
sequence (`seq_len`), G = Q - reuse_len - 3 tokens of segments A and B together.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from typing import Callable

import numpy as np

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.data import SEQUENCE_SPECIAL_TOKENS, CorpusSettings
from xlnet.support.errors import UserError

FORWARD, BACKWARD = 0, 1
MOST_STREAMS = 32  # when the number is not given
FEWEST_SEQUENCES = 8  # per stream and pass, when the number of streams is not given
CELL_TOKENS = 1 << 21  # tokens that one cell of sequences moves over, at most

SENTENCE, DOCUMENT = 1 << 30, 1 << 31  # bits of a token that begins one
ID_BITS = SENTENCE - 1


# Streams.


@dataclasses.dataclass(frozen=True)
class StreamPlan:
    """`parts` parts of `part_len` tokens; each gives one stream, or one forward and one backward.

    With both directions, stream 2i reads part i forward and stream 2i + 1 backward, so that any run
    of an even number of streams is balanced. Every stream has `sequences` sequences in each pass.
    """

    num_streams: int
    bi_data: bool
    part_len: int
    sequences: int

    @property
    def parts(self) -> int:
        return self.num_streams // (1 + self.bi_data)

    def part(self, stream: int) -> int:
        return stream // (1 + self.bi_data)

    def direction(self, stream: int) -> int:
        return stream % 2 if self.bi_data else FORWARD


def count_sequences(part_len: int, seq_len: int, reuse_len: int) -> int:
    """Sequences that fit into a part: each advances by `reuse_len` and reads Q - 3 tokens."""
    # Example: in 10 tokens, with Q - 3 = 6 and a reuse_len of 2, sequences begin at 0, 2 and 4.
    return max(0, (part_len - (seq_len - SEQUENCE_SPECIAL_TOKENS)) // reuse_len + 1)


def plan_streams(
    num_tokens: int,
    seq_len: int,
    reuse_len: int,
    num_streams: int = 0,
    bi_data: bool = True,
) -> StreamPlan:
    """Returns the `StreamPlan` for a corpus; `num_streams` 0 chooses a power of two."""
    directions = 1 + bi_data

    def plan(streams: int) -> StreamPlan:
        part_len = num_tokens // (streams // directions)
        return StreamPlan(
            streams, bi_data, part_len, count_sequences(part_len, seq_len, reuse_len)
        )

    if num_streams:
        chosen = plan(num_streams)
    else:  # the largest number of streams that have enough sequences each
        sizes = [MOST_STREAMS >> i for i in range(6) if MOST_STREAMS >> i >= directions]
        plans = [plan(size) for size in sizes]
        chosen = next((p for p in plans if p.sequences >= FEWEST_SEQUENCES), plans[-1])
    if not chosen.sequences:
        raise UserError(
            f"the text has {num_tokens} tokens, too few for num_streams={chosen.num_streams} with "
            f"seq_len={seq_len}: at least {chosen.parts * (seq_len - SEQUENCE_SPECIAL_TOKENS)} are "
            "needed; give more text or lower num_streams or seq_len"
        )
    return chosen


# Reading in a direction.


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The properties of a vocabulary that are needed to cut sequences."""

    is_word_start: np.ndarray  # bool [V], pieces that begin a word
    stands_alone: (
        np.ndarray
    )  # bool [V], words by themselves: punctuation, special tokens
    sep_id: int
    cls_id: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        stands_alone = tokenizer.is_punctuation.copy()
        special = (
            tokenizer.cls_id,
            tokenizer.sep_id,
            tokenizer.eod_id,
            tokenizer.eop_id,
        )
        stands_alone[[id for id in special if id is not None]] = True
        return cls(
            tokenizer.is_word_start, stands_alone, tokenizer.sep_id, tokenizer.cls_id
        )


@dataclasses.dataclass(frozen=True)
class DirectedTokens:
    """Tokens as they are read in one direction; positions count from where the reader begins."""

    ids: np.ndarray  # int32 [T]
    sentences: np.ndarray  # int64 [N], ascending, where sentences begin for this reader
    words: np.ndarray  # bool [T], true where words begin for this reader


def read(tokens: np.ndarray, direction: int, vocabulary: Vocabulary) -> DirectedTokens:
    """Returns the `DirectedTokens` of `tokens`, uint32 [T], in a direction."""
    ids = (tokens & ID_BITS).astype(np.int32)
    sentences = np.flatnonzero(tokens >= SENTENCE)
    # Words begin at pieces that carry the mark of a word, at the beginning of a sentence, at
    # punctuation, and behind punctuation.
    words = (vocabulary.is_word_start | vocabulary.stands_alone)[ids]
    words[1:] |= vocabulary.stands_alone[ids[:-1]]
    words[sentences] = True
    if direction == FORWARD:
        return DirectedTokens(ids, sentences, words)
    # Read backward, a word begins with its last piece, and a sentence with its last token. Example:
    # of five tokens, sentences begin at 0 and 2, so their last tokens are 1 and 4. Backward these
    # are at 3 and 0: sentences begin at 0 and 3.
    last = np.append(sentences[1:], len(ids)) - 1  # [N]
    is_last_piece = np.append(words[1:], True)  # [T]
    return DirectedTokens(ids[::-1], (len(ids) - 1 - last)[::-1], is_last_piece[::-1])


# Segments.

Segments = collections.namedtuple("Segments", "a_len b_begin label")  # each int64 [W]


def sample_segments(
    reading: DirectedTokens,
    begins: np.ndarray,
    seq_len: int,
    reuse_len: int,
    rng: np.random.Generator,
) -> Segments:
    """Samples segments A and B of each sequence, which begin at `begins`, int64 [W]."""
    both = seq_len - reuse_len - SEQUENCE_SPECIAL_TOKENS  # G
    a_begin, end = begins + reuse_len, begins + reuse_len + both
    where_a, where_b, which = rng.random((3, len(begins)))  # [W] each

    # A follows the reused part, and ends at a sentence boundary, or anywhere if there is none.
    low = np.searchsorted(reading.sentences, a_begin, "right")  # [W], sentences
    count = np.searchsorted(reading.sentences, end, "left") - low  # [W], within reach
    anywhere = 1 + (where_a * (both - 1)).astype(np.int64)  # [W], tokens
    boundary = _select(
        reading.sentences, low + (where_a * count).astype(np.int64)
    )  # [W]
    a_len = np.where(count > 0, boundary - a_begin, anywhere)  # [W]

    # With probability 1/2 B continues A. Otherwise it begins at a sentence elsewhere in the reading
    # and overlaps neither the sequence's text nor A's continuation; if no such sentence exists it
    # begins anywhere else, and if that is impossible, too, it continues A.
    elsewhere = _sample_elsewhere(
        reading, begins, end, both - a_len, where_b
    )  # [W], or -1
    label = (which < 0.5) | (elsewhere < 0)  # [W]
    return Segments(
        a_len, np.where(label, a_begin + a_len, elsewhere), label.astype(np.int64)
    )


def _sample_elsewhere(
    reading: DirectedTokens,
    begins: np.ndarray,
    ends: np.ndarray,
    b_len: np.ndarray,
    uniform: np.ndarray,
) -> np.ndarray:
    """Samples starts [W] of `b_len` tokens outside of [begins, ends); -1 where there is no room.

    The starts that fit before the sequence, then those that fit after it, are numbered, and one of
    these indices is sampled: exact and without rejection.

    Ten tokens with sentences at 0, 3, 6 and 8, a sequence from 3 to 6, B of 2 tokens: 1 sentence
    fits before it, and after it the sentences from index 2 on, 2 of them. The indices 0, 1, 2 are
    the sentences 0, 2, 3, at positions 0, 6, 8.
    """
    # Starts at sentences: how many fit before the sequence, and how many after it.
    size = len(reading.ids)
    num_before = np.searchsorted(reading.sentences, begins - b_len, "right")  # [W]
    first_behind = np.searchsorted(
        reading.sentences, ends, "left"
    )  # [W], number of a sentence
    end_behind = np.searchsorted(reading.sentences, size - b_len, "right")  # [W]
    num_sentences = num_before + np.maximum(end_behind - first_behind, 0)  # [W]
    index = (uniform * num_sentences).astype(np.int64)  # [W]
    number = np.where(
        index < num_before, index, index - num_before + first_behind
    )  # [W]
    at_sentence = _select(reading.sentences, number)  # [W], positions

    # Starts at any position, for sequences without such a sentence.
    num_before = np.maximum(begins - b_len + 1, 0)  # [W]
    num_positions = num_before + np.maximum(size - b_len + 1 - ends, 0)  # [W]
    index = (uniform * num_positions).astype(np.int64)  # [W]
    anywhere = np.where(index < num_before, index, index - num_before + ends)  # [W]
    anywhere = np.where(num_positions > 0, anywhere, -1)
    return np.where(num_sentences > 0, at_sentence, anywhere)


def _select(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """`values[index]`; indices out of range, whose values the caller discards, are clipped."""
    return (
        values[np.minimum(index, len(values) - 1)]
        if len(values)
        else np.zeros_like(index)
    )


# Cells: the sequences of a stream, some at a time.

# A function of (low, high) that returns the tokens [low, high) of a part as uint32, in the order of
# the text.
ReadPart = Callable[[int, int], np.ndarray]

Cell = collections.namedtuple("Cell", "reading begins segments")


def cells(
    read_part: ReadPart,
    plan: StreamPlan,
    stream: int,
    settings: CorpusSettings,
    vocabulary: Vocabulary,
    pass_index: int,
) -> Iterator[Cell]:
    """Yields the sequences of one stream in one pass, in order, as `Cell`s."""
    # Cells bound the memory. Segment B of a sequence is sampled from the sequence's cell, which is
    # the complete part unless that has more than `CELL_TOKENS` tokens.
    seq_len, reuse_len = settings.seq_len, settings.reuse_len
    direction = plan.direction(stream)
    # The cells are about equally long: a short last one would have little text to sample B from.
    count = -(-plan.sequences * reuse_len // CELL_TOKENS)
    edges = np.linspace(0, plan.sequences, count + 1).astype(np.int64)
    for cell, (first, last) in enumerate(zip(edges[:-1], edges[1:])):
        low = int(first) * reuse_len
        high = int(last - 1) * reuse_len + seq_len - SEQUENCE_SPECIAL_TOKENS
        # the last cell also has the part's tokens after its sequences
        if last == plan.sequences:
            high = plan.part_len
        if direction == BACKWARD:
            low, high = plan.part_len - high, plan.part_len - low
        reading = read(read_part(low, high), direction, vocabulary)
        begins = reuse_len * np.arange(last - first)
        # The samples depend on these numbers alone, not on what was sampled before.
        rng = np.random.default_rng([settings.seed, pass_index, 1 + stream, cell])
        yield Cell(
            reading, begins, sample_segments(reading, begins, seq_len, reuse_len, rng)
        )
