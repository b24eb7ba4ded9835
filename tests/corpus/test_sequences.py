"""sequences: tokens to readings, streams, segments and cells."""

import types

import numpy as np
import pytest
from helpers.sequences import (
    BOTH,
    EOD,
    EOP,
    REUSE_LEN,
    SEQ_LEN,
    TOKENIZER,
    all_segments,
    make_tokens,
    readings,
    small_text,
)

from xlnet.corpus import sequences
from xlnet.support.errors import UserError

# Streams.


def plan_streams(
    tokens, seq_len=SEQ_LEN, reuse_len=REUSE_LEN, num_streams=0, bi_data=True
):
    settings = types.SimpleNamespace(
        seq_len=seq_len, reuse_len=reuse_len, num_streams=num_streams, bi_data=bi_data
    )
    return sequences.plan_streams(tokens, settings)


@pytest.mark.parametrize("seq_len, reuse_len", [(32, 12), (9, 1), (64, 32), (16, 11)])
def test_count_sequences_is_the_most_that_fit(seq_len, reuse_len):
    for part_len in range(seq_len - 3, 200):
        expected = len(range(0, part_len - (seq_len - 3) + 1, reuse_len))
        plan = plan_streams(part_len, seq_len, reuse_len, 1, False)
        assert plan.sequences == expected


def test_the_number_of_streams_is_chosen_by_size():
    for bi_data, expected in ((False, [1, 8, 32]), (True, [2, 16, 32])):
        plans = [plan_streams(size, bi_data=bi_data) for size in (40, 1000, 10**6)]
        assert [plan.num_streams for plan in plans] == expected
    with pytest.raises(UserError, match="found 100 tokens, expected at least 116"):
        plan_streams(100, num_streams=8)
    assert plan_streams(116, num_streams=8).sequences == 1


def test_words_backward_begin_at_their_last_piece():
    ids = [10, 12, 15, 11, EOP, 18, 13, EOD]  # 12, 15, 18 continue a word
    forward, backward = readings(make_tokens(ids, np.array([5, 3])))
    assert forward.words.astype(int).tolist() == [1, 0, 0, 1, 1, 1, 1, 1]
    assert backward.ids.tolist() == [EOD, 13, 18, EOP, 11, 15, 12, 10]
    assert backward.words.astype(int).tolist() == [1, 1, 1, 1, 1, 1, 0, 0]


def test_punctuation_and_special_tokens_are_words_of_their_own():
    #      the  ▁ cat  s  .  (punctuation 30)  s again  <eod>  s
    ids = [9, 10, 12, 30, 12, EOD, 12]
    starts, alone = np.zeros(40, bool), np.zeros(40, bool)
    starts[[9, 10, 30, EOD]] = alone[[30, EOD]] = True
    vocabulary = types.SimpleNamespace(is_word_start=starts, stands_alone=alone)
    tokens = make_tokens(ids, np.array([len(ids)]))
    for direction, words in enumerate(([1, 1, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 1])):
        read = sequences.directed(tokens, direction, vocabulary)
        assert read.words.astype(int).tolist() == words


# Blocks and passes.


def marked_documents(count, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, count)
    tokens = np.arange(lengths.sum(), dtype=np.uint32)
    tokens[np.cumsum(lengths) - lengths] |= sequences.SENTENCE | sequences.DOCUMENT
    return tokens


def documents(tokens):
    return [
        tuple(part.tolist())
        for part in np.split(tokens, np.flatnonzero(tokens & sequences.DOCUMENT)[1:])
    ]


def test_shuffling_keeps_documents_whole():
    tokens = marked_documents(40)
    other = sequences.shuffle_documents(tokens, np.random.default_rng(1))
    assert documents(other) != documents(tokens)
    assert sorted(documents(other)) == sorted(documents(tokens))
    beginless = tokens[1:]  # a block that begins within a document
    shuffled = sequences.shuffle_documents(beginless, np.random.default_rng(1))
    assert sorted(shuffled) == sorted(beginless)


def text_of(chunks, number):
    def read_chunk(chunk, begin, end):
        return chunks[chunk][begin:end]

    return sequences.TextOfPass(read_chunk, list(map(len, chunks)), 3, number)


@pytest.mark.parametrize("number", [0, 1])
def test_a_pass_reads_every_token_once(monkeypatch, number):
    monkeypatch.setattr(sequences, "BLOCK_TOKENS", 16)
    chunks = [marked_documents(n, n) + 1000 * n for n in (9, 1, 20)]
    size = sum(map(len, chunks))
    text = text_of(chunks, number)
    whole = text.read(0, size)
    assert np.array_equal(np.sort(whole), np.sort(np.concatenate(chunks)))
    assert (number == 0) == np.array_equal(whole, np.concatenate(chunks))
    for low, high in ((0, 1), (5, 30), (15, 17), (16, 32), (size - 3, size)):
        assert np.array_equal(text.read(low, high), whole[low:high])


def test_a_pass_does_not_show_where_files_were_cut(monkeypatch):
    monkeypatch.setattr(sequences, "BLOCK_TOKENS", 16)
    text = marked_documents(40)
    seen = []
    for edges in ([], [3, 3, 50], [16, 32], range(1, len(text))):
        chunks = np.split(text, list(edges))
        seen.append(text_of(chunks, 1).read(0, len(text)).tolist())
    assert seen[0] != text.tolist() and seen == seen[:1] * 4


# Segments.


@pytest.mark.parametrize("direction", [0, 1])
def test_segments_respect_sentences_and_labels(direction):
    reading = readings(small_text(400))[direction]
    begins, drawn = all_segments(reading)
    starts = set(reading.sentences.tolist())
    for begin, a_len, b, label in zip(begins, *drawn):
        a, end = begin + REUSE_LEN, begin + REUSE_LEN + BOTH
        b_end = b + BOTH - a_len
        assert a + a_len in starts  # sentences are short: always a boundary
        assert (b == a + a_len) == (label == 1)
        if not label:
            assert b in starts and 0 <= b and b_end <= len(reading.ids)
            assert b_end <= begin or b >= end


def test_half_of_the_segments_continue_and_the_others_come_from_everywhere():
    reading = readings(small_text(2000))[0]
    begins = np.full(20000, len(reading.ids) // 2)
    drawn = sequences.sample_segments(
        reading, begins, SEQ_LEN, REUSE_LEN, np.random.default_rng(0)
    )
    assert abs(drawn.label.mean() - 0.5) < 0.02
    elsewhere = drawn.b_begin[drawn.label == 0]
    assert abs((elsewhere < begins[0]).mean() - 0.5) < 0.03
    fits = reading.sentences[(reading.sentences < len(reading.ids) - BOTH)]
    assert len(np.unique(elsewhere)) > 0.9 * len(fits)


def test_text_too_small_for_elsewhere_still_gives_sequences():
    size = SEQ_LEN - 3
    least = make_tokens(np.arange(9, 9 + size), np.array([size]))
    begins, drawn = all_segments(readings(least)[0])
    assert len(begins) == 1 and drawn.label.tolist() == [1]
    ids = np.arange(9, 609) % 900 + 9
    for text in (make_tokens(ids, np.array([600])), ids.astype(np.uint32)):
        begins, drawn = all_segments(readings(text)[0])  # no boundary anywhere
        assert 0 < drawn.label.mean() < 1
        b_end = drawn.b_begin + BOTH - drawn.a_len
        is_outside = (b_end <= begins) | (drawn.b_begin >= begins + REUSE_LEN + BOTH)
        assert np.all((drawn.label == 1) | is_outside)


# Cells.


def all_cells(tokens, plan, stream, seed=0, pass_index=0):
    def read(low, high):
        return tokens[low:high]

    text = types.SimpleNamespace(number=pass_index, read=read)
    shape = types.SimpleNamespace(seq_len=SEQ_LEN, reuse_len=REUSE_LEN, seed=seed)
    return list(sequences.cells(text, plan, stream, shape, TOKENIZER))


@pytest.mark.parametrize("stream", range(3))
@pytest.mark.parametrize("bi_data", (False, True))
@pytest.mark.parametrize("cell_tokens", (100, 10**6))
def test_cells_read_the_whole_part_in_its_direction(
    monkeypatch, stream, bi_data, cell_tokens
):
    monkeypatch.setattr(sequences, "CELL_TOKENS", cell_tokens)
    text = small_text()
    plan = plan_streams(len(text), num_streams=6 if bi_data else 3, bi_data=bi_data)
    assert (plan.parts, plan.part_len) == (3, len(text) // 3)
    begin = (stream // 2 if bi_data else stream) * plan.part_len
    part = text[begin : begin + plan.part_len] & sequences.ID_BITS
    expected = part[::-1] if bi_data and stream % 2 else part
    found = all_cells(text, plan, stream)
    assert len(found) == -(-plan.sequences * REUSE_LEN // cell_tokens)
    starts = [(cell.reading.ids, begin) for cell in found for begin in cell.begins]
    assert len(starts) == plan.sequences
    for i, (ids, begin) in enumerate(starts):
        wanted = expected[i * REUSE_LEN : i * REUSE_LEN + SEQ_LEN - 3]
        assert np.array_equal(ids[begin : begin + SEQ_LEN - 3], wanted)
    last = found[-1].reading.ids
    assert np.array_equal(last, expected[len(expected) - len(last) :])


def test_sequences_depend_on_seed_pass_stream_and_cell(monkeypatch):
    monkeypatch.setattr(sequences, "CELL_TOKENS", 200)
    text = small_text(400)
    plan = plan_streams(len(text), num_streams=2, bi_data=False)

    def drawn(stream=0, seed=0, pass_index=0):
        cells = all_cells(text, plan, stream, seed, pass_index)
        return [cell.segments.label.tolist() for cell in cells]

    assert drawn() == drawn() != drawn()[1:] + drawn()[:1]
    for other in (dict(stream=1), dict(seed=1), dict(pass_index=1)):
        assert drawn(**other) != drawn()
