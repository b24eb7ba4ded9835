"""Files of any size: read piece by piece, their rows kept on disk, their records made in parts."""

import csv
import io
import json
import os
import tracemalloc

import pytest
from helpers.vocabulary import train_tiny_model

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.support.errors import UserError
from xlnet.tasks import custom, known
from xlnet.tasks.features import encoding
from xlnet.tasks.files import forms, parsing, row_store
from xlnet.tasks.tagging.tags import TAGGING
from xlnet.tasks.task import Columns, Files, Form, Task

pytestmark = pytest.mark.slow

NAMES = ("sentence", "label")


def rows_of(count):
    return [("{} {}".format("the cat sat " * 30, i), str(i % 2)) for i in range(count)]


def tsv(rows):
    return "".join("\t".join(row) + "\n" for row in (NAMES, *rows))


def quoted(rows):
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows((NAMES, *rows))
    return text.getvalue()


def json_lines(rows):
    return "".join(json.dumps(dict(zip(NAMES, row))) + "\n" for row in rows)


FORMS = {"tsv": tsv, "csv": quoted, "jsonl": json_lines}
SST = known.TASKS["sst-2"]
SKIPPING = SST.with_files(skips_errors=True)


@pytest.fixture
def small_parts(monkeypatch):
    """What is large comes early. More rows at once than tuples that Python keeps for later use have
    items."""
    for module, name, size in (
        (row_store, "_ROWS_AT_ONCE", 30),
        (row_store, "_ROWS_IN_MEMORY", 30),
        (encoding, "_EXAMPLES_AT_ONCE", 20),
    ):
        monkeypatch.setattr(module, name, size)


def conll(rows):
    return "".join(
        "the O\ncat{} B-ANIMAL\nsat O\n{}\n".format(i, "still O\n" * 40)
        for i in range(len(rows))
    )


TAGS = Task(
    "own",
    Columns(text_a=("1",), text_b=(), id=None, label=()),
    metrics=("f1",),
    type=TAGGING,
    labels=(),
    files=Files(by_split={"train": "train.txt"}),
)
CASES = {
    **{
        form: ("train." + form, make, SST.with_files(form=Form(name=form)), "truncate")
        for form, make in FORMS.items()
    },
    "tags": ("train.txt", conll, TAGS, "sliding"),
}


def peak_of_a_run(tmp_path, case, tokenizer, count):
    """The size of a file of so many rows, and the memory that its records and predictions take."""
    name, make, task, long_document = CASES[case]
    path = tmp_path / name
    path.write_text(make(rows_of(count)))
    tracemalloc.start()
    task = custom.complete(task, str(tmp_path))
    train, dev = parsing.hold_out(parsing.read_file(task, str(path), True), 0.5)
    made = encoding.write_records(
        str(tmp_path),
        name,
        task.reader.examples(task.reader.training_rows(train, 0, "")),
        tokenizer,
        encoding.Layout(32, long_document=long_document),
        label_names=task.labels,
        label_features=task.head.features(32),
        encode=task.reader.encode,
        options=task.reader.record_options,
    )
    predicted = len(dev)
    if task is SST:
        files = SST.scorer.prediction_files(dev, [[0.5, 0.5]] * len(dev))
        predicted = sum(1 for _ in files[0].lines) - 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.count + predicted >= count
    return os.path.getsize(path), peak


@pytest.mark.parametrize("case", CASES)
def test_memory_does_not_grow_with_the_file(case, tmp_path, small_parts):
    tokenizer = Tokenizer(train_tiny_model(tmp_path / "sp.model"))
    few, many = (150, 900) if case == "tags" else (300, 1500)
    # Loads whatever is loaded once; of tags, fills the caches of words.
    peak_of_a_run(tmp_path, case, tokenizer, many if case == "tags" else 100)
    (small, before), (large, after) = (
        peak_of_a_run(tmp_path, case, tokenizer, count) for count in (few, many)
    )
    # In memory a tagged sentence takes 15 times its bytes.
    assert after - before < (4 if case == "tags" else 0.25) * (large - small)


# ---- lines

TEXTS = (
    "a\nb",
    "\n\n a\r\n\n\r\nb\n",
    "\u2028é文😀\x85\n\x0c|\n" * 9,
    "one line",
    "x" * 40 + "\ny",
)


@pytest.mark.parametrize("name", ("utf-8", "utf-8-sig", "utf-16", "gb18030"))
def test_lines_are_those_of_any_encoding(name, tmp_path):
    path = tmp_path / "x"
    for text in TEXTS:
        path.write_bytes(text.encode(name))
        given = None if name.startswith("utf-8") else name
        expected = [line.rstrip("\r") for line in text.rstrip("\r\n").split("\n")]
        assert list(forms.lines(str(path), "text", given)) == expected


@pytest.mark.parametrize("task", (SST, SKIPPING))
def test_a_file_that_is_no_csv_is_refused_at_its_line(tmp_path, task):
    """Also where rows are skipped: what comes after the line may be anything."""
    path = tmp_path / "x.csv"
    path.write_text('sentence,label\nfine,1\n"a"b,1\nlast,0\n')
    with pytest.raises(UserError, match=r"x.csv:3: found .*--quoting"):
        parsing.read_file(task, str(path), True)


def test_a_quotation_mark_that_is_not_closed_is_refused_early(tmp_path, monkeypatch):
    """Not at the end of the file, however long that is."""
    monkeypatch.setattr(forms, "LONGEST_CELL", 100)
    path = tmp_path / "x.csv"
    path.write_text('sentence,label\nfine,1\n"open,0\n' + "fine,1\n" * 50)
    with pytest.raises(UserError, match=r"x.csv:3: found .*limit.*--quoting"):
        parsing.read_file(SST, str(path), True)


# ---- the standard input


def test_the_standard_input_is_read_as_a_file_is(monkeypatch, tmp_path):
    for form, make in FORMS.items():
        path = tmp_path / ("x." + form)
        path.write_text(make(rows_of(40)))
        task = SST.with_files(form=Form(name=form))
        with open(path) as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            piped = parsing.read_file(task, "-", True)
        assert piped == parsing.read_file(task, str(path), True)
        assert len(piped) == 40
