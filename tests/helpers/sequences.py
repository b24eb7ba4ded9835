"""Small texts as tokens, and their sequences."""

import types

import numpy as np

from xlnet.corpus import sequences

SEP, CLS, EOD, EOP = 4, 3, 7, 8
SEQ_LEN, REUSE_LEN = 32, 12
BOTH = SEQ_LEN - REUSE_LEN - 3
IS_WORD_START = np.arange(1000) % 3 != 0  # ids divisible by 3 continue a word
IS_WORD_START[:9] = True
STANDS_ALONE = np.isin(np.arange(1000), (SEP, CLS, EOD, EOP))


def _encode(lines):
    """An id for each character but spaces, and those without a width: 10 and its code."""
    ids = [[10 + ord(c) for c in line if c not in " \u200b"] for line in lines]
    lengths = np.array([len(line) for line in ids], np.int64)
    return np.array(sum(ids, []), np.int32), lengths


TOKENIZER = types.SimpleNamespace(
    sep_id=SEP,
    cls_id=CLS,
    eod_id=EOD,
    eop_id=EOP,
    unk_id=10 + ord("?"),
    vocab_size=1000,
    encode_to_array=_encode,
    sha256="a",
    uncased=False,
    keep_accents=False,
    ids_without_mark=np.arange(1000),
    is_word_start=IS_WORD_START,
    stands_alone=STANDS_ALONE,
)


def make_tokens(ids, sentence_lengths):
    tokens = np.array(ids, np.uint32)
    tokens[np.cumsum(sentence_lengths) - sentence_lengths] |= sequences.SENTENCE
    return tokens


def small_text(num_sentences=120, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 9, num_sentences)
    return make_tokens(rng.integers(9, 1000, lengths.sum()), lengths)


def readings(tokens):
    return [sequences.directed(tokens, direction, TOKENIZER) for direction in (0, 1)]


def all_segments(reading, seed=0, seq_len=SEQ_LEN, reuse_len=REUSE_LEN):
    count = max(0, (len(reading.ids) - (seq_len - 3)) // reuse_len + 1)
    begins = reuse_len * np.arange(count)
    return begins, sequences.sample_segments(
        reading, begins, seq_len, reuse_len, np.random.default_rng(seed)
    )
