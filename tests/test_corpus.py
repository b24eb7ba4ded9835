"""corpus: documents to token arrays, streams and windows."""

import types

import numpy as np
import pytest

from xlnet import corpus, records
from xlnet.errors import UserError

SEP, CLS, EOD, EOP = 4, 3, 7, 8
SEQ_LEN, REUSE_LEN = 32, 12
BOTH = SEQ_LEN - REUSE_LEN - 3
IS_WORD_START = np.arange(1000) % 3 != 0       # ids divisible by 3 continue a word
IS_WORD_START[:9] = True

TOKENIZER = types.SimpleNamespace(
    sep_id=SEP, cls_id=CLS, eod_id=EOD, eop_id=EOP, unk_id=0, vocab_size=1000,
    is_word_start=IS_WORD_START,
    encode_lines=lambda lines: [[10 + ord(c) for c in line.replace(" ", "")] for line in lines])


def small_corpus(num_sentences=120, seed=0, eod_id=EOD):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 9, num_sentences)
    documents = np.sort(rng.integers(0, num_sentences // 8, num_sentences))
    return corpus.make_corpus(rng.integers(9, 1000, lengths.sum()), lengths, documents, eod_id)


def readings(text):
    forward = corpus.read_forward(text, IS_WORD_START, [SEP, CLS, EOD, EOP])
    return forward, corpus.read_backward(forward)


def all_windows(reading, seed=0, seq_len=SEQ_LEN, reuse_len=REUSE_LEN):
    count = corpus.count_windows(len(reading.ids), seq_len, reuse_len)
    begins = reuse_len * np.arange(count)
    drawn = corpus.draw_segments(reading, begins, seq_len, reuse_len, np.random.default_rng(seed))
    return begins, drawn, corpus.fill_windows(reading, begins, drawn, seq_len, reuse_len, SEP, CLS)


def write(tmp_path, text, name="a.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return str(path)


# Reading.

def test_sentences_and_documents_are_found(tmp_path):
    path = write(tmp_path, "ab\r\nc\r\n \r\n\r\nde <eop>\r\nf")
    text = corpus.read_corpus([path, write(tmp_path, "g", "b.txt")], TOKENIZER)
    a = 10 + ord("a")
    assert text.ids.tolist() == [a, a + 1, a + 2, EOD, a + 3, a + 4, EOP, a + 5, EOD, a + 6, EOD]
    assert text.sentences.tolist() == [0, 2, 4, 7, 9]
    assert text.documents.tolist() == [0, 4, 9]


def test_without_eod_and_with_lines_of_ids(tmp_path):
    path = write(tmp_path, "11 12\n\n13\n14 15")
    text = corpus.read_corpus([path], TOKENIZER, from_raw_text=False, use_eod=False)
    assert text.ids.tolist() == [11, 12, 13, 14, 15]
    assert text.sentences.tolist() == [0, 2, 3]
    assert text.documents.tolist() == [0, 2]


def test_only_newlines_end_a_line_and_a_byte_order_mark_is_no_text(tmp_path):
    text = corpus.read_corpus([write(tmp_path, "\ufeffa\u0085b\u2028c\n")], TOKENIZER)
    assert len(text.sentences) == 1
    assert text.ids[0] == 10 + ord("a")


def test_a_sentence_without_tokens_leaves_no_trace():
    text = corpus.make_corpus(np.array([9, 10, 11]), np.array([0, 2, 0, 1]), np.array([0, 0, 1, 1]),
                              EOD)
    assert text.ids.tolist() == [9, 10, EOD, 11, EOD]
    assert text.sentences.tolist() == text.documents.tolist() == [0, 3]


@pytest.mark.parametrize("content, from_raw_text, message", [
    (b"fine\nbad \xff\n", True, "line 2: not UTF-8: byte 0xff at column 5"),
    (b"a\0b", True, "line 1: a NUL byte at column 2"),
    (b" \n\t\n", True, "no text"),
    (b"", True, "no text"),
    (b"1 2\n3 x4\n", False, "line 2: 'x4' is not a token id"),
    (b"1 -2\n", False, "line 1: '-2' is not a token id"),
    (b"5 1000\n", False, "line 1: '1000' is not a token id, expected whole numbers from 0 to 999"),
])
def test_bad_text_is_refused_with_its_line(tmp_path, content, from_raw_text, message):
    path = write(tmp_path, content)
    with pytest.raises(UserError, match=message) as e:
        corpus.read_corpus([path], TOKENIZER, from_raw_text)
    assert path in str(e.value) and "\n" not in str(e.value)


def test_shuffling_keeps_documents_whole():
    text = small_corpus()
    other = corpus.shuffle_documents(text, np.random.default_rng(1))

    def documents(c):
        marks = np.zeros(len(c.ids), int)
        marks[c.sentences] = 1
        return [list(map(tuple, part)) for part in
                np.split(np.stack([c.ids, marks], 1), c.documents[1:])]

    assert documents(other) != documents(text)
    assert sorted(documents(other)) == sorted(documents(text))


# Streams.

@pytest.mark.parametrize("seq_len, reuse_len", [(32, 12), (9, 1), (64, 32), (16, 11)])
def test_count_windows_is_the_most_that_fit(seq_len, reuse_len):
    for part_len in range(200):
        count = corpus.count_windows(part_len, seq_len, reuse_len)
        assert count == sum(begin + seq_len - 3 <= part_len
                            for begin in range(0, part_len + 1, reuse_len))


def test_streams_are_pairs_that_cover_the_parts():
    plan = corpus.plan_streams(1000, SEQ_LEN, REUSE_LEN, num_streams=6)
    assert plan.parts == 3 and plan.part_len == 333
    assert [plan.direction(s) for s in range(6)] == [0, 1, 0, 1, 0, 1]
    for stream in range(6):
        begins = plan.begins(stream, 1000, REUSE_LEN)
        assert len(begins) == plan.windows
        low, high = begins[0], begins[-1] + SEQ_LEN - 3
        if plan.direction(stream):                       # positions count from the end
            low, high = 1000 - high, 1000 - low
        assert 333 * (stream // 2) <= low and high <= 333 * (stream // 2 + 1)


@pytest.mark.parametrize("tokens, bi_data, expected", [
    (10 ** 6, True, 32), (10 ** 6, False, 32), (1000, False, 8), (1000, True, 16), (40, True, 2),
    (40, False, 1)])
def test_the_number_of_streams_is_chosen_by_size(tokens, bi_data, expected):
    plan = corpus.plan_streams(tokens, SEQ_LEN, REUSE_LEN, bi_data=bi_data)
    assert plan.num_streams == expected


def test_impossible_streams_are_refused():
    with pytest.raises(UserError, match="is 3, expected an even number"):
        corpus.plan_streams(10 ** 6, SEQ_LEN, REUSE_LEN, num_streams=3)
    with pytest.raises(UserError, match="100 tokens.*num_streams=8.*at least 116 are needed"):
        corpus.plan_streams(100, SEQ_LEN, REUSE_LEN, num_streams=8)
    assert corpus.plan_streams(116, SEQ_LEN, REUSE_LEN, num_streams=8).windows == 1


# Windows.

def test_backward_reading_is_the_mirror_image():
    text = small_corpus()
    forward, backward = readings(text)
    assert backward.ids.tolist() == forward.ids.tolist()[::-1]
    ends = np.append(text.sentences[1:], len(text.ids))       # one past each last token
    assert sorted(len(text.ids) - ends) == backward.sentences.tolist()
    assert backward.words.sum() == forward.words.sum()


def test_words_backward_begin_at_their_last_piece():
    ids = np.array([10, 12, 15, 11, EOP, 18, 13, EOD])         # 12, 15, 18 continue a word
    text = corpus.make_corpus(ids, np.array([5, 3]), np.array([0, 0]))
    forward, backward = readings(text)
    assert forward.words.astype(int).tolist() == [1, 0, 0, 1, 1, 1, 1, 1]
    assert backward.ids.tolist() == [EOD, 13, 18, EOP, 11, 15, 12, 10]
    assert backward.words.astype(int).tolist() == [1, 1, 1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("seq_len, reuse_len", [(32, 12), (6, 1), (9, 4), (60, 55), (40, 2)])
def test_a_window_is_laid_out_by_the_rule(direction, seq_len, reuse_len):
    reading = readings(small_corpus())[direction]
    begins, drawn, windows = all_windows(reading, seq_len=seq_len, reuse_len=reuse_len)
    ids, words = reading.ids.tolist(), reading.words.astype(int).tolist()
    for i, begin in enumerate(begins):
        a_len, b = drawn.a_len[i], drawn.b_begin[i]
        b_len = seq_len - reuse_len - 3 - a_len
        a = begin + reuse_len
        assert a_len >= 1 and b_len >= 1
        assert windows["input"][i].tolist() == (
            ids[begin:a + a_len] + [SEP] + ids[b:b + b_len] + [SEP, CLS])
        assert windows["seg_id"][i].tolist() == (
            [0] * (reuse_len + a_len + 1) + [1] * (b_len + 1) + [2])
        assert windows["word_start"][i].astype(int).tolist() == (
            [1] + words[begin + 1:a] + [1] + words[a + 1:a + a_len] + [1, 1]
            + words[b + 1:b + b_len] + [1, 1])


@pytest.mark.parametrize("direction", [0, 1])
def test_segments_respect_sentences_and_labels(direction):
    reading = readings(small_corpus(400))[direction]
    begins, drawn, _ = all_windows(reading)
    starts = set(reading.sentences.tolist())
    for begin, a_len, b, label in zip(begins, *drawn):
        a, end = begin + REUSE_LEN, begin + REUSE_LEN + BOTH
        b_end = b + BOTH - a_len
        assert a + a_len in starts                       # sentences are short: always a boundary
        assert (b == a + a_len) == (label == 1)
        if not label:
            assert b in starts and 0 <= b and b_end <= len(reading.ids)
            assert b_end <= begin or b >= end


def test_half_of_the_segments_continue_and_the_others_come_from_everywhere():
    reading = readings(small_corpus(2000))[0]
    begins = np.full(20000, len(reading.ids) // 2)
    drawn = corpus.draw_segments(reading, begins, SEQ_LEN, REUSE_LEN, np.random.default_rng(0))
    assert abs(drawn.label.mean() - 0.5) < 0.02
    elsewhere = drawn.b_begin[drawn.label == 0]
    assert abs((elsewhere < begins[0]).mean() - 0.5) < 0.03
    fits = reading.sentences[(reading.sentences < len(reading.ids) - BOTH)]
    assert len(np.unique(elsewhere)) > 0.9 * len(fits)


def test_text_too_small_for_elsewhere_still_gives_windows():
    one_sentence = corpus.make_corpus(np.arange(9, 9 + SEQ_LEN - 3), np.array([SEQ_LEN - 3]),
                                      np.array([0]))
    begins, drawn, windows = all_windows(readings(one_sentence)[0])
    assert len(begins) == 1 and drawn.label.tolist() == [1]
    long = corpus.make_corpus(np.arange(9, 609) % 900 + 9, np.array([600]), np.array([0]))
    begins, drawn, _ = all_windows(readings(long)[0])    # no boundary anywhere
    assert 0 < drawn.label.mean() < 1
    b_end = drawn.b_begin + BOTH - drawn.a_len
    assert np.all((drawn.label == 1) | (b_end <= begins)
                  | (drawn.b_begin >= begins + REUSE_LEN + BOTH))


def test_windows_depend_on_the_seed_alone():
    reading = readings(small_corpus(400))[0]
    first, again, other = [all_windows(reading, seed)[2] for seed in (0, 0, 1)]
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["input"], other["input"])
    assert np.array_equal(first["input"][:, :REUSE_LEN], other["input"][:, :REUSE_LEN])


def test_fast_encoding_is_that_of_records():
    rng = np.random.default_rng(0)
    features = records.pretraining_features(200)
    windows = {"input": rng.choice([0, 1, 127, 128, 16383, 16384, 2097151, 2097152], (20, 200)),
               "seg_id": rng.integers(0, 3, (20, 200)), "word_start": rng.random((20, 200)) < 0.5,
               "label": rng.integers(0, 2, 20), "direction": np.ones(20, int),
               "starts_stream": np.zeros(20, int)}
    expected = [records.encode(features, {name: value[row] for name, value in windows.items()})
                for row in range(20)]
    assert list(corpus.encode_windows(features, windows)) == expected
