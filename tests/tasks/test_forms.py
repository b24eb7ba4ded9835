"""Each form of file: the same rows of the same data, or one error; so with damaged files."""

import csv
import functools
import importlib.util
import io
import json
import random
import re

import pytest
from helpers import tasks
from helpers.tasks import read_rows

from xlnet.support.errors import UserError
from xlnet.tasks import known
from xlnet.tasks.fields import Form
from xlnet.tasks.files import forms, parsing

NAMES = ["text", "label", "more"]
# Characters that some form gives a meaning, and some that only look so.
PIECES = [*"abZ 01.,;\t|\"'\\\n\r{}[]:#é字😀\u2028\x0b\x1c\x85\ufeff\0"]
PIECES += ["\r\n", "__label__", "text", "sep=;"]


class Refused(Exception):
    """The file has an error."""


@pytest.fixture
def records(monkeypatch):
    """A function that returns the records of a file; it raises Refused if it, or one of them, has
    an error."""

    def read(content, name, **declared):
        monkeypatch.setattr(forms, "opened", lambda *_: io.BytesIO(content))
        try:
            table = forms.read("x." + name, Form(name, **declared), "rows")
            found = [cells for _, cells in table]
        except UserError as e:
            raise Refused(str(e)) from None
        if any(isinstance(cells, str) for cells in found):
            raise Refused(next(cells for cells in found if isinstance(cells, str)))
        if any(NAMES[: len(cells)] != list(cells) for cells in found):
            raise Refused("other columns")
        return [list(cells.values()) for cells in found]

    return read


def random_table(rng, most=6, pieces=PIECES):
    """Rows of two or three texts, of which at least one is not blank."""
    width, rows = rng.randint(2, 3), []
    while len(rows) < rng.randint(1, most):
        row = ["".join(rng.choices(pieces, k=rng.randint(0, 4))) for _ in range(width)]
        if any(map(str.strip, row)):
            rows.append(row)
    return rows


def as_csv(rows, rng, delimiter=","):
    """As Python, pandas and spreadsheets write it: with quotation marks where needed, or always."""
    content = io.StringIO()
    writer = csv.writer(
        content,
        delimiter=delimiter,
        lineterminator=rng.choice(["\n", "\r\n"]),
        quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    )
    writer.writerow(NAMES[: len(rows[0])])
    writer.writerows(rows)
    return (rng.choice(["", "\ufeff"]) + content.getvalue()).encode()


def as_jsonl(rows, rng):
    escapes = rng.random() < 0.5
    values = [dict(zip(NAMES, row)) for row in rows]
    lines = [json.dumps(value, ensure_ascii=escapes) + "\n" for value in values]
    return "".join(lines).encode()


def as_json(rows, rng):
    values = [dict(zip(NAMES, row)) for row in rows]
    document = rng.choice([values, {"data": values}])
    escapes, indent = rng.random() < 0.5, rng.choice([None, 1])
    return json.dumps(document, ensure_ascii=escapes, indent=indent).encode()


# Parquet is an extra: without it the other forms are compared all the same.
HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None


def as_parquet(rows, rng):
    import pyarrow
    from pyarrow import parquet

    content = io.BytesIO()
    columns = dict(zip(NAMES, map(list, zip(*rows))))
    parquet.write_table(pyarrow.table(columns), content)
    return content.getvalue()


WRITERS = {
    "csv": as_csv,
    "tsv": functools.partial(as_csv, delimiter="\t"),
    "jsonl": as_jsonl,
    "json": as_json,
}


def without_ends(rows):
    """A carriage return before the line feed that ends a record belongs to that end; before 3.13,
    Python's writer leaves such cells without quotation marks. Byte order marks at the beginning of
    a line are no text."""
    found = []
    for row in rows:
        cells = [re.sub("([\r\n])\ufeff+", r"\1", cell) for cell in row]
        if cells:
            cells[0] = cells[0].lstrip("\ufeff")
            cells[-1] = cells[-1].rstrip("\r")
        found.append(cells if any(map(str.strip, cells)) else [])
    return found


def test_all_forms_give_the_same_records(records):
    """Of 4,000 tables; a table between delimiters is refused where its cells are no cells of such
    a table."""
    rng, read = random.Random(0), 0
    for number in range(4_000):
        rows = random_table(rng)
        quoting = rng.choice([None, "standard"])
        for name in ("jsonl", "json"):
            assert records(WRITERS[name](rows, rng), name) == rows
        if HAS_PYARROW and number % 20 == 0:
            assert records(as_parquet(rows, rng), "parquet") == rows
        for name in ("csv", "tsv"):
            content = WRITERS[name](rows, rng)
            try:
                found = records(content, name, quoting=quoting)
            except Refused:
                continue
            assert without_ends(found) == without_ends(rows), content
            read += 1
    assert read > 0.6 * 8_000


def test_cells_without_quotation_marks_are_read_back_equal_or_refused(records):
    rng, equal = random.Random(0), 0
    for _ in range(1000):
        rows = random_table(rng)
        if any(mark in cell for row in rows for cell in row for mark in "\t\n"):
            continue
        lines = ["\t".join(row) + "\n" for row in [NAMES[: len(rows[0])], *rows]]
        try:
            found = records("".join(lines).encode(), "tsv", quoting="none")
        except Refused:
            continue
        assert found == without_ends(rows), lines
        equal += 1
    assert equal > 100


@pytest.mark.parametrize("name", WRITERS)
def test_a_damaged_byte_changes_at_most_its_record_or_is_refused(name, records):
    """No other record is lost, joined, divided or moved; one that has become blank, or a blank line
    that was added, is left out with a number in training, and refused in predicting."""
    rng, read = random.Random(name), 0
    letters = [piece for piece in PIECES if piece not in ("\0", "\r", "\r\n", "\ufeff")]
    while read < 500:
        rows = random_table(rng, most=8, pieces=letters)
        content = bytearray(WRITERS[name](rows, rng))
        content[rng.randrange(len(content))] = rng.choice(
            [*b'",\t\n\r\\{}[]: ;', rng.randrange(256)]
        )
        read += rng.random() < 0.5  # also where it is refused
        try:
            found = records(bytes(content), name)
        except Refused:
            continue
        found = [cells for cells in found if any(map(str.strip, cells))]
        assert len(rows) - 1 <= len(found) <= len(rows), bytes(content)
        if len(found) == len(rows):
            changed = sum(one != other for one, other in zip(found, rows))
            assert changed <= 1, bytes(content)
        else:
            assert any(rows[:i] + rows[i + 1 :] == found for i in range(len(rows)))


# ---- as many predictions as records


@pytest.mark.parametrize("name", WRITERS)
def test_there_are_as_many_predictions_as_records(tmp_path, name):
    """Or the file is refused: nothing is left out."""
    rng, read = random.Random(name), 0
    pieces = [piece for piece in PIECES if piece not in ("\0", "\r")]
    how = dict(text_a_column="text", do_train=False, do_predict=True)
    task = known.resolve_task(tasks.settings("", **how), {"labels": ["x", "y"]})
    path = tmp_path / f"new.{name}"
    for _ in range(60):
        rows = random_table(rng, pieces=pieces)
        rows += [[""] * len(rows[0])] * rng.randint(0, 2)
        path.write_bytes(WRITERS[name](rows, rng))
        try:
            found = parsing.read_to_predict(task, str(path))
        except UserError:
            continue
        assert len(found) == len(rows) and all(row.pairs for row in found)
        read += 1
    assert read > 5


# ---- any content, any flags


FLAGS = {
    "quoting": ["none", "standard"],
    "header": ["none", "names"],
    "delimiter": [";", "tab"],
    "encoding": ["cp1252", "utf-16"],
    "input_format": ["csv", "tsv", "jsonl", "json", "text"],
    "on_error": ["skip"],
}
LABELS = [{}, {"is_regression": True}, {"multi_label": True}]
LABELS += [{"multi_label": True, "label_form": "json"}]
BEGINNINGS = ["", "text,label\n", "text\tlabel\n", '[{"text": "a"},']
BEGINNINGS += ['{"text": "a", "label": "x"}\n', "text,label\na,x\nb,y\n"]


def test_any_content_with_any_flags_is_read_or_refused_in_a_line(tmp_path):
    rng, read, count = random.Random(0), 0, 400
    for number in range(count):
        path = tmp_path / ("t." + rng.choice(["csv", "tsv", "json", "jsonl", "txt"]))
        beginning = rng.choice(BEGINNINGS)
        pieces = rng.choices(PIECES, k=rng.randint(0, 40) * rng.randint(0, 1))
        content = (beginning + "".join(pieces)).encode()
        path.write_bytes(content + rng.choice([b"", b"", b"\xc3", b"\xed\xa0\xbd"]))
        flags = {
            name: rng.choice(each) for name, each in FLAGS.items() if rng.random() < 0.1
        }
        flags["text_a_column"] = rng.choice(["text", "text", "text", "1"])
        try:
            if number % 2:
                more = rng.choice(LABELS)
                settings = tasks.settings(path, dev_share=0.0, **flags, **more)
                task = known.resolve_task(settings)
                rows = read_rows(task, "", "train")
            else:
                settings = tasks.settings("", do_train=False, do_predict=True, **flags)
                task = known.resolve_task(settings, {"labels": ["x", "y"]})
                rows = parsing.read_to_predict(task, str(path))
            read += len(rows) > 0
        except UserError as e:
            assert "\n" not in str(e) and str(path) in str(e), (content, flags)
    assert read > 0.01 * count


# ---- single cases


def trained(directory, content, **flags):
    """The task of a train file, and its rows."""
    path = directory / "x.csv"
    path.write_text(content)
    flags = {"text_a_column": "text", "dev_share": 0.0, **flags}
    task = known.resolve_task(tasks.settings(path, **flags))
    return task, read_rows(task, "", "train")


@pytest.mark.parametrize("quoting", ["standard", "none"])
def test_byte_order_marks_of_files_that_were_joined_are_no_text(tmp_path, quoting):
    """The mark of the second one was a part of its first label."""
    columns = {"text_a_column": "2", "label_column": "1", "header": "none"}
    content = 2 * "\ufeffpos,a\nneg,b\n"
    task, rows = trained(tmp_path, content, **columns, quoting=quoting)
    assert task.labels == ("neg", "pos") and len(rows) == 4


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("name", ["x.jsonl", "x.csv"])
def test_a_label_is_text(tmp_path, caplog, name, multi_label):
    """One of half a character ended in a traceback when labels were written."""
    lines = {
        "x.jsonl": [
            f'{{"text": "a", "label": "{label}"}}' for label in ("x", "té", "\\ud83d")
        ],
        "x.csv": ["text,label", "a,x", "b,té", "c,caf\udce9"],
    }[name]
    tasks.write(tmp_path, name, *lines)
    flags = {"text_a_column": "text", "multi_label": multi_label, "on_error": "skip"}
    task = known.resolve_task(tasks.settings(tmp_path / name, dev_share=0.0, **flags))
    assert task.labels == ("té", "x")
    assert f"{name}:{len(lines)}: found bytes or escapes" in caplog.text


@pytest.mark.parametrize(
    "flags", [{"label_column": "A,A", "multi_label": True}, {"choice_columns": "A,A"}]
)
def test_a_column_that_is_named_twice_is_refused(tmp_path, flags):
    with pytest.raises(UserError, match="found 'A,A', expected columns that differ"):
        trained(tmp_path, "text,A,label\na,1,A\nb,0,A\n", **flags)


# --- Lines


@pytest.mark.parametrize("name", ("utf-8", "utf-8-sig", "utf-16", "gb18030"))
def test_lines_are_those_of_any_encoding(name, tmp_path):
    path = tmp_path / "x"
    for text in ("a\nb", "\n\n a\r\n\n\r\nb\n", "\u2028é文😀\x85\n\x0c|\n" * 9):
        path.write_bytes(text.encode(name))
        given = None if name.startswith("utf-8") else name
        expected = io.StringIO(text, newline="\n").readlines()
        assert list(forms.lines(str(path), "text", given)) == expected


def test_a_quotation_mark_that_is_not_closed_is_refused_early(tmp_path, monkeypatch):
    """Not at the end of the file, however long that is."""
    monkeypatch.setattr(forms, "LONGEST_CELL", 100)
    path = tmp_path / "x.csv"
    path.write_text('text,label\nfine,1\n"open,0\n' + "fine,1\n" * 50)
    with pytest.raises(UserError, match=r"x.csv:3: found .*limit.*--quoting"):
        list(forms.read(str(path), Form("csv"), "rows"))


@pytest.mark.parametrize("name", WRITERS)
def test_the_standard_input_is_read_as_a_file_is(monkeypatch, tmp_path, name):
    path = tmp_path / "x"
    path.write_bytes(WRITERS[name]([["a b", "1"], ["c", "0"]] * 20, random.Random(0)))
    with open(path) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        piped = [cells for _, cells in forms.read("-", Form(name), "rows")]
    found = [cells for _, cells in forms.read(str(path), Form(name), "rows")]
    assert piped == found and len(found) == 40
