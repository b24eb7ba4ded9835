"""tokenized: lines to marked tokens, blocks, and the order of passes."""

import collections
from unittest import mock

import numpy as np
import pytest
from helpers import vocabulary
from helpers.sequences import EOD, EOP, TOKENIZER

from xlnet.corpus import reading, sequences, tokenized
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.data import CorpusSettings
from xlnet.support.errors import UserError

A = 10 + ord("a")


def write(path, content):
    path.write_bytes(content)
    return path


def settings(**values):
    return CorpusSettings(input_glob="", save_dir="", sp_path="", **values)


def tokenize(path, chunk_bytes=10**6, tokenizer=TOKENIZER, **values):
    """The tokens of a file, and what was counted."""
    counts = collections.Counter()
    arrays = [np.zeros(0, np.uint32)]
    with mock.patch.object(reading, "chunk_size", lambda total: chunk_bytes):
        chunks = reading.cut({str(path): path.stat().st_size})
    for chunk in chunks:
        arrays += tokenized.tokenize(chunk, settings(**values), tokenizer, counts)
    return np.concatenate(arrays), counts


def text(tokens):
    return (tokens & sequences.ID_BITS).tolist()


def starts(tokens, bit):
    return np.flatnonzero(tokens & bit).tolist()


def test_sentences_and_documents_are_marked(tmp_path):
    path = write(tmp_path / "a.txt", b"ab\r\nc?\r\n \r\n\r\nde <eop>\r\nf")
    tokens, counts = tokenize(path)
    first = [A, A + 1, A + 2, 10 + ord("?"), EOD]
    assert text(tokens) == [*first, A + 3, A + 4, EOP, A + 5, EOD]
    assert starts(tokens, sequences.SENTENCE) == [0, 2, 5, 8]
    assert starts(tokens, sequences.DOCUMENT) == [0, 5]
    assert counts == {"tokens": 10, "sentences": 4, "documents": 2, "unknown": 1}


def test_without_eod_and_with_lines_of_ids(tmp_path):
    path = write(tmp_path / "a.txt", b"11 12\n\n13\n14 15")
    tokens, counts = tokenize(path, from_raw_text=False, use_eod=False)
    assert text(tokens) == [11, 12, 13, 14, 15]
    assert starts(tokens, sequences.SENTENCE) == [0, 2, 3]
    assert starts(tokens, sequences.DOCUMENT) == [0, 2]
    assert counts["documents"] == 2


@pytest.mark.parametrize("batch_lines", [1, 3])
def test_batches_and_chunks_do_not_show(tmp_path, monkeypatch, batch_lines):
    rng = np.random.default_rng(0)
    lines = ["".join(rng.choice(list("abc "), rng.integers(0, 6))) for _ in range(60)]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines))
    whole, counts = tokenize(path)
    monkeypatch.setattr(tokenized, "_BATCH_SENTENCES", batch_lines)
    batched, again = tokenize(path)
    assert np.array_equal(batched, whole) and again == counts
    cut, again = tokenize(path, chunk_bytes=17)
    assert np.array_equal(cut, whole) and again == counts


def test_a_sentence_without_tokens_leaves_no_trace():
    counts = collections.Counter()
    ids, lengths = np.array([9, 10, 11]), np.array([0, 0, 2, 0, 0, 1, 0])
    ends = np.array([1, 0, 0, 1, 1, 0, 0], bool)
    tokens, in_document = tokenized.mark(ids, lengths, ends, EOD, False, counts)
    assert text(tokens) == [9, 10, EOD, 11] and in_document
    assert starts(tokens, sequences.SENTENCE) == [0, 3]
    assert starts(tokens, sequences.DOCUMENT) == [0, 3]
    assert counts == {"tokens": 4, "sentences": 2, "documents": 1}
    ending, in_document = tokenized.mark(
        np.zeros(0, int), np.array([0]), np.array([True]), EOD, in_document, counts
    )
    assert text(ending) == [EOD] and not in_document and counts["documents"] == 2


@pytest.mark.parametrize("word", ["x4", "-2", "1000", "9" * 400])
def test_bad_ids_are_refused_with_their_line(tmp_path, word):
    path = write(tmp_path / "a.txt", f"1 2\n3 {word}\n".encode())
    with pytest.raises(UserError, match=f"line 2: found '{word[:40]}', expected token"):
        tokenize(path, from_raw_text=False)


# Text that goes on without a space.


@pytest.mark.parametrize(
    "input_format, content, expected",
    (
        (
            "paragraphs",
            "人。人。人好！ 人。\n人\n",
            ["▁人。", "人。", "人好!", "▁人。", "▁人"],
        ),
        ("lines", "人。\n人。\n", ["▁人。", "▁人。"]),
    ),
)
def test_a_sentence_that_follows_without_a_space_begins_without_a_mark(
    tmp_path, input_format, content, expected
):
    """Of a vocabulary in which the mark of a word stands alone before most characters."""
    sentences = ["天 天好。是！人", "我是人。天好", "好 <unk>"] * 30
    model = vocabulary.train(tmp_path / "m", sentences, 30, hard_vocab_limit=False)
    tokenizer, path = Tokenizer(model), write(tmp_path / "a.txt", content.encode())
    how = dict(input_format=input_format, use_eod=False)
    tokens, _ = tokenize(path, tokenizer=tokenizer, **how)
    found = []
    for part in np.split(tokens, starts(tokens, sequences.SENTENCE)[1:]):
        found.append("".join(map(tokenizer.id_to_piece, text(part))))
    assert found == expected
