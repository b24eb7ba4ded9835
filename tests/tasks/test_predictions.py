"""Prediction files and submissions."""

import numpy as np
import pytest

from xlnet.tasks import prediction_files
from xlnet.tasks.known import GLUE
from xlnet.tasks.registry import KINDS
from xlnet.tasks.task import Row, Task

# --- Prediction files

ROWS = [Row("a7", (("x", None),), None), Row("3", (("y", None),), None)]


def write(directory, task, rows, values, split="test", threshold=0.5, is_official=False):
    """The path of the prediction file."""
    prediction_files.write(str(directory), task, split, rows, values, step=1, threshold=threshold,
                           is_official=is_official)
    return directory / ("predictions_%s_%s.tsv" % (task.name, split))


def test_prediction_file(tmp_path):
    path = write(tmp_path / "out", GLUE["rte"], ROWS, np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert [file.name for file in (tmp_path / "out").iterdir()] == [path.name]
    assert path.read_text("utf-8") == (
        "id\tlabel\tp_entailment\tp_not_entailment\n"
        "a7\tnot_entailment\t0.250000\t0.750000\n3\tentailment\t0.500000\t0.500000\n")


def test_prediction_file_of_scores(tmp_path):
    path = write(tmp_path, GLUE["sts-b"], ROWS, np.array([2.5, 0]))
    assert path.read_text("utf-8") == "id\tscore\na7\t2.500000\n3\t0.000000\n"


def test_submission_file(tmp_path):
    path = tmp_path / GLUE["mnli"].submissions["test_matched"]
    assert path.name == "MNLI-m.tsv"
    write(tmp_path, GLUE["mnli"], ROWS, np.eye(3)[[2, 0]], "test_matched", is_official=True)
    assert path.read_text("utf-8") == "index\tprediction\na7\tneutral\n3\tcontradiction\n"


def test_a_row_too_many_is_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"\(3, 2\), expected \(2, 2\)"):
        write(tmp_path, GLUE["rte"], ROWS, np.zeros((3, 2)))
    assert not list(tmp_path.iterdir())


def test_prediction_file_of_several_labels(tmp_path):
    task = Task("mine", ("t",), (), ("l",), ("a", "b"), ("accuracy",), KINDS["multi_label"])
    path = write(tmp_path, task, ROWS, np.array([[.9, .7], [.2, .4]]))
    assert path.read_text("utf-8") == (
        "id\tlabels\tp_a\tp_b\na7\ta,b\t0.900000\t0.700000\n3\t\t0.200000\t0.400000\n")


def test_threshold(tmp_path):
    path = write(tmp_path, GLUE["cola"], ROWS, np.array([[.8, .2], [.5, .5]]), threshold=0.1)
    assert [line.split("\t")[1] for line in path.read_text().splitlines()] == ["label", "1", "1"]


def test_cells_hold_no_tab(tmp_path):
    path = write(tmp_path, GLUE["sts-b"], [Row("a\tb\nc", (), None)], [1.])
    assert path.read_text() == "id\tscore\na b c\t1.000000\n"
