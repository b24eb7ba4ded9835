"""The rows that a model directory keeps for the page of the server."""

import pytest
from helpers.models import KINDS

from xlnet.tasks.output import examples
from xlnet.tasks.task import Row
from xlnet.tasks.types import custom


def task_of(kind, **changes):
    group, values, stored = KINDS[kind]
    return custom.known_or_own(
        group(
            **dict(values, **changes),
            model_dir="m",
            task_name="custom",
            do_predict=True,
            predict_file="-",
        ),
        stored,
    )


def test_short_rows_of_different_labels():
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
        {"text_a": "a", "text_b": "b"},
        {"text_a": "e", "text_b": "f"},
        {"text_a": "g", "text_b": "h"},
    ]


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
