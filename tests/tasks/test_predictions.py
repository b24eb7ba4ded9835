"""Prediction files and submissions."""

import csv
import dataclasses

import numpy as np
import pytest

from xlnet.errors import UserError
from xlnet.tasks.files import forms, readers, tagged_words
from xlnet.tasks.output import prediction_files
from xlnet.tasks.questions.answers import BestSpans
from xlnet.tasks.task import Columns, Form, Row, Task
from xlnet.tasks.types.known import GLUE, TASK_TYPES, TASKS
from xlnet.tasks.types.tagging import Tags

# --- Prediction files

ROWS = [Row("a7", (("x", None),), None), Row("3", (("y", None),), None)]


def write(directory, task, rows, values, split="test", threshold=0.5, is_official=False):
    """The path of the prediction file."""
    prediction_files.write(
        str(directory),
        task,
        split,
        rows,
        values,
        step=1,
        threshold=threshold,
        is_official=is_official,
    )
    return directory / (f"predictions_{task.name}_{split}.tsv")


SEVERAL = Task(
    "mine", Columns(("t",), (), ("l",)), ("a", "b"), ("accuracy",), TASK_TYPES["multi_label"]
)


@pytest.mark.parametrize(
    "task, rows, values, threshold, text",
    [
        (
            GLUE["rte"],
            ROWS,
            [[0.25, 0.75], [0.5, 0.5]],
            0.5,
            "id\tlabel\tp_entailment\tp_not_entailment\n"
            "a7\tnot_entailment\t0.250000\t0.750000\n3\tentailment\t0.500000\t0.500000\n",
        ),
        (GLUE["sts-b"], ROWS, [2.5, 0], 0.5, "id\tscore\na7\t2.500000\n3\t0.000000\n"),
        (
            GLUE["sts-b"],
            [Row("a\tb\nc", (("x", None),), None)],
            [1.0],
            0.5,
            "id\tscore\na b c\t1.000000\n",
        ),
        (
            SEVERAL,
            ROWS,
            [[0.9, 0.7], [0.2, 0.4]],
            0.5,
            "id\tlabels\tp_a\tp_b\na7\ta,b\t0.900000\t0.700000\n3\t\t0.200000\t0.400000\n",
        ),
        (
            GLUE["cola"],
            ROWS,
            [[0.8, 0.2], [0.5, 0.5]],
            0.1,
            "id\tlabel\tp_0\tp_1\na7\t1\t0.800000\t0.200000\n3\t1\t0.500000\t0.500000\n",
        ),
    ],
)
def test_prediction_file(tmp_path, task, rows, values, threshold, text):
    path = write(tmp_path / "out", task, rows, np.array(values), threshold=threshold)
    assert [file.name for file in (tmp_path / "out").iterdir()] == [path.name]
    assert path.read_text("utf-8") == text


@pytest.mark.parametrize(
    "separator, names, cells",
    [
        ("|", ("a", "b c"), ["a|b c", ""]),
        ("\n", ("a", "b c"), ['["a", "b c"]', "[]"]),
        ("\t", ("a", "b c"), ['["a", "b c"]', "[]"]),
        (None, ("a", "b\tc"), ['["a", "b\\tc"]', "[]"]),
    ],
)
def test_several_labels_stay_apart_in_the_line_of_a_table(tmp_path, separator, names, cells):
    task = dataclasses.replace(SEVERAL, labels=names).with_options(separator=separator)
    rows = [row._replace(label=label) for row, label in zip(ROWS, (names, ()))]
    path = write(tmp_path, task, rows, np.array([[0.9, 0.7], [0.2, 0.4]]))
    with open(path, encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file, delimiter="\t"))
    assert [line["labels"] for line in found] == [line["gold"] for line in found] == cells


@pytest.mark.parametrize(
    "task, values",
    [
        (GLUE["rte"], np.array([[np.nan, np.nan], [0.5, 0.5]])),
        (GLUE["sts-b"], np.array([np.inf, 0.0])),
        (TASKS["ranking"], np.array([np.nan, 0.0])),
        (SEVERAL, np.array([[0.9, np.nan], [0.2, 0.4]])),
        (TASKS["squad1"], [BestSpans([], np.nan), BestSpans([], 0.0)]),
        (TASKS["conll2003"], [Tags(np.zeros(1, int), np.full(1, each)) for each in (np.nan, 0.9)]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_predictions_that_are_not_finite_are_refused(tmp_path, task, values):
    rows = [row._replace(query="q", source=tagged_words.of_words(["x"])) for row in ROWS]
    with pytest.raises(UserError, match="predictions are not finite numbers"):
        write(tmp_path / "out", task, rows, values)
    assert not (tmp_path / "out").exists()


LABELLED = [
    Row("a", (("x", "y"),), "entailment"),
    Row("b", (("u\tv", "w"),), "not_entailment"),
    Row("c", (("z", "q"),), "entailment"),
]
VALUES = np.array([[0.25, 0.75], [0.9, 0.1], [0.8, 0.2]])


def test_a_prediction_file_has_the_gold_labels_that_there_are(tmp_path):
    path = write(tmp_path, GLUE["rte"], LABELLED, VALUES)
    lines = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    assert lines[0] == ["id", "label", "p_entailment", "p_not_entailment", "gold"]
    assert [(line[1], line[-1]) for line in lines[1:]] == [
        ("not_entailment", "entailment"),
        ("entailment", "not_entailment"),
        ("entailment", "entailment"),
    ]
    some = [LABELLED[0], LABELLED[1]._replace(label=None), Row("s", (), None)]
    path = write(tmp_path, GLUE["rte"], some, VALUES[:2])
    assert [line.split("\t")[-1] for line in path.read_text().splitlines()] == [
        "gold",
        "entailment",
        "",
        "",
    ]


def test_a_gold_score_keeps_its_digits(tmp_path):
    rows = [
        Row("a", (("x", "y"),), 1234567.0),
        Row("b", (("x", "y"),), 0.1),
        Row("c", (("x", "y"),), 3.14159265),
    ]
    path = write(tmp_path, GLUE["sts-b"], rows, np.array([1.0, 2.0, 3.0]))
    assert [line.split("\t")[-1] for line in path.read_text().splitlines()] == [
        "gold",
        "1234567",
        "0.1",
        "3.14159265",
    ]


def test_wrong_predictions_are_listed_the_worst_first(tmp_path):
    path = tmp_path / "errors_dev.tsv"
    assert prediction_files.write_errors(str(path), GLUE["rte"], LABELLED, VALUES, 0.5) == 2
    assert path.read_text("utf-8") == (
        "row\tid\terror\tgold\tpredicted\tprobability\ttext_a\ttext_b\n"
        "2\tb\t0.9\tnot_entailment\tentailment\t0.900000\tu v\tw\n"
        "1\ta\t0.75\tentailment\tnot_entailment\t0.750000\tx\ty\n"
    )
    rows = [
        Row("a", (("x", None),), ("a",)),
        Row("b", (("y", None),), ("a", "b")),
        Row("c", (("z", None),), ()),
    ]
    values = np.array([[0.9, 0.3], [0.2, 0.8], [0.1, 0.6]])
    assert prediction_files.write_errors(str(path), SEVERAL, rows, values, 0.5) == 2
    assert [line.split("\t")[2:6] for line in path.read_text().splitlines()[1:]] == [
        ["0.8", "a,b", "b", "0.800000"],
        ["0.6", "", "b", "0.600000"],
    ]
    rows = [Row("a", (("x", "y"),), 1.5), Row("b", (("u", "v"),), 2.0)]
    prediction_files.write_errors(str(path), GLUE["sts-b"], rows, np.array([1.0, 4.0]), 0.5)
    assert [line.split("\t")[2:6] for line in path.read_text().splitlines()[1:]] == [
        ["2", "2", "4.000000", ""],
        ["0.5", "1.5", "1.000000", ""],
    ]


def test_a_list_of_wrong_predictions_can_be_read_as_a_table(tmp_path):
    """Its quotation marks were written as they are, which readers of tables refuse."""
    path = tmp_path / "errors_dev.tsv"
    texts = ('"Fine," she said', 'a 3" nail')
    rows = [LABELLED[0]._replace(pairs=(texts,))]
    assert prediction_files.write_errors(str(path), GLUE["rte"], rows, VALUES[:1], 0.5) == 1
    table = readers.read_table(SEVERAL.reader, str(path), need_labels=False, given="tsv")
    ((_, cells),) = table.rows
    assert tuple(dict(zip(table.columns, cells))[name] for name in ("text_a", "text_b")) == texts


def test_errors_of_choices_have_the_texts_of_all_answers(tmp_path):
    task = TASKS["race"]
    rows = [Row("a", tuple(("text", f"q {each}") for each in "xyz"), "B")]
    path = tmp_path / "errors_dev.tsv"
    prediction_files.write_errors(str(path), task, rows, np.array([[0.7, 0.2, 0.1, 0.0]]), 0.5)
    assert path.read_text().splitlines()[1] == "1\ta\t0.8\tB\tA\t0.700000\ttext\tq x | q y | q z"


def test_errors_of_texts_that_are_read_apart_have_both(tmp_path):
    """Each is the first text of a pair of its own, as in the example with two towers."""
    rows = [Row("a", (("one", None), ("other", None)), 1.0)]
    path = tmp_path / "errors_dev.tsv"
    prediction_files.write_errors(str(path), GLUE["sts-b"], rows, np.array([0.5]), 0.5)
    assert path.read_text().splitlines()[1] == "1\ta\t0.5\t1\t0.500000\t\tone | other\t"


def test_submission_file(tmp_path):
    path = tmp_path / GLUE["mnli"].published.submissions["test_matched"]
    assert path.name == "MNLI-m.tsv"
    write(tmp_path, GLUE["mnli"], ROWS, np.eye(3)[[2, 0]], "test_matched", is_official=True)
    assert path.read_text("utf-8") == "index\tprediction\na7\tneutral\n3\tcontradiction\n"


def test_scores_for_the_server_are_from_0_to_5(tmp_path):
    """GLUE's server refuses others; our own file has what the metrics are computed of."""
    values = np.array([5.01, -0.02], np.float32)
    path = write(tmp_path, GLUE["sts-b"], ROWS, values, is_official=True)
    assert (tmp_path / "STS-B.tsv").read_text() == (
        "index\tprediction\na7\t5.000000\n3\t0.000000\n"
    )
    assert [line.split("\t")[:2] for line in path.read_text().splitlines()[1:]] == [
        ["a7", "5.010000"],
        ["3", "-0.020000"],
    ]


# The names of GLUE's files and what its server accepts in them.
GLUE_SUBMISSIONS = {
    "CoLA.tsv": {"0", "1"},
    "SST-2.tsv": {"0", "1"},
    "MRPC.tsv": {"0", "1"},
    "QQP.tsv": {"0", "1"},
    "WNLI.tsv": {"0", "1"},
    "MNLI-m.tsv": {"entailment", "neutral", "contradiction"},
    "MNLI-mm.tsv": {"entailment", "neutral", "contradiction"},
    "AX.tsv": {"entailment", "neutral", "contradiction"},
    "QNLI.tsv": {"entailment", "not_entailment"},
    "RTE.tsv": {"entailment", "not_entailment"},
    "STS-B.tsv": None,
}


def test_submissions_have_what_glues_server_accepts(tmp_path):
    found = {}
    for name, task in GLUE.items():
        for split, file in task.published.submissions.items():
            rows = [Row(str(index), (("x", "y"),), None) for index in range(3)]
            count = len(task.labels or ())
            values = np.eye(count)[np.arange(3) % count] if count else np.array([-1, 2.5, 6.0])
            write(tmp_path, task, rows, values, split, is_official=True)
            lines = [line.split("\t") for line in (tmp_path / file).read_text().splitlines()]
            assert lines[0] == ["index", "prediction"]
            assert [line[0] for line in lines[1:]] == ["0", "1", "2"]
            found[file] = {line[1] for line in lines[1:]} if task.labels else None
            if name == "sts-b":
                assert all(0 <= float(line[1]) <= 5 for line in lines[1:])
    assert found == GLUE_SUBMISSIONS


def test_a_submission_has_the_threshold_of_the_prediction_file(tmp_path):
    write(
        tmp_path,
        GLUE["cola"],
        ROWS,
        np.array([[0.8, 0.2], [0.6, 0.4]]),
        threshold=0.3,
        is_official=True,
    )
    assert (tmp_path / "CoLA.tsv").read_text() == "index\tprediction\na7\t0\n3\t1\n"
    rows = [Row("0", (("x", None),), None)]
    write(tmp_path, TASKS["afqmc"], rows, np.array([[0.6, 0.4]]), threshold=0.3, is_official=True)
    assert (tmp_path / "afqmc_predict.json").read_text() == '{"id": 0, "label": "1"}\n'


def test_a_submission_without_some_rows_is_not_written(tmp_path, caplog):
    """Its server expects all of them; their predictions would be those of other rows."""
    path = write(
        tmp_path,
        GLUE["cola"],
        [ROWS[0], Row("x", (), None), ROWS[1]],
        np.array([[0.8, 0.2], [0.6, 0.4]]),
        is_official=True,
    )
    assert path.exists() and not (tmp_path / "CoLA.tsv").exists()
    assert "CoLA.tsv is not written" in caplog.text


@pytest.mark.parametrize(
    "name, values",
    [("rte", np.zeros((2, 3))), ("rte", np.zeros((3, 2))), ("sts-b", np.zeros((2, 1)))],
)
def test_values_of_another_width_are_refused(tmp_path, name, values):
    with pytest.raises(ValueError, match="expected"):
        write(tmp_path, GLUE[name], ROWS, values)
    assert not list(tmp_path.iterdir())


def test_a_skipped_row_has_an_empty_answer_in_its_place(tmp_path):
    rows = [Row("2", (), None), ROWS[0], Row("x", (), None), ROWS[1]]
    path = write(tmp_path, GLUE["rte"], rows, np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert path.read_text("utf-8").splitlines()[1:] == [
        "2\t\t\t",
        "a7\tnot_entailment\t0.250000\t0.750000",
        "x\t\t\t",
        "3\tentailment\t0.500000\t0.500000",
    ]
    ranked = [Row("d1", (("q", "x"),), None, "q1"), Row("d2", (), None, "q1")]
    path = write(tmp_path, TASKS["ranking"], ranked, np.array([0.5], np.float32))
    assert path.read_text() == "query\tid\tscore\nq1\td1\t0.500000\nq1\td2\t\n"
    assert path.with_suffix(".run").read_text() == "q1 Q0 d1 1 0.5 xlnet\n"


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


# --- The form of the input


def written(tmp_path, task, rows, values, name, **form):
    """The bytes of a prediction file that a flag names."""
    prediction_files.write(
        str(tmp_path),
        task,
        "new",
        rows,
        values,
        step=1,
        threshold=0.5,
        is_official=False,
        output=str(tmp_path / name),
        form=Form(**form),
    )
    return (tmp_path / name).read_bytes()


GERMAN = dict(delimiter=";", encoding="utf-8-sig", decimal=",")


def test_a_table_of_a_german_spreadsheet_gives_one(tmp_path):
    rows = [Row("Müller; A.", (("x", None),), "2.5"), Row("1.5", (("y", None),), None)]
    text = "\ufeffid;label;p_entailment;p_not_entailment;gold\n" + (
        '"Müller; A.";not_entailment;0,250000;0,750000;2.5\n1.5;entailment;0,500000;0,500000;\n'
    )
    found = written(
        tmp_path, GLUE["rte"], rows, np.array([[0.25, 0.75], [0.5, 0.5]]), "p.csv", **GERMAN
    )
    assert found.decode() == text
    rows = [row._replace(label=score) for row, score in zip(rows, (2.5, 1.0))]
    found = written(tmp_path, GLUE["sts-b"], rows, np.array([2.25, 0]), "p.csv", **GERMAN)
    assert found.decode("utf-8-sig").splitlines()[1:] == [
        '"Müller; A.";2,250000;2,5',
        "1.5;0,000000;1",
    ]


@pytest.mark.parametrize(
    "name, form, line",
    [
        ("p.csv", dict(), 'ü,"c";,0.250000'),
        ("p.tsv", dict(delimiter=";"), '"ü,""c"";"\t0.250000'),
        ("p.csv", dict(delimiter="|", quoting="none"), 'ü,"c";|0.250000'),
        ("p.csv", dict(delimiter="|", quoting="standard"), '"ü,""c"";"|0.250000'),
        ("p.csv", dict(encoding="cp1252", delimiter="|"), '"ü,""c"";"|0.250000'),
        ("p.tsv", dict(encoding="utf-16", quoting="standard"), '"ü,""c"";"\t0.250000'),
    ],
)
def test_tables_in_the_form_of_the_input(tmp_path, name, form, line):
    rows = [Row('ü,"c";', (("x", None),), None)]
    found = written(tmp_path, GLUE["sts-b"], rows, np.array([0.25]), name, **form)
    expected = line if name.endswith(".tsv") or "delimiter" in form else '"ü,""c"";",0.250000'
    assert found.decode(form.get("encoding", "utf-8")).splitlines()[1] == expected


def test_a_table_without_names_gives_one(tmp_path):
    """The names were its first line, which whoever joins both files by line took for a row."""
    found = [
        written(tmp_path, GLUE["sts-b"], ROWS, np.array([2.25, 0]), "p.tsv", header=header)
        for header in ("names", None, "none")
    ]
    assert found[0] == found[1] == b"id\tscore\n" + found[2]
    assert found[2] == b"a7\t2.250000\n3\t0.000000\n"


def test_a_label_that_the_encoding_does_not_have_is_named(tmp_path):
    rows = [Row("字", (("x", None),), None)]
    with pytest.raises(UserError, match="p.csv: '字' is not in cp1252"):
        written(tmp_path, GLUE["sts-b"], rows, np.array([0.25]), "p.csv", encoding="cp1252")
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("name, form", [("p.tsv", {}), ("p.csv", {"delimiter": "\t"})])
def test_quotation_marks_between_tabs_are_read_back(tmp_path, name, form):
    """They were written as they are, and a name between them lost them without a word."""
    rows = [Row(id, (("x", None),), None) for id in ('"a"', 'b "c"', '"d')]
    values = np.array([1.0, 2.0, 3.0])
    written(tmp_path, GLUE["sts-b"], rows, values, name, **form)
    in_directory = write(tmp_path, GLUE["sts-b"], rows, values)
    for path, read in ((tmp_path / name, Form(name=name[2:], **form)), (in_directory, Form("tsv"))):
        lines = readers.read_lines(str(path), "predictions")
        found = forms.read_separated(lines.path, lines, read)
        assert [cells for _, cells in found.rows] == [
            ['"a"', "1.000000"],
            ['b "c"', "2.000000"],
            ['"d', "3.000000"],
        ]


@pytest.mark.parametrize("form", [{}, {"decimal": ","}])
def test_a_cell_with_the_delimiter_is_refused_where_nothing_is_quoted(tmp_path, form):
    """The delimiter became a space: 0,25 was 0 25, and two labels were one of another name."""
    rows, values = [Row("a,b" * (not form), (("x", None),), None)], np.array([0.25])
    with pytest.raises(UserError, match="p.csv: the cell '.*,.*' has the delimiter.*in .tsv"):
        written(tmp_path, GLUE["sts-b"], rows, values, "p.csv", quoting="none", **form)
    assert not (tmp_path / "p.csv").exists()
    found = written(tmp_path, GLUE["sts-b"], rows, values, "p.tsv", quoting="none", **form)
    assert b"," in found
