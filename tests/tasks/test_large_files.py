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
from xlnet.tasks.features import encoding
from xlnet.tasks.files import decoding, forms, parsing, row_store
from xlnet.tasks.files.decoding import Lines
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.tagging.tags import TAGGING
from xlnet.tasks.task import Columns, Files, Form, Task
from xlnet.tasks.types import custom, known

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


def json_list(rows):
    return json.dumps([dict(zip(NAMES, row)) for row in rows])


def fasttext(rows):
    return "".join(f"__label__{label} {text}\n" for text, label in rows)


FORMS = {
    "tsv": tsv,
    "csv": quoted,
    "jsonl": json_lines,
    "json": json_list,
    "fasttext": fasttext,
}
SST = known.GLUE["sst-2"]
SKIPPING = SST.with_files(skips_errors=True)


@pytest.fixture
def small_parts(monkeypatch):
    """What is large comes early. More rows at once than tuples that Python keeps for later use have
    items."""
    for module, name, size in (
        (row_store, "_ROWS_AT_ONCE", 30),
        (row_store, "_ROWS_IN_MEMORY", 30),
        (decoding, "_CHUNK", 4096),
        (encoding, "_EXAMPLES_AT_ONCE", 20),
    ):
        monkeypatch.setattr(module, name, size)


def conll(rows):
    return "".join(
        "the O\ncat{} B-ANIMAL\nsat O\n{}\n".format(i, "still O\n" * 40)
        for i in range(len(rows))
    )


def squad(rows):
    return json.dumps(
        {
            "data": [
                {
                    "paragraphs": [
                        {
                            "context": text,
                            "qas": [
                                {
                                    "id": str(i),
                                    "question": "Who?",
                                    "answers": [{"text": str(i), "answer_start": 361}],
                                }
                            ],
                        }
                    ]
                }
                for i, (text, _) in enumerate(rows)
            ]
        }
    )


TAGS = Task(
    "own",
    Columns(text_a=("1",), text_b=(), id=None, label=()),
    metrics=("f1",),
    type=TAGGING,
    labels=(),
    files=Files(by_split={"train": "train.txt"}),
)
QUESTIONS = known.TASKS["squad1"].with_options(doc_stride=20, max_query_length=4)
CASES = {
    **{
        form: ("train." + form, make, SST.with_files(form=Form(name=form)), "truncate")
        for form, make in FORMS.items()
    },
    "tags": ("train.txt", conll, TAGS, "split"),
    "questions": ("train.json", squad, QUESTIONS, "sliding"),
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
    assert made.seen.examples + predicted == count
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


@pytest.mark.parametrize("size", (1, 3, 1000))
@pytest.mark.parametrize("name", ("utf-8", "utf-8-sig", "utf-16", "utf-32", "gb18030"))
def test_lines_are_the_same_wherever_the_file_is_cut(name, size, monkeypatch):
    monkeypatch.setattr(decoding, "_CHUNK", size)
    for text in TEXTS:
        given = name if name == "gb18030" else None
        content = text.encode(name)
        lines = Lines("x", lambda: io.BytesIO(content), given)
        expected = [line.rstrip("\r") for line in text.rstrip("\r\n").split("\n")]
        assert list(lines) == list(lines) == expected
        assert list(zip(lines, lines)) == list(zip(expected, expected))  # both at once
        assert lines.first(1) == expected[:1] and "".join(lines.chunks()) == text
        assert lines.start() and lines.start()[0] == text.lstrip()[0]


def test_a_file_of_blanks_has_blank_lines_alone():
    for content, count in ((b"", 0), (b"\n", 1), (b" \n\t\r\n", 2)):
        lines = Lines("x", lambda: io.BytesIO(content))
        assert len(list(lines)) == count
        assert not "".join(lines).strip() and lines.start() == ""


def test_bytes_of_another_encoding_are_found_wherever_they_are(monkeypatch):
    monkeypatch.setattr(decoding, "_CHUNK", 7)
    content = b"naive\n" * 50 + "caf\xe9\n".encode("cp1252") + b"end\n"
    for named in (None, "utf-8"):
        with pytest.raises(
            UserError,
            match="^x:51: not UTF-8: byte 0xe9 at column 4; it looks like cp1252",
        ):
            Lines("x", lambda: io.BytesIO(content), named)
    assert list(Lines("x", lambda: io.BytesIO(content), skips=True))[50] == "caf\udce9"
    assert list(Lines("x", lambda: io.BytesIO(content), "cp1252"))[50] == "café"


def test_csv_continues_after_an_error(tmp_path):
    """With the line after the one in which a row that is not CSV begins. Random files are in
    test_forms.py."""
    path = tmp_path / "x.csv"
    path.write_text(
        'sentence,label\nfine,1\n"a"b,1\nlast,0\n"two\nlines",1\na,b,c\n"open,0\nend,1\n'
    )
    declared = SKIPPING.with_files(form=Form(quoting="standard"))
    found = list(parsing.readers.read_table(declared.reader, str(path), True).rows)
    numbers = [int(place.rpartition(":")[2]) for place, _ in found]
    rows = {
        number: row for number, (_, row) in zip(numbers, found) if isinstance(row, list)
    }
    assert numbers == [2, 3, 4, 5, 7, 8, 9]
    assert rows == {
        2: ["fine", "1"],
        4: ["last", "0"],
        5: ["two\nlines", "1"],
        9: ["end", "1"],
    }


def test_a_quotation_mark_that_is_not_closed_costs_one_cell(tmp_path, monkeypatch):
    """Not the rest of the file, however long that is."""
    monkeypatch.setattr(forms, "LONGEST_CELL", 100)
    path = tmp_path / "x.csv"
    path.write_text('sentence,label\nfine,1\n"open,0\n' + "fine,1\n" * 50)
    with pytest.raises(
        UserError,
        match="x.csv:3: a cell of more than 100 characters; is a "
        "quotation mark before it not closed.; give --quoting=none",
    ):
        parsing.read_file(SST, str(path), True)
    rows = parsing.read_file(SKIPPING, str(path), False)
    assert [len(row.pairs) for row in rows] == [1, 0] + [1] * 50


def test_many_errors_take_little_memory(monkeypatch):
    tracemalloc.start()
    found = RowErrors()
    for i in range(20000):
        found.add(f"x:{i}", "fault %s" % (i % 1000))
    assert tracemalloc.get_traced_memory()[0] < 20000
    tracemalloc.stop()
    assert len(found) == 20000
    with pytest.raises(
        UserError, match="^x:0: fault 0; hint .and 19999 more faulty row.s.."
    ):
        found.refuse("; hint")
    RowErrors().refuse()


# ---- the standard input


def test_the_standard_input_is_read_as_a_file_is(monkeypatch, tmp_path):
    for form, make in FORMS.items():
        (tmp_path / ("x." + form)).write_text(make(rows_of(40)))
        with open(tmp_path / ("x." + form)) as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            piped = parsing.read_file(SST, "-", True, form=form)
        assert piped == parsing.read_file(
            SST, str(tmp_path / ("x." + form)), True, form=form
        )
        assert len(piped) == 40


def test_a_full_disk_for_the_standard_input_is_one_line(monkeypatch):
    monkeypatch.setattr(
        row_store.tempfile, "NamedTemporaryFile", lambda **_: open("/dev/full", "wb")
    )
    with pytest.raises(
        UserError, match="rows cannot be kept in .*: No space left on device"
    ):
        row_store.temporary_copy(io.BytesIO(b"x" * 100000))
