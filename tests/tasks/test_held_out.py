"""Rows that are held out as dev stay held out: a hash of their text chooses them."""

import random

import pytest
from helpers.tasks import settings, write

from xlnet.support.errors import UserError
from xlnet.tasks import custom
from xlnet.tasks.files import parsing
from xlnet.tasks.task import Row


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


def test_some_text_is_on_each_side():
    for share in (0.01, 0.5, 0.99):
        for part in parsing.hold_out(rows_of(["x", "y", "y"]), share):
            assert part


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


def test_the_rows_of_a_group_stay_together(tmp_path):
    lines = [f"{i},{'ab'[i % 2]},author {i % 7}" for i in range(70)]
    write(tmp_path, "by.csv", "text_a,label,by", *lines)
    asked = settings(tmp_path / "by.csv", group_column="by")
    parts = parsing.read_parts(custom.resolve_task(asked), "", "train", True)
    authors = [{row.group for row in parts[part]} for part in ("train", "dev")]
    assert all(authors) and len(authors[0] | authors[1]) == 7
    assert not authors[0] & authors[1]
    # A file that is not divided needs no groups.
    (tmp_path / "both").mkdir()
    write(tmp_path / "both", "train.csv", "text_a,label,by", *lines)
    write(tmp_path / "both", "test.csv", "text_a,label", "x,a")
    task = custom.resolve_task(settings(tmp_path / "both", group_column="by"))
    parts = parsing.read_parts(task, str(tmp_path / "both"), "test", True)
    assert len(parts["test"]) == 1
    # A row without an author stands for itself.
    lines = [f"{i},{'ab'[i % 2]}," for i in range(70)]
    write(tmp_path, "by.csv", "text_a,label,by", *lines)
    parts = parsing.read_parts(custom.resolve_task(asked), "", "train", True)
    assert 0 < len(parts["dev"]) < 20
    asked = settings(tmp_path / "by.csv", group_column="author")
    with pytest.raises(UserError, match="no column 'author'"):
        custom.resolve_task(asked)


def test_a_file_of_one_text_is_refused(tmp_path):
    write(tmp_path, "one.csv", "text_a,label", "x,a", "x,b")
    task = custom.resolve_task(settings(tmp_path / "one.csv", dev_share=0.5))
    with pytest.raises(UserError, match="two texts, or queries, or more; --dev_file"):
        parsing.read_parts(task, "", "train", True)


@pytest.mark.parametrize("name, share", [("sst-2", 0.05), ("custom", 0.1)])
def test_the_share_of_a_train_file_that_a_flag_names(tmp_path, name, share):
    """As the help of --dev_share says."""
    write(tmp_path, "mine.tsv", "text_a\tlabel", "a\t0", "b\t1")
    task = custom.resolve_task(
        settings(
            "",
            task_name=name,
            train_file=str(tmp_path / "mine.tsv"),
            label_column="label",
        )
    )
    assert task.files.dev_share == share
