"""Tables as people have them: inputs of public reports, read as what they are or refused in one
line; which file is which split; metrics as scikit-learn and trec_eval have them.

The files in tests/reports/ are small ones that have the property that a report is about.
"""

import datetime
import decimal
import gzip
import json
import shutil
import sys
from functools import partial

import numpy as np
import pytest
from helpers import tasks
from helpers.paths import GOLDEN, ROOT
from helpers.tasks import read_rows
from sklearn import metrics as sklearn_metrics

from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.support.errors import UserError
from xlnet.tasks import known
from xlnet.tasks.known import TASKS

REPORTS = ROOT / "tests" / "reports"


def resolve(data_dir, group=ClassifierSettings, **changes):
    """The task of a run on these files."""
    column = {"text_a_column": "text"} if group is ClassifierSettings else {}
    return known.resolve_task(tasks.settings(data_dir, group, **{**column, **changes}))


def read(path, **changes):
    """(labels, [(text, label), ...]) of a file to train on."""
    task = resolve(path, dev_share=0.0, **changes)
    rows = read_rows(task, str(path), "train")
    return task.labels, [(row.pairs[0][0], row.label) for row in rows]


# ---- what is in a file

GERMAN = dict(text_a_column="Text", label_column="Urteil")
# file: (settings, labels, number of examples, the first ones)
READ = {
    "old_encodings_and_sep_line/cp.csv": (
        dict(GERMAN, encoding="cp1252", delimiter=";"),
        ("gut", "schlecht"),
        12,
        [("Guter Tag; schön", "gut"), ('Er sagte "nein"', "schlecht")],
    ),
    "quoted_cells_in_tsv/quoted_labels.tsv": (
        {},
        ("Art", "Law", 'Law, "hard" cases'),
        16,
        [('He said "no" to it', 'Law, "hard" cases'), ("fine, thanks", "Art")],
    ),
    "backslashes_and_trailing_commas/trail.csv": ({}, ("a", "b"), 20, [("two 0", "a")]),
}


@pytest.mark.parametrize("name", READ)
def test_a_report_is_read(name):
    changes, labels, count, first = READ[name]
    found, rows = read(REPORTS / name, **changes)
    assert (found, len(rows), rows[: len(first)]) == (labels, count, first)


MANY = dict(multi_label=True)
# What is in the file, the settings, and the examples: the kinds of the reports in other spellings.
FORMS = {
    "line break in a quoted cell": (
        "t.tsv",
        'text\tlabel\n"a\nb ""c"""\tx\nd\ty\n',
        {},
        [('a\nb "c"', "x"), ("d", "y")],
    ),
    "quotation marks that are text": (
        "t.tsv",
        'text\tlabel\n"a" b\tx\n"c"\ty\n"d "" e\ty\n',
        dict(quoting="none"),
        [('"a" b', "x"), ('"c"', "y"), ('"d "" e', "y")],
    ),
    "a byte order mark, and the encoding": (
        "t.csv",
        "\ufefftext,label\na,x\nb,y\n",
        dict(encoding="UTF8"),
        [("a", "x"), ("b", "y")],
    ),
    "empty rows": (
        "t.csv",
        "\ntext,label\n,,\na,x\n\n,\nb,y\n , \n",
        {},
        [("a", "x"), ("b", "y")],
    ),
    "a list with an integer of more than 64 bits, and NaN": (
        "t.json",
        '[{"text": "a", "label": "x"},\n{"text": "b", "label": "y", "n": NaN, "id": %s}]'
        % 10**30,
        {},
        [("a", "x"), ("b", "y")],
    ),
    "labels called label_0, and none": (
        "t.jsonl",
        '{"text": "a", "label": ["label_0"]}\n{"text": "b", "label": []}\n'
        '{"text": "c", "label": ["label_1"]}\n',
        MANY,
        [("a", ("label_0",)), ("b", ()), ("c", ("label_1",))],
    ),
    "columns of 0 and 1 with gaps": (
        "t.csv",
        "text,x,y\na,1.0,0.0\nb,True,1\n",
        dict(MANY, label_column="x,y"),
        [("a", ("x",)), ("b", ("x", "y"))],
    ),
    "a label in two forms of Unicode": (
        "t.csv",
        "text,label\na,caf\u00e9\nb,cafe\u0301\nc,y\n",
        {},
        [("a", "caf\u00e9"), ("b", "caf\u00e9"), ("c", "y")],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_table(tmp_path, form):
    """Compressed, as the names say; others are plain in the tests of each form."""
    name, content, changes, expected = FORMS[form]
    path = tmp_path / (name + ".gz")
    path.write_bytes(gzip.compress(content.encode()))
    assert read(path, **changes)[1] == expected


def test_parquet(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "train.parquet"
    table = {"text": ["a", "b"], "label": [["x"], ["x", "y"]]}
    parquet.write_table(pyarrow.table(table), path)
    assert read(path, **MANY) == (("x", "y"), [("a", ("x",)), ("b", ("x", "y"))])
    assert resolve(tmp_path, **MANY).files.by_split["train"] == "train.parquet"
    table = {"text": [b"hello", b"\xff"], "label": [["x", "y"]] * 2}
    table["day"] = [datetime.date(2026, 1, 2)] * 2
    table["cost"] = [decimal.Decimal("1.50")] * 2
    parquet.write_table(pyarrow.table(table), path)
    how = dict(MANY, text_a_column="text,day,cost", on_error="skip")
    assert read(path, **how)[1] == [("hello 2026-01-02 1.50", ("x", "y"))]
    with pytest.raises(UserError, match="train.parquet: row 2: found bytes"):
        read(path, **MANY)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match="train.parquet: .*pip install pyarrow"):
        read(path, **MANY)


# What is wrong: the file, what is in it unless it is one of the reports', and the settings.
REFUSED = {
    "no UTF-8": (
        "old_encodings_and_sep_line/ru_cp1251.csv",
        "",
        {},
        "ru_cp1251.csv:2: .*--encoding",
    ),
    "one key twice": (
        "t.jsonl",
        '{"text": "a", "label": "x", "label": "y"}\n',
        {},
        "t.jsonl:1: .*the key 'label' twice",
    ),
    "a line of JSON that is cut off": (
        "t.jsonl",
        '{"text": "a", "lab',
        {},
        "t.jsonl:1: not valid JSON",
    ),
    "a label that is NaN among labels": (
        "t.jsonl",
        '{"text": "a", "label": "x"}\n{"text": "b", "label": NaN}\n',
        MANY,
        "t.jsonl:2: no 'label'",
    ),
    "a number in Python's own form": (
        "t.csv",
        "text,label\na,1_0\nb,2\n",
        dict(is_regression=True),
        "t.csv:2: column 'label': '1_0', expected a number",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(tmp_path, name):
    file, content, changes, message = REFUSED[name]
    path = tmp_path / file if content else REPORTS / file
    if content:
        path.write_text(content)
    with pytest.raises(UserError, match=message) as e:
        read(path, **changes)
    assert "\n" not in str(e.value)


# ---- which file is which split


def make(directory, *names):
    """Files of 20 examples."""
    for name in names:
        rows = [f"{name} {i},x\n{name} {i + 1},y\n" for i in range(0, 20, 2)]
        (directory / name).write_text("text,label\n" + "".join(rows))


@pytest.mark.parametrize(
    "name", ["dev.csv", "validation.csv", "validation-00000-of-00001.csv"]
)
def test_names_of_the_validation_file(tmp_path, name):
    make(tmp_path, "train.csv", name, "test.csv")
    found = resolve(tmp_path).files
    expected = {"train": "train.csv", "dev": name, "test": "test.csv"}
    assert (found.by_split, found.dev_share) == (expected, 0.0)
    for group in (SpanSettings, TaggerSettings):
        assert known._own_files(tasks.settings(tmp_path, group))["dev"] == name


@pytest.mark.parametrize(
    "names, flag",
    [
        (("train.csv", "a.train"), "--train_file"),
        (("a.test", "b.test"), "--predict_file"),
    ],
)
def test_two_files_of_a_split_are_refused(tmp_path, names, flag):
    make(tmp_path, *names)
    with pytest.raises(
        UserError, match=f"found .* and .*, expected one of them; {flag}"
    ):
        resolve(tmp_path)


def test_a_missing_file_lists_the_names_that_are_read(tmp_path):
    make(tmp_path, "development.csv")
    with pytest.raises(UserError, match="no such file: .*train.csv.*--train_file"):
        resolve(tmp_path)


def test_named_files(tmp_path):
    make(tmp_path, "a1.csv", "a2.csv", "b.csv")
    shutil.copy(tmp_path / "b.csv", tmp_path / "d,e.csv")
    at = str(tmp_path / "%s")
    task = resolve("", train_file=at % "a*.csv", dev_file=at % "b.csv")
    rows = read_rows(task, "", "train")
    assert [row.id for row in rows] == [str(i) for i in range(40)]
    assert len(read_rows(task, "", "dev")) == 20
    alone = resolve("", train_file=at % "a1.csv").files
    assert (list(alone.by_split), alone.dev_share) == (["train"], 0.1)
    over = resolve(tmp_path, train_file=at % "a1.csv", dev_file=at % "b.csv").files
    assert over.by_split["dev"] == at % "b.csv" and "test" in over.by_split
    found = resolve("", train_file=at % "d,e.csv").files
    assert found.by_split == {"train": at % "d,e.csv"}
    with pytest.raises(UserError, match="dev_file: found no such file: .*d.csv, exp"):
        resolve("", train_file=at % "a1.csv", dev_file=at % "d.csv")


def test_all_examples_of_one_file_are_evaluated_where_nothing_is_trained(tmp_path):
    make(tmp_path, "new.csv")
    evaluated = tasks.settings(
        tmp_path / "new.csv", text_a_column="text", do_train=False, do_eval=True
    )
    task = known.resolve_task(evaluated, stored={"labels": ["x", "y"]})
    assert len(read_rows(task, "", "dev")) == 20
    task = resolve(tmp_path / "new.csv")
    sizes = [len(read_rows(task, "", split)) for split in ("train", "dev")]
    assert sum(sizes) == 20 and 1 <= sizes[1] <= 5


ENTITY = b'{"text": "%s is", "entities": [{"start": 0, "end": 4, "label": "LOC"}]}\n'


@pytest.mark.parametrize(
    "group, name, content",
    [
        (ClassifierSettings, "t.csv", b"text,label\na,x\n,y\nb,y\n"),
        (TaggerSettings, "t.txt", b"Eva B-P\n\nR\xf6me B-L\nran O\n\nBonn B-L\n"),
        (TaggerSettings, "t.jsonl", 3 * ENTITY % (b"Bonn", b"R\xf6me", b"Rome")),
        (SpanSettings, "t.csv", b"context,question,answer\na b,q,a\n,q,b\na b,q,b\n"),
    ],
)
def test_faulty_rows_are_skipped_and_counted(tmp_path, caplog, group, name, content):
    (tmp_path / name).write_bytes(content)
    task = resolve(tmp_path / name, group, on_error="skip", dev_share=0.0)
    assert len(read_rows(task, "", "train")) == 2
    assert "skipped" in caplog.text and name in caplog.text
    with pytest.raises(UserError):
        read_rows(resolve(tmp_path / name, group, dev_share=0.0), "", "train")


# ---- metrics


def test_a_metric_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def share(labels, predictions, probabilities):\n    return probabilities[:, 1].mean()\n"
    )
    (tmp_path / "train.csv").write_text("text,label\na,x\nb,y\n")
    own = "%s:share" % (tmp_path / "mine.py")
    names = own + ",sklearn.metrics:cohen_kappa_score"
    task = resolve(tmp_path, metric=names, dev_share=0.0)
    values, truth = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]), np.array([0, 1, 0])
    found = task.evaluate(values, truth, 0.5)
    assert list(found)[:3] == ["share", "cohen_kappa_score", "accuracy"]
    assert found["share"] == pytest.approx(0.5)
    kappa = sklearn_metrics.cohen_kappa_score(truth, [0, 1, 1])
    assert found["cohen_kappa_score"] == pytest.approx(kappa)
    for wrong in ("nowhere.py:f", "%s:other" % (tmp_path / "mine.py"), "no.such:f"):
        with pytest.raises(UserError, match="metric: "):
            resolve(tmp_path, metric=wrong, dev_share=0.0)


@pytest.mark.parametrize(
    "body, message",
    [
        ("raise KeyError('gone')", "KeyError: 'gone'"),
        ("return labels", "TypeError: only "),
    ],
)
def test_a_metric_that_fails_is_named(tmp_path, body, message):
    (tmp_path / "mine.py").write_text(f"def share(labels, predictions):\n    {body}\n")
    own = "%s:share" % (tmp_path / "mine.py")
    task = known.with_metric(TASKS["rte"], own)
    with pytest.raises(UserError, match="metric: found .*mine.py:share': " + message):
        task.evaluate(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]), 0.5)


@pytest.mark.parametrize("number", range(30))
def test_measures_of_rankings_are_trec_evals(tmp_path, number):
    """The golden values are those of pytrec_eval-terrier 0.5.11."""
    case = json.loads((GOLDEN / "trec_eval.json").read_text())[number]
    run, qrels = case["run"], case["qrels"]
    write = partial(tasks.write, tmp_path)
    write("dev.run", *(f"q Q0 {name} 0 {score} x" for name, score in run.items()))
    write("dev.qrels", *(f"q 0 {name} {grade}" for name, grade in qrels.items()))
    write("queries.tsv", "q\tquery")
    write("documents.tsv", *(f"{name}\ttext" for name in run))
    task = known.with_metric(TASKS["ranking"], ",".join(case["measures"]))
    rows = read_rows(task, str(tmp_path), "dev")
    values = np.array([run[row.id] for row in rows])
    result = task.evaluate(values, task.gold(rows), 0.5)
    for name, value in case["measures"].items():
        # Without any relevant document trec_eval has 0, and we have no value.
        found = result[name] if max(qrels.values()) > 0 else 0
        assert found == pytest.approx(value, abs=1e-6)
