"""Rows that are held out as dev stay held out: a hash of their text chooses them."""

import json
import random

import pytest
from helpers.tasks import settings, write

from xlnet.settings.finetuning import SpanSettings
from xlnet.support.errors import UserError
from xlnet.tasks import known
from xlnet.tasks.fields import Row
from xlnet.tasks.files import parsing


def rows_of(texts, labels=("a", "b"), query=None):
    return [
        Row(str(i), ((text, None),), labels[i % len(labels)], query and query(i))
        for i, text in enumerate(texts)
    ]


def texts(rows):
    return {row.pairs[0][0] for row in rows}


def test_appending_removing_sorting_and_relabelling_move_no_row():
    words = [f"text {i}" for i in range(200)]
    train, dev = parsing.hold_out(rows_of(words), 0.25)
    assert len(train) + len(dev) == 200 and 35 < len(dev) < 65
    more = words + [f"more {i}" for i in range(100)]
    shuffled = random.Random(0).sample(words, 150)
    for changed, labels in (
        (more, "ab"),
        (shuffled, "ab"),
        (words[::-1], "ba"),
        (words, "cd"),
    ):
        parts = parsing.hold_out(rows_of(changed, labels), 0.25)
        for part, before in zip(parts, (train, dev)):
            assert texts(part) & set(words) == texts(before) & set(changed)
    larger = parsing.hold_out(rows_of(words), 0.4)[1]
    assert texts(dev) < texts(larger)


def test_each_label_of_two_texts_is_on_both_sides():
    """Only a text that a rare label lends may move when rows are appended."""
    for number in range(100):
        words = [f"{number} {i}" for i in range(40)]
        labels = ["common"] * 34 + ["rare"] * 2 + ["single"] + ["x"] * 3
        rows = rows_of(words, labels)
        parts = parsing.hold_out(rows, 0.1)
        for part in parts:
            assert {"common", "rare", "x"} <= {row.label for row in part}
        more = [f"{number} more {i}" for i in range(40)]
        grown = parsing.hold_out(rows + rows_of(more, ["common"]), 0.1)
        for before, after in zip(parts, grown):
            common = texts(row for row in before if row.label != "common")
            assert common <= texts(after)
    # Several labels in a row, or one for each word.
    rows = rows_of([f"text {i}" for i in range(30)], [("a", "b"), ("a",), ("c", "a")])
    for part in parsing.hold_out(rows, 0.05):
        assert {"a", "b", "c"} == {label for row in part for label in row.label}
    # With more labels than texts, those of several texts are trained on.
    rows = rows_of(["x", "y", "z"], [("a", "b"), ("b", "c", "d"), ("a", "d", "e")])
    for share in (0.01, 0.5, 0.99):
        train, dev = parsing.hold_out(rows, share)
        assert dev and {"a", "b", "d"} <= {each for row in train for each in row.label}


def test_equal_texts_and_the_rows_of_a_query_stay_together():
    for share in (0.02, 0.2):
        words = [f"text{' ' * (1 + i % 2)}{i // 20}" for i in range(80)]
        train, dev = parsing.hold_out(rows_of(words), share)
        assert train and dev
        assert not {each[-1] for each in texts(train)} & {
            each[-1] for each in texts(dev)
        }
        words = [f"text {i}" for i in range(80)]
        rows = rows_of(words, query=lambda i: "q%s" % (i // 10))
        train, dev = parsing.hold_out(rows, share)
        assert train and dev
        assert not {row.query for row in train} & {row.query for row in dev}


def test_a_file_of_one_text_is_refused(tmp_path):
    write(tmp_path, "one.csv", "text_a,label", "x,a", "x,b")
    task = known.resolve_task(settings(tmp_path / "one.csv", dev_share=0.5))
    with pytest.raises(UserError, match="two texts, or queries, or more; --dev_file"):
        parsing.read_parts(task, "", "train", True)


def test_the_share_of_questions_without_a_dev_file(tmp_path):
    content = {"data": [{"paragraphs": []}]}
    (tmp_path / "train.json").write_text(json.dumps(content))
    train_file = str(tmp_path / "train.json")
    changes = dict(train_file=train_file, data_dir="")
    task = known.resolve_task(settings(group=SpanSettings, **changes))
    assert task.files.dev_share == 0.1


@pytest.mark.parametrize("name, share", [("sst-2", 0.05), ("custom", 0.1)])
def test_the_share_of_a_train_file_that_a_flag_names(tmp_path, name, share):
    """As the help of --dev_share says."""
    write(tmp_path, "mine.tsv", "text_a\tlabel", "a\t0", "b\t1")
    task = known.resolve_task(
        settings(
            "",
            task_name=name,
            train_file=str(tmp_path / "mine.tsv"),
            label_column="label",
        )
    )
    assert task.files.dev_share == share
