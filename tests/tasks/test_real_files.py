"""Every official file is read to its end, if the data sets are there."""

import hashlib
import json
import pathlib

import pytest
from helpers.paths import DATA, FOLDERS, ROOT
from helpers.tasks import read_rows

from xlnet.tasks import custom, known
from xlnet.tasks.files import forms

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
OTHER_FOLDERS = {"squad1": "squad", "squad2": "squad", "cmrc2018": "cmrc2018"}
FILES = [
    (name, split)
    for name in FOLDERS
    if known.TASKS[name].type.program == "xlnet classify"
    for split in known.TASKS[name].files.by_split
]

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the data sets are not there")


def read(name, split, **more):
    """The rows of a file; what is held out as dev included."""
    task = known.TASKS[name]
    path = forms.find_file(DATA / FOLDERS[name], task.files.by_split[split])
    return path, task.reader.read(path, **more)


@pytest.mark.parametrize("name, split", FILES)
def test_file(name, split):
    task = known.TASKS[name]
    has_names = forms.declared_form(task, f"{split}.tsv").header != "none"
    has_names = has_names and forms.declared_form(task, f"{split}.csv").header != "none"
    is_labelled = (
        not split.startswith("test") or bool(task.files.directory_form) or not has_names
    )
    path, rows = read(name, split, need_labels=is_labelled)
    if (name, split) in COUNTS:
        assert len(rows) == COUNTS[name, split]
    elif not task.files.directory_form:
        lines = pathlib.Path(path).read_bytes().rstrip(b"\n").count(b"\n") + 1
        assert len(rows) == lines - (has_names and path.endswith(".tsv")) > 0
    assert len({row.id for row in rows}) == len(rows)
    assert all(
        text.strip() for row in rows for pair in row.pairs for text in pair if text
    )
    assert {(len(row.pairs), row.pairs[0][1] is None) for row in rows} == {
        (
            4 if task.columns.choices else 1,
            not (task.columns.text_b or task.columns.choices),
        )
    }
    if not is_labelled:
        assert {row.label for row in rows} == {None}
    elif task.labels is None:
        assert all(0 <= row.label <= 5 for row in rows)
    else:
        assert {row.label for row in rows} <= set(task.labels)


# Numbers and digests of the rows as they were read before forms were declared (commit 17ed2656).
DIGESTS = json.loads((ROOT / "tests" / "tasks" / "digests_of_sets.json").read_text())


def digest_of(rows):
    """A digest of the names, texts, labels and queries of rows."""
    digest = hashlib.sha256()
    for row in rows:
        content = json.dumps(
            [row.id, row.pairs, row.label, row.query], ensure_ascii=False
        )
        digest.update(content.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("name_and_split", DIGESTS)
def test_public_sets_are_read_as_before(name_and_split):
    name, split = name_and_split.split()
    folder = DATA / {**FOLDERS, **OTHER_FOLDERS}[name]
    task = custom.complete(known.TASKS[name], str(folder))
    path = forms.find_file(str(folder), task.files.by_split[split])
    form = forms.declared_form(task, path)
    is_labelled = (
        not split.startswith("test")
        or bool(task.files.directory_form)
        or form.header == "none"
        or task.type.program != "xlnet classify"
    )
    rows = task.reader.read(path, is_labelled)
    assert [len(rows), digest_of(rows)] == DIGESTS[name_and_split]


def test_parts_of_race():
    complete, middle = (
        read(name, "dev", need_labels=True)[1] for name in ("race", "race-middle")
    )
    assert [row for row in complete if row.id.startswith("middle")] == middle
    assert not any("_" in text for row in middle for _, text in row.pairs)


def test_what_is_held_out():
    task = known.TASKS["ag_news"].with_files(dev_share=0.05)
    train, dev = (
        read_rows(task, DATA / FOLDERS["ag_news"], split) for split in ("train", "dev")
    )
    assert (
        len(train) + len(dev) == 4000 and 150 < len(dev) < 250
    )  # by a hash: not exactly 5 %
    assert not set(train) & set(dev)
