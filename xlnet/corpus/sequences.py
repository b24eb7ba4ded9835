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
from collections.abc import Iterator, Sequence
from typing import Callable

import numpy as np

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.data import SEQUENCE_SPECIAL_TOKENS, CorpusSettings
from xlnet.support.errors import wrong

FORWARD, BACKWARD = 0, 1
MOST_STREAMS = 32  # when the number is not given
FEWEST_SEQUENCES = 8  # per stream and pass, when the number of streams is not given
CELL_TOKENS = 1 << 21  # tokens that one cell of sequences moves over, at most
BLOCK_TOKENS = 1 << 20
_ENCODED_SEQUENCES = 128  # whose bytes fit the processor's cache

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
    directions: int  # 1 or 2
    part_len: int
    sequences: int

    @property
    def parts(self) -> int:
        """Into how many parts the text is divided."""
        return self.num_streams // self.directions

    def direction(self, stream: int) -> int:
        """FORWARD or BACKWARD, that of the stream of this number."""
        return stream % self.directions


def plan_streams(num_tokens: int, settings: CorpusSettings) -> StreamPlan:
    """Returns the `StreamPlan` for a corpus; `num_streams` 0 chooses a power of two: the largest
    one of up to `MOST_STREAMS` that has `FEWEST_SEQUENCES` a stream."""
    text_len = settings.seq_len - SEQUENCE_SPECIAL_TOKENS
    directions = 1 + settings.bi_data
    streams = settings.num_streams or MOST_STREAMS
    while True:
        # Each sequence advances by `reuse_len` and reads Q - 3 tokens. Example: in 10 tokens, with
        # Q - 3 = 6 and a reuse_len of 2, sequences begin at 0, 2 and 4.
        parts = streams // directions
        part_len = num_tokens // parts
        sequences = max(0, (part_len - text_len) // settings.reuse_len + 1)
        if settings.num_streams or sequences >= FEWEST_SEQUENCES or parts == 1:
            break
        streams //= 2
    if not sequences:
        found = f"{num_tokens} tokens"
        expected = f"at least {parts * text_len} for num_streams={streams} with seq_len"
        expected += f"={settings.seq_len}"
        remedy = "more text, or lower --num_streams or --seq_len"
        raise wrong("the text", found, expected, remedy)
    return StreamPlan(streams, directions, part_len, sequences)


# Blocks and passes.


class TextOfPass:
    """The tokens of the text in the order in which a pass reads them.

    Pass 0 keeps the order of the text. Later ones shuffle its blocks, runs of `BLOCK_TOKENS`, and
    the documents within each block, and so do not depend on where files are cut into chunks. Memory
    is bounded by blocks, too.

    Args:
      read_chunk: tokens [begin, end) of a chunk, by (chunk, begin, end).
      chunk_sizes: tokens of each chunk.
      seed: of the order.
      number: of the pass, from 0.
    """

    def __init__(
        self,
        read_chunk: Callable[[int, int, int], np.ndarray],
        chunk_sizes: Sequence[int],
        seed: int,
        number: int,
    ) -> None:
        self._read_chunk = read_chunk
        self._chunk_ends = np.cumsum(chunk_sizes)  # int64, in the text
        self._chunk_begins = self._chunk_ends - np.asarray(chunk_sizes)
        self._seed, self.number = seed, number
        # The order of the blocks, and where they begin and end in that order: int64 [blocks]. For
        # the passes from 1 on; `read` does not use them in pass 0.
        self._total = int(self._chunk_ends[-1])
        rng = np.random.default_rng([seed, number, 0])
        self._order = rng.permutation(-(-self._total // BLOCK_TOKENS))
        sizes = np.minimum(BLOCK_TOKENS, self._total - BLOCK_TOKENS * self._order)
        self._ends = np.cumsum(sizes)
        self._begins = self._ends - sizes

    def read(self, low: int, high: int) -> np.ndarray:
        """Tokens [low, high) in the order of the pass."""
        if not self.number:
            return self._load(low, high)
        # All blocks that overlap [low, high) are loaded, then cut.
        is_read = (self._begins < high) & (self._ends > low)
        tokens = []
        for block in self._order[is_read].tolist():
            begin = BLOCK_TOKENS * block
            in_order = self._load(begin, min(begin + BLOCK_TOKENS, self._total))
            # From 1 on: NumPy fills seeds with zeros, and without a fourth number the seed is that
            # of the order of the blocks.
            rng = np.random.default_rng([self._seed, self.number, 0, 1 + block])
            tokens.append(shuffle_documents(in_order, rng))
        shift = int(self._begins[is_read][0])
        return np.concatenate(tokens)[low - shift : high - shift]

    def _load(self, begin: int, end: int) -> np.ndarray:
        """Tokens [begin, end) of the text, from the chunks that have some of them."""
        # The part of each chunk: its tokens [first, behind).
        first = np.maximum(begin - self._chunk_begins, 0)
        behind = np.minimum(end, self._chunk_ends) - self._chunk_begins
        parts = []
        for chunk in np.flatnonzero(first < behind).tolist():
            part = self._read_chunk(chunk, int(first[chunk]), int(behind[chunk]))
            parts.append(part)
        return np.concatenate(parts)


def shuffle_documents(tokens: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns `tokens` with its documents in random order."""
    # The first document may have begun before.
    begins_of_others = np.flatnonzero(tokens[1:] >= DOCUMENT) + 1
    documents = np.split(tokens, begins_of_others)
    return np.concatenate([documents[i] for i in rng.permutation(len(documents))])


# Reading in a direction.


# Tokens as they are read in one direction; positions count from where the reader begins.
# ids int32 [T]; sentences int64 [N], ascending, where sentences begin for this reader; words bool
# [T], true where words begin for this reader.
DirectedTokens = collections.namedtuple("DirectedTokens", "ids sentences words")


def read(tokens: np.ndarray, direction: int, tokenizer: Tokenizer) -> DirectedTokens:
    """Returns the `DirectedTokens` of `tokens`, uint32 [T], in a direction."""
    ids = (tokens & ID_BITS).astype(np.int32)
    sentences = np.flatnonzero(tokens >= SENTENCE)
    # Words begin at pieces that carry the mark of a word, at the beginning of a sentence, at
    # punctuation, and behind punctuation.
    words = tokenizer.is_word_start[ids]
    words[1:] |= tokenizer.stands_alone[ids[:-1]]
    words[sentences] = True
    if direction == FORWARD:
        return DirectedTokens(ids, sentences, words)
    # Read backward, a word begins with its last piece, and a sentence with its last token. Example:
    # of five tokens, sentences begin at 0 and 2, so their last tokens are 1 and 4. Backward these
    # are at 3 and 0: sentences begin at 0 and 3.
    last = np.append(sentences[1:], len(ids)) - 1  # [N]
    is_last_piece = np.append(words[1:], True)  # [T]
    begins = (len(ids) - 1 - last)[::-1]
    # Copies, as `columns` reads both many times.
    return DirectedTokens(ids[::-1].copy(), begins, is_last_piece[::-1].copy())


# Segments.

# int64 [W] each: the tokens of A; where B begins in the reading; 1 if B continues A, else 0.
Segments = collections.namedtuple("Segments", "a_len b_begin label")


def sample_segments(
    reading: DirectedTokens,
    begins: np.ndarray,
    seq_len: int,
    reuse_len: int,
    rng: np.random.Generator,
) -> Segments:
    """Samples the `Segments` of W sequences, which begin at `begins`, int64 [W], in the reading."""
    both = seq_len - reuse_len - SEQUENCE_SPECIAL_TOKENS  # G
    a_begin, end = begins + reuse_len, begins + reuse_len + both
    where_a, where_b, which = rng.random((3, len(begins)))  # [W] each

    # A follows the reused part, and ends at a sentence boundary, or anywhere if there is none.
    low = np.searchsorted(reading.sentences, a_begin, "right")  # [W], sentences
    count = np.searchsorted(reading.sentences, end, "left") - low  # [W], within reach
    anywhere = 1 + (where_a * (both - 1)).astype(np.int64)  # [W], tokens
    chosen = low + (where_a * count).astype(np.int64)
    boundary = _select(reading.sentences, chosen)  # [W]
    a_len = np.where(count > 0, boundary - a_begin, anywhere)  # [W]

    # With probability 1/2 B continues A. Otherwise it begins at a sentence elsewhere in the reading
    # and overlaps neither the sequence's text nor A's continuation; if no such sentence exists it
    # begins anywhere else, and if that is impossible, too, it continues A.
    outside = (begins, end, len(reading.ids), both - a_len, where_b)
    elsewhere = _sample_outside(reading.sentences, *outside)
    if (elsewhere < 0).any():
        anywhere = _sample_outside(np.arange(len(reading.ids)), *outside)
        elsewhere = np.where(elsewhere < 0, anywhere, elsewhere)
    label = (which < 0.5) | (elsewhere < 0)  # [W]
    b_begin = np.where(label, a_begin + a_len, elsewhere)
    return Segments(a_len, b_begin, label.astype(np.int64))


def _sample_outside(
    starts: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
    size: int,
    b_len: np.ndarray,
    uniform: np.ndarray,
) -> np.ndarray:
    """Samples one of `starts`, ascending, at which `b_len` of `size` tokens fit outside of [begins,
    ends), for each sequence [W]; -1 where there is none.

    The starts that fit before the sequence, then those that fit after it, are numbered, and one of
    these indices is sampled: exact and without rejection.

    Ten tokens with sentences at 0, 3, 6 and 8, a sequence from 3 to 6, B of 2 tokens: 1 sentence
    fits before it, and after it the sentences from index 2 on, 2 of them. The indices 0, 1, 2 are
    the sentences 0, 2, 3, at positions 0, 6, 8.

    Args:
      starts: int64 [N], positions.
      begins, ends: int64 [W], of the sequences.
      size: tokens that there are.
      b_len: int64 [W], tokens of B.
      uniform: [W] in [0, 1), random numbers that decide.
    """
    end_before = np.searchsorted(starts, begins - b_len, "right")
    first = np.searchsorted(starts, ends, "left")
    end = np.searchsorted(starts, size - b_len, "right")
    count = end_before + np.maximum(end - first, 0)  # [W]
    index = (uniform * count).astype(np.int64)
    number = np.where(index < end_before, index, index - end_before + first)
    return np.where(count > 0, _select(starts, number), -1)


def _select(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """`values[index]`; what is found at indices out of range is discarded by the caller."""
    return np.append(values, 0).take(index, mode="clip")


# Cells: the sequences of a stream, some at a time.

# reading: the `DirectedTokens` of the cell. begins: int64 [W], where its sequences begin in them.
# segments: their `Segments`. direction: FORWARD or BACKWARD. starts_stream: whether nothing is
# before the first of the sequences, so that the memory is zeroed.
Cell = collections.namedtuple("Cell", "reading begins segments direction starts_stream")


def cells(
    text: TextOfPass,
    plan: StreamPlan,
    stream: int,
    settings: CorpusSettings,
    tokenizer: Tokenizer,
) -> Iterator[Cell]:
    """Yields the sequences of one stream in one pass, in order, as `Cell`s; stream: its number in
    the plan."""
    # Cells bound the memory. Segment B of a sequence is sampled from the sequence's cell, which is
    # the complete part unless that has more than `CELL_TOKENS` tokens.
    seq_len, reuse_len = settings.seq_len, settings.reuse_len
    text_len = seq_len - SEQUENCE_SPECIAL_TOKENS
    direction = plan.direction(stream)
    begin = stream // plan.directions * plan.part_len
    # The cells are about equally long: a short last one would have little text to sample B from.
    count = -(-plan.sequences * reuse_len // CELL_TOKENS)
    edges = np.linspace(0, plan.sequences, count + 1).astype(np.int64).tolist()
    for cell, (first, last) in enumerate(zip(edges[:-1], edges[1:])):
        low = first * reuse_len
        high = (last - 1) * reuse_len + text_len
        # the last cell also has the part's tokens after its sequences
        if last == plan.sequences:
            high = plan.part_len
        if direction == BACKWARD:
            low, high = plan.part_len - high, plan.part_len - low
        tokens = text.read(begin + low, begin + high)
        reading = read(tokens, direction, tokenizer)
        begins = reuse_len * np.arange(last - first)
        # The samples depend on these numbers alone, not on what was sampled before.
        rng = np.random.default_rng([settings.seed, text.number, 1 + stream, cell])
        segments = sample_segments(reading, begins, seq_len, reuse_len, rng)
        yield Cell(reading, begins, segments, direction, not cell)


def columns(
    cell: Cell, seq_len: int, reuse_len: int, tokenizer: Tokenizer
) -> Iterator[dict[str, np.ndarray]]:
    """Yields the sequences of a cell, some at a time, as columns of
    `record_files.pretraining_features`."""
    position = np.arange(seq_len)
    for low in range(0, len(cell.begins), _ENCODED_SEQUENCES):
        some = slice(low, low + _ENCODED_SEQUENCES)
        begins = cell.begins[some, None]  # [W,1]
        a_len, b_begin, label = [column[some, None] for column in cell.segments]
        sep = reuse_len + a_len  # where A's <sep> is
        is_b = position > sep  # [W,Q], with both tokens behind B
        # Where the tokens are in the cell; what is found at special tokens is replaced.
        place = position + np.where(is_b, b_begin - sep - 1, begins)  # [W,Q]
        ids = cell.reading.ids.take(place, mode="clip")
        np.put_along_axis(ids, sep, tokenizer.sep_id, axis=1)
        ids[:, -2:] = tokenizer.sep_id, tokenizer.cls_id
        words = cell.reading.words.take(place, mode="clip")
        # Words begin where the reused part, A and B do, and at special tokens.
        words[:, [0, reuse_len, -2, -1]] = True
        np.put_along_axis(words, sep, True, axis=1)
        np.put_along_axis(words, sep + 1, True, axis=1)
        segments = is_b.astype(np.uint8)
        segments[:, -1] = 2
        starts_stream = np.zeros_like(label)
        starts_stream[0] = cell.starts_stream and low == 0
        yield {
            "input": ids,
            "seg_id": segments,
            "word_start": words,
            "label": label,
            "direction": np.full_like(label, cell.direction),
            "starts_stream": starts_stream,
        }
