"""corpus: lines to marked tokens, blocks, and the order of passes."""

import collections

import numpy as np
import pytest
from helpers.windows import EOD, EOP, TOKENIZER

from xlnet.errors import UserError
from xlnet.settings.data import CorpusSettings
from xlnet.text import corpus, reading, windows

A = 10 + ord("a")


def write(path, content):
    path.write_bytes(content)
    return path


def settings(**values):
    return CorpusSettings(input_glob="", save_dir="", sp_path="", **values)


def tokenize(path, chunk_bytes=10**6, **values):
    """The tokens of a file, and what was counted."""
    counts = collections.Counter()
    arrays = [
        tokens
        for chunk in reading.cut([str(path)], chunk_bytes)
        for tokens in corpus.tokenize(chunk, settings(**values), TOKENIZER, counts)
    ]
    return np.concatenate(arrays) if arrays else np.zeros(0, np.uint32), counts


def text(tokens):
    return (tokens & windows.ID_BITS).tolist()


def starts(tokens, bit):
    return np.flatnonzero(tokens & bit).tolist()


def test_sentences_and_documents_are_marked(tmp_path):
    path = write(tmp_path / "a.txt", b"ab\r\nc?\r\n \r\n\r\nde <eop>\r\nf")
    tokens, counts = tokenize(path)
    assert text(tokens) == [A, A + 1, A + 2, 10 + ord("?"), EOD, A + 3, A + 4, EOP, A + 5, EOD]
    assert starts(tokens, windows.SENTENCE) == [0, 2, 5, 8]
    assert starts(tokens, windows.DOCUMENT) == [0, 5]
    assert counts == {"tokens": 10, "sentences": 4, "documents": 2, "unknown": 1}


def test_without_eod_and_with_lines_of_ids(tmp_path):
    path = write(tmp_path / "a.txt", b"11 12\n\n13\n14 15")
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
    assert again == counts
    assert np.array_equal(cut, whole)


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"text_format": "paragraphs"},
        {"document_separator": "="},
        {"document_separator": "=", "text_format": "wrapped"},
    ],
    ids=lambda layout: " ".join(layout.values()) or "lines",
)
@pytest.mark.parametrize(
    "without_tokens, values",
    [
        ("\u200b".encode(), {}),
        (b"\xff", {"on_error": "skip"}),
        (b"\0", {"on_error": "skip"}),
        (b"w" * ((1 << 20) + 1), {"on_error": "skip"}),
        (b"no id\n\t", {"on_error": "skip", "from_raw_text": False}),
    ],
    ids=["invisible", "not UTF-8", "NUL byte", "line too long", "not token ids"],
)
def test_lines_without_tokens_do_not_hide_where_documents_begin(
    tmp_path, layout, without_tokens, values
):
    """Wherever a file is cut, also where such lines are all that stands right before a chunk."""
    end = layout.get("document_separator", "").encode()
    path = tmp_path / "a.txt"
    for before in ([], [b"11", end]):
        path.write_bytes(b"\n".join([*before, without_tokens, without_tokens, b"12", b"13"]))
        whole, counts = tokenize(path, 1 << 30, **values, **layout)
        assert counts["documents"] == 1 + bool(before)
        for chunk_bytes in (1, 3, 5) if len(without_tokens) < 9 else (1 << 18,):
            cut, again = tokenize(path, chunk_bytes, **values, **layout)
            assert again == counts
            assert np.array_equal(cut, whole)


def test_a_sentence_without_tokens_leaves_no_trace():
    counts = collections.Counter()
    tokens, in_document = corpus.mark(
        np.array([9, 10, 11]),
        np.array([0, 0, 2, 0, 0, 1, 0]),
        np.array([1, 0, 0, 1, 1, 0, 0], bool),
        EOD,
        False,
        counts,
    )
    assert text(tokens) == [9, 10, EOD, 11] and in_document
    assert starts(tokens, windows.SENTENCE) == starts(tokens, windows.DOCUMENT) == [0, 3]
    assert counts == {"tokens": 4, "sentences": 2, "documents": 1}
    ending, in_document = corpus.mark(
        np.zeros(0, int), np.array([0]), np.array([True]), EOD, in_document, counts
    )
    assert text(ending) == [EOD] and not in_document and counts["documents"] == 2


@pytest.mark.parametrize(
    "content, message",
    [
        (b"1 2\n3 x4\n", "line 2: 'x4' is not a token id"),
        (b"1 -2\n", "line 1: '-2' is not a token id"),
        (b"5 1000\n", "line 1: '1000' is not a token id"),
    ],
)
def test_bad_ids_are_refused_with_their_line_or_skipped(tmp_path, content, message):
    path = write(tmp_path / "a.txt", content)
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
    return [tuple(part.tolist()) for part in np.split(tokens, starts(tokens, windows.DOCUMENT)[1:])]


def test_shuffling_keeps_documents_whole():
    tokens = marked_documents(40)
    other = corpus.shuffle_documents(tokens, np.random.default_rng(1))
    assert documents(other) != documents(tokens)
    assert sorted(documents(other)) == sorted(documents(tokens))
    beginless = tokens[1:]  # a block that begins within a document
    assert sorted(corpus.shuffle_documents(beginless, np.random.default_rng(1))) == sorted(
        beginless
    )


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_pass_reads_every_token_once(monkeypatch, number):
    monkeypatch.setattr(corpus, "BLOCK_TOKENS", 16)
    chunks = [marked_documents(n, n) + 1000 * n for n in (9, 1, 20)]
    plan = windows.StreamPlan(1, False, sum(map(len, chunks)), 1)
    layout = corpus.TokenLayout(plan, [len(c) for c in chunks], seed=3)
    read = layout.part_reader(lambda chunk, begin, end: chunks[chunk][begin:end], 0, number)
    whole = read(0, plan.part_len)
    assert np.array_equal(np.sort(whole), np.sort(np.concatenate(chunks)))
    assert (number == 0) == np.array_equal(whole, np.concatenate(chunks))
    for low, high in ((0, 1), (5, 30), (15, 17), (16, 32), (plan.part_len - 3, plan.part_len)):
        assert np.array_equal(read(low, high), whole[low:high])


def test_a_pass_does_not_show_where_files_were_cut(monkeypatch):
    monkeypatch.setattr(corpus, "BLOCK_TOKENS", 16)
    text = marked_documents(40)
    plan = windows.StreamPlan(1, False, len(text), 1)
    seen = []
    for edges in ([], [3, 3, 50], [16, 32], range(1, len(text))):
        chunks = np.split(text, list(edges))
        layout = corpus.TokenLayout(plan, [len(chunk) for chunk in chunks], seed=3)
        read = layout.part_reader(lambda chunk, begin, end: chunks[chunk][begin:end], 0, 1)
        seen.append(read(0, len(text)).tolist())
    assert seen[0] != text.tolist() and seen == seen[:1] * 4


@pytest.mark.parametrize("number", [0, 1])
def test_the_first_pass_reads_no_more_than_it_is_asked_for(monkeypatch, number):
    """Else each of many streams would read whole blocks for a small part of one."""
    monkeypatch.setattr(corpus, "BLOCK_TOKENS", 16)
    text, read = np.arange(40, dtype=np.uint32), []
    layout = corpus.TokenLayout(windows.StreamPlan(4, False, 10, 1), [15, 25], seed=0)

    def read_chunk(chunk, begin, end):
        read.append(end - begin)
        return text[15 * chunk :][begin:end]

    part = layout.part_reader(read_chunk, 1, number)(2, 8)
    assert len(part) == 6 and (sum(read) == 6) == (number == 0)
    assert number or part.tolist() == list(range(12, 18))


# Text that goes on without a space.


@pytest.fixture(scope="module")
def chinese():
    """A vocabulary in which the mark of a word stands alone before most characters."""
    import io

    import sentencepiece

    from xlnet.tokenization.tokenizer import Tokenizer

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["天 天好。是！人", "我是人。天好", "好 <unk>"] * 30),
        model_writer=model,
        vocab_size=30,
        hard_vocab_limit=False,
        user_defined_symbols=["<eop>"],
        control_symbols=["<cls>", "<sep>", "<eod>"],
        num_threads=1,
        minloglevel=2,
    )
    return lambda path: Tokenizer(str(write(path, model.getvalue())))


def pieces_of(tmp_path, tokenizer, content, **values):
    """The pieces of a text, a list for each sentence, and the counts."""
    path = write(tmp_path / "a.txt", content.encode())
    counts = collections.Counter()
    tokens = np.concatenate(
        list(corpus.tokenize(reading.cut([str(path)])[0], settings(**values), tokenizer, counts))
    )
    return [
        [tokenizer.id_to_piece(id) for id in text(part)]
        for part in np.split(tokens, starts(tokens, windows.SENTENCE)[1:])
    ], counts


def test_a_sentence_that_follows_without_a_space_begins_without_a_mark(tmp_path, chinese):
    tokenizer = chinese(tmp_path / "zh.model")
    sentences, _ = pieces_of(
        tmp_path, tokenizer, "人。人。人好！ 人。\n人\n", text_format="paragraphs", use_eod=False
    )
    joined = ["".join(pieces) for pieces in sentences]
    assert joined == ["▁人。", "人。", "人好!", "▁人。", "▁人"]
    lines, _ = pieces_of(tmp_path, tokenizer, "人。\n人。\n", use_eod=False)
    assert ["".join(pieces) for pieces in lines] == ["▁人。", "▁人。"]
