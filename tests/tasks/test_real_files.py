"""Every official file is read to its end, if the data sets are there."""

import pathlib

import pytest
from helpers.paths import DATA, FOLDERS

from xlnet.tasks.files import parsing, readers
from xlnet.tasks.types import known

# Rows, as the data sets' own description says.
COUNTS = {
    ("imdb", "train"): 1400,
    ("imdb", "test"): 800,
    ("ag_news", "train"): 4000,
    ("ag_news", "test"): 1600,
    ("yelp-5", "train"): 6,
    ("yelp-5", "test"): 6,
    ("tnews", "train"): 5500,
    ("afqmc", "dev"): 2800,
    ("chnsenticorp", "test"): 700,
}
FILES = [
    (name, split)
    for name in FOLDERS
    if known.TASKS[name].type.program == "xlnet classify"
    for split in known.TASKS[name].files
]

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the data sets are not there")


def read(name, split, **more):
    """The rows of a file; what is held out as dev included."""
    task = known.TASKS[name]
    path = readers.find_file(DATA / FOLDERS[name], task.files.by_split[split])
    return path, parsing.read_file(task, path, **more)


@pytest.mark.parametrize("name, split", FILES)
def test_file(name, split):
    task = known.TASKS[name]
    has_names = not task.header or (name, split) == ("cola", "test")
    is_labelled = not split.startswith("test") or bool(task.files.directory_form) or not has_names
    path, rows = read(name, split, need_labels=is_labelled)
    if (name, split) in COUNTS:
        assert len(rows) == COUNTS[name, split]
    elif not task.files.directory_form:
        lines = pathlib.Path(path).read_bytes().rstrip(b"\n").count(b"\n") + 1
        assert len(rows) == lines - (has_names and path.endswith(".tsv")) > 0
    assert len({row.id for row in rows}) == len(rows)
    assert all(text.strip() for row in rows for pair in row.pairs for text in pair if text)
    assert {(len(row.pairs), row.pairs[0][1] is None) for row in rows} == {
        (4 if task.columns.choices else 1, not (task.columns.text_b or task.columns.choices))
    }
    if not is_labelled:
        assert {row.label for row in rows} == {None}
    elif task.is_regression:
        assert all(0 <= row.label <= 5 for row in rows)
    else:
        assert {row.label for row in rows} <= set(task.labels)


def test_parts_of_race():
    complete, middle = (read(name, "dev", need_labels=True)[1] for name in ("race", "race-middle"))
    assert [row for row in complete if row.id.startswith("middle")] == middle
    assert not any("_" in text for row in middle for _, text in row.pairs)


def test_what_is_held_out():
    task = known.TASKS["ag_news"]
    train, dev = (
        parsing.read_rows(task, DATA / FOLDERS["ag_news"], split) for split in ("train", "dev")
    )
    assert len(train) + len(dev) == 4000 and 150 < len(dev) < 250  # by a hash: not exactly 5 %
    assert not set(train) & set(dev)
