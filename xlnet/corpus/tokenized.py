"""Text to tokens: uint32 whose upper bits say where sentences and documents begin (`sequences`)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from xlnet.corpus import reading
from xlnet.corpus.reading import Chunk, CorpusSentence
from xlnet.corpus.sentences import EOP
from xlnet.corpus.sequences import DOCUMENT, SENTENCE
from xlnet.corpus.tokenizer import Encoded, Tokenizer
from xlnet.settings.data import CorpusSettings
from xlnet.support import errors

COUNTS = ("tokens", "sentences", "documents", "unknown")
_BATCH_LINES = 1000  # few enough for the processor's cache


def tokenize(
    chunk: Chunk,
    settings: CorpusSettings,
    tokenizer: Tokenizer,
    counts: Counter[str],
) -> Iterator[np.ndarray]:
    """Yields the tokens of a chunk as uint32 arrays of some thousand sentences each.

    Args:
      chunk: of a file.
      settings: how it is read.
      tokenizer: of the vocabulary.
      counts: gets `COUNTS`, and the number of documents that `settings.split` leaves out.
    """
    eod_id = tokenizer.eod_id if settings.use_eod else None
    sentences = reading.read_chunk(chunk, settings, counts)
    in_document = False  # what is read of a chunk are the documents that begin in it
    while batch := list(itertools.islice(sentences, _BATCH_LINES)):
        if settings.from_raw_text:
            ids, lengths = _encode_text(batch, tokenizer)
        else:
            ids, lengths = _parse_ids(chunk, batch, tokenizer.vocab_size)
        ends = np.array([sentence.ends_document for sentence in batch])
        tokens, in_document = mark(ids, lengths, ends, eod_id, in_document, counts)
        counts["unknown"] += int(np.count_nonzero(ids == tokenizer.unk_id))
        yield tokens


def _encode_text(batch: Sequence[CorpusSentence], tokenizer: Tokenizer) -> Encoded:
    """Ids [T] and lengths [sentences]."""
    texts = [sentence.text for sentence in batch]
    # An <eop> at the end of a sentence is one token, without a space before it.
    eop_id = tokenizer.eop_id
    has_eop = np.zeros(len(texts), bool)
    if eop_id is not None:
        has_eop = np.array([text.endswith(EOP) for text in texts])
        for index in np.flatnonzero(has_eop):
            texts[index] = texts[index].removesuffix(EOP).rstrip()
    ids, lengths = tokenizer.encode_to_array(texts)
    # A sentence that follows the one before without a space begins without the mark of a word.
    is_joined = np.array([sentence.is_joined for sentence in batch])
    marked = np.flatnonzero(is_joined & (lengths > 0))
    first = (np.cumsum(lengths) - lengths)[marked]
    ids[first] = tokenizer.ids_without_mark[ids[first]]
    # -1: the mark was a piece of its own, which is dropped.
    lengths[marked] -= ids[first] < 0
    ids = ids[ids >= 0]
    if eop_id is not None:
        ids = np.insert(ids, np.cumsum(lengths)[has_eop], eop_id)
    return ids, lengths + has_eop


def _parse_ids(
    chunk: Chunk, batch: Sequence[CorpusSentence], vocab_size: int
) -> Encoded:
    """As `_encode_text`, of lines of ids."""
    ids: list[int] = []
    lengths = []
    for line in batch:
        words = line.text.split()
        for word in words:
            # As a float: int() fails for a word of thousands of digits.
            if not (word.isascii() and word.isdigit() and float(word) < vocab_size):
                raise errors.wrong(
                    reading.place(chunk.path, line.offset),
                    f"'{word:.40}'",
                    f"token ids, integers from 0 to {vocab_size - 1}",
                    "--from_raw_text=True if it is text",
                )
            ids.append(int(word))
        lengths.append(len(words))
    return np.array(ids, np.int32), np.array(lengths, np.int64)


def mark(
    ids: np.ndarray,
    lengths: np.ndarray,
    ends: np.ndarray,
    eod_id: int | None,
    in_document: bool,
    counts: Counter[str],
) -> tuple[np.ndarray, bool]:
    """Marks where sentences and documents begin, and puts <eod> after each document.

    Args:
      ids: int32 [T], sentence after sentence.
      lengths: int64 [sentences], how many of the ids each sentence has.
      ends: bool [sentences], those that end a document.
      eod_id: of <eod>; None: no <eod>.
      in_document: whether the first sentence continues a document.
      counts: gets the numbers of tokens, sentences and documents.

    Returns:
      tokens uint32, and `in_document` for the sentences that follow.
    """
    # Sentences of 2, 1, 0 and 1 tokens, of which the second ends a document; D marks a token that
    # begins a document and a sentence, S one that begins a sentence:
    #     ids       5 6   7         8
    #     tokens   D5 6  S7 <eod>  D8
    # A document without tokens gets no <eod>; a sentence without tokens gets no mark.
    document = np.cumsum(ends) - ends  # [sentences]
    filled = np.bincount(document, lengths, minlength=len(ends) + 1) > 0
    filled[0] |= in_document
    ended = ends & filled[document]
    if eod_id is not None:
        ids = np.insert(ids, np.cumsum(lengths)[ended], eod_id)
    spans = lengths + (ended if eod_id is not None else 0)
    kept = np.flatnonzero(lengths)
    # Where each sentence with tokens begins, and which of them is the first of its document.
    begins = (np.cumsum(spans) - spans)[kept]
    first = np.diff(document[kept], prepend=0 if in_document else -1) > 0
    tokens = ids.astype(np.uint32)
    tokens[begins] |= SENTENCE
    tokens[begins[first]] |= DOCUMENT
    counts.update(
        tokens=len(tokens), sentences=len(kept), documents=int(np.count_nonzero(ended))
    )
    # Whether the document that is still open at the end has tokens; a new one has none.
    return tokens, bool(filled[document[-1] + ends[-1]])
