"""Files of tasks: what is read from each form, what is refused, and the messages."""

import dataclasses
import io
import json

import numpy as np
import pytest
from helpers.tasks import read_rows, settings, write

from xlnet.support.errors import UserError
from xlnet.tasks import known
from xlnet.tasks.fields import Columns, Form, Row
from xlnet.tasks.files import forms, parsing
from xlnet.tasks.known import TASK_TYPES, TASKS


def rows_of(name, directory, split, **more):
    return read_rows(TASKS[name], str(directory), split, **more)


# The lines of a task's file; (id, text, second text, label) of each row.
FILES = {
    "cola dev.tsv": (
        ['gj04\t1\t\tHe "ran.', "gj04\t0\t*\tIt it."],
        [("0", 'He "ran.', None, "1"), ("1", "It it.", None, "0")],
    ),
    "cola test.tsv": (
        ["index\tsentence", "7\tShe sat."],
        [("7", "She sat.", None, None)],
    ),
    "yelp-5 test.csv": (
        ['"5","a ""b"", c', 'd"', '"1","x\\n\\ny \\""z\\"""'],
        [("0", 'a "b", c\nd', None, "5"), ("1", 'x  y "z"', None, "1")],
    ),
    "ag_news test.csv": (
        ['"3","A title","social\\network"', '"1","","text"'],
        [("0", "A title social network", None, "3"), ("1", "text", None, "1")],
    ),
    "tnews train.json": (
        [
            '{"label": "100", "sentence": "一", "keywords": "", "more": {"a": 1}}',
            '{"label": 116, "sentence": "二", "id": 7}',
        ],
        [("0", "一", None, "100"), ("7", "二", None, "116")],
    ),
}


@pytest.mark.parametrize("task_and_file", FILES)
def test_files_of_known_tasks(tmp_path, task_and_file):
    task, name = task_and_file.split()
    lines, expected = FILES[task_and_file]
    write(tmp_path, name, *lines)
    split, need_labels = name.partition(".")[0], expected[0][3] is not None
    rows = rows_of(task, tmp_path, split, need_labels=need_labels)
    assert rows == [
        Row(id, ((text, other),), label) for id, text, other, label in expected
    ]


def test_a_key_that_some_rows_of_json_lack_is_null_there(tmp_path):
    columns = Columns(("title", "text"), (), ("label",), id="id")
    task = TASK_TYPES["classification"]("custom", columns, ("0", "1"), ("accuracy",))
    first = '{"text": "a", "label": "0"}'
    write(
        tmp_path, "x.jsonl", first, '{"title": "b", "text": "c", "label": 1, "id": 7}'
    )
    assert task.read(str(tmp_path / "x.jsonl"), need_labels=True) == [
        Row("0", (("a", None),), "0"),
        Row("7", (("b c", None),), "1"),
    ]


# --- Other forms


def test_a_directory_of_texts(tmp_path):
    for label, name in (("pos", "10_7"), ("pos", "9_8"), ("neg", "0_1"), ("pos", "²1")):
        (tmp_path / "test" / label).mkdir(parents=True, exist_ok=True)
        write(tmp_path / "test" / label, name + ".txt", "A <br /><br />text.", "")
    rows = rows_of("imdb", tmp_path, "test", need_labels=True)
    assert [row.id for row in rows] == ["neg/0_1", "pos/9_8", "pos/10_7", "pos/²1"]
    assert [row.label for row in rows] == ["neg", "pos", "pos", "pos"]
    assert rows[0].pairs == (("A   text.", None),)
    (tmp_path / "test" / "neg" / "0_1.txt").write_text(" ")
    with pytest.raises(UserError, match="0_1.txt: found an empty file"):
        rows_of("imdb", tmp_path, "test")
    with pytest.raises(UserError, match="no such directory: .*train.neg"):
        (tmp_path / "train").mkdir()
        rows_of("imdb", tmp_path, "train")


def article_of(**changes):
    """An article of RACE, which may lack the answers."""
    article = dict(article="a", questions=["It is _ .", "Why?"], id="7")
    article["options"] = [list("wxyz")] * 2
    return json.dumps(dict(article, **changes), indent=1)


def test_articles_with_questions(tmp_path):
    for folder in ("middle", "high"):
        (tmp_path / "dev" / folder).mkdir(parents=True)
        content = article_of(answers=["B", "A"], id=folder)
        (tmp_path / "dev" / folder / "5.txt").write_text(content)
    rows = rows_of("race", tmp_path, "dev")
    assert [row.id for row in rows] == ["middle/0", "middle/1", "high/0", "high/1"]
    assert rows[0].pairs[1] == ("a", "It is x .")
    assert rows[1].pairs[3] == ("a", "Why? z")
    assert [row.label for row in rows] == ["B", "A"] * 2
    assert rows_of("race-middle", tmp_path, "dev") == rows[:2]
    assert len(rows_of("race-high", tmp_path, "dev")) == 2
    for content in ('{"article": "a", "questions": ["x"]}', article_of(answers=["B"])):
        (tmp_path / "dev" / "high" / "4.txt").write_text(content)
        with pytest.raises(UserError, match="4.txt: expected article, questions, and"):
            rows_of("race", tmp_path, "dev")


def test_a_cell_of_any_size_is_read(tmp_path):
    """Larger than the limit of Python's csv module, in the first row."""
    text = "a word " * 30000
    write(tmp_path, "test.csv", f'"5","{text}"')
    (row,) = rows_of("yelp-5", tmp_path, "test", need_labels=True)
    assert row.pairs == ((text, None),)


# --- Errors: content of the file, message

RTE = "index\tsentence1\tsentence2\tlabel\n"
ERRORS = {
    "empty file": ("rte", "", "dev.tsv: found an empty file"),
    "no label": ("rte", "sentence1\tsentence2\na\tb\n", "found no column 'label'"),
    "tab": ("rte", RTE + "0\ta\ta\tb\t-\n", "dev.tsv:2: 5 column(s), expected 4"),
    "bytes": ("rte", RTE + "0\t\udce9\tb\tentailment\n", "dev.tsv:2: found bytes or"),
    "return": ("yelp-5", '"5","a"\n"4",b\rc\n', "test.csv:2: found new-line character"),
    "list of lists": (
        "tnews",
        '{"label": "100", "sentence": [["x"]]}\n',
        "dev.json:1: column 'sentence' has a list of lists, expected texts or numbers",
    ),
    "a blank that JSON has not": (
        "tnews",
        '{"label": "100", "sentence": "x"}\xa0\n',
        "dev.json:1: not valid JSON: Extra data: column",
    ),
}


@pytest.mark.parametrize("error", ERRORS)
def test_error(error, tmp_path):
    name, content, message = ERRORS[error]
    content = content.encode("utf-8", "surrogateescape")
    split = "dev" if "dev" in TASKS[name].files.by_split else "test"
    path = tmp_path / np.ravel(TASKS[name].files.by_split[split])[0]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(UserError) as e:
        read_rows(TASKS[name], str(tmp_path), split, need_labels=True)
    assert message in str(e.value) and str(tmp_path) in str(e.value)
    assert "\n" not in str(e.value)


def test_files_elsewhere_are_refused(tmp_path):
    """None of several is left out."""
    write(tmp_path, "a.csv", "x")
    for elsewhere in ("gs://b/x.csv", "none.csv"):
        said = f"^train_file: .*no such file: {elsewhere}"
        with pytest.raises(UserError, match=said):
            forms.expand_paths(f"{tmp_path}/a.csv,{elsewhere}", "train_file")


def test_a_packed_file_has_the_form_of_its_name():
    """CoLA's test file has other columns than its train file."""
    task = TASKS["cola"]
    packed, unpacked = (
        forms.declared_form(task, f"test.tsv{end}") for end in (".gz", "")
    )
    assert packed == unpacked != forms.declared_form(task, "train.tsv")


def test_several_files_have_no_commas_in_their_paths(tmp_path):
    """They are joined by commas; one file may have some."""
    for name in ("a.csv", "b,c.csv"):
        write(tmp_path, name, "x")
    path = str(tmp_path / "b,c.csv")
    assert forms.expand_paths(path, "train_file") == path
    with pytest.raises(UserError, match="^train_file: .*expected paths without commas"):
        forms.expand_paths(f"{tmp_path}/*.csv", "train_file")


def test_rows_that_are_left_out_are_counted_by_their_reason(tmp_path, caplog):
    """Such as those on whose label the annotators do not agree."""
    caplog.set_level("INFO", "xlnet")
    line = '{"sentence1": "a", "sentence2": "b", "gold_label": "%s", "pairID": "p"}'
    write(tmp_path, "snli_1.0_dev.jsonl", line % "-", line % "neutral")
    assert rows_of("snli", tmp_path, "dev") == [Row("p", (("a", "b"),), "neutral")]
    assert caplog.messages[0].endswith("is read without 1 rows with label '-'")


def test_the_first_errors_are_listed(tmp_path, caplog):
    caplog.set_level("INFO", "xlnet")
    lines = [f"{i}\ta\tb\tx{i // 2}" for i in range(50)]
    write(tmp_path, "dev.tsv", RTE.strip(), *lines)
    message = "dev.tsv:2: unknown label 'x0' .* .and 49 more faulty"
    with pytest.raises(UserError, match=message):
        read_rows(TASKS["rte"], str(tmp_path), "dev")
    listed = caplog.messages[0].splitlines()
    assert listed[0] == "50 faulty rows, such as" and len(listed) == 21
    assert "dev.tsv:21: unknown label 'x9'" in listed[20]


def test_known_broken_rows_are_left_out_with_a_note(tmp_path, caplog):
    good = [f"{i}\ta\tb\t1" for i in range(200)]
    header = "id\tquestion1\tquestion2\tis_duplicate"
    write(tmp_path, "train.tsv", header, "x\ta\t\t1", *good, "y\ta")
    rows = read_rows(TASKS["qqp"], tmp_path, "train")
    assert [row.id for row in rows] == [str(i) for i in range(200)]
    assert "train.tsv: 2 rows skipped" in caplog.text


def test_a_known_task_is_read_in_its_form_whatever_the_file_is_called(
    tmp_path, monkeypatch
):
    """Quotation marks of QQP are characters of its texts."""
    content = 'id\tquestion1\tquestion2\n1\t"a" b\t"c\n2\td"\te ""f""\n'
    expected = [("1", (('"a" b', '"c'),)), ("2", (('d"', 'e ""f""'),))]
    for name in ("test.tsv", "mine.tsv", "mine.txt", "mine", "-"):
        path = name if name == "-" else str(tmp_path / name)
        (tmp_path / (name if name != "-" else "stdin")).write_text(content)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        rows = parsing.read_to_predict(TASKS["qqp"], path)
        assert [(row.id, row.pairs) for row in rows] == expected, name


def test_a_line_of_text_is_all_of_the_columns_that_are_joined(tmp_path):
    write(tmp_path, "x.txt", "a b\tc", "d\te")
    columns = Columns(("title", "body"), ("question", "more"), ("label",))
    task = dataclasses.replace(TASKS["mrpc"], columns=columns)
    task = task.with_files(declared=Form("text"))
    rows = parsing.read_to_predict(task, str(tmp_path / "x.txt"))
    assert [row.pairs for row in rows] == [(("a b", "c"),), (("d", "e"),)]


def test_another_form_is_refused_with_those_of_the_task(tmp_path):
    task = known.resolve_task(settings("", do_train=False), {"labels": ["a", "b"]})
    write(tmp_path, "x.zip", "a text")
    with pytest.raises(UserError, match="form zip, expected one of csv, .*"):
        parsing.read_to_predict(task, str(tmp_path / "x.zip"))


def test_a_table_without_a_declared_form_is_not_read_as_texts(tmp_path, monkeypatch):
    task = known.resolve_task(settings("", do_train=False), {"labels": ["a", "b"]})
    write(tmp_path, "x.txt", "1,a text")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1,a text")))
    for path in ("-", str(tmp_path / "x.txt")):
        with pytest.raises(UserError, match="found no form.*--input_format"):
            parsing.read_to_predict(task, path)


def test_rows_are_skipped_in_training_alone(tmp_path):
    """A relevant document that is left out would be missing among those to be found."""
    write(tmp_path, "train.csv", "text,label", "x,a", ",a", "y,b")
    write(tmp_path, "dev.csv", "text,label", "x,a", ",a", "y,b")
    asked = settings(tmp_path, text_a_column="text", on_error="skip")
    task = known.resolve_task(asked)
    assert [row.label for row in read_rows(task, str(tmp_path), "train")] == ["a", "b"]
    with pytest.raises(UserError, match="dev.csv:3: the text is empty"):
        read_rows(task, str(tmp_path), "dev")
