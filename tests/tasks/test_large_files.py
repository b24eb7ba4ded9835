"""Lines of any encoding, quotation marks that are not closed, and the standard input."""

import csv
import io
import json

import pytest

from xlnet.support.errors import UserError
from xlnet.tasks import known
from xlnet.tasks.files import forms
from xlnet.tasks.task import Form

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
        expected = io.StringIO(text, newline="\n").readlines()
        assert list(forms.lines(str(path), "text", given)) == expected


@pytest.mark.parametrize("task", (SST, SKIPPING))
def test_a_file_that_is_no_csv_is_refused_at_its_line(tmp_path, task):
    """Also where rows are skipped: what comes after the line may be anything."""
    path = tmp_path / "x.csv"
    path.write_text('sentence,label\nfine,1\n"a"b,1\nlast,0\n')
    with pytest.raises(UserError, match=r"x.csv:3: found .*--quoting"):
        task.reader.read(str(path), True)


def test_a_quotation_mark_that_is_not_closed_is_refused_early(tmp_path, monkeypatch):
    """Not at the end of the file, however long that is."""
    monkeypatch.setattr(forms, "LONGEST_CELL", 100)
    path = tmp_path / "x.csv"
    path.write_text('sentence,label\nfine,1\n"open,0\n' + "fine,1\n" * 50)
    with pytest.raises(UserError, match=r"x.csv:3: found .*limit.*--quoting"):
        SST.reader.read(str(path), True)


# ---- the standard input


def test_the_standard_input_is_read_as_a_file_is(monkeypatch, tmp_path):
    for form, make in FORMS.items():
        path = tmp_path / ("x." + form)
        path.write_text(make(rows_of(40)))
        task = SST.with_files(form=Form(name=form))
        with open(path) as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            piped = task.reader.read("-", True)
        assert piped == task.reader.read(str(path), True)
        assert len(piped) == 40
