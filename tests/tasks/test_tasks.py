"""Tasks: the table of the known ones, and those made of own files."""

import pytest
from helpers.tasks import read_rows, settings, write

from xlnet.support.errors import UserError
from xlnet.tasks import known, ranking
from xlnet.tasks.fields import Row, expand_split
from xlnet.tasks.known import TASKS


@pytest.mark.parametrize(
    "name, expected",
    [
        ("CoLA", "cola"),
        ("stsb", "sts-b"),
        ("sts_b", "sts-b"),
        ("sst2", "sst-2"),
        ("mnli-matched", "mnli_matched"),
    ],
)
def test_find_task(name, expected):
    assert known.find_task(name).name == expected
    assert known.resolve_task(settings("d", task_name=name)).name == expected


def test_every_task_is_sound():
    for name, task in TASKS.items():
        assert task.name == name and known.find_task(name) is task
        names = {metric.partition("@")[0] for metric in task.metrics}
        assert names <= {
            *task.metric_functions,
            *(ranking.MEASURES if task.columns.query else ()),
        }
        assert all(
            isinstance(each, tuple)
            for each in (task.columns.text_a, task.columns.text_b, task.columns.label)
        )
        assert not task.labels or len(set(task.labels)) == len(task.labels) > 1
        # The labels of tags are in the train file.
        assert bool(task.labels) is (task.has_labels and task.kind != "tagging")


def test_output_layers():
    scores = known.resolve_task(settings("d", task_name="sts-b", is_regression=True))
    assert scores.labels == ()
    assert TASKS["sts-b"].scope() == "regression_sts-b"
    assert TASKS["mnli"].scope() == TASKS["ax"].scope() == "classification_mnli"
    half = known.find_task("mnli_mismatched")  # as the original has it
    assert half.scope() == "classification_mnli"
    assert half.files.by_split["dev"] == "dev_mismatched.tsv"


def test_splits():
    assert expand_split(TASKS["mnli"], "dev") == ("dev_matched", "dev_mismatched")
    with pytest.raises(UserError, match="no split 'dve', expected one of train, dev"):
        expand_split(TASKS["rte"], "dve")
    with pytest.raises(UserError, match="ax: found no split 'train', .*--train_file"):
        expand_split(TASKS["ax"], "train")


# --- Own files


def test_own_files(tmp_path):
    header = "name\tfirst\tsecond\tclass"
    lines = "x1\ta\tb\tsport ", "x2\tc\td\tarts", "x3\te\tf\tsport"
    write(tmp_path, "train.tsv", header, *lines)
    write(tmp_path, "dev.tsv", header, "y1\ta\tb\tarts")
    chosen = dict(text_a_column="first", text_b_column="second", label_column="class")
    task = known.resolve_task(settings(tmp_path, id_column="name", **chosen))
    assert task.labels == ("arts", "sport") and task.scope() == "classification_custom"
    rows = read_rows(task, tmp_path, "train")
    assert rows[0] == Row("x1", (("a", "b"),), "sport")
    assert task.gold(rows).tolist() == [1, 0, 1]
    unnamed = known.resolve_task(settings(tmp_path, **chosen))
    assert [row.id for row in read_rows(unnamed, tmp_path, "train")] == ["0", "1", "2"]


def test_a_label_over_two_lines_is_an_error(tmp_path):
    """A cell whose quotation mark is never closed has the rows behind it."""
    write(tmp_path, "train.csv", "text,label", "a,x", 'b,"y\nc,x"', "d,z")
    chosen = dict(text_a_column="text", label_column="label", quoting="standard")
    with pytest.raises(UserError, match=r"train.csv:3: label 'y\\nc,x', expected one"):
        known.resolve_task(settings(tmp_path, **chosen))


def test_missing_columns_of_own_files(tmp_path):
    write(tmp_path, "train.tsv", "text_a\tlabel\tid", "a\t0\t5", "b\t1\t6")
    for column, asked in (
        ("text_a_column", "texta"),
        ("text_b_column", "text_b"),
        ("label_column", "labels"),
        ("id_column", "idx"),
    ):
        message = f"no column '{asked}' in text_a, label, id, expected one; --{column}"
        with pytest.raises(UserError, match=message):
            known.resolve_task(settings(tmp_path, **{column: asked}))


def own(directory, **changes):
    return known.resolve_task(settings(directory, **changes))


def test_one_file_is_enough(tmp_path):
    lines = [f'{{"text_a": "t{i}", "label": {i % 2}}}' for i in range(40)]
    write(tmp_path, "all.jsonl", *lines)
    task = own(tmp_path / "all.jsonl", do_train=True)
    parts = {split: read_rows(task, str(tmp_path), split) for split in ("train", "dev")}
    sizes = [len(rows) for rows in parts.values()]
    assert sum(sizes) == 40 and 1 <= sizes[1] <= 8
    ids = sorted(int(row.id) for rows in parts.values() for row in rows)
    assert ids == list(range(40))
    fifth = own(tmp_path / "all.jsonl", dev_share=0.2, do_train=True)
    assert sizes[1] < len(read_rows(fifth, str(tmp_path), "dev")) <= 16
    with pytest.raises(UserError, match="no split 'test', expected one of train, dev"):
        read_rows(task, str(tmp_path), "test")


def test_one_file_and_another_one_to_train_on_are_refused(tmp_path):
    """The first one was not read, and later taken for the one that was trained on."""
    for name in ("a.csv", "b.csv"):
        write(tmp_path, name, "label,text_a", "x,a", "y,b")
    said = "data_dir: found the file .*a.csv, and train_file names .*b.csv"
    with pytest.raises(UserError, match=said):
        own(tmp_path / "a.csv", train_file=str(tmp_path / "b.csv"))
    both = own(tmp_path / "a.csv", dev_file=str(tmp_path / "b.csv"))
    assert [row.pairs[0][0] for row in read_rows(both, "", "dev")] == ["a", "b"]


def test_several_labels_in_a_cell(tmp_path):
    write(tmp_path, "train.tsv", "text_a\tlabel", "x\tsad,old", "y\t", "z\told , old")
    write(tmp_path, "dev.tsv", "text_a\tlabel", "x\tsad", "y\tnew")
    task = own(tmp_path, multi_label=True)
    assert task.kind == "multi_label" and task.labels == ("old", "sad")
    rows = read_rows(task, str(tmp_path), "train")
    assert [row.label for row in rows] == [("old", "sad"), (), ("old",)]
    assert task.gold(rows).tolist() == [[1, 1], [0, 0], [1, 0]]
    with pytest.raises(UserError, match="dev.tsv:3: unknown label 'new'"):
        read_rows(task, str(tmp_path), "dev")


def test_a_column_for_each_label(tmp_path):
    write(tmp_path, "train.csv", "text_a,rude,old", "x,1,0", "y,0,0")
    write(tmp_path, "dev.csv", "text_a,rude,old", "x,1,yes")
    task = own(tmp_path, multi_label=True, label_column="rude,old")
    assert task.labels == ("rude", "old")
    rows = read_rows(task, str(tmp_path), "train")
    assert [row.label for row in rows] == [("rude",), ()]
    said = "dev.csv:2: column 'old': 'yes', expected 0 or 1"
    with pytest.raises(UserError, match=said):
        read_rows(task, str(tmp_path), "dev")
    with pytest.raises(UserError, match="found several columns, expected one"):
        own(tmp_path, label_column="rude,old")


@pytest.mark.parametrize(
    "labels, form, names",
    [
        ("AC", None, ("A", "B", "C")),
        ("02", "indices", ("0", "1", "2")),
        ("13", "numbers", ("1", "2", "3")),
    ],
)
def test_answers_to_choose_from(tmp_path, labels, form, names):
    lines = [f"story,It is _ !,one,two,three,{label}" for label in labels]
    write(tmp_path, "train.csv", "text_a,q,c1,c2,c3,label", *lines)
    flags = dict(text_b_column="q", choice_columns="c1,c2,c3", label_form=form)
    task = own(tmp_path, dev_share=0.0, **flags)
    assert task.kind == "multiple_choice" and task.labels == names
    row = read_rows(task, str(tmp_path), "train")[0]
    answers = "one", "two", "three"
    assert row.pairs == tuple(("story", f"It is _ ! {each}") for each in answers)


def test_gaps_are_those_of_the_data_sets_that_have_some(tmp_path):
    """get_name and str are not get str name."""
    race = known.find_task("race")
    with pytest.raises(ValueError):
        race.parse_pairs("t", "It is __ !", [["one", "two", "", "x"]])
    pairs = race.parse_pairs("t", "It is __ !", [["one", "two", "x", "y"]])
    assert pairs[0] == ("t", "It is one !")
    lines = "text_a,q,c1,c2,label", "t,get_name,str,int,A", "t,x,y,z,B"
    write(tmp_path, "train.csv", *lines)
    task = own(tmp_path, text_b_column="q", choice_columns="c1,c2", dev_share=0.0)
    row = read_rows(task, str(tmp_path), "train")[0]
    assert row.pairs == (("t", "get_name str"), ("t", "get_name int"))
    # A model keeps what its data set says.
    asked = settings(tmp_path, task_name="race", do_train=False)
    stored = dict(task="race", kind="multiple_choice", labels=list("ABCD"))
    loaded = known.resolve_task(asked, stored)
    assert loaded.parse_pairs("t", "It is __ !", [["one", "two", "x", "y"]]) == pairs


def test_answers_in_one_column_of_json_lines(tmp_path):
    """As many in each row, as in the train file."""
    row = '{"text_a": "s", "all": %s, "label": %d}'
    lines = row % ('["x", "y", "z"]', 1), row % ('["x", "u", "z"]', 0)
    write(tmp_path, "train.jsonl", *lines)
    write(tmp_path, "dev.jsonl", row % ('["x", "y"]', 1))
    task = own(tmp_path, choice_columns="all", label_form="indices")
    assert task.labels == ("0", "1", "2")
    first, _ = read_rows(task, str(tmp_path), "train")
    assert first.pairs == (("s", "x"), ("s", "y"), ("s", "z"))
    with pytest.raises(UserError, match="dev.jsonl:1: 2 answers, expected 3"):
        read_rows(task, str(tmp_path), "dev")
    for answers, label, message in (
        ('["x", "y"]', 1, "train.jsonl:2: 2 answers, expected 3"),
        ('["x", "y", "z"]', 3, "the label '3', expected one of 0, 1, 2; --label_"),
        ('["x", "", "z"]', 1, "train.jsonl:2: column 'all': .*none empty"),
    ):
        lines = row % ('["x", "y", "z"]', 1), row % (answers, label)
        write(tmp_path, "train.jsonl", *lines)
        with pytest.raises(UserError, match=message):
            task = own(tmp_path, choice_columns="all", label_form="indices")
            read_rows(task, str(tmp_path), "train")
    # Rows whose answers count from 0 are not skipped as faulty ones, which would leave the others
    # with the answer before theirs.
    write(tmp_path, "train.jsonl", *(row % ('["x", "y"]', i) for i in (0, 1)))
    with pytest.raises(UserError, match="the label '0', expected one of 1, 2; --label"):
        own(tmp_path, choice_columns="all", label_form="numbers", on_error="skip")


def test_the_metric_that_selects(tmp_path):
    write(tmp_path, "train.tsv", "text_a\tlabel", "a\tx", "b\ty", "c\tz")
    assert own(tmp_path).metrics == ("accuracy", "macro_f1", "auc")
    assert own(tmp_path, metric="matthews").metrics[0] == "matthews"
    # Of two metrics of one name the last one counts.
    assert not own(tmp_path, metric="m:accuracy:min,accuracy").own_metrics
    with pytest.raises(UserError, match="metric of task custom: found f1, expected"):
        own(tmp_path, metric="f1")
    cola = known.resolve_task(settings("d", task_name="cola", metric="f1"))
    assert cola.metrics == ("f1", "matthews", "accuracy")


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(task_name="mprc"), "unknown task 'mprc', expected one of .*custom"),
        (dict(task_name="cola", is_regression=True), "is_regression: found True, exp"),
        (dict(is_regression=True, multi_label=True), "multi_label: found two"),
        (dict(query_id_column="qid"), "query_id_column: found no --text_b_column"),
        (dict(label_column=""), "label_column: found '', expected the name"),
        (dict(choice_columns=","), "choice_columns: found ',', expected the name"),
    ],
)
def test_flags_that_make_no_task(tmp_path, changes, message):
    write(tmp_path, "train.csv", "text_a,qid,a,b,label", "x,1,y,z,a", "x,1,y,z,b")
    with pytest.raises(UserError, match=message):
        own(tmp_path, **changes)
