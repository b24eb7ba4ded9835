"""Text to tokens: uint32, the id of a piece, with two upper bits (`sequences.SENTENCE`, `DOCUMENT`)
at the tokens at which sentences and documents begin.

Shape letters: N sentences, T tokens.
"""

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

COUNTS = ("tokens", "sentences", "documents", "unknown")  # unknown: tokens <unk>
_BATCH_SENTENCES = 1000  # few enough for the processor's cache


def tokenize(
    chunk: Chunk,
    settings: CorpusSettings,
    tokenizer: Tokenizer,
    counts: Counter[str],
) -> Iterator[np.ndarray]:
    """Yields the tokens of a chunk in order, as uint32 arrays of up to `_BATCH_SENTENCES` sentences
    each.

    Args:
      chunk: of a file.
      settings: how it is read.
      tokenizer: of the vocabulary.
      counts: gets `COUNTS`, and under `reading.OTHER_PART` the number of documents that
        `settings.split` leaves out.
    """
    eod_id = tokenizer.eod_id if settings.use_eod else None
    sentences = reading.read_chunk(chunk, settings, counts)
    in_document = False  # what is read of a chunk are the documents that begin in it
    while batch := list(itertools.islice(sentences, _BATCH_SENTENCES)):
        if settings.from_raw_text:
            ids, lengths = _encode_text(batch, tokenizer)
        else:
            ids, lengths = _parse_ids(chunk.path, batch, tokenizer.vocab_size)
        ends = np.array([sentence.ends_document for sentence in batch])
        tokens, in_document = mark(ids, lengths, ends, eod_id, in_document, counts)
        counts["unknown"] += int(np.count_nonzero(ids == tokenizer.unk_id))
        yield tokens


def _encode_text(batch: Sequence[CorpusSentence], tokenizer: Tokenizer) -> Encoded:
    """The ids of N sentences, one after the other, int32 [T], and how many each has, int64 [N]."""
    texts = [sentence.text for sentence in batch]
    # An <eop> at the end of a sentence is one token, without a space before it.
    eop_id = tokenizer.eop_id
    has_eop = np.zeros(len(texts), bool)
    if eop_id is not None:
        has_eop = np.array([text.endswith(EOP) for text in texts])
        for index in np.flatnonzero(has_eop):
            texts[index] = texts[index].removesuffix(EOP).rstrip()
    ids, lengths = tokenizer.encode_to_array(texts)
    # The first piece of a text has the mark of a word, as if a space was before it. A sentence that
    # follows the one before without a space gets the piece without the mark.
    is_joined = np.array([sentence.is_joined for sentence in batch])
    joined = np.flatnonzero(is_joined & (lengths > 0))  # sentences
    # Where their first pieces are in `ids`.
    first = (np.cumsum(lengths) - lengths)[joined]
    ids[first] = tokenizer.ids_without_mark[ids[first]]
    # -1: the mark was a piece of its own, which is dropped.
    lengths[joined] -= ids[first] < 0
    ids = ids[ids >= 0]
    if eop_id is not None:
        ids = np.insert(ids, np.cumsum(lengths)[has_eop], eop_id)
    return ids, lengths + has_eop


def _parse_ids(path: str, batch: Sequence[CorpusSentence], vocab_size: int) -> Encoded:
    """The ids of N sentences whose text is ids, numbers between spaces, as `_encode_text` returns
    them; a UserError, which names the line of the file `path`, for anything else."""
    ids: list[int] = []
    lengths = []
    for line in batch:
        words = line.text.split()
        for word in words:
            # As a float: int() fails for a word of thousands of digits.
            if not (word.isascii() and word.isdigit() and float(word) < vocab_size):
                raise errors.wrong(
                    reading.place(path, line.offset),
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
      lengths: int64 [N], how many of the ids each sentence has.
      ends: bool [N], those that end a document.
      eod_id: of <eod>; None: no <eod>.
      in_document: whether the first sentence continues a document that has tokens already.
      counts: gets the numbers of tokens, sentences and documents.

    Returns:
      tokens, uint32 [T + documents that end, if they get <eod>]; and `in_document` for the
      sentences that follow.
    """
    # Sentences of 2, 1, 0 and 1 tokens, of which the third ends a document; D marks a token that
    # begins a document and a sentence, S one that begins a sentence:
    #     ids       5 6   7         8
    #     tokens   D5 6  S7 <eod>  D8
    # A document without tokens gets no <eod>; a sentence without tokens gets no mark.
    document = np.cumsum(ends) - ends  # [N], of each sentence, from 0: ends before it
    # By document, and for the one after the last: whether it has tokens.
    has_tokens = np.bincount(document, lengths, minlength=len(ends) + 1) > 0
    has_tokens[0] |= in_document
    ended = ends & has_tokens[document]  # [N], the ends of documents with tokens
    lengths_with_eod = lengths
    if eod_id is not None:
        ids = np.insert(ids, np.cumsum(lengths)[ended], eod_id)
        lengths_with_eod = lengths + ended
    # Where each sentence with tokens begins, and which of them is the first of its document.
    kept = np.flatnonzero(lengths)
    begins = (np.cumsum(lengths_with_eod) - lengths_with_eod)[kept]
    # That of the sentence before the first one; -1: another than that of the first.
    document_before = 0 if in_document else -1
    is_first = np.diff(document[kept], prepend=document_before) > 0
    tokens = ids.astype(np.uint32)
    tokens[begins] |= SENTENCE
    tokens[begins[is_first]] |= DOCUMENT
    counts.update(
        tokens=len(tokens), sentences=len(kept), documents=int(np.count_nonzero(ended))
    )
    # The document that the next sentence continues or, after an end, begins: a new one has none.
    next_document = document[-1] + ends[-1]
    return tokens, bool(has_tokens[next_document])
