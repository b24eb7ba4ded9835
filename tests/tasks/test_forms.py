"""Each form of file: what a standard writer writes is read back equal, or refused; so are damaged
files; and what a file looks like never changes what is read."""

import csv
import dataclasses
import gzip
import inspect
import io
import json
import random
import re
import types

import pytest
from helpers import tasks
from helpers.paths import ROOT
from helpers.tasks import read_rows

from xlnet.errors import UserError
from xlnet.finetuning.data import TaskData
from xlnet.model_directory.task_settings import FineTunedTask
from xlnet.tasks.files import diagnosis, forms, parsing, readers
from xlnet.tasks.files.decoding import Lines
from xlnet.tasks.task import Form
from xlnet.tasks.types import custom

NAMES = ["text", "label", "more"]
# Characters that some form gives a meaning, and some that only look so.
PIECES = [
    *("a", "b", "Z", " ", "0", "1", ".", ",", ";", "\t", "|", '"', "'", "\\", "\n", "\r", "\r\n"),
    *("{", "}", "[", "]", ":", "#", "é", "字", "😀", "\u2028", "\x0b", "\x1c", "\x85", "\ufeff"),
    *("__label__", "text", "sep=;", "\0"),
]


class Refused(Exception):
    """The file has an error."""


def records(content, name, **declared):
    """The records of a file; raises Refused if it, or one of them, has an error."""
    try:
        lines = Lines("x." + name, lambda: io.BytesIO(content))
        table = forms.FORMS[name]("x." + name, lines, Form(name, **declared))
        found = [cells for _, cells in table.rows]
    except UserError as e:
        raise Refused(str(e)) from None
    if any(isinstance(cells, str) for cells in found):
        raise Refused(next(cells for cells in found if isinstance(cells, str)))
    if table.columns is not None and list(table.columns) != NAMES[: len(table.columns)]:
        raise Refused("other columns")
    return found


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


def as_tsv(rows, rng):
    return as_csv(rows, rng, "\t")


def as_jsonl(rows, rng):
    escapes = rng.random() < 0.5
    values = [dict(zip(NAMES, row)) for row in rows]
    return "".join(json.dumps(value, ensure_ascii=escapes) + "\n" for value in values).encode()


def as_json(rows, rng):
    values = [dict(zip(NAMES, row)) for row in rows]
    document = rng.choice([values, {"data": values}])
    return json.dumps(
        document, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1])
    ).encode()


WRITERS = {"csv": as_csv, "tsv": as_tsv, "jsonl": as_jsonl, "json": as_json}
COUNTS = [300, pytest.param(10000, marks=pytest.mark.slow)]


def lists(found):
    return [list(cells.values()) if isinstance(cells, dict) else cells for cells in found]


def without_ends(rows):
    """A carriage return before the line feed that ends a record belongs to that end; before 3.13,
    Python's writer leaves such cells without quotation marks. Byte order marks at the beginning of
    a line are no text."""
    found = []
    for row in rows:
        cells = [re.sub("([\r\n])\ufeff+", r"\1", cell) for cell in row]
        cells[0] = cells[0].lstrip("\ufeff")
        cells[-1] = cells[-1].rstrip("\r")
        found.append(cells)
    return found


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("quoting", [None, "standard"])
@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_is_read_back_equal_or_refused(name, quoting, count):
    rng, equal = random.Random(f"{name} {quoting}"), 0
    for _ in range(count):
        rows = random_table(rng)
        content = WRITERS[name](rows, rng)
        try:
            found = lists(records(content, name, quoting=quoting))
        except Refused:
            continue
        if name in ("csv", "tsv"):
            found, rows = map(without_ends, (found, rows))
        assert found == rows, content
        equal += 1
    assert equal > 0.6 * count


@pytest.mark.parametrize("count", COUNTS)
def test_cells_without_quotation_marks_are_read_back_equal_or_refused(count):
    rng, equal = random.Random(0), 0
    for _ in range(count):
        rows = random_table(rng)
        if any(mark in cell for row in rows for cell in row for mark in "\t\n"):
            continue
        content = "".join("\t".join(row) + "\n" for row in [NAMES[: len(rows[0])], *rows]).encode()
        try:
            found = records(content, "tsv", quoting="none")
        except Refused:
            continue
        assert found == without_ends(rows), content
        equal += 1
    assert equal > 0.1 * count


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", WRITERS)
def test_a_damaged_byte_changes_at_most_its_record_or_is_refused(name, count):
    """No other record is lost, joined, divided or moved; one that has become blank, or a blank line
    that was added, is left out with a number in training, and refused in predicting."""
    rng, read = random.Random(name), 0
    letters = [piece for piece in PIECES if piece not in ("\0", "\r", "\r\n", "\ufeff")]
    while read < count / 3:
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
        found = [cells for cells in lists(found) if not forms.is_blank(cells)]
        assert len(rows) - 1 <= len(found) <= len(rows), bytes(content)
        if len(found) == len(rows):
            assert sum(one != other for one, other in zip(found, rows)) <= 1, bytes(content)
        else:
            assert any(rows[:i] + rows[i + 1 :] == found for i in range(len(rows)))


# ---- what a file looks like


SMALL = {
    "names that are not there": ("t.csv", "a;b\n1;x\n2;y\n", {}),
    "another delimiter": ("t.csv", "text;label\na;x\nb;y\n", {}),
    "no names": ("t.csv", "1,5;a\n2,5;b\n", dict(text_a_column="2", label_column="1")),
    "a record over lines": ("t.csv", 'text,label\n"a,x\nb",y\nc,x\n', {}),
    "a mark within a cell": ("t.tsv", 'text\tlabel\na "b" c\tx\nd\ty\n', {}),
    "backslashes": ("t.csv", 'text,label\n"a \\"b\\"",x\nc,y\n', {}),
    "JSON lines in .txt": ("t.txt", '{"text": "a", "label": "x"}\n', {}),
    "JSON lines in .json": ("t.json", '{"text": "a", "label": "x"}\n{"text": "b"}\n', {}),
    "rejected rows": ("t.csv", "text,label,answer\na,x,accept\nb,y,reject\n", {}),
    "lists of labels": ("t.csv", "text,label\na,\"['x', 'y']\"\nb,[]\n", dict(multi_label=True)),
    "0 and 1": ("t.csv", 'text,label\na,"0,1"\nb,"1,1"\n', dict(multi_label=True)),
    "UTF-16": ("t.csv", "text,label\na,x\nb,y\n".encode("utf-16-le").decode("latin-1"), {}),
    "good": ("t.csv", "text,label\na,x\nb,y\n", {}),
}


def outcome(path, to_predict, flags):
    """The rows of a file, or None if it is refused."""
    try:
        flags = {"text_a_column": "text", **flags}
        if not to_predict:
            task = custom.resolve_task(tasks.settings(path, dev_share=0.0, **flags))
            return task.labels, list(read_rows(task, "", "train"))
        settings = tasks.settings("", do_train=False, do_predict=True, **flags)
        task = custom.resolve_task(settings, {"labels": ["x", "y"]})
        return list(parsing.read_to_predict(task, str(path)))
    except UserError:
        return None


def inputs(tmp_path):
    for name, (file, content, flags) in SMALL.items():
        (tmp_path / name).mkdir()
        path = tmp_path / name / file
        path.write_bytes(content.encode("latin-1"))
        yield path, flags
    for path in sorted((ROOT / "tests" / "reports").glob("*/*.[ctj]*")):
        if path.name != "case.json":
            yield path, {}
            yield path, {"text_a_column": "2", "label_column": "1"}


def test_what_a_file_looks_like_never_changes_what_is_read(tmp_path, monkeypatch):
    """`diagnosis` words errors and refuses; it does not choose another meaning."""
    files = list(inputs(tmp_path))
    with_it = [outcome(path, both, flags) for path, flags in files for both in (False, True)]
    functions = [
        name
        for name, value in inspect.getmembers(diagnosis, callable)
        if name.startswith(("of_", "refuse_"))
    ]
    assert len(functions) > 12
    for name in functions:
        nothing = "" if name.startswith("of_") else None
        monkeypatch.setattr(diagnosis, name, lambda *_, nothing=nothing: nothing)
    without = [outcome(path, both, flags) for path, flags in files for both in (False, True)]
    assert any(one is not None for one in with_it)
    assert sum(one is None is not other for one, other in zip(with_it, without)) > 5
    for (path, _), one, other in zip([f for f in files for _ in range(2)], with_it, without):
        assert one is None or one == other, path


# ---- as many predictions as records


@pytest.mark.parametrize("name", WRITERS)
def test_there_are_as_many_predictions_as_records(tmp_path, name):
    rng = random.Random(name)
    task = custom.resolve_task(
        tasks.settings("", text_a_column="text", do_train=False, do_predict=True, on_error="skip"),
        stored={"labels": ["x", "y"]},
    )
    read = 0
    for _ in range(60):
        rows = random_table(rng, pieces=[piece for piece in PIECES if piece not in ("\0", "\r")])
        blanks = rng.randint(0, 2)
        rows += [[""] * len(rows[0])] * blanks
        path = tmp_path / f"new.{name}"
        path.write_bytes(WRITERS[name](rows, rng))
        try:
            found = parsing.read_to_predict(task, str(path))
        except UserError:
            continue
        assert len(found) == len(rows)
        has_text = [bool(row[0].strip()) for row in rows]
        assert [bool(row.pairs) for row in found] == has_text, path.read_bytes()
        read += 1
    assert read > 20


# ---- any content, any flags


FLAGS = {
    "quoting": ["none", "standard"],
    "header": ["none", "names"],
    "delimiter": [";", "tab"],
    "encoding": ["cp1252", "utf-16"],
    "input_format": ["csv", "tsv", "jsonl", "json", "fasttext", "text"],
    "keep_where": ["label=a"],
    "on_error": ["skip"],
}
LABELS = [
    {},
    {"label_form": "names"},
    {"is_regression": True, "decimal": ","},
    *({"multi_label": True, "label_form": form} for form in ("json", "python", "indicators", None)),
]
BEGINNINGS = [
    *("", "text,label\n", "text\tlabel\n", '{"text": "a", "label": "x"}\n', '[{"text": "a"},'),
    *("text,label\na,x\nb,y\n", "text\tlabel\na\tx\nb\ty\n"),
]


@pytest.mark.parametrize("count", [400, pytest.param(8000, marks=pytest.mark.slow)])
def test_any_content_with_any_flags_is_read_or_refused_in_a_line(tmp_path, count):
    rng, read = random.Random(0), 0
    for number in range(count):
        path = tmp_path / ("t." + rng.choice(["csv", "tsv", "json", "jsonl", "txt"]))
        content = rng.choice(BEGINNINGS) + "".join(
            rng.choices(PIECES, k=rng.randint(0, 40) * rng.randint(0, 1))
        )
        path.write_bytes(content.encode() + rng.choice([b"", b"", b"\xc3", b"\xed\xa0\xbd"]))
        flags = {name: rng.choice(each) for name, each in FLAGS.items() if rng.random() < 0.1}
        flags["text_a_column"] = rng.choice(["text", "text", "text", "1"])
        try:
            if number % 2:
                more = rng.choice(LABELS)
                task = custom.resolve_task(tasks.settings(path, dev_share=0.0, **flags, **more))
                rows = read_rows(task, "", "train")
            else:
                settings = tasks.settings("", do_train=False, do_predict=True, **flags)
                task = custom.resolve_task(settings, {"labels": ["x", "y"]})
                rows = parsing.read_to_predict(task, str(path))
            read += len(rows) > 0
        except UserError as e:
            assert "\n" not in str(e) and str(path) in str(e), (content, flags)
    assert read > 0.01 * count


# ---- single cases


def trained(directory, content, name="x.csv", **flags):
    """The task of a train file, and its rows."""
    (directory / name).write_text(content)
    flags = {"text_a_column": "text", "dev_share": 0.0, **flags}
    task = custom.resolve_task(tasks.settings(directory / name, **flags))
    return task, read_rows(task, "", "train")


def test_byte_order_marks_of_files_that_were_joined_are_no_text(tmp_path):
    """The mark of the second one was a part of its first label."""
    columns = {"text_a_column": "2", "label_column": "1", "header": "none"}
    for quoting in ("standard", "none"):
        task, rows = trained(
            tmp_path, 2 * "\ufeffpos,a\nneg,b\n", **columns, quoting=quoting, encoding="utf-8"
        )
        assert task.labels == ("neg", "pos") and len(rows) == 4
    _, rows = trained(
        tmp_path, 2 * '\ufeff{"text": "a", "label": 0}\n{"text": "b", "label": 1}\n', "x.jsonl"
    )
    assert len(rows) == 4


def test_names_of_columns_in_another_form_of_unicode_are_no_row(tmp_path):
    """Those of the second one of two files that were joined."""
    names = "gro\u0308\u00dfe,text,label\n"
    with pytest.raises(UserError, match="x.csv:4: the names of the columns again"):
        trained(tmp_path, f"{names}1,a,x\n2,b,y\n{names}3,c,x\n")


@pytest.mark.parametrize("quoting", ["none", "standard"])
def test_a_carriage_return_within_a_line_is_refused(tmp_path, quoting):
    """Rows of old Macs within a file of others were one row."""
    (tmp_path / "x.tsv").write_bytes(b"text\tlabel\na\rb\tx\nc\ty\n")
    flags = {"text_a_column": "text", "dev_share": 0.0, "quoting": quoting}
    with pytest.raises(UserError, match="x.tsv:2: .*a carriage return in"):
        custom.resolve_task(tasks.settings(tmp_path / "x.tsv", **flags))


@pytest.mark.parametrize("quoting", ["none", "standard"])
def test_lines_of_old_macs_have_their_own_errors(tmp_path, quoting):
    """A byte that is no character hid where they end: they were one line."""
    path = tmp_path / "x.tsv"
    path.write_bytes("é\tx\rb\ty\r".encode() + b"caf\xe9\tx\r" + "é é\ty\r".encode())
    flags = {"text_a_column": "1", "label_column": "2", "header": "none", "quoting": quoting}
    with pytest.raises(UserError, match="x.tsv:3: not UTF-8"):
        custom.resolve_task(tasks.settings(path, dev_share=0.0, **flags))
    task = custom.resolve_task(tasks.settings(path, dev_share=0.0, on_error="skip", **flags))
    assert [row.label for row in read_rows(task, "", "train")] == ["x", "y", "y"]


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("name", ["x.jsonl", "x.csv"])
def test_a_label_is_text(tmp_path, caplog, name, multi_label):
    """One of half a character ended in a traceback when labels were written."""
    lines = {
        "x.jsonl": [f'{{"text": "a", "label": "{label}"}}' for label in ("x", "té", "\\ud83d")],
        "x.csv": ["text,label", "a,x", "b,té", "c,caf\udce9"],
    }[name]
    tasks.write(tmp_path, name, *lines)
    flags = {"text_a_column": "text", "multi_label": multi_label, "on_error": "skip"}
    task = custom.resolve_task(tasks.settings(tmp_path / name, dev_share=0.0, **flags))
    assert task.labels == ("té", "x")
    assert f"{name}:{len(lines)}: not UTF-8: bytes or escapes" in caplog.text


def test_numbers_of_columns_are_cells_like_others(tmp_path):
    """A row "1,2" of a file without names is not its names again."""
    rows = "1,2\nx,2\ny,1\n1,2\n"
    columns = {"text_a_column": "1", "label_column": "2", "header": "none"}
    _, found = trained(tmp_path, rows, **columns)
    assert [(row.pairs[0][0], row.label) for row in found] == [
        ("1", "2"),
        ("x", "2"),
        ("y", "1"),
        ("1", "2"),
    ]


@pytest.mark.parametrize("name, flags", [("x.parquet", {}), ("x.csv", {"input_format": "parquet"})])
def test_what_is_called_parquet_and_is_none_is_refused(tmp_path, name, flags):
    pytest.importorskip("pyarrow")
    with pytest.raises(UserError, match=f"{name}: not a Parquet file"):
        trained(tmp_path, "text,label\na,b\n", name, **flags)


def test_parquet_that_cannot_be_read_as_it_is_names_the_column(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "x.parquet"

    def task_of(names, *more):
        columns = [pyarrow.array(["a", "b"]), pyarrow.array(["x", "y"]), *more]
        parquet.write_table(pyarrow.table(columns, names=names), path)
        return custom.resolve_task(tasks.settings(path, text_a_column="text", dev_share=0.0))

    other = pyarrow.array(["z", "w"])
    assert task_of(["text", "label", "labels"], other).labels == ("x", "y")
    with pytest.raises(UserError, match="x.parquet: 2 columns are called 'label'; expected one"):
        task_of(["text", "label", "label"], other)
    for number, kind in (
        (2**60, pyarrow.timestamp("us")),
        (1, pyarrow.timestamp("us", tz="No/No")),
    ):
        times = pyarrow.array([number, 2], kind)
        with pytest.raises(UserError, match=r"column 'when' \(timestamp.*leave the column out"):
            task_of(["text", "label", "when"], times)


def test_ndjson_is_json_lines_to_predict(tmp_path):
    """A model that was trained on files in the declared form jsonl."""
    (tmp_path / "new.ndjson").write_text('{"text": "a"}\n')
    rows = '{"text": "a", "label": "0"}\n{"text": "b", "label": "1"}\n'
    task, _ = trained(tmp_path, rows, "x.txt", input_format="jsonl")
    (row,) = parsing.read_to_predict(task, str(tmp_path / "new.ndjson"))
    assert row.pairs[0][0] == "a"
    (tmp_path / "new.csv").write_text("text\na\n")
    with pytest.raises(UserError, match="--input_format=csv or --input_format=jsonl"):
        parsing.read_to_predict(task, str(tmp_path / "new.csv"))


@pytest.mark.parametrize("name", ["dev.csv", "dev.tsv", "dev.ndjson"])
def test_a_labelled_file_of_another_form_than_the_declared_one_is_refused(tmp_path, name):
    """It was read as rows without labels."""
    (tmp_path / name).write_text("text,label\nc,x\n")
    (tmp_path / "train.txt").write_text("__label__x a\n__label__y b\n__label__x __label__y c\n")
    flags = {"input_format": "fasttext", "multi_label": True}
    task = custom.resolve_task(tasks.settings(tmp_path, **flags))
    extension = name.partition(".")[2]
    with pytest.raises(UserError, match=f"{name}: the name says {extension}, .*, fasttext; expec"):
        read_rows(task, str(tmp_path), "dev")
    # Where all files have the extension, the flag is for them.
    (tmp_path / "train.txt").rename(tmp_path / f"train.{extension}")
    (tmp_path / name).write_text("__label__x c\n")
    task = custom.resolve_task(tasks.settings(tmp_path, **flags))
    assert [row.label for row in read_rows(task, str(tmp_path), "dev")] == [("x",)]


def test_a_split_to_predict_of_another_form_than_the_declared_one_is_refused(tmp_path):
    """Its labels were read as a part of the texts."""
    tasks.write(tmp_path, "train.txt", "a\tx", "b\ty")
    tasks.write(tmp_path, "test.csv", "c,x", "d,y")
    flags = {"text_a_column": "1", "label_column": "2", "header": "none", "dev_share": 0.0}
    flags.update(input_format="tsv", delimiter="tab")
    settings = tasks.settings(tmp_path, **flags)
    task = custom.resolve_task(settings)
    with pytest.raises(UserError, match="test.csv: the name says csv, .* give --input_format=csv"):
        read_rows(task, str(tmp_path), "test")
    # A flag of a command that does not train is for this file.
    asked = task.with_files(form=dataclasses.replace(task.files.form, delimiter=","))
    data = TaskData(FineTunedTask(asked, settings), None, "csv")
    assert [row.pairs[0][0] for row in data.to_predict()["test"]] == ["c", "d"]
    # Where all files have the extension, the flag is for them.
    (tmp_path / "train.txt").rename(tmp_path / "train.csv")
    tasks.write(tmp_path, "test.csv", "c\tx", "d\ty")
    task = custom.resolve_task(settings)
    assert [row.pairs[0][0] for row in read_rows(task, str(tmp_path), "test")] == ["c", "d"]


def test_a_tsv_file_to_predict_between_another_delimiter_than_tabs_is_refused(tmp_path):
    """A model keeps the delimiter of its train file; the line was one text, label and all."""
    columns = {"text_a_column": "1", "label_column": "2", "header": "none"}
    task, _ = trained(tmp_path, "a;x\nb;y\n", "train.csv", delimiter=";", **columns)
    tasks.write(tmp_path, "new.tsv", "c\tx", "d\ty")
    says = "new.tsv: the name says tsv, and --delimiter of the training data ';': give "
    with pytest.raises(UserError, match=f"{says}--delimiter=tab or --delimiter=';' where"):
        parsing.read_to_predict(task, str(tmp_path / "new.tsv"))
    flags = {"delimiter": "tab", "do_train": False, "do_predict": True, **columns}
    tabs = custom.resolve_task(tasks.settings("", **flags), {"labels": ["x", "y"]})
    rows = parsing.read_to_predict(tabs, str(tmp_path / "new.tsv"))
    assert [row.pairs[0][0] for row in rows] == ["c", "d"]
    tasks.write(tmp_path, "new.tsv", "c;x", "d;y")
    asked = task.with_files(has_delimiter_to_predict=True)
    for rows in (
        parsing.read_to_predict(task, str(tmp_path / "new.tsv"), "csv"),
        parsing.read_to_predict(asked, str(tmp_path / "new.tsv")),
    ):
        assert [row.pairs[0][0] for row in rows] == ["c", "d"]


@pytest.mark.parametrize("dev, other", [("dev.json", "test.txt"), ("dev.ndjson", "test.csv")])
def test_json_lines_may_be_called_json_whatever_lies_beside_them(tmp_path, dev, other):
    """A file that is not read, or JSON lines with their usual name, had training refused."""
    rows = ['{"text": "a", "label": "x"}', '{"text": "b", "label": "y"}']
    for name in ("train.json", dev, "new.json"):
        tasks.write(tmp_path, name, *rows)
    tasks.write(tmp_path, other, "text", "c")
    flags = {"input_format": "jsonl", "text_a_column": "text"}
    task = custom.resolve_task(tasks.settings(tmp_path, **flags))
    assert [len(read_rows(task, str(tmp_path), split)) for split in ("train", "dev")] == [2, 2]
    assert len(parsing.read_to_predict(task, str(tmp_path / "new.json"))) == 2
    tasks.write(tmp_path, "new.json", "[" + ",".join(rows) + "]")
    with pytest.raises(UserError, match="new.json.*: give --input_format=json$"):
        parsing.read_to_predict(task, str(tmp_path / "new.json"))


def test_numbers_of_json_have_no_decimal_mark(tmp_path):
    """A development file of JSON lines next to a table of a German spreadsheet."""
    rows = '{"text": "a", "label": 1.5}\n{"text": "b", "label": "2,5"}\n{"text": "c", "label": 3}\n'
    flags = {"is_regression": True, "decimal": ","}
    _, found = trained(tmp_path, rows, "x.jsonl", **flags)
    assert [row.label for row in found] == [1.5, 2.5, 3.0]
    strings = '{"text": "a", "label": "1.5"}\n{"text": "b", "label": "2,5"}\n'
    with pytest.raises(UserError, match="x.jsonl:1: column 'label': '1.5'.*--decimal='.'"):
        trained(tmp_path, strings, "x.jsonl", **flags)


@pytest.mark.parametrize("flag, expected", [("genre=face", ["b"]), ("", ["a", "b"])])
def test_rows_that_are_kept_of_a_published_set_are_those_of_its_task(tmp_path, flag, expected):
    """XNLI's development file has all languages."""
    rows = [("de", "a", "fiction"), ("de", "b", "face"), ("fr", "c", "face")]
    lines = [f"{language}\tneutral\t{text}\tz\t{text}\t{genre}" for language, text, genre in rows]
    names = "language\tgold_label\tsentence1\tsentence2\tpairID\tgenre"
    tasks.write(tmp_path, "xnli.dev.tsv", names, *lines)
    flags = {"task_name": "xnli-de", "keep_where": flag}
    task = custom.resolve_task(tasks.settings(tmp_path, **flags))
    found = read_rows(task, str(tmp_path), "dev")
    assert [row.pairs[0][0] for row in found] == expected


@pytest.mark.parametrize("end", ["", "] x"])
def test_a_damaged_list_of_json_is_not_called_a_table_by_columns(tmp_path, end):
    rows = '[{"text": "a", "label": "x"}, {"text": "b", "label": "y"}' + end
    with pytest.raises(UserError, match="x.json: not valid JSON: .*column") as error:
        trained(tmp_path, rows, "x.json")
    assert "to_json" not in str(error.value)


@pytest.mark.parametrize(
    "flags", [{"label_column": "A,A", "multi_label": True}, {"choice_columns": "A,A"}]
)
def test_a_column_that_is_named_twice_is_refused(tmp_path, flags):
    with pytest.raises(UserError, match="names 'A' twice"):
        trained(tmp_path, "text,A,label\na,1,A\nb,0,A\n", **flags)


def test_a_filter_has_one_value_for_a_column(tmp_path):
    """Of two, only the second one counted."""
    with pytest.raises(UserError, match="keep_where names 'lang' twice"):
        trained(tmp_path, "text,label,lang\na,1,en\nb,0,de\n", keep_where="lang=en,lang=de")


def test_a_filter_of_a_published_set_names_a_column_that_is_there(tmp_path):
    """A misspelt one filtered nothing, and said nothing."""
    names = "language\tgold_label\tsentence1\tsentence2\tpairID\tgenre"
    tasks.write(tmp_path, "xnli.dev.tsv", names, "de\tneutral\ta\tz\t1\tface")
    task = custom.resolve_task(
        tasks.settings(tmp_path, task_name="xnli-de", keep_where="gerne=face")
    )
    with pytest.raises(UserError, match="xnli.dev.tsv: no column 'gerne'.*genre.*--keep_where"):
        read_rows(task, str(tmp_path), "dev")


def test_a_filter_of_other_rows_than_those_of_a_published_set_is_refused(tmp_path):
    """German rows, of a file without the column, were trained on, and French ones evaluated."""
    settings = tasks.settings(tmp_path, task_name="xnli-de", keep_where="language=fr")
    with pytest.raises(UserError, match="language=fr, but the rows of task xnli-de .*language=de;"):
        custom.resolve_task(settings)


@pytest.mark.parametrize(
    "flag, expected",
    [("genre=face", ["a", "b"]), ("language=de", ["a", "b"]), ("gerne=face", ["a", "b"])],
)
def test_a_filter_of_rows_to_train_on_leaves_out_no_prediction(tmp_path, flag, expected):
    """That of a flag, which a model keeps, but not the one that a published set has."""
    names = "language\tgenre\tsentence1\tsentence2\tpairID"
    rows = [("de", "fiction", "a"), ("de", "face", "b"), ("fr", "face", "c")]
    lines = [f"{language}\t{genre}\t{text}\tz\t{text}" for language, genre, text in rows]
    tasks.write(tmp_path, "xnli.test.tsv", names, *lines)
    task = custom.resolve_task(tasks.settings(tmp_path, task_name="xnli-de", keep_where=flag))
    found = read_rows(task, str(tmp_path), "test")
    assert [row.pairs[0][0] for row in found] == expected


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_a_file_to_predict_that_misses_a_column_names_the_flag(tmp_path, name):
    rows = {"x.csv": "body\nb\n", "x.jsonl": '{"body": "b"}\n'}[name]
    task, _ = trained(tmp_path, "text,label\na,0\nb,1\n", "train.csv")
    (tmp_path / name).write_text(rows)
    with pytest.raises(UserError, match=f"{name}: no column 'text'.*body.*--text_a_column"):
        parsing.read_to_predict(task, str(tmp_path / name))


def test_a_tsv_file_without_a_column_is_not_read_as_one_column(tmp_path):
    """Its extension says the delimiter, which no flag has declared."""
    with pytest.raises(UserError, match=r"columns: a, b\); --text_a_column names it; if the first"):
        trained(tmp_path, "a\tb\nx\ty\n", "x.tsv")


def test_columns_that_nobody_named_between_another_delimiter(tmp_path):
    """A German spreadsheet, before its user looked at the flags of the columns."""
    with pytest.raises(
        UserError, match="one column, 'Nr;Text': give --delimiter=';' if.*; --text_a_column names"
    ):
        trained(tmp_path, "Nr;Text\n1;a\n")


@pytest.mark.parametrize("name", ["data", "version"])
def test_a_document_with_a_key_twice_is_refused(tmp_path, name):
    first = {"data": '[{"text": "a", "label": "x"}]', "version": "1"}[name]
    rows = f'{{"{name}": {first}, "data": [{{"text": "b", "label": "y"}}], "version": 2}}'
    with pytest.raises(UserError, match=f"x.json: the key '{name}' twice in an object"):
        trained(tmp_path, rows, "x.json")


def test_predictions_are_written_as_flags_and_the_file_declare(tmp_path):
    """Excel's line, its byte order mark and its code pages, also of a packed file."""
    task, _ = trained(tmp_path, "text;label\na;0\nb;1\n", "train.csv", delimiter=";")

    def form(content, name="new.csv", **flags):
        (tmp_path / name).write_bytes(content)
        settings = tasks.settings(tmp_path / "train.csv", text_a_column="text", **flags)
        its_task = custom.resolve_task(settings, {"labels": ["0", "1"], "kind": "classification"})
        found = readers.form_of_predictions(its_task, str(tmp_path / name))
        return found.delimiter, found.quoting, found.encoding, found.decimal

    flags = dict(do_train=False, do_predict=True, predict_file="-")
    assert form(b"text\na\n", **flags) == (None, None, None, ".")
    assert form(b"sep=;\ntext;n\na;1\n", **flags) == (";", None, None, ".")
    assert form(b"\xef\xbb\xbftext\na\n", **flags) == (None, None, "utf-8-sig", ".")
    assert form(b"sep=\t\r\ntext\tn\r\na\t1\r\n", **flags)[0] == "\t"
    assert form("text\na\n".encode("utf-16"), **flags) == (None, None, "utf-16", ".")
    assert form(gzip.compress(b"\xef\xbb\xbftext\n"), "new.csv.gz", **flags)[2] == "utf-8-sig"
    declared = dict(flags, delimiter=";", quoting="standard", encoding="cp1252", decimal=",")
    assert form(b"text;n\na;1\n", **declared) == (";", "standard", "cp1252", ",")


@pytest.mark.parametrize(
    "content, delimiter, encoding",
    [
        (b"text\na\n", None, None),
        (b"sep=;\ntext;n\na;1\n", ";", None),
        (b"\xef\xbb\xbfsep=;\ntext;n\na;1\n", ";", "utf-8-sig"),
        (gzip.compress("text\na\n".encode("utf-16"), mtime=0), None, "utf-16"),
    ],
)
def test_the_form_of_predictions_for_the_standard_input(
    tmp_path, monkeypatch, content, delimiter, encoding
):
    """What it declares itself was followed for files alone."""
    task, _ = trained(tmp_path, "text;label\na;0\nb;1\n", "train.csv", delimiter=";")
    task = task.with_files(form=Form("csv"))
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))
    rows = parsing.read_to_predict(task, "-")
    assert [row.pairs[0][0] for row in rows] == ["a"]
    found = readers.form_of_predictions(task, "-")
    assert (found.delimiter, found.encoding) == (delimiter, encoding)


def test_names_of_columns_are_declared_of_tables_alone(tmp_path):
    """A model that was trained on tables without names predicts texts, too."""
    task, _ = trained(tmp_path, "text\tlabel\na\t0\nb\t1\n", "train.tsv")
    task = task.with_files(form=Form(header="none"))
    for name, header in (("x.tsv", "none"), ("x.csv", "none"), ("x.txt", None), ("x.jsonl", None)):
        (tmp_path / name).write_text("a\n")
        assert readers.form_of_predictions(task, str(tmp_path / name)).header == header
