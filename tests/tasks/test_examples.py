"""The rows that a model directory keeps for the page of the server."""

import pytest
from helpers.models import KINDS

from xlnet.tasks.files.squad_files import GoldAnswer
from xlnet.tasks.output import examples
from xlnet.tasks.task import Row
from xlnet.tasks.types import custom


def task_of(kind, **changes):
    group, values, stored = KINDS[kind]
    return custom.resolve_task(
        group(
            **dict(values, **changes),
            model_dir="m",
            task_name="custom",
            do_predict=True,
            predict_file="-",
        ),
        stored,
    )


def test_short_rows_with_their_labels_which_take_turns():
    rows = [
        Row("0", (), None),
        Row("1", (("a" * 601, "b"),), "animal"),
        Row("2", (("a", "b"),), "animal"),
        Row("3", (("c", "d"),), "animal"),
        Row("4", (("e", "f"),), "plant"),
        Row("5", (("g", "h"),), "stone"),
        Row("6", (("i", "j"),), None),
    ]
    assert examples.of_rows(task_of("classification"), iter(rows)) == [
        {"text_a": "a", "text_b": "b", "gold": "animal"},
        {"text_a": "e", "text_b": "f", "gold": "plant"},
        {"text_a": "g", "text_b": "h", "gold": "stone"},
        {"text_a": "i", "text_b": "j"},
        {"text_a": "c", "text_b": "d", "gold": "animal"},
    ]


def test_long_rows_where_there_are_no_short_ones():
    rows = [Row("0", (("a" * 601, "b"),), "animal"), Row("1", (("a" * 5001, "b"),), "plant")]
    (found,) = examples.of_rows(task_of("classification"), iter(rows))
    assert found == {"text_a": "a" * 601, "text_b": "b", "gold": "animal"}


@pytest.mark.parametrize(
    "kind, changes, row, expected",
    [
        (
            "spans",
            {},
            Row("0", (("a b", "c"),), (GoldAnswer("a", 0), GoldAnswer("b", 2))),
            ["a", "b"],
        ),
        ("spans", {}, Row("0", (("a b", "c"),), ()), []),
        ("multi_label", {}, Row("0", (("a", None),), ("animal", "stone")), ("animal", "stone")),
        ("tagging", {}, Row("0", (("a b", None),), ("O", "B-PER")), ("O", "B-PER")),
        ("regression", {}, Row("0", (("a", None),), 1.5), 1.5),
    ],
)
def test_labels_as_people_read_them(kind, changes, row, expected):
    assert task_of(kind, **changes).reader.gold(row) == expected


@pytest.mark.parametrize("changes", (dict(text_b_column=None), {}))
def test_the_right_answer_of_several(changes):
    task = task_of("multiple_choice", **changes)
    pairs = (("t", "q blue sky"), ("t", "q green"), ("t", "q red"))
    row = Row("0", pairs, task.class_names[1])
    example = task.reader.example(row)
    assert task.reader.gold(row) == example["choices"][1]
    # The texts of a question and its answers go back to the same pairs.
    assert task.reader.parse_pairs(
        example["text_a"], example.get("text_b"), [example["choices"]]
    ) == (pairs, None)


@pytest.mark.parametrize(
    "kind, changes, pairs, expected",
    [
        ("spans", {}, (("a", "b"),), {"question": "b", "context": "a"}),
        (
            "multiple_choice",
            dict(text_b_column=None),
            (("a", "b"), ("a", "c")),
            {"text_a": "a", "choices": ["b", "c"]},
        ),
        ("multiple_choice", {}, (("a", "b"), ("a", "c")), None),
    ],
)
def test_the_texts_by_the_names_of_a_request(kind, changes, pairs, expected):
    task = task_of(kind, **changes)
    row = Row("0", pairs, None)
    assert task.reader.example(row) == expected
    assert expected is None or set(expected) == set(task.reader.texts)
