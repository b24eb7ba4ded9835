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
    """How the text is divided into streams: it has `parts` parts of `part_len` tokens; each gives
    one stream, or one forward and one backward.

    With both directions, stream 2i reads part i forward and stream 2i + 1 backward, so that any run
    of an even number of streams is balanced. Every stream has `sequences` sequences in each pass.
    """

    num_streams: int
    directions: int  # 2: streams are forward and backward in turn; 1: all forward
    part_len: int  # [tokens]
    sequences: int  # of a stream in each pass

    @property
    def parts(self) -> int:
        """Into how many parts the text is divided."""
        return self.num_streams // self.directions

    def direction(self, stream: int) -> int:
        """FORWARD or BACKWARD, that of the stream of this number, from 0."""
        return stream % self.directions


def plan_streams(num_tokens: int, settings: CorpusSettings) -> StreamPlan:
    """Returns the `StreamPlan` of a corpus of `num_tokens`; a UserError if it is too short.

    If `settings.num_streams` is 0, the number is a power of two: the largest one of up to
    `MOST_STREAMS` with which a stream has `FEWEST_SEQUENCES` sequences.
    """
    text_len = settings.seq_len - SEQUENCE_SPECIAL_TOKENS  # [tokens] of a sequence
    directions = 1 + settings.bi_data
    num_streams = settings.num_streams or MOST_STREAMS
    while True:
        # Each sequence advances by `reuse_len` and reads Q - 3 tokens. Example: in 10 tokens, with
        # Q - 3 = 6 and a reuse_len of 2, sequences begin at 0, 2 and 4.
        parts = num_streams // directions
        part_len = num_tokens // parts
        sequences = max(0, (part_len - text_len) // settings.reuse_len + 1)
        if settings.num_streams or sequences >= FEWEST_SEQUENCES or parts == 1:
            break
        num_streams //= 2
    if not sequences:
        found = f"{num_tokens} tokens"
        expected = (
            f"at least {parts * text_len} for num_streams={num_streams} with seq_len"
            f"={settings.seq_len}"
        )
        remedy = "more text, or lower --num_streams or --seq_len"
        raise wrong("the text", found, expected, remedy)
    return StreamPlan(num_streams, directions, part_len, sequences)


# Blocks and passes.


class TextOfPass:
    """The tokens of the text in the order in which a pass reads them.

    Pass 0 keeps the order of the text. Later ones shuffle its blocks, runs of `BLOCK_TOKENS`, and
    the documents within each block, and so do not depend on where files are cut into chunks. Memory
    is bounded by blocks, too.

    Args:
      read_chunk: a function of (index of a chunk, begin, end) that returns the tokens [begin, end)
        of the chunk, uint32.
      chunk_sizes: the number of tokens of each chunk.
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
        # Where chunks begin and end in the text: int64 [chunks].
        self._chunk_ends = np.cumsum(chunk_sizes)
        self._chunk_begins = self._chunk_ends - np.asarray(chunk_sizes)
        self._seed, self.number = seed, number
        # The numbers of the blocks in the order of the pass, and where they begin and end in that
        # order: int64 [blocks]. For the passes from 1 on; `read` does not use them in pass 0.
        self._num_tokens = int(self._chunk_ends[-1])
        rng = np.random.default_rng([seed, number, 0])
        self._blocks = rng.permutation(-(-self._num_tokens // BLOCK_TOKENS))
        # The last block of the text may be shorter.
        remaining = self._num_tokens - BLOCK_TOKENS * self._blocks
        sizes = np.minimum(BLOCK_TOKENS, remaining)
        self._block_ends = np.cumsum(sizes)
        self._block_begins = self._block_ends - sizes

    def read(self, begin: int, end: int) -> np.ndarray:
        """Returns the tokens [begin, end) in the order of the pass, uint32."""
        if not self.number:
            return self._read_text(begin, end)
        # All blocks that overlap [begin, end) are loaded, then cut.
        is_read = (self._block_begins < end) & (self._block_ends > begin)
        shuffled = []
        for block in self._blocks[is_read].tolist():
            first = BLOCK_TOKENS * block
            tokens = self._read_text(first, min(first + BLOCK_TOKENS, self._num_tokens))
            # From 1 on: NumPy fills seeds with zeros, and without a fourth number the seed is that
            # of the order of the blocks.
            rng = np.random.default_rng([self._seed, self.number, 0, 1 + block])
            shuffled.append(shuffle_documents(tokens, rng))
        # The blocks are neighbours in the order of the pass; the first one begins at `shift`.
        shift = int(self._block_begins[is_read][0])
        return np.concatenate(shuffled)[begin - shift : end - shift]

    def _read_text(self, begin: int, end: int) -> np.ndarray:
        """Returns the tokens [begin, end) of the text, from the chunks that have some of them."""
        # The part of each chunk, in the chunk: int64 [chunks]. Begin >= end: none.
        begins = np.maximum(begin - self._chunk_begins, 0)
        ends = np.minimum(end, self._chunk_ends) - self._chunk_begins
        parts = []
        for chunk in np.flatnonzero(begins < ends).tolist():
            part = self._read_chunk(chunk, int(begins[chunk]), int(ends[chunk]))
            parts.append(part)
        return np.concatenate(parts)


def shuffle_documents(tokens: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns `tokens`, uint32 with the bit DOCUMENT where documents begin, with its documents in
    random order."""
    # From the second token on: what is before the first mark is the rest of a document, and counts
    # as one.
    begins_of_others = np.flatnonzero(tokens[1:] >= DOCUMENT) + 1
    documents = np.split(tokens, begins_of_others)
    return np.concatenate([documents[i] for i in rng.permutation(len(documents))])


# Reading in a direction.


# Tokens as they are read in one direction; positions count from where the reader begins.
# ids int32 [T]; sentences int64 [N], ascending, where sentences begin for this reader; words bool
# [T], true where words begin for this reader.
DirectedTokens = collections.namedtuple("DirectedTokens", "ids sentences words")


def directed(
    tokens: np.ndarray, direction: int, tokenizer: Tokenizer
) -> DirectedTokens:
    """`tokens` as a stream of this direction reads them: `DirectedTokens`.

    Args:
      tokens: uint32 [T]; the bits SENTENCE and DOCUMENT say where sentences and documents begin;
        each document begins with a sentence.
      direction: FORWARD or BACKWARD.
      tokenizer: that of the ids.
    """
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
    # Copies are contiguous, as `columns` reads both many times.
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
    """Samples the `Segments` of W sequences: for each the number of tokens of A, where B begins in
    the reading, and the label, 1 if B continues A, otherwise 0; int64 [W] each.

    Args:
      reading: the text in the direction of the stream.
      begins: int64 [W], where the sequences begin in the reading.
      seq_len: Q.
      reuse_len: tokens before A.
      rng: the random numbers.
    """
    ab_len = seq_len - reuse_len - SEQUENCE_SPECIAL_TOKENS  # G
    a_begin, end = begins + reuse_len, begins + reuse_len + ab_len
    for_a, for_b, for_label = rng.random((3, len(begins)))  # in [0, 1), [W] each

    # A follows the reused part, and ends where a sentence begins, or anywhere if none does. A and B
    # have a token at least. The sentences after the first token of A and before the end of B are
    # those of the indices from `first_end` on, `num_ends` of them.
    first_end = np.searchsorted(reading.sentences, a_begin, "right")  # [W]
    num_ends = np.searchsorted(reading.sentences, end, "left") - first_end  # [W]
    chosen = first_end + (for_a * num_ends).astype(np.int64)
    a_end = _take(reading.sentences, chosen)  # [W], where num_ends > 0
    any_len = 1 + (for_a * (ab_len - 1)).astype(np.int64)  # [W], 1 to G - 1
    a_len = np.where(num_ends > 0, a_end - a_begin, any_len)  # [W]

    # With probability 1/2 B continues A. Otherwise it begins at a sentence elsewhere in the reading
    # and overlaps neither the sequence's text nor A's continuation; if no such sentence exists it
    # begins anywhere else, and if that is impossible, too, it continues A.
    outside = (begins, end, len(reading.ids), ab_len - a_len, for_b)
    elsewhere = _sample_outside(reading.sentences, *outside)  # [W], -1: impossible
    if (elsewhere < 0).any():
        anywhere = _sample_outside(np.arange(len(reading.ids)), *outside)
        elsewhere = np.where(elsewhere < 0, anywhere, elsewhere)
    continues_a = (for_label < 0.5) | (elsewhere < 0)  # [W]
    b_begin = np.where(continues_a, a_begin + a_len, elsewhere)  # [W]
    return Segments(a_len, b_begin, continues_a.astype(np.int64))


def _sample_outside(
    starts: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
    size: int,
    b_len: np.ndarray,
    uniform: np.ndarray,
) -> np.ndarray:
    """Samples for each sequence the position at which its segment B begins, outside of its own
    text: int64 [W], -1 where B fits nowhere.

    B has `b_len` tokens and begins at one of `starts`; all of these at which it ends before the
    sequence, or at which it begins after it and ends within the text, are equally likely. They are
    numbered, and one of the numbers is sampled: exact and without rejection.

    Ten tokens with sentences at 0, 3, 6 and 8, a sequence from 3 to 6, B of 2 tokens: B fits before
    the sequence at 1 sentence, and after it at 2, those from index 2 on. The numbers 0, 1, 2 are
    the sentences of index 0, 2, 3, at positions 0, 6, 8.

    Args:
      starts: int64 [N], positions in ascending order.
      begins, ends: int64 [W], the positions [begin, end) of the sequences.
      size: the number of tokens of the text.
      b_len: int64 [W], the number of tokens of B.
      uniform: [W] in [0, 1), random numbers that decide.
    """
    # Indices in `starts`: B fits at [0, num_before) and at [first_after, end_after).
    num_before = np.searchsorted(starts, begins - b_len, "right")
    first_after = np.searchsorted(starts, ends, "left")
    end_after = np.searchsorted(starts, size - b_len, "right")
    count = num_before + np.maximum(end_after - first_after, 0)  # [W]
    number = (uniform * count).astype(np.int64)
    after = number - num_before + first_after
    index = np.where(number < num_before, number, after)
    return np.where(count > 0, _take(starts, index), -1)


def _take(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """`values[index]`, [W]; where the index is out of range any value, which the caller discards.
    `values` may be empty."""
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
    """Yields the sequences of one stream in one pass, in order, as `Cell`s of some sequences.

    Args:
      text: of the pass.
      plan: of all streams.
      stream: its number in the plan, from 0.
      settings: `seq_len`, `reuse_len` and `seed` are read.
      tokenizer: that of the text.
    """
    # Cells bound the memory. Segment B of a sequence is sampled from the sequence's cell, which is
    # the complete part unless that has more than `CELL_TOKENS` tokens.
    seq_len, reuse_len = settings.seq_len, settings.reuse_len
    text_len = seq_len - SEQUENCE_SPECIAL_TOKENS
    direction = plan.direction(stream)
    part_begin = stream // plan.directions * plan.part_len  # in the text
    # The cells are about equally long: a short last one would have little text to sample B from.
    num_cells = -(-plan.sequences * reuse_len // CELL_TOKENS)
    # Cell i has the sequences from edges[i] to before edges[i + 1].
    edges = np.linspace(0, plan.sequences, num_cells + 1).astype(np.int64).tolist()
    for cell, (first, end) in enumerate(zip(edges[:-1], edges[1:])):
        # The tokens [low, high) of the part, counted in the direction of the stream.
        low = first * reuse_len
        high = (end - 1) * reuse_len + text_len
        # The last cell has also the tokens after its sequences.
        if end == plan.sequences:
            high = plan.part_len
        if direction == BACKWARD:  # counted from the end of the part
            low, high = plan.part_len - high, plan.part_len - low
        tokens = text.read(part_begin + low, part_begin + high)
        reading = directed(tokens, direction, tokenizer)
        begins = reuse_len * np.arange(end - first)
        # The samples depend on these numbers alone, not on what was sampled before.
        rng = np.random.default_rng([settings.seed, text.number, 1 + stream, cell])
        segments = sample_segments(reading, begins, seq_len, reuse_len, rng)
        yield Cell(reading, begins, segments, direction, starts_stream=cell == 0)


def columns(
    cell: Cell, seq_len: int, reuse_len: int, tokenizer: Tokenizer
) -> Iterator[dict[str, np.ndarray]]:
    """Yields the records of the sequences of a cell, some sequences at a time: each feature of
    `record_files.pretraining_features` by its name, for W sequences: integers or bool [W,Q], or
    [W,1] where a sequence has one number.

    A cell is a run of a stream's sequences. Its reading is their text in the direction of the
    stream; `begins` and `b_begin` are positions there.
    """
    position = np.arange(seq_len)
    for low in range(0, len(cell.begins), _ENCODED_SEQUENCES):
        some = slice(low, low + _ENCODED_SEQUENCES)
        begins = cell.begins[some, None]  # [W,1]
        a_len, b_begin, label = [column[some, None] for column in cell.segments]
        sep = reuse_len + a_len  # [W,1], where A's <sep> is
        is_b = position > sep  # [W,Q], with <sep> and <cls> behind B
        # Where the tokens are in the reading: B's first token, at sep + 1, is at b_begin. What is
        # read at special tokens, maybe outside of the reading, is replaced.
        place = position + np.where(is_b, b_begin - (sep + 1), begins)  # [W,Q]
        ids = cell.reading.ids.take(place, mode="clip")
        np.put_along_axis(ids, sep, tokenizer.sep_id, axis=1)
        ids[:, -2:] = tokenizer.sep_id, tokenizer.cls_id
        words = cell.reading.words.take(place, mode="clip")
        # Words begin where the reused part, A and B do, and at special tokens.
        words[:, [0, reuse_len, -2, -1]] = True
        np.put_along_axis(words, sep, True, axis=1)
        np.put_along_axis(words, sep + 1, True, axis=1)
        segment_ids = is_b.astype(np.uint8)
        segment_ids[:, -1] = 2  # <cls>
        starts_stream = np.zeros_like(label)
        starts_stream[0] = cell.starts_stream and low == 0
        yield {
            "input": ids,
            "seg_id": segment_ids,
            "word_start": words,
            "label": label,
            "direction": np.full_like(label, cell.direction),
            "starts_stream": starts_stream,
        }
