"""Prediction files and submissions."""

import numpy as np
import pytest

from xlnet.support.errors import UserError
from xlnet.tasks.fields import Columns, Row
from xlnet.tasks.known import TASK_TYPES, TASKS
from xlnet.tasks.results import write_predictions

# --- Prediction files

ROWS = [Row("a7", (("x", None),), None), Row("3", (("y", None),), None)]


def write(
    directory, task, rows, values, split="test", threshold=0.5, is_official=False
):
    """The path of the prediction file."""
    write_predictions(
        str(directory),
        task,
        split,
        rows,
        values,
        step=1,
        threshold=threshold,
        is_official=is_official,
        output=None,
    )
    return directory / (f"predictions_{task.name}_{split}.tsv")


SEVERAL = TASK_TYPES["multi_label"](
    "mine",
    Columns(("t",), (), ("l",)),
    ("a", "b"),
    ("accuracy",),
)


@pytest.mark.parametrize(
    "task, rows, values, text",
    [
        # The gold labels that there are; of equal probabilities the first label.
        (
            TASKS["rte"],
            [ROWS[0]._replace(label="entailment"), ROWS[1]],
            [[0.25, 0.75], [0.5, 0.5]],
            "id\tlabel\tp_entailment\tp_not_entailment\tgold\n"
            "a7\tnot_entailment\t0.25\t0.75\tentailment\n3\tentailment\t0.5\t0.5\t\n",
        ),
        (TASKS["sts-b"], ROWS, [2.5, 0], "id\tscore\na7\t2.5\n3\t0\n"),
        (
            TASKS["sts-b"],
            [ROWS[0]._replace(id="a\tb\nc")],
            [1.0],
            'id\tscore\n"a\tb\nc"\t1\n',
        ),
        (
            SEVERAL,
            ROWS,
            [[0.9, 0.7], [0.2, 1 / 3]],
            "id\tlabels\tp_a\tp_b\na7\ta,b\t0.9\t0.7\n3\t\t0.2\t0.333333333\n",
        ),
    ],
)
def test_prediction_file(tmp_path, task, rows, values, text):
    path = write(tmp_path / "out", task, rows, np.array(values))
    assert [file.name for file in (tmp_path / "out").iterdir()] == [path.name]
    assert path.read_bytes().decode() == text


NAN = np.array([[np.nan, np.nan], [0.5, 0.5]])
FINITE = np.zeros([2, 1])


@pytest.mark.parametrize(
    "task, outputs",
    [
        (TASKS["rte"], {"values": NAN}),
        (TASKS["sts-b"], {"values": np.array([np.inf, 0.0])}),
        (TASKS["ranking"], {"values": NAN[:, 0]}),
        (SEVERAL, {"values": np.array([[0.9, np.nan], [0.2, 0.4]])}),
        (
            TASKS["squad1"],
            {
                "null_score": NAN[:, 0],
                "is_allowed": np.zeros([2, 1, 1], bool),
                "char_start": FINITE,
                "char_end": FINITE[..., None],
                "start_log_prob": FINITE,
                "end_log_prob": FINITE[..., None],
            },
        ),
        (
            TASKS["conll2003"],
            {"values": FINITE.astype(int), "probabilities": NAN[:, :1]},
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_predictions_that_are_not_finite_are_refused(task, outputs):
    """Before anything is computed of them, or written."""
    said = "found NaN or infinity, expected finite numbers; if precision is fp16"
    with pytest.raises(UserError, match=said):
        task.join(outputs, np.ones(2, int))


# The names of GLUE's files and what its server accepts in them.
ZERO_OR_ONE = ("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "QQP.tsv", "WNLI.tsv")
RELATIONS = {"entailment", "neutral", "contradiction"}
GLUE_SUBMISSIONS = {
    **dict.fromkeys(ZERO_OR_ONE, {"0", "1"}),
    **dict.fromkeys(("MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"), RELATIONS),
    **dict.fromkeys(("QNLI.tsv", "RTE.tsv"), {"entailment", "not_entailment"}),
    "STS-B.tsv": None,
}


def test_submissions_have_what_glues_server_accepts(tmp_path):
    found = {}
    for name in list(TASKS)[:10]:
        task = TASKS[name]
        for split, file in task.published.submissions.items():
            rows = [Row(str(index), (("x", "y"),), None) for index in range(3)]
            count = len(task.labels or ())
            values = np.array([-1, 2.5, 6.0])
            if count:
                values = np.eye(count)[np.arange(3) % count]
            write(tmp_path, task, rows, values, split, is_official=True)
            text = (tmp_path / file).read_text()
            lines = [line.split("\t") for line in text.splitlines()]
            assert lines[0] == ["index", "prediction"]
            assert [line[0] for line in lines[1:]] == ["0", "1", "2"]
            found[file] = {line[1] for line in lines[1:]} if task.labels else None
            if name == "sts-b":
                assert [line[1] for line in lines[1:]] == ["0", "2.5", "5"]
    assert found == GLUE_SUBMISSIONS
    # The threshold is that of both files.
    values = np.array([[0.8, 0.2], [0.6, 0.4]])
    path = write(tmp_path, TASKS["cola"], ROWS, values, threshold=0.3, is_official=True)
    assert path.read_text() == "id\tlabel\tp_0\tp_1\na7\t0\t0.8\t0.2\n3\t1\t0.6\t0.4\n"
    assert (tmp_path / "CoLA.tsv").read_text() == "index\tprediction\na7\t0\n3\t1\n"


def test_clues_server_takes_a_json_object_a_line(tmp_path):
    """As https://github.com/CLUEbenchmark/CLUE describes it, for the test sets of CLUE 1.1."""
    rows = [Row(id, (("x", None),), None) for id in ("0", "1")]
    write(tmp_path, TASKS["afqmc"], rows, np.eye(2)[[0, 1]], is_official=True)
    assert (tmp_path / "afqmc_predict.json").read_text() == (
        '{"id": 0, "label": "0"}\n{"id": 1, "label": "1"}\n'
    )
    assert [
        TASKS[name].published.submissions["test"]
        for name in ("tnews", "iflytek", "cmnli", "ocnli", "csl", "cluewsc")
    ] == [
        name + "_predict.json"
        for name in ("tnews11", "iflytek", "cmnli", "ocnli_50k", "csl", "cluewsc11")
    ]
