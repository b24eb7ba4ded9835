"""Text to tokens, in chunks on disk, and the order in which a pass reads them.

A chunk of input becomes one file of tokens, uint32, which say in their upper bits where sentences
and documents begin (see `windows`). A block is a stretch of at most `BLOCK_TOKENS` of a chunk, the
unit in which passes shuffle and memory is counted.
"""

from __future__ import annotations

import collections
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Callable, Optional

import numpy as np

from xlnet import files
from xlnet.config import CorpusSettings
from xlnet.errors import UserError
from xlnet.text import reading
from xlnet.text.reading import Chunk
from xlnet.text.windows import DOCUMENT, SENTENCE, StreamPlan
from xlnet.tokenization import Tokenizer

BLOCK_TOKENS = 1 << 20
COUNTS = ("tokens", "sentences", "documents", "unknown")
_BATCH_LINES = 8192
_EOP = "<eop>"


# Lines to tokens.

def tokenize(chunk: Chunk, settings: CorpusSettings, tokenizer: Tokenizer,
             counts: Counter[str]) -> Iterator[np.ndarray]:
    """Yields the tokens of a `reading.Chunk` as arrays, uint32, some thousand lines each.

    Args:
      settings: `CorpusSettings`. tokenizer: `tokenization.Tokenizer`.
      counts: `collections.Counter` to which `COUNTS` and the reasons of skipped lines are added.

    Raises:
      UserError: text that cannot be read, or a bad id, unless settings.on_error is "skip".
    """
    encode = _encode_text if settings.from_raw_text else _parse_ids
    eod_id = tokenizer.eod_id if settings.use_eod else None
    lines = reading.read_chunk(chunk, settings, counts)
    in_document = False
    for batch in iter(lambda: list(itertools.islice(lines, _BATCH_LINES)), []):
        ids, lengths = encode(batch, tokenizer, settings, counts)
        ends = np.fromiter((line.ends_document for line in batch), bool, len(batch))
        tokens, in_document = mark(ids, lengths, ends, eod_id, in_document, counts)
        counts["unknown"] += int(np.count_nonzero(ids == tokenizer.unk_id))
        yield tokens


def _encode_text(batch, tokenizer, settings, counts):
    """Ids [T] and lengths [lines]; an <eop> that ends a line is one token, no space before it."""
    texts = [line.text for line in batch]
    if tokenizer.eop_id is None:
        return tokenizer.encode_to_array(texts)
    ends = np.fromiter((text.endswith(_EOP) for text in texts), bool, len(texts))
    for line in np.flatnonzero(ends):
        texts[line] = texts[line][:-len(_EOP)].rstrip()
    ids, lengths = tokenizer.encode_to_array(texts)
    ids = np.insert(ids, np.cumsum(lengths)[ends], tokenizer.eop_id)
    return ids, lengths + ends


def _parse_ids(batch, tokenizer, settings, counts):
    parsed = [_parse_line_of_ids(line, tokenizer.vocab_size, settings, counts) for line in batch]
    lengths = np.fromiter(map(len, parsed), np.int64, len(parsed))
    return np.fromiter(itertools.chain.from_iterable(parsed), np.int32, lengths.sum()), lengths


def _parse_line_of_ids(line, vocab_size, settings, counts):
    words = line.text.split()
    wrong = next((word for word in words if not _is_id(word, vocab_size)), None)
    if wrong is None:
        return list(map(int, words))
    if settings.on_error == "skip":
        counts["not token ids"] += 1
        return []
    raise UserError("%s: '%.40s' is not a token id, expected whole numbers from 0 to %d "
                    "(from_raw_text is False)" % (reading.place(line), wrong, vocab_size - 1))


def _is_id(word, vocab_size):
    return word.isascii() and word.isdigit() and len(word) < 20 and int(word) < vocab_size


def mark(ids: np.ndarray, lengths: np.ndarray, ends: np.ndarray, eod_id: Optional[int],
         in_document: bool, counts: Counter[str]) -> tuple[np.ndarray, bool]:
    """Marks where sentences and documents begin, and puts <eod> behind each document.

    Sentences and documents without tokens leave no trace.

    Args:
      ids: [sum of lengths] tokens. lengths: int64 [sentences] tokens of each.
      ends: bool [sentences], those that end a document.
      eod_id: None to put none. in_document: whether the first sentence continues a document.

    Returns:
      tokens uint32, and `in_document` for what follows.
    """
    document = np.cumsum(ends) - ends                     # [sentences]
    filled = np.bincount(document, lengths, minlength=len(ends) + 1) > 0
    filled[0] |= in_document
    ended = ends & filled[document]
    if eod_id is not None:
        ids = np.insert(ids, np.cumsum(lengths)[ended], eod_id)
    spans = lengths + (ended if eod_id is not None else 0)
    kept = np.flatnonzero(lengths)
    begins = (np.cumsum(spans) - spans)[kept]
    first = np.diff(document[kept], prepend=0 if in_document else -1) > 0
    tokens = ids.astype(np.uint32)
    tokens[begins] |= SENTENCE
    tokens[begins[first]] |= DOCUMENT
    counts.update(tokens=len(tokens), sentences=len(kept), documents=int(np.count_nonzero(ended)))
    return tokens, bool(filled[document[-1] + ends[-1]])


def in_blocks(arrays: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Joins and cuts arrays of tokens into arrays of `BLOCK_TOKENS`, the last one smaller."""
    rest = np.zeros(0, np.uint32)
    for tokens in arrays:
        rest = np.concatenate([rest, tokens])
        while len(rest) >= BLOCK_TOKENS:
            yield rest[:BLOCK_TOKENS]
            rest = rest[BLOCK_TOKENS:]
    if len(rest):
        yield rest


# Tokens on disk.

class TokenStore:
    """The token files of all chunks in a directory; a file is there when it is whole."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def write(self, chunk: int, arrays: Iterable[np.ndarray]) -> None:
        """Writes the arrays of chunk `chunk`, one after the other."""
        with files.replacing(self._path(chunk)) as temporary, open(temporary, "wb") as f:
            for tokens in arrays:
                tokens.astype("<u4", copy=False).tofile(f)

    def read(self, block: Block) -> np.ndarray:
        return np.fromfile(self._path(block.chunk), "<u4", block.size, offset=4 * block.begin)

    def _path(self, chunk):
        return os.path.join(self._directory, "tokens-%06d" % chunk)


Block = collections.namedtuple("Block", "chunk begin size")


def blocks_of(chunk_sizes: Sequence[int]) -> list[Block]:
    """Cuts chunks, given by their sizes in tokens, into `Block`s."""
    return [Block(chunk, begin, min(BLOCK_TOKENS, size - begin))
            for chunk, size in enumerate(chunk_sizes) for begin in range(0, size, BLOCK_TOKENS)]


class Layout:
    """How the tokens of all chunks become parts: the plan, the blocks, the order of each pass.

    Args:
      plan: `windows.StreamPlan`. chunk_sizes: tokens of each chunk. seed: of the passes' orders.
    """

    def __init__(self, plan: StreamPlan, chunk_sizes: Sequence[int], seed: int) -> None:
        self.plan = plan
        self.blocks = blocks_of(chunk_sizes)
        self._first_blocks = {block.chunk: index for index, block in enumerate(self.blocks)
                              if not block.begin}
        self._seed = seed
        self._orders: dict[int, PassOrder] = {}

    def block_index(self, chunk: int, index: int) -> int:
        """Where in `blocks` block `index` of a chunk stands."""
        return self._first_blocks[chunk] + index

    def order(self, pass_index: int) -> PassOrder:
        """The `PassOrder` of pass `pass_index`."""
        if pass_index not in self._orders:
            self._orders[pass_index] = PassOrder([block.size for block in self.blocks], self._seed,
                                                 pass_index)
        return self._orders[pass_index]

    def part_reader(self, store: TokenStore, stream: int,
                    pass_index: int) -> Callable[[int, int], np.ndarray]:
        """The function that reads tokens [low, high) of a stream's part in pass `pass_index`."""
        first = self.plan.part(stream) * self.plan.part_len

        def read(low, high):
            return self.order(pass_index).read(first + low, first + high,
                                               lambda block: store.read(self.blocks[block]))
        return read


# Passes: the text in another order each time.

class PassOrder:
    """Where the tokens of each block stand in a pass: pass 0 keeps the order of the input, later
    ones shuffle the blocks, and within each block the documents."""

    def __init__(self, sizes: Sequence[int], seed: int, pass_index: int) -> None:
        """`sizes`: tokens of each block. `pass_index` and `seed` decide the order."""
        self._seed, self._pass_index = seed, pass_index
        order = np.random.default_rng([seed, pass_index, 0]).permutation(len(sizes)) if pass_index \
            else np.arange(len(sizes))
        ends = np.cumsum(np.asarray(sizes)[order])
        self._order, self._ends = order, ends
        self.begins = np.empty(len(sizes), np.int64)      # position of each block in the pass
        self.begins[order] = ends - np.asarray(sizes)[order]

    def arrange(self, block: int, tokens: np.ndarray) -> np.ndarray:
        """The tokens of block `block` as the pass reads them."""
        if not self._pass_index:
            return tokens
        return shuffle_documents(
            tokens, np.random.default_rng([self._seed, self._pass_index, 0, 1 + int(block)]))

    def read(self, low: int, high: int, load: Callable[[int], np.ndarray]) -> np.ndarray:
        """Tokens [low, high) of the pass; `load(index)` gives the tokens of a block."""
        first = np.searchsorted(self._ends, low, "right")
        last = np.searchsorted(self._ends, high, "left")
        blocks = self._order[first:last + 1]
        tokens = np.concatenate([self.arrange(n, load(n)) for n in blocks])
        shift = int(self.begins[blocks[0]])
        return tokens[low - shift:high - shift]


def shuffle_documents(tokens: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns `tokens` with its documents in random order, each whole."""
    begins = np.flatnonzero(tokens >= DOCUMENT)
    if not len(begins) or begins[0]:
        begins = np.append(0, begins)
    lengths = np.diff(np.append(begins, len(tokens)))
    order = rng.permutation(len(lengths))
    lengths = lengths[order]
    targets = np.cumsum(lengths) - lengths
    source = np.repeat(begins[order] - targets, lengths) + np.arange(len(tokens))
    return tokens[source]
