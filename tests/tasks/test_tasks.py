"""Tasks: the table of the known ones, and those made of own files."""

import dataclasses
import json
import time

import pytest
from helpers.finetuning import make_vocabulary
from helpers.tasks import read_rows, settings, write

from xlnet.errors import UserError
from xlnet.finetuning.data import TaskData
from xlnet.model_directory.task_settings import FineTunedTask
from xlnet.tasks.features import encoding
from xlnet.tasks.files import parsing
from xlnet.tasks.ranking import measures
from xlnet.tasks.task import Row, expand_split
from xlnet.tasks.types import classification, custom, known
from xlnet.tasks.types.known import GLUE, TASKS
from xlnet.tokenization.tokenizer import Tokenizer


@pytest.mark.parametrize(
    "name, expected",
    [
        ("CoLA", "cola"),
        ("stsb", "sts-b"),
        ("sts_b", "sts-b"),
        ("sst2", "sst-2"),
        ("mnli_matched", "mnli"),
        ("mnli-mismatched", "mnli"),
    ],
)
def test_find_task(name, expected):
    assert known.find_task(name).name == expected
    assert custom.resolve_task(settings("d", task_name=name)).name == expected


def test_every_task_is_sound():
    for name, task in TASKS.items():
        assert task.name == name and known.find_task(name) is task
        names = {metric.partition("@")[0] for metric in task.metrics}
        assert names <= {*task.scorer.metrics, *(measures.MEASURES if task.columns.query else ())}
        assert all(
            isinstance(each, tuple)
            for each in (task.columns.text_a, task.columns.text_b, task.columns.label)
        )
        assert (
            "dev" in (*task.files.by_split, *task.files.groups)
            or task.files.dev_share
            or task.published.trained_as
        )
        assert not task.labels or len(set(task.labels)) == len(task.labels) > 1
        assert task.labels != () or task.type.name == "tagging"  # the train file has them


@pytest.mark.parametrize(
    "name, kind, count",
    [
        ("snli", "classification", 3),
        ("imdb", "classification", 2),
        ("yelp-5", "classification", 5),
        ("ag_news", "classification", 4),
        ("dbpedia", "classification", 14),
        ("amazon-2", "classification", 2),
        ("race", "multiple_choice", 4),
        ("race-high", "multiple_choice", 4),
        ("tnews", "classification", 15),
        ("iflytek", "classification", 119),
        ("chnsenticorp", "classification", 2),
        ("xnli-zh", "classification", 3),
        ("sts-b", "regression", None),
    ],
)
def test_kinds_of_tasks(name, kind, count):
    task = TASKS[name]
    assert task.type.name == kind and (task.labels and len(task.labels)) == count


def test_all_of_glue():
    assert list(GLUE) == [
        "cola",
        "sst-2",
        "mrpc",
        "sts-b",
        "qqp",
        "mnli",
        "qnli",
        "rte",
        "wnli",
        "ax",
    ]
    assert {t.name for t in GLUE.values() if t.is_regression} == {"sts-b"}
    for task in GLUE.values():
        assert task.labels is None or list(task.labels) == sorted(task.labels)
        assert set(task.metrics) <= set(task.scorer.metrics)
        assert set(task.published.submissions) <= set(task.files.by_split)


def test_unknown_task():
    with pytest.raises(UserError, match="unknown task 'mprc'; did you mean 'mrpc'?") as e:
        custom.resolve_task(settings("d", task_name="mprc"))
    assert "custom" in str(e.value) and "\n" not in str(e.value)


def test_regression_flag_against_labels():
    with pytest.raises(UserError, match="is_regression is True, but task cola has the labels 0, 1"):
        custom.resolve_task(settings("d", task_name="cola", is_regression=True))
    assert custom.resolve_task(settings("d", task_name="sts-b", is_regression=True)).is_regression


def test_output_layers():
    assert GLUE["sts-b"].head.scope() == "regression_sts-b"
    assert GLUE["mnli"].head.scope() == GLUE["ax"].head.scope() == "classification_mnli"


def test_splits():
    assert expand_split(GLUE["mnli"], "dev") == ("dev_matched", "dev_mismatched")
    assert expand_split(GLUE["mnli"], "test_matched") == ("test_matched",)
    half = known.find_task("mnli_mismatched")
    assert expand_split(half, "dev") == ("dev_mismatched",)
    assert expand_split(half, "test") == ("test_mismatched",)
    assert expand_split(GLUE["rte"], "dev") == ("dev",)
    with pytest.raises(UserError, match="no split 'dve'; did you mean 'dev'.*train, dev, test"):
        expand_split(GLUE["rte"], "dve")
    with pytest.raises(UserError, match="task ax has no split 'train'.*train on task mnli"):
        expand_split(GLUE["ax"], "train")


# --- Own files


def test_own_files(tmp_path):
    write(
        tmp_path,
        "train.tsv",
        "name\tfirst\tsecond\tclass",
        "x1\ta\tb\tsport ",
        "x2\tc\td\tarts",
        "x3\te\tf\tsport",
    )
    write(tmp_path, "dev.tsv", "name\tfirst\tsecond\tclass", "y1\ta\tb\tarts")
    chosen = dict(text_a_column="first", text_b_column="second", label_column="class")
    task = custom.resolve_task(settings(tmp_path, id_column="name", **chosen))
    assert task.labels == ("arts", "sport") and task.head.scope() == "classification_custom"
    rows = read_rows(task, tmp_path, "train")
    assert rows[0] == Row("x1", (("a", "b"),), "sport")
    assert task.reader.label_array(rows).tolist() == [1, 0, 1]
    unnamed = custom.resolve_task(settings(tmp_path, **chosen))
    assert [row.id for row in read_rows(unnamed, tmp_path, "train")] == ["0", "1", "2"]


def test_an_empty_name_of_the_id_column_is_no_column_of_an_index(tmp_path):
    """pandas writes its index under an empty name; the names of all rows were empty."""
    write(tmp_path, "train.csv", ",text_a,label", "7,a,x", "8,b,y")
    task = custom.resolve_task(settings(tmp_path, id_column="", dev_share=0.0))
    assert [row.id for row in read_rows(task, tmp_path, "train")] == ["0", "1"]


def test_own_scores(tmp_path):
    write(tmp_path, "train.tsv", "text_a\tlabel", "a\t1.5")
    write(tmp_path, "dev.tsv", "text_a\tlabel", "a\t1.5")
    task = custom.resolve_task(settings(tmp_path, is_regression=True))
    assert task.is_regression and task.head.scope() == "regression_custom"
    assert read_rows(task, tmp_path, "train")[0].label == 1.5


def test_a_list_of_labels_is_no_label(tmp_path):
    write(tmp_path, "train.tsv", "text_a\tlabel", "a\tx", "b\ty", "c\tx, y", "d\tx,z")
    with pytest.raises(
        UserError,
        match="train.tsv: column 'label' has 'x, y' and its parts; "
        "several labels in a row are for --multi_label=True",
    ):
        custom.resolve_task(settings(tmp_path))
    write(tmp_path, "train.tsv", "text_a\tlabel", "a\t1", "b\t1,5", "c\t5")
    assert custom.resolve_task(settings(tmp_path)).labels == ("1", "1,5", "5")  # half stars
    (tmp_path / "train.tsv").unlink()
    write(
        tmp_path,
        "train.jsonl",
        '{"text_a": "a", "label": ["x"]}',
        '{"text_a": "b", "label": ["x", "y"]}',
        '{"text_a": "c", "label": "x,z"}',
    )
    with pytest.raises(UserError, match="train.jsonl:2: column 'label' has 2 labels: x, y; "):
        custom.resolve_task(settings(tmp_path))
    assert custom.resolve_task(settings(tmp_path, multi_label=True)).labels == ("x", "y", "z")


def test_wrong_settings_of_how_files_are_written(tmp_path):
    with pytest.raises(UserError, match="encoding: unknown 'cp125'; expected a name such as utf-8"):
        custom.resolve_task(settings(tmp_path, encoding="cp125"))
    with pytest.raises(UserError, match="delimiter is ';;', expected one character, or tab"):
        custom.resolve_task(settings(tmp_path, delimiter=";;"))


def test_own_files_of_fasttext_and_of_spreadsheets(tmp_path):
    write(tmp_path, "train.txt", "__label__x a b", "__label__y c")
    with pytest.raises(UserError, match="train.txt: .*--input_format=fasttext"):
        custom.resolve_task(settings(tmp_path))
    task = custom.resolve_task(settings(tmp_path, input_format="fasttext"))
    assert task.labels == ("x", "y")
    (tmp_path / "train.txt").unlink()
    (tmp_path / "train.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(UserError, match="train.xlsx: a damaged spreadsheet"):
        custom.resolve_task(settings(tmp_path))
    write(tmp_path, "train.csv", "text_a,label", "a,x", "b,y")
    assert custom.resolve_task(settings(tmp_path)).labels == ("x", "y")


def test_missing_columns_of_own_files(tmp_path):
    write(tmp_path, "train.tsv", "text_a\tlabel\tid", "a\t0\t5", "b\t1\t6")
    for column, asked, hint in (
        ("text_a_column", "texta", "text_a"),
        ("text_b_column", "text_b", "text_a"),
        ("label_column", "labels", "label"),
        ("id_column", "idx", "id"),
    ):
        with pytest.raises(UserError) as e:
            custom.resolve_task(settings(tmp_path, **{column: asked}))
        assert f"no column '{asked}'; did you mean '{hint}'?" in str(e.value)
        assert ("--id_column=" if column == "id_column" else f"--{column} ") in str(e.value)


def own(directory, **changes):
    return custom.resolve_task(settings(directory, **changes))


def test_one_file_is_enough(tmp_path):
    write(tmp_path, "all.jsonl", *(f'{{"text_a": "t{i}", "label": {i % 2}}}' for i in range(40)))
    task = own(tmp_path / "all.jsonl", do_train=True)
    parts = {split: read_rows(task, str(tmp_path), split) for split in ("train", "dev")}
    sizes = [len(rows) for rows in parts.values()]
    assert sum(sizes) == 40 and 1 <= sizes[1] <= 8
    assert sorted(int(row.id) for rows in parts.values() for row in rows) == list(range(40))
    fifth = own(tmp_path / "all.jsonl", dev_share=0.2, do_train=True)
    assert sizes[1] < len(read_rows(fifth, str(tmp_path), "dev")) <= 16
    with pytest.raises(UserError, match="no split 'test'.*splits: train, dev"):
        read_rows(task, str(tmp_path), "test")


def test_a_file_of_two_parts_is_read_once(tmp_path, monkeypatch):
    write(tmp_path, "train.csv", "text_a,label", *(f"t{i},{i % 2}" for i in range(40)))
    task, read, paths = own(tmp_path), parsing.read_file, []
    monkeypatch.setattr(
        parsing,
        "read_file",
        lambda task, path, *more, **others: (paths.append(path), read(task, path, *more, **others))[
            1
        ],
    )
    rows = TaskData(FineTunedTask(task, settings(tmp_path)), None)
    parts = {**rows.of_split("train", True), **rows.of_split("dev", True)}
    assert sum(len(rows) for rows in parts.values()) == 40 and len(paths) == 1
    assert rows.of_split("dev", False)["dev"] == parts["dev"] and len(paths) == 2


def test_a_file_to_predict_that_is_called_train_may_have_short_texts(tmp_path, monkeypatch):
    """Records to train on are not padded to a length that no text has."""
    monkeypatch.setattr(encoding, "_ALWAYS_PADDED", 8)
    make_vocabulary(tmp_path / "sp.model", 37)
    write(tmp_path, "train.csv", "text_a,label", "ab,x", "ba,y")
    asked = settings(
        tmp_path,
        max_seq_length=200,
        output_dir=str(tmp_path),
        predict_file=str(tmp_path / "train.csv"),
    )
    tuned = FineTunedTask(own(tmp_path, dev_share=0.0), asked)
    data = TaskData(tuned, Tokenizer(str(tmp_path / "sp.model")))
    (rows,) = data.to_predict().values()
    assert data.records("train", rows).count == 2
    with pytest.raises(UserError, match="max_seq_length is 200, but no row of custom.train has"):
        data.records("train", rows, is_training=True)


def test_one_label_and_two_forms_of_a_file_are_refused(tmp_path):
    for name, message in (
        ("train.csv", "column 'label' holds a single label, 'x'"),
        ("train.tsv", "has train.csv and train.tsv; expected one of them"),
    ):
        write(tmp_path, name, "label,text_a", "x,a", "x,b")
        with pytest.raises(UserError, match=message):
            own(tmp_path)


def test_one_file_and_another_one_to_train_on_are_refused(tmp_path):
    """The first one was not read, and later taken for the one that was trained on."""
    for name in ("a.csv", "b.csv"):
        write(tmp_path, name, "label,text_a", "x,a", "y,b")
    with pytest.raises(UserError, match="data_dir: .*a.csv is a file, .*train_file names .*b.csv"):
        own(tmp_path / "a.csv", train_file=str(tmp_path / "b.csv"))
    both = own(tmp_path / "a.csv", dev_file=str(tmp_path / "b.csv"))
    assert [row.pairs[0][0] for row in read_rows(both, "", "dev")] == ["a", "b"]


def test_several_labels_in_a_cell(tmp_path):
    write(tmp_path, "train.tsv", "text_a\tlabel", "x\tsad|old", "y\t", "z\told | old")
    write(tmp_path, "dev.tsv", "text_a\tlabel", "x\tsad", "y\tnew")
    task = own(tmp_path, multi_label=True, label_separator="|")
    assert task.type.name == "multi_label" and task.labels == ("old", "sad")
    rows = read_rows(task, str(tmp_path), "train")
    assert [row.label for row in rows] == [("old", "sad"), (), ("old",)]
    assert task.reader.label_array(rows).tolist() == [[1, 1], [0, 0], [1, 0]]
    with pytest.raises(UserError, match="dev.tsv:3: unknown label 'new'"):
        read_rows(task, str(tmp_path), "dev")


def test_a_column_for_each_label(tmp_path):
    write(tmp_path, "train.csv", "text_a,rude,old", "x,1,0", "y,0,0")
    write(tmp_path, "dev.csv", "text_a,rude,old", "x,1,yes")
    task = own(tmp_path, multi_label=True, label_column="rude,old")
    assert task.labels == ("rude", "old")
    assert [row.label for row in read_rows(task, str(tmp_path), "train")] == [("rude",), ()]
    with pytest.raises(UserError, match="dev.csv:2: column 'old': 'yes', expected 0 or 1"):
        read_rows(task, str(tmp_path), "dev")
    with pytest.raises(UserError, match="names 2 columns; several are for --multi_label=True"):
        own(tmp_path, label_column="rude,old")


def test_columns_named_after_labels_are_theirs_in_any_order(tmp_path):
    """A model has the order of its training; the flag of an evaluation may have another one."""
    write(tmp_path, "dev.csv", "text,insult,toxic", "a,1,0", "b,0,1")
    how = dict(do_train=False, do_eval=True, text_a_column="text")
    several = dict(multi_label=True, label_column="toxic,insult")
    stored = dict(kind="multi_label", labels=["insult", "toxic"])
    task = custom.resolve_task(settings(tmp_path, **how, **several), stored)
    assert [row.label for row in read_rows(task, str(tmp_path), "dev")] == [("insult",), ("toxic",)]
    write(tmp_path, "dev.csv", "text,first,second,label", "q,yes,no,first", "r,ja,nein,second")
    choices = dict(choice_columns="second,first")
    stored = dict(kind="multiple_choice", labels=["first", "second"])
    task = custom.resolve_task(settings(tmp_path, **how, **choices), stored)
    rows = read_rows(task, str(tmp_path), "dev")
    right = zip(rows, task.reader.label_array(rows))
    assert [row.pairs[place][1] for row, place in right] == ["yes", "nein"]
    # A column that is not one of the labels leaves open which label each of them is.
    for flags, labels in (
        (dict(multi_label=True, label_column="insult,threat"), ["toxic", "insult"]),
        (dict(choice_columns="second,third"), ["first", "second"]),
    ):
        stored = dict(kind="multi_label" if "multi_label" in flags else "multiple_choice")
        flag = list(flags)[-1]
        with pytest.raises(UserError, match=f"{flag} names .*, but the model has the labels "):
            custom.resolve_task(settings(tmp_path, **how, **flags), dict(stored, labels=labels))
    # Labels that are numbers of answers are not those of columns without names.
    write(tmp_path, "dev.csv", "q,right,wrong,2")
    choices = dict(choice_columns="3,2", label_form="numbers", label_column="4", header="none")
    stored = dict(kind="multiple_choice", labels=["1", "2"])
    numbered = settings(tmp_path, **{**how, **choices, "text_a_column": "1"})
    (row,) = read_rows(custom.resolve_task(numbered, stored), str(tmp_path), "dev")
    assert row.pairs[1][1] == "right" and row.label == "2"


@pytest.mark.parametrize(
    "labels, form, names",
    [
        ("AC", None, ("A", "B", "C")),
        ("ba", None, ("a", "b", "c")),
        ("02", "indices", ("0", "1", "2")),
        ("13", "numbers", ("1", "2", "3")),
        ("12", "numbers", ("1", "2", "3")),
        ("12", "indices", ("0", "1", "2")),
        (["c2", "c1"], None, ("c1", "c2", "c3")),
    ],
)
def test_answers_to_choose_from(tmp_path, labels, form, names):
    write(
        tmp_path,
        "train.csv",
        "text_a,q,c1,c2,c3,label",
        *(f"story,It is _ !,one,two,three,{label}" for label in labels),
    )
    task = own(tmp_path, text_b_column="q", choice_columns="c1,c2,c3", label_form=form)
    assert task.type.name == "multiple_choice" and task.labels == names and task.cut_first
    row = read_rows(task, str(tmp_path), "train")[0]
    assert row.pairs == (
        ("story", "It is _ ! one"),
        ("story", "It is _ ! two"),
        ("story", "It is _ ! three"),
    )


@pytest.mark.parametrize(
    "labels, texts, form, trained",
    [
        ("123", False, "indices", "numbers"),
        ("123", False, "texts", "numbers"),
        ("012", False, "numbers", "indices"),
        ("ABC", False, "numbers", "letters"),
        ("123", True, "numbers", "texts"),
    ],
)
def test_a_model_has_labels_of_the_form_that_it_was_trained_on(
    tmp_path, labels, texts, form, trained
):
    """Indices were read as numbers, 1 of the second answer as the first."""
    stored = dict(
        kind="multiple_choice", labels=list(labels), kind_options=dict(labels_are_texts=texts)
    )
    choices = dict(choice_columns="c1,c2,c3", do_train=False, do_eval=True, label_form=form)
    with pytest.raises(UserError, match=f"label_form is {form}, expected {trained}, as the model"):
        custom.resolve_task(settings(tmp_path, **choices), stored)


def test_gaps_are_those_of_the_data_sets_that_have_some(tmp_path):
    """get_name and str are not get str name."""
    race = known.find_task("race")
    assert race.reader.parse_pairs("t", "It is __ !", [["one", "two", "", "x"]])[1]
    pairs, _ = race.reader.parse_pairs("t", "It is __ !", [["one", "two", "x", "y"]])
    assert pairs[0] == ("t", "It is one !")
    # A model keeps what its data set says.
    write(tmp_path, "train.csv", "text_a,q,c1,c2,label", "t,get_name,str,int,A", "t,x,y,z,B")
    task = own(tmp_path, text_b_column="q", choice_columns="c1,c2", dev_share=0.0)
    row = read_rows(task, str(tmp_path), "train")[0]
    assert row.pairs == (("t", "get_name str"), ("t", "get_name int"))
    for fills in (True, False):
        options = dataclasses.asdict(task.with_options(fills_gaps=fills).options)
        stored = dict(labels=["A", "B"], kind_options=options)
        assert task.reader.from_model(stored).options.fills_gaps is fills


def test_answers_in_one_column_of_json_lines(tmp_path):
    """As many as each row has, up to those of the train file."""
    write(
        tmp_path,
        "train.jsonl",
        '{"text_a": "s", "all": ["x", "y"], "label": 1}',
        '{"text_a": "s", "all": ["x", "y", "z"], "label": 0}',
    )
    write(tmp_path, "dev.jsonl", '{"text_a": "s", "all": ["x", "y", "z", "u"], "label": 1}')
    write(tmp_path, "test.jsonl", '{"text_a": "s", "all": ["x", "y"], "label": 2}')
    task = own(tmp_path, choice_columns="all", label_form="indices")
    assert task.labels == ("0", "1", "2")
    rows = read_rows(task, str(tmp_path), "train")
    assert [row.pairs for row in rows] == [
        (("s", "x"), ("s", "y")),
        (("s", "x"), ("s", "y"), ("s", "z")),
    ]
    assert [len(example.choices) for example in task.reader.examples(rows)] == [3, 3]
    for split, message in (
        ("dev", "dev.jsonl:1: 4 answers, expected at most 3"),
        ("test", "test.jsonl:1: label '2', but the row has 2 answers"),
    ):
        with pytest.raises(UserError, match=message):
            read_rows(task, str(tmp_path), split, need_labels=True)


@pytest.mark.parametrize(
    "form, label, labels",
    [(None, "2", "AB"), ("numbers", "2", "12"), ("indices", "1", "01"), ("texts", "y", "12")],
)
def test_a_declared_label_is_no_name_of_an_answer(tmp_path, form, label, labels):
    """It was made a letter before the declaration was looked at."""
    answers = '[{"label": "1", "text": "x"}, {"label": "2", "text": "y"}]'
    line = f'{{"text_a": "s", "choices": {answers}, "label": "{label}"}}'
    write(tmp_path, "train.jsonl", line)
    task = own(tmp_path, choice_columns="choices", label_form=form, dev_share=0.0)
    assert task.labels == tuple(labels)
    (row,) = read_rows(task, str(tmp_path), "train")
    assert task.reader.label_array([row]).tolist() == [1]


def test_a_list_of_answers_in_a_cell_of_a_table_is_a_text(tmp_path):
    write(tmp_path, "train.csv", "text_a,all,label", 's,"[""x"", ""y""]",A')
    with pytest.raises(UserError, match="csv:2: column 'all' is a text, expected a list of the"):
        own(tmp_path, choice_columns="all")


def test_a_right_answer_is_given_as_its_text(tmp_path):
    """Numbers, too."""
    write(
        tmp_path, "train.csv", "text_a,c1,c2,c3,label", "2+1,3,2,9,3", "1+1,3,2,,2", "4+4,1,2,8,8"
    )
    choices = dict(choice_columns="c1,c2,c3", dev_share=0.0)
    with pytest.raises(UserError, match="column 'label' has '2', .*: give --label_form=texts"):
        own(tmp_path, **choices)
    task = own(tmp_path, label_form="texts", **choices)
    rows = read_rows(task, str(tmp_path), "train")
    assert [row.label for row in rows] == ["c1", "c2", "c3"] == list(task.labels)
    assert task.reader.label_array(rows).tolist() == [0, 1, 2]
    stored = dict(labels=list(task.labels), kind_options=dataclasses.asdict(task.options))
    assert task.reader.from_model(stored) == task
    for answers, message in (
        ("x,x", "is the text of 2 answers"),
        ("y,z", "is the text of 0 answers"),
    ):
        write(tmp_path, "train.csv", "text_a,c1,c2,label", f"s,{answers},x")
        with pytest.raises(UserError, match=f"train.csv:2: label 'x' {message} of its row"):
            own(tmp_path, choice_columns="c1,c2", label_form="texts")


def test_the_metric_that_selects(tmp_path):
    write(tmp_path, "train.tsv", "text_a\tlabel", "a\tx", "b\ty", "c\tz")
    assert own(tmp_path).metrics == ("accuracy", "macro_f1", "auc")
    with pytest.raises(UserError, match="sklearn.metrics:f1_score': ValueError: Target is multi"):
        own(tmp_path, metric="sklearn.metrics:f1_score", do_train=True)
    assert own(tmp_path, metric="matthews").metrics[0] == "matthews"
    with pytest.raises(UserError, match="metric: task custom has no f1"):
        own(tmp_path, metric="f1")
    assert custom.resolve_task(settings("d", task_name="cola", metric="f1")).metrics == (
        "f1",
        "matthews",
        "accuracy",
    )


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            dict(is_regression=True, multi_label=True),
            "is_regression and multi_label ask for different",
        ),
        (
            dict(query_id_column="qid"),
            "query_id_column makes a ranking of documents .*give --text_b_",
        ),
        (dict(multi_label=True, label_separator=""), "label_separator is empty, expected the text"),
        (dict(label_separator=";"), "label_separator is for --multi_label=True"),
        (
            dict(multi_label=True, label_column="a,b", label_separator=";"),
            "label_separator is for --multi_label=True with one column",
        ),
        (
            dict(multi_label=True, label_column="a,b", label_form="json"),
            "label_form is json, expected one of indicators",
        ),
        (dict(label_column=""), "label_column is '', expected the name of a column"),
        (dict(text_a_column=""), "text_a_column is '', expected the name of a column"),
        (dict(choice_columns=","), "choice_columns is ',', expected the name of a column"),
    ],
)
def test_flags_that_make_no_task(tmp_path, changes, message):
    write(tmp_path, "train.csv", "text_a,qid,a,b,label", "x,1,y,z,a", "x,1,y,z,b")
    with pytest.raises(UserError, match=message):
        own(tmp_path, **changes)


def test_a_model_that_was_trained_with_an_ignored_separator_predicts(tmp_path):
    """Earlier versions kept it; it is refused in training, where a flag can take it back."""
    asked = settings(tmp_path, do_train=False, do_predict=True, label_separator=";")
    stored = dict(kind="classification", labels=["a", "b"])
    assert custom.resolve_task(asked, stored).labels == ("a", "b")


def test_thresholds_of_labels_are_for_several_labels():
    for task_name in ("sst-2", "sts-b", "ranking"):
        with pytest.raises(UserError, match="label_thresholds is for --multi_label=True"):
            custom.resolve_task(settings("d", task_name=task_name, label_thresholds="1:0.3"))


def test_unknown_labels_of_many_are_short_and_quick(tmp_path, caplog):
    """Of 3,000 labels the nearest one and the number: 757 kB were printed, and more than a minute
    would be searched."""
    caplog.set_level("INFO")
    names = tuple(f"topic {number}" for number in range(3000))
    task = dataclasses.replace(GLUE["rte"], labels=names)
    rows = "".join(f"{number}\ta\tb\ttopik {number}\n" for number in range(3000))
    (tmp_path / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + rows)
    began = time.monotonic()
    with pytest.raises(UserError) as e:
        read_rows(task, str(tmp_path), "dev", need_labels=True)
    assert time.monotonic() - began < 30
    assert "unknown label 'topik 0'; did you mean 'topic 0'? (3,000 labels)" in str(e.value)
    assert len(str(e.value)) + len(caplog.text) < 4000
    # Spellings of a number are one label, however many there are.
    numbers = dataclasses.replace(GLUE["rte"], labels=tuple(map(str, range(3000))))
    assert classification.known_label(numbers, "2999.0") == ("2999", None)


@pytest.mark.parametrize("name", ("train.csv", "train.jsonl"))
def test_columns_in_another_form_of_unicode(tmp_path, name):
    """The names look the same: ü, or u with a combining mark."""
    composed, decomposed = "Pr\u00fcfung", "Pru\u0308fung"
    for stored, asked in ((composed, decomposed), (decomposed, composed), (decomposed,) * 2):
        if name.endswith("csv"):
            content = f"{stored},label\na,x\nb,y\n"
        else:
            content = "".join(
                json.dumps({stored: text, "label": label}) + "\n" for text, label in ("ax", "by")
            )
        (tmp_path / name).write_text(content, encoding="utf-8")
        task = custom.resolve_task(settings(tmp_path / name, text_a_column=asked, dev_share=0.0))
        rows = read_rows(task, "", "train", need_labels=True)
        assert [row.pairs[0][0] for row in rows] == ["a", "b"]


def test_a_filter_and_a_threshold_in_another_form_of_unicode(tmp_path):
    composed, decomposed = "Gr\u00f6\u00dfe", "Gro\u0308\u00dfe"
    for stored in (composed, decomposed):
        lines = f"text,label,{stored}\na,{stored},{stored}\nb,y, {stored} \nc,y,x\n"
        (tmp_path / "train.csv").write_text(lines, encoding="utf-8")
        for asked in (composed, decomposed):
            flags = dict(keep_where=f"{asked}={asked}", label_thresholds=f"{asked}:0.25")
            flags.update(text_a_column="text", multi_label=True, dev_share=0.0)
            task = custom.resolve_task(settings(tmp_path / "train.csv", **flags))
            rows = read_rows(task, "", "train", need_labels=True)
            assert [row.label for row in rows] == [(stored,), ("y",)]
            assert task.scorer.decide([[0.3, 0.3]]).tolist() == [[1, 0]]


def test_the_same_error_of_many_lines_is_one(tmp_path, caplog):
    """Lines that are not UTF-8 differ in the column of their bytes only."""
    caplog.set_level("INFO")
    lines = ["text,label", *(f"{'x' * number} f\u00fcr,{number % 2}" for number in range(30))]
    (tmp_path / "train.csv").write_bytes("\n".join(lines).encode("cp1252"))
    with pytest.raises(UserError, match=r"train.csv:2: not UTF-8.*--encoding=cp1252"):
        custom.resolve_task(settings(tmp_path / "train.csv", text_a_column="text", do_train=True))
    assert len([line for line in caplog.text.splitlines() if "not UTF-8" in line]) == 1
    assert "(30 rows, the last one" in caplog.text
