"""Windows of paragraphs: against the original's features, and by law."""

import gzip
import json

import numpy as np
import pytest
from helpers.paths import GOLDEN, SPIECE

from xlnet.tasks.features import question_windows
from xlnet.tasks.features.question_windows import Question, windows_of
from xlnet.tokenization.tokenizer import Tokenizer


def widest(count, room, stride):
    """For each piece the window with most context, by the rule, one by one."""
    starts = [0]
    while starts[-1] + room < count:
        starts.append(starts[-1] + min(room, stride))
    spans = [(start, min(start + room, count)) for start in starts]
    best = []
    for piece in range(count):
        scores = [
            min(piece - start, end - 1 - piece) + 0.01 * (end - start)
            if start <= piece < end
            else -1
            for start, end in spans
        ]
        best.append(scores.index(max(scores)))
    return spans, best


@pytest.mark.parametrize("room", (1, 2, 5, 8, 13))
def test_windows_cover_all_and_each_piece_has_one_with_most_context(room):
    for count in range(60):
        for stride in range(1, room + 1):
            windows = windows_of(count, room, stride)
            spans, best = widest(count, room, stride)
            assert [window[:2] for window in windows] == spans
            owners = [
                [
                    i
                    for i, window in enumerate(windows)
                    if window.widest_start <= piece < window.widest_end
                ]
                for piece in range(count)
            ]
            assert owners == [[owner] for owner in best], (count, room, stride)


@pytest.fixture(scope="module")
def golden():
    if not SPIECE.exists():
        pytest.skip("no shared data")
    with gzip.open(GOLDEN / "squad_features.json.gz") as f:
        return json.load(f), Tokenizer(str(SPIECE))


def rows_of(case, tokenizer):
    start = -1 if case["answer_start"] is None else case["answer_start"]
    arrays, counts = question_windows.encode(
        [Question(case["context"], case["question"], start, start + len(case["answer"] or ""))],
        tokenizer,
        case["max_seq_length"],
        stride=case["doc_stride"],
        max_query_length=case["max_query_length"],
    )
    assert counts.tolist() == [len(case["features"])]
    return [{name: values[row] for name, values in arrays.items()} for row in range(counts[0])]


def test_ids_masks_and_windows_are_those_of_the_original(golden):
    cases, tokenizer = golden
    assert len(cases) == 80
    for case in cases:
        for ours, theirs in zip(rows_of(case, tokenizer), case["features"]):
            for name in ("input_ids", "input_mask", "segment_ids"):
                np.testing.assert_array_equal(ours[name], theirs[name], name)
            size = theirs["paragraph_len"]
            assert (ours["paragraph_len"], ours["cls_index"]) == (size, theirs["cls_index"])
            place = np.arange(len(ours["input_ids"]))
            hidden = (place >= size) & (place != ours["cls_index"])
            np.testing.assert_array_equal(hidden, theirs["p_mask"])
            np.testing.assert_array_equal(
                (place >= ours["widest_start"]) & (place < ours["widest_end"]),
                np.pad(
                    [theirs["token_is_max_context"][str(i)] for i in range(size)],
                    (0, len(place) - size),
                ),
            )


def text_of(case, starts, ends, first, last):
    return case["context"][int(starts[first]) : int(ends[last])].strip()


def test_positions_are_those_of_the_original_or_closer_to_the_answer(golden):
    cases, tokenizer = golden
    equal = better = 0
    for case in cases:
        if not case["training"]:
            continue
        for ours, theirs in zip(rows_of(case, tokenizer), case["features"]):
            position = ours["start_positions"], ours["end_positions"]
            expected = theirs["start_position"], theirs["end_position"]
            assert ours["is_impossible"] == theirs["is_impossible"]
            if position == expected:
                equal += 1
                continue
            our_text = text_of(case, ours["char_start"], ours["char_end"], *position)
            their_text = text_of(
                case,
                theirs["tok_start_to_orig_index"],
                np.array(theirs["tok_end_to_orig_index"]) + 1,
                *expected,
            )
            assert case["answer"].strip() in our_text
            assert len(our_text) <= len(their_text) or case["answer"] not in their_text
            better += 1
    assert equal + better == sum(len(case["features"]) for case in cases if case["training"])
    assert equal > 40


def test_an_answer_that_a_window_cuts_is_not_in_it(golden):
    tokenizer = golden[1]
    context = " ".join(["one two three four five"] * 6)
    start = context.index("three", 40)
    arrays, counts = question_windows.encode(
        [Question(context, "what?", start, start + len("three four"))],
        tokenizer,
        16,
        stride=4,
        max_query_length=4,
    )
    inside = arrays["is_impossible"] == 0
    assert counts[0] == len(inside) > inside.sum() > 0
    for row in np.flatnonzero(inside):
        assert (
            context[
                int(arrays["char_start"][row, arrays["start_positions"][row]]) : int(
                    arrays["char_end"][row, arrays["end_positions"][row]]
                )
            ]
            == "three four"
        )
    outside = np.flatnonzero(~inside)
    np.testing.assert_array_equal(arrays["start_positions"][outside], arrays["cls_index"][outside])


def test_a_question_is_cut_and_a_paragraph_of_nothing_has_one_window(golden):
    tokenizer = golden[1]
    arrays, counts = question_windows.encode(
        [Question("\u0301", "who is it that asks so much here?", -1, -1)],
        tokenizer,
        16,
        stride=4,
        max_query_length=3,
    )
    assert counts.tolist() == [1]
    assert (arrays["paragraph_len"][0], arrays["cls_index"][0]) == (0, 5)


def test_a_paragraph_is_cut_into_pieces_once(golden, monkeypatch):
    asked = []
    encode = question_windows.Aligner.encode
    monkeypatch.setattr(
        question_windows.Aligner,
        "encode",
        lambda self, texts: asked.extend(texts) or encode(self, texts),
    )
    question_windows.encode(
        [Question("a b", "c?", 0, 1), Question("d e", "f?", -1, -1), Question("a b", "g?", 2, 3)],
        golden[1],
        16,
        stride=4,
        max_query_length=4,
    )
    assert asked == ["a b", "d e"]


def test_text_before_a_window_is_in_the_segments_before_it(golden):
    """Segments of the same form, each ending where the next one begins, with any stride."""
    tokenizer = golden[1]
    context = " ".join("one two three four five".split() * 7)
    how = dict(stride=5, max_query_length=4)
    asked = [Question(context, "what is it?", 14, 18)]
    alone, counts = question_windows.encode(asked, tokenizer, 20, **how)
    arrays, same = question_windows.encode(asked, tokenizer, 20, segments=3, **how)
    assert counts.tolist() == same.tolist() and counts[0] > 3
    pieces = tokenizer.encode_lines([context])[0]
    query = alone["input_ids"][0, alone["paragraph_len"][0] :][
        : alone["cls_index"][0] + 1 - alone["paragraph_len"][0]
    ]
    room = 20 - len(query)
    for row, start in enumerate(range(0, 5 * counts[0], 5)):
        for name in alone:
            np.testing.assert_array_equal(
                arrays[name][row][-20:]
                if name.startswith(("input", "segment"))
                else arrays[name][row],
                alone[name][row],
                name,
            )
        is_text = arrays["input_mask"][row, :40] == 0
        before = [
            *pieces[max(start - 2 * room, 0) : max(start - room, 0)],
            *(query if start > room else []),
            *pieces[max(start - room, 0) : start],
            *(query if start else []),
        ]
        assert arrays["input_ids"][row, :40][is_text].tolist() == list(before)
        assert is_text.tolist() == [False] * (40 - len(before)) + [True] * len(before)
        assert set(arrays["segment_ids"][row, :40][~is_text]) <= {3}
