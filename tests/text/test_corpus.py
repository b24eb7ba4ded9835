"""corpus: lines to marked tokens, blocks, and the order of passes."""

import collections
import types

import numpy as np
import pytest

from xlnet import config
from xlnet.errors import UserError
from xlnet.text import corpus, reading, windows

EOD, EOP = 7, 8


def encode(lines):
    ids = [[10 + ord(c) for c in line.replace(" ", "")] for line in lines]
    return np.array(sum(ids, []), np.int32), np.array([len(line) for line in ids], np.int64)


TOKENIZER = types.SimpleNamespace(sep_id=4, cls_id=3, eod_id=EOD, eop_id=EOP, unk_id=10 + ord("?"),
                                  vocab_size=1000, encode_to_array=encode)
A = 10 + ord("a")


def settings(**values):
    return config.CorpusSettings(input_glob="", save_dir="", sp_path="", **values)


def tokenize(path, chunk_bytes=10 ** 6, **values):
    """The tokens of a file, and what was counted."""
    counts = collections.Counter()
    arrays = [tokens for chunk in reading.cut([str(path)], chunk_bytes)
              for tokens in corpus.tokenize(chunk, settings(**values), TOKENIZER, counts)]
    return np.concatenate(arrays) if arrays else np.zeros(0, np.uint32), counts


def text(tokens):
    return (tokens & windows.ID_BITS).tolist()


def starts(tokens, bit):
    return np.flatnonzero(tokens & bit).tolist()


def test_sentences_and_documents_are_marked(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"ab\r\nc?\r\n \r\n\r\nde <eop>\r\nf")
    tokens, counts = tokenize(path)
    assert text(tokens) == [A, A + 1, A + 2, 10 + ord("?"), EOD, A + 3, A + 4, EOP, A + 5, EOD]
    assert starts(tokens, windows.SENTENCE) == [0, 2, 5, 8]
    assert starts(tokens, windows.DOCUMENT) == [0, 5]
    assert counts == {"tokens": 10, "sentences": 4, "documents": 2, "unknown": 1}


def test_without_eod_and_with_lines_of_ids(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"11 12\n\n13\n14 15")
    tokens, counts = tokenize(path, from_raw_text=False, use_eod=False)
    assert text(tokens) == [11, 12, 13, 14, 15]
    assert starts(tokens, windows.SENTENCE) == [0, 2, 3]
    assert starts(tokens, windows.DOCUMENT) == [0, 2]
    assert counts["documents"] == 2


@pytest.mark.parametrize("batch_lines", [1, 2, 3, 100])
def test_batches_and_chunks_do_not_show(tmp_path, monkeypatch, batch_lines):
    rng = np.random.default_rng(0)
    lines = ["".join(rng.choice(list("abc "), rng.integers(0, 6))) for _ in range(60)]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines))
    whole, counts = tokenize(path)
    monkeypatch.setattr(corpus, "_BATCH_LINES", batch_lines)
    batched, again = tokenize(path)
    assert np.array_equal(batched, whole) and again == counts
    cut, again = tokenize(path, chunk_bytes=17)
    assert text(cut) == text(whole) and again == counts
    assert starts(cut, windows.SENTENCE) == starts(whole, windows.SENTENCE)


def test_a_sentence_without_tokens_leaves_no_trace():
    counts = collections.Counter()
    tokens, in_document = corpus.mark(
        np.array([9, 10, 11]), np.array([0, 0, 2, 0, 0, 1, 0]),
        np.array([1, 0, 0, 1, 1, 0, 0], bool), EOD, False, counts)
    assert text(tokens) == [9, 10, EOD, 11] and in_document
    assert starts(tokens, windows.SENTENCE) == starts(tokens, windows.DOCUMENT) == [0, 3]
    assert counts == {"tokens": 4, "sentences": 2, "documents": 1}
    ending, in_document = corpus.mark(np.zeros(0, int), np.array([0]), np.array([True]), EOD,
                                      in_document, counts)
    assert text(ending) == [EOD] and not in_document and counts["documents"] == 2


@pytest.mark.parametrize("content, message", [
    (b"1 2\n3 x4\n", "line 2: 'x4' is not a token id"),
    (b"1 -2\n", "line 1: '-2' is not a token id"),
    (b"5 1000\n", "line 1: '1000' is not a token id, expected whole numbers from 0 to 999"),
])
def test_bad_ids_are_refused_with_their_line_or_skipped(tmp_path, content, message):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as e:
        tokenize(path, from_raw_text=False)
    assert str(path) in str(e.value) and "\n" not in str(e.value)
    _, counts = tokenize(path, from_raw_text=False, on_error="skip")
    assert counts["not token ids"] == 1


# Blocks and passes.

def marked_documents(count, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, count)
    tokens = np.arange(lengths.sum(), dtype=np.uint32)
    tokens[np.cumsum(lengths) - lengths] |= windows.SENTENCE | windows.DOCUMENT
    return tokens


def documents(tokens):
    return [tuple(part.tolist()) for part in
            np.split(tokens, starts(tokens, windows.DOCUMENT)[1:])]


def test_shuffling_keeps_documents_whole():
    tokens = marked_documents(40)
    other = corpus.shuffle_documents(tokens, np.random.default_rng(1))
    assert documents(other) != documents(tokens)
    assert sorted(documents(other)) == sorted(documents(tokens))
    beginless = tokens[1:]                   # a block that begins within a document
    assert sorted(corpus.shuffle_documents(beginless, np.random.default_rng(1))) == \
        sorted(beginless)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_pass_reads_every_token_once(monkeypatch, number):
    monkeypatch.setattr(corpus, "BLOCK_TOKENS", 16)
    chunks = [marked_documents(n, n) + 1000 * n for n in (9, 1, 20)]
    layout = corpus.Layout(None, [len(c) for c in chunks], seed=3)
    order = layout.order(number)
    load = lambda i: chunks[layout.blocks[i].chunk][
        layout.blocks[i].begin:][:layout.blocks[i].size]
    total = sum(map(len, chunks))
    whole = order.read(0, total, load)
    assert np.array_equal(np.sort(whole), np.sort(np.concatenate(chunks)))
    assert (number == 0) == np.array_equal(whole, np.concatenate(chunks))
    for low, high in ((0, 1), (5, 30), (15, 17), (16, 32), (total - 3, total)):
        assert np.array_equal(order.read(low, high, load), whole[low:high])
    for block, begin in enumerate(order.begins):
        arranged = order.arrange(block, load(block))
        assert np.array_equal(whole[begin:begin + len(arranged)], arranged)


def test_arrays_are_joined_and_cut_into_blocks(monkeypatch):
    monkeypatch.setattr(corpus, "BLOCK_TOKENS", 10)
    tokens = np.arange(37, dtype=np.uint32)
    blocks = list(corpus.in_blocks(np.split(tokens, [3, 4, 30])))
    assert [len(block) for block in blocks] == [10, 10, 10, 7]
    assert [len(block) for block in blocks] == [b.size for b in corpus.blocks_of([37])]
    assert np.array_equal(np.concatenate(blocks), tokens)


def test_blocks_are_known_by_their_chunk(monkeypatch):
    monkeypatch.setattr(corpus, "BLOCK_TOKENS", 10)
    layout = corpus.Layout(None, [25, 0, 10, 11], seed=0)
    for number, block in enumerate(layout.blocks):
        assert layout.block_index(block.chunk, block.begin // 10) == number
    assert len(layout.blocks) == 6


def test_the_store_keeps_what_is_whole(tmp_path):
    store = corpus.TokenStore(str(tmp_path))
    tokens = marked_documents(30)
    store.write(4, np.split(tokens, [2, 50]))
    assert np.array_equal(store.read(corpus.Block(4, 7, 20)), tokens[7:27])

    def broken():
        yield tokens
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.write(5, broken())
    assert [p.name for p in tmp_path.iterdir()] == ["tokens-000004"]
