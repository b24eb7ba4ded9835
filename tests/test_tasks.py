"""Tasks: what is read from their files, what is refused, how answers are scored and written."""

import dataclasses

import numpy as np
import pytest

from xlnet import tasks
from xlnet.config import ClassifierSettings
from xlnet.errors import UserError
from xlnet.tasks import GLUE, Row


def settings(data_dir, **changes):
    return ClassifierSettings(**dict(dict(
        task_name="tsv", data_dir=str(data_dir), model_dir="m", output_dir="o",
        spiece_model_file="s", model_config_path="c"), **changes))


def write(directory, name, *lines):
    content = "".join(line + "\n" for line in lines)
    (directory / name).write_bytes(content.encode("utf-8", "surrogateescape"))


# --- Which task

@pytest.mark.parametrize("name, expected", [
    ("cola", "cola"), ("CoLA", "cola"), ("STS-B", "sts-b"), ("sts-b", "sts-b"), ("stsb", "sts-b"),
    ("sts_b", "sts-b"), ("SST-2", "sst-2"), ("sst2", "sst-2"), ("mnli", "mnli"), ("MNLI", "mnli"),
    ("mnli_matched", "mnli"), ("mnli-mismatched", "mnli"), ("AX", "ax"), ("WNLI", "wnli")])
def test_find_task(name, expected):
    assert tasks.find_task(name).name == expected
    assert tasks.get_task(settings("d", task_name=name)).name == expected


def test_all_of_glue():
    assert list(GLUE) == ["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli",
                          "ax"]
    assert {t.name for t in GLUE.values() if t.is_regression} == {"sts-b"}
    for task in GLUE.values():
        assert task.labels is None or list(task.labels) == sorted(task.labels)
        assert set(task.metrics) <= set(tasks._METRICS)
        assert set(task.submissions) <= set(task.files)


def test_unknown_task():
    with pytest.raises(UserError, match="unknown task 'mprc'; did you mean 'mrpc'?") as e:
        tasks.get_task(settings("d", task_name="mprc"))
    assert "tsv" in str(e.value) and "\n" not in str(e.value)


def test_regression_flag_against_labels():
    with pytest.raises(UserError, match="is_regression is True, but task cola has the labels 0, 1"):
        tasks.get_task(settings("d", task_name="cola", is_regression=True))
    assert tasks.get_task(settings("d", task_name="sts-b", is_regression=True)).is_regression


def test_output_layers():
    assert GLUE["sts-b"].head == "regression_sts-b"
    assert GLUE["mnli"].head == GLUE["ax"].head == "classification_mnli"


def test_splits():
    assert tasks.expand_split(GLUE["mnli"], "dev") == ("dev_matched", "dev_mismatched")
    assert tasks.expand_split(GLUE["mnli"], "test_matched") == ("test_matched",)
    half = tasks.find_task("mnli_mismatched")
    assert tasks.expand_split(half, "dev") == ("dev_mismatched",)
    assert tasks.expand_split(half, "test") == ("test_mismatched",)
    assert tasks.expand_split(GLUE["rte"], "dev") == ("dev",)
    with pytest.raises(UserError, match="no split 'dve'; did you mean 'dev'.*train, dev, test"):
        tasks.expand_split(GLUE["rte"], "dve")
    with pytest.raises(UserError, match="task ax has no split 'train'.*train on task mnli"):
        tasks.expand_split(GLUE["ax"], "train")


# --- Rows

def test_file_without_header_and_its_test_file(tmp_path):
    write(tmp_path, "dev.tsv", 'gj04\t1\t\tHe "ran.', "gj04\t0\t*\tIt it.")
    write(tmp_path, "test.tsv", "index\tsentence", "7\tShe sat.")
    task = GLUE["cola"]
    assert tasks.read_rows(task, tmp_path, "dev") == [
        Row("0", 'He "ran.', None, "1"), Row("1", "It it.", None, "0")]
    assert tasks.read_rows(task, tmp_path, "test") == [Row("7", "She sat.", None, None)]


def test_byte_order_mark_and_carriage_returns(tmp_path):
    write(tmp_path, "train.tsv", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r",
          "1\t5\t6\tA one.\tA two.\r")
    assert tasks.read_rows(GLUE["mrpc"], tmp_path, "train") == [
        Row("0", "A one.", "A two.", "1")]


def test_only_a_line_feed_ends_a_row(tmp_path):
    text = "a\u0085b\u2028c\x0bd\x0ce\x1cf"
    write(tmp_path, "train.tsv", "sentence\tlabel", text + "\t1", "", "")
    assert tasks.read_rows(GLUE["sst-2"], tmp_path, "train") == [Row("0", text, None, "1")]


def test_official_index_is_the_id(tmp_path):
    write(tmp_path, "train.tsv", "index\tsentence1\tsentence2\tlabel", "9\ta\tb\tentailment")
    assert tasks.read_rows(GLUE["rte"], tmp_path, "train")[0].id == "9"


def test_both_halves_of_mnli(tmp_path):
    for half in ("matched", "mismatched"):
        write(tmp_path, "dev_%s.tsv" % half, "index\tsentence1\tsentence2\tgold_label",
              "0\t%s\tb\tneutral" % half)
    assert [row.text_a for row in tasks.read_rows(GLUE["mnli"], tmp_path, "dev")] == [
        "matched", "mismatched"]


def test_scores(tmp_path):
    write(tmp_path, "dev.tsv", "sentence1\tsentence2\tscore", "a\tb\t2.5", "a\tb\t0")
    rows = tasks.read_rows(GLUE["sts-b"], tmp_path, "dev")
    assert [row.label for row in rows] == [2.5, 0.0]
    assert tasks.label_ids(GLUE["sts-b"], rows).dtype == np.float32


def test_labels_may_be_absent_or_odd_where_they_are_not_needed(tmp_path):
    header = "index\tsentence1\tsentence2\tlabel"
    write(tmp_path, "test.tsv", header, "0\ta\tb\t", "1\ta\tb\t?", "2\ta\tb\tentailment")
    rows = tasks.read_rows(GLUE["rte"], tmp_path, "test")
    assert [row.label for row in rows] == [None, None, "entailment"]
    with pytest.raises(UserError, match="column 'label' is empty"):
        tasks.read_rows(GLUE["rte"], tmp_path, "test", need_labels=True)
    write(tmp_path, "dev.tsv", "sentence1\tsentence2", "a\tb")
    assert tasks.read_rows(GLUE["rte"], tmp_path, "dev", need_labels=False)[0].label is None


def test_own_files(tmp_path):
    write(tmp_path, "train.tsv", "name\tfirst\tsecond\tclass", "x1\ta\tb\tsport ",
          "x2\tc\td\tarts", "x3\te\tf\tsport")
    chosen = dict(text_a_column="first", text_b_column="second", label_column="class")
    task = tasks.get_task(settings(tmp_path, id_column="name", **chosen))
    assert task.labels == ("arts", "sport") and task.head == "classification_tsv"
    rows = tasks.read_rows(task, tmp_path, "train")
    assert rows[0] == Row("x1", "a", "b", "sport")
    assert tasks.label_ids(task, rows).tolist() == [1, 0, 1]
    assert tasks.examples(task, rows)[1] == ((("c", "d"),), 0)
    unnamed = tasks.get_task(settings(tmp_path, **chosen))
    assert [row.id for row in tasks.read_rows(unnamed, tmp_path, "train")] == ["0", "1", "2"]


def test_own_scores(tmp_path):
    write(tmp_path, "train.tsv", "text_a\tlabel", "a\t1.5")
    task = tasks.get_task(settings(tmp_path, is_regression=True))
    assert task.is_regression and task.head == "regression_tsv"
    assert tasks.read_rows(task, tmp_path, "train")[0].label == 1.5


def test_own_file_with_a_single_label(tmp_path):
    write(tmp_path, "train.tsv", "text_a\tlabel", "a\tx", "b\tx")
    with pytest.raises(UserError, match="column 'label' holds a single label, 'x'"):
        tasks.get_task(settings(tmp_path))


# --- Faults: content of the file, what the one line says

RTE = "index\tsentence1\tsentence2\tlabel\n"
FAULTS = {
    "empty file": ("rte", b"", "dev.tsv: the file is empty"),
    "blank lines only": ("rte", b"\n \n", "dev.tsv: the file is empty"),
    "no rows": ("rte", RTE, "dev.tsv: no rows after the header"),
    "wrong column": ("rte", "index\tsentence_1\tsentence2\tlabel\n0\ta\tb\tentailment\n",
                     "dev.tsv: no column 'sentence1'; did you mean 'sentence_1'? "
                     "(tab-separated columns: index, sentence_1, sentence2, label)"),
    "no label column": ("rte", "index\tsentence1\tsentence2\n0\ta\tb\n",
                        "dev.tsv: no column 'label'"),
    "commas": ("rte", "index,sentence1,sentence2,label\n", "no column 'sentence1'"),
    "few columns": ("rte", RTE + "0\ta\tb\tentailment\n1\ta\tb\n",
                    "dev.tsv:3: 3 column(s), expected 4"),
    "tab in a text": ("rte", RTE + "0\ta\ta\tb\tentailment\n",
                      "dev.tsv:2: 5 column(s), expected 4"),
    "blank row": ("rte", RTE + "\n0\ta\tb\tentailment\n", "dev.tsv:2: 1 column(s), expected 4"),
    "unknown label": ("rte", RTE + "0\ta\tb\tmaybe\n", "dev.tsv:2: unknown label 'maybe' "
                      "(labels: entailment, not_entailment)"),
    "no label": ("rte", RTE + "0\ta\tb\t\n", "dev.tsv:2: column 'label' is empty"),
    "empty text": ("rte", RTE + "0\ta\t \tentailment\n", "dev.tsv:2: column 'sentence2' is empty"),
    "not UTF-8": ("rte", RTE.encode() + b"0\ta\tb\tentailment\n1\t\xe9\tb\tentailment\n",
                  "dev.tsv:3: not UTF-8: byte 0xe9 at column 3"),
    "UTF-16": ("rte", RTE.encode("utf-16"), "dev.tsv:1: not UTF-8"),
    "several": ("rte", RTE + "0\ta\tb\tx\n1\ta\n2\ta\tb\tentailment\n3\t\tb\tentailment\n",
                "dev.tsv:2: unknown label 'x' (labels: entailment, not_entailment) "
                "(and 2 more faulty row(s))"),
    "header where there is none": ("cola", "source\tlabel\tmark\tsentence\ngj04\t1\t\tHe ran.\n",
                                   "dev.tsv:1: unknown label 'label'"),
    "no number": ("sts-b", "sentence1\tsentence2\tscore\na\tb\thigh\n",
                  "dev.tsv:2: column 'score': 'high' is not a number"),
    "not finite": ("sts-b", "sentence1\tsentence2\tscore\na\tb\tnan\n",
                   "dev.tsv:2: column 'score': 'nan' is not a number"),
    "few broken rows of many": ("qqp", "question1\tquestion2\tis_duplicate\na\t\t1\na\tb\t0\n",
                                "dev.tsv:2: column 'question2' is empty"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(fault, tmp_path):
    name, content, message = FAULTS[fault]
    content = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "dev.tsv").write_bytes(content)
    with pytest.raises(UserError) as e:
        tasks.read_rows(GLUE[name], str(tmp_path), "dev")
    assert message in str(e.value) and str(tmp_path) in str(e.value)
    assert "\n" not in str(e.value)


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match="task rte: no such file: .*dev.tsv"):
        tasks.read_rows(GLUE["rte"], str(tmp_path), "dev")
    with pytest.raises(UserError, match="no such file: .*train.tsv"):
        tasks.get_task(settings(tmp_path))


def test_missing_columns_of_own_files(tmp_path):
    write(tmp_path, "train.tsv", "text_a\tlabel\tid", "a\t0\t5", "b\t1\t6")
    for column, asked, hint in (("text_a_column", "texta", "text_a"),
                                ("text_b_column", "text_b", "text_a"),
                                ("label_column", "labels", "label"),
                                ("id_column", "idx", "id")):
        with pytest.raises(UserError) as e:
            tasks.get_task(settings(tmp_path, **{column: asked}))
        assert "no column '%s'; did you mean '%s'?" % (asked, hint) in str(e.value)


def test_known_broken_rows_are_left_out_with_a_note(tmp_path, capsys):
    good = ["%d\ta\tb\t1" % i for i in range(200)]
    header = "id\tquestion1\tquestion2\tis_duplicate"
    write(tmp_path, "train.tsv", header, "x\ta\t\t1", *good, "y\ta")
    rows = tasks.read_rows(GLUE["qqp"], tmp_path, "train")
    assert [row.id for row in rows] == [str(i) for i in range(200)]
    assert "left out 2 row(s)" in capsys.readouterr().err
    write(tmp_path, "train.tsv", header, "x\ta\t\t1", *good, "y\ta\tb\t2")
    with pytest.raises(UserError, match="train.tsv:2: column 'question2' is empty .and 1 more"):
        tasks.read_rows(GLUE["qqp"], tmp_path, "train")


# --- Metrics

def test_metrics_by_hand():
    predictions, labels = [1, 1, 0, 0, 1], [1, 0, 0, 1, 1]    # tp 2, fp 1, fn 1, tn 1
    assert tasks.evaluate(GLUE["mrpc"], predictions, labels) == {
        "f1": pytest.approx(2 / 3), "accuracy": pytest.approx(0.6)}
    matthews = (2 * 1 - 1 * 1) / np.sqrt(3 * 3 * 2 * 2)
    result = tasks.evaluate(GLUE["cola"], predictions, labels)
    assert result["matthews"] == pytest.approx(matthews)
    assert list(result) == ["matthews", "accuracy"]


def test_correlations_by_hand():
    result = tasks.evaluate(GLUE["sts-b"], [1.0, 2.0, 4.0], [1.0, 2.0, 3.0])
    assert result["spearman"] == pytest.approx(1)
    assert result["pearson"] == pytest.approx(np.corrcoef([1, 2, 4], [1, 2, 3])[0, 1])
    assert list(result) == ["pearson", "spearman"]


@pytest.mark.parametrize("predictions, labels", [([2, 2, 2], [1, 2, 3]), ([1, 2, 3], [2, 2, 2]),
                                                 ([1], [2])])
def test_constant_scores_have_no_correlation(predictions, labels):
    scores = [np.array(values, np.float32) for values in (predictions, labels)]
    assert tasks.evaluate(GLUE["sts-b"], *scores) == {"pearson": 0, "spearman": 0}


def test_constant_labels_have_no_matthews():
    assert tasks.evaluate(GLUE["cola"], [1, 1, 1], [1, 0, 1])["matthews"] == 0
    assert tasks.evaluate(GLUE["mrpc"], [0, 0], [0, 1])["f1"] == 0


def test_scores_that_are_not_finite():
    with pytest.raises(UserError, match="task sts-b: 1 of 2 predicted scores are not finite"):
        tasks.evaluate(GLUE["sts-b"], [np.nan, 1], [1, 2])


def test_macro_f1_of_own_labels():
    task = dataclasses.replace(GLUE["mnli"], metrics=("macro_f1",))
    # f1 is 1 for label 0, 0 for label 1 (never predicted) and 2/3 for label 2.
    assert tasks.evaluate(task, [0, 2, 2], [0, 1, 2]) == {"macro_f1": pytest.approx(5 / 9)}


def test_majority_baseline():
    assert tasks.majority_baseline(GLUE["rte"], [1, 1, 0]) == {"accuracy": pytest.approx(2 / 3)}
    assert tasks.majority_baseline(GLUE["mrpc"], [1, 1, 0])["f1"] == pytest.approx(0.8)
    assert tasks.majority_baseline(GLUE["sts-b"], np.array([1.1, 2.3, 3.7], np.float32)) == {
        "pearson": 0, "spearman": 0}


# --- Prediction files

ROWS = [Row("a7", "x", None, None), Row("3", "y", None, None)]


def test_prediction_file(tmp_path):
    path = tmp_path / "out" / "p.tsv"
    tasks.write_predictions(str(path), GLUE["rte"], ROWS, np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert path.read_text("utf-8") == (
        "id\tlabel\tp_entailment\tp_not_entailment\n"
        "a7\tnot_entailment\t0.250000\t0.750000\n3\tentailment\t0.500000\t0.500000\n")


def test_prediction_file_of_scores(tmp_path):
    path = tmp_path / "p.tsv"
    tasks.write_predictions(str(path), GLUE["sts-b"], ROWS, np.array([2.5, 0]))
    assert path.read_text("utf-8") == "id\tscore\na7\t2.500000\n3\t0.000000\n"


def test_submission_file(tmp_path):
    path = tmp_path / GLUE["mnli"].submissions["test_matched"]
    assert path.name == "MNLI-m.tsv"
    tasks.write_submission(str(path), GLUE["mnli"], ROWS, np.eye(3)[[2, 0]])
    assert path.read_text("utf-8") == "index\tprediction\na7\tneutral\n3\tcontradiction\n"


def test_a_row_too_many_is_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"\(3, 2\), expected \(2, 2\)"):
        tasks.write_predictions(str(tmp_path / "p.tsv"), GLUE["rte"], ROWS, np.zeros((3, 2)))
    assert not list(tmp_path.iterdir())
