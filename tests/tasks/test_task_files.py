"""Files of tasks: what is read from each form, what is refused and how it is told."""

import json

import numpy as np
import pytest

from xlnet.errors import UserError
from xlnet.tasks import parsing
from xlnet.tasks.known import GLUE, TASKS
from xlnet.tasks.task import Row


def write(directory, name, *lines):
    content = "".join(line + "\n" for line in lines)
    (directory / name).write_bytes(content.encode("utf-8", "surrogateescape"))


# --- Rows

def test_file_without_header_and_its_test_file(tmp_path):
    write(tmp_path, "dev.tsv", 'gj04\t1\t\tHe "ran.', "gj04\t0\t*\tIt it.")
    write(tmp_path, "test.tsv", "index\tsentence", "7\tShe sat.")
    task = GLUE["cola"]
    assert parsing.read_rows(task, tmp_path, "dev") == [
        Row("0", (('He "ran.', None),), "1"), Row("1", (("It it.", None),), "0")]
    assert parsing.read_rows(task, tmp_path, "test") == [Row("7", (("She sat.", None),), None)]


def test_byte_order_mark_and_carriage_returns(tmp_path):
    write(tmp_path, "train.tsv", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r",
          "1\t5\t6\tA one.\tA two.\r")
    assert parsing.read_rows(GLUE["mrpc"], tmp_path, "train") == [
        Row("0", (("A one.", "A two."),), "1")]


def test_only_a_line_feed_ends_a_row(tmp_path):
    text = "a\u0085b\u2028c\x0bd\x0ce\x1cf"
    write(tmp_path, "train.tsv", "sentence\tlabel", text + "\t1", "", "")
    rows = parsing.read_rows(GLUE["sst-2"], tmp_path, "train")
    assert rows == [Row("0", ((text, None),), "1")]


def test_official_index_is_the_id(tmp_path):
    write(tmp_path, "train.tsv", "index\tsentence1\tsentence2\tlabel", "9\ta\tb\tentailment")
    assert parsing.read_rows(GLUE["rte"], tmp_path, "train")[0].id == "9"


def test_both_halves_of_mnli(tmp_path):
    for half in ("matched", "mismatched"):
        write(tmp_path, "dev_%s.tsv" % half, "index\tsentence1\tsentence2\tgold_label",
              "0\t%s\tb\tneutral" % half)
    assert [row.pairs[0][0] for row in parsing.read_rows(GLUE["mnli"], tmp_path, "dev")] == [
        "matched", "mismatched"]


def test_scores(tmp_path):
    write(tmp_path, "dev.tsv", "sentence1\tsentence2\tscore", "a\tb\t2.5", "a\tb\t0")
    rows = parsing.read_rows(GLUE["sts-b"], tmp_path, "dev")
    assert [row.label for row in rows] == [2.5, 0.0]
    assert GLUE["sts-b"].kind.label_array(GLUE["sts-b"], rows).dtype == np.float32


def test_labels_may_be_absent_or_odd_where_they_are_not_needed(tmp_path):
    header = "index\tsentence1\tsentence2\tlabel"
    write(tmp_path, "test.tsv", header, "0\ta\tb\t", "1\ta\tb\t?", "2\ta\tb\tentailment")
    rows = parsing.read_rows(GLUE["rte"], tmp_path, "test")
    assert [row.label for row in rows] == [None, None, "entailment"]
    with pytest.raises(UserError, match="column 'label' is empty"):
        parsing.read_rows(GLUE["rte"], tmp_path, "test", need_labels=True)
    write(tmp_path, "dev.tsv", "sentence1\tsentence2", "a\tb")
    assert parsing.read_rows(GLUE["rte"], tmp_path, "dev", need_labels=False)[0].label is None


# --- Other forms

def rows_of(name, directory, split, **more):
    return parsing.read_rows(TASKS[name], str(directory), split, **more)


def test_csv_with_line_breaks_and_quotation_marks(tmp_path):
    write(tmp_path, "train.csv", '"5","a ""b"", c', 'd"', '"1","x\\n\\ny \\""z\\"""')
    rows = parsing.read_file(TASKS["yelp-5"], str(tmp_path / "train.csv"), True,
                             header=("label", "text"))
    assert rows == [Row("0", (('a "b", c\nd', None),), "5"), Row("1", (('x  y "z"', None),), "1")]


def test_title_and_text(tmp_path):
    write(tmp_path, "test.csv", '"3","A title","social\\network"', '"1","","text"')
    assert [row.pairs[0][0] for row in rows_of("ag_news", tmp_path, "test", need_labels=True)] == [
        "A title social network", "text"]


def test_json_lines(tmp_path):
    write(tmp_path, "train.json",
          json.dumps({"label": "100", "sentence": "一", "keywords": "", "more": {"a": 1}}),
          json.dumps({"label": 116, "sentence": "二", "id": 7}))
    assert rows_of("tnews", tmp_path, "train") == [
        Row("0", (("一", None),), "100"), Row("7", (("二", None),), "116")]
    write(tmp_path, "test.json", json.dumps([{"sentence": "三", "id": 3}]))
    assert rows_of("tnews", tmp_path, "test") == [Row("3", (("三", None),), None)]


def test_values_inside_of_values_and_lists(tmp_path):
    write(tmp_path, "train.json", json.dumps(
        {"text": "t", "target": {"span1_text": "a", "span2_text": "b"}, "label": "true"}))
    assert rows_of("cluewsc", tmp_path, "train")[0].pairs == (("t", "b a"),)
    write(tmp_path, "dev.json", json.dumps(
        {"id": 5, "abst": "t", "keyword": ["a", "b"], "label": "0"}))
    assert rows_of("csl", tmp_path, "dev") == [Row("5", (("a b", "t"),), "0")]


def test_rows_without_an_agreed_label_are_left_out(tmp_path):
    write(tmp_path, "snli_1.0_dev.jsonl", *(json.dumps(
        dict(gold_label=label, sentence1="a", sentence2="b", pairID="p" + label))
        for label in ("neutral", "-", "entailment")))
    assert [row.id for row in rows_of("snli", tmp_path, "dev")] == ["pneutral", "pentailment"]


def test_one_language_of_several(tmp_path):
    write(tmp_path, "multinli.train.de.tsv", "premise\thypo\tlabel", "a\tb\tcontradictory")
    assert rows_of("xnli-de", tmp_path, "train") == [Row("0", (("a", "b"),), "contradiction")]
    (tmp_path / "XNLI-1.0").mkdir()
    write(tmp_path / "XNLI-1.0", "xnli.dev.tsv", "language\tgold_label\tsentence1\tsentence2",
          "zh\tneutral\tx\ty", "de\tneutral\ta\tb")
    assert rows_of("xnli-de", tmp_path, "dev") == [Row("1", (("a", "b"),), "neutral")]


def test_a_directory_of_texts(tmp_path):
    for label, name in (("pos", "10_7"), ("pos", "9_8"), ("neg", "0_1")):
        (tmp_path / "test" / label).mkdir(parents=True, exist_ok=True)
        write(tmp_path / "test" / label, name + ".txt", "A <br /><br />text.", "")
    rows = rows_of("imdb", tmp_path, "test", need_labels=True)
    assert [row.id for row in rows] == ["neg/0_1", "pos/9_8", "pos/10_7"]
    assert [row.label for row in rows] == ["neg", "pos", "pos"]
    assert rows[0].pairs == (("A   text.", None),)
    (tmp_path / "test" / "neg" / "0_1.txt").write_text(" ")
    with pytest.raises(UserError, match="0_1.txt: column 'text' is empty"):
        rows_of("imdb", tmp_path, "test")
    with pytest.raises(UserError, match="no such directory: .*train.neg"):
        (tmp_path / "train").mkdir()
        rows_of("imdb", tmp_path, "train")


def test_articles_with_questions(tmp_path):
    for folder, number in (("middle", 5), ("high", 3)):
        (tmp_path / "dev" / folder).mkdir(parents=True)
        (tmp_path / "dev" / folder / ("%d.txt" % number)).write_text(json.dumps(dict(
            article="a", questions=["It is _ .", "Why?"], options=[list("wxyz")] * 2,
            answers=["B", "A"], id="%s%d.txt" % (folder, number))))
    rows = rows_of("race", tmp_path, "dev")
    assert [row.id for row in rows] == ["middle5.txt/0", "middle5.txt/1", "high3.txt/0",
                                        "high3.txt/1"]
    assert rows[0].pairs[1] == ("a", "It is x .") and rows[1].pairs[3] == ("a", "Why? z")
    assert [row.label for row in rows] == ["B", "A"] * 2
    assert len(rows_of("race-high", tmp_path, "dev")) == 2
    (tmp_path / "dev" / "high" / "4.txt").write_text('{"article": "a", "questions": ["x"]}')
    with pytest.raises(UserError, match="4.txt: expected article, questions and as many lists"):
        rows_of("race", tmp_path, "dev")


def test_plain_lines(tmp_path):
    write(tmp_path, "lines", "a\tb", "c\td")
    rows = parsing.read_file(GLUE["rte"], str(tmp_path / "lines"), False, form="text")
    assert rows == [Row("0", (("a", "b"),), None), Row("1", (("c", "d"),), None)]


# --- Faults: content of the file, what the one line says

RTE = "index\tsentence1\tsentence2\tlabel\n"
FAULTS = {
    "empty file": ("rte", b"", "dev.tsv: the file is empty"),
    "blank lines only": ("rte", b"\n \n", "dev.tsv: the file is empty"),
    "no rows": ("rte", RTE, "dev.tsv: no rows after the header"),
    "wrong column": ("rte", "index\tsentence_1\tsentence2\tlabel\n0\ta\tb\tentailment\n",
                     "dev.tsv: no column 'sentence1'; did you mean 'sentence_1'? "
                     "(columns: index, sentence_1, sentence2, label)"),
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
    "not CSV": ("yelp-5", '"5","a"\n"4","b" c\n', "test.csv:2: not CSV"),
    "CSV of one column": ("yelp-5", "5;a\n", "test.csv:1: 1 column(s), expected 2"),
    "not JSON": ("tnews", '{"label": "100", "sentence": "x"}\n{"label"\n', "dev.json:2: not valid"),
    "no JSON object": ("tnews", "[1]\n", "dev.json: item 1: expected a JSON object, found int"),
    "no key": ("tnews", '{"label": "100"}\n', "dev.json: no column 'sentence'"),
    "key missing in a row": ("tnews", '{"label": "100", "sentence": "x"}\n{"label": "100"}\n',
                             "dev.json:2: column 'sentence' is empty"),
    "few broken rows of many": ("qqp", "question1\tquestion2\tis_duplicate\na\t\t1\na\tb\t0\n",
                                "dev.tsv:2: column 'question2' is empty"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(fault, tmp_path):
    name, content, message = FAULTS[fault]
    content = content if isinstance(content, bytes) else content.encode()
    split = "dev" if "dev" in TASKS[name].files else "test"
    (tmp_path / TASKS[name].files[split]).write_bytes(content)
    with pytest.raises(UserError) as e:
        parsing.read_rows(TASKS[name], str(tmp_path), split, need_labels=True)
    assert message in str(e.value) and str(tmp_path) in str(e.value)
    assert "\n" not in str(e.value)


def test_the_first_twenty_faults_are_listed(tmp_path, caplog):
    caplog.set_level("INFO", "xlnet")
    write(tmp_path, "dev.tsv", RTE.strip(), *("%d\ta\tb\tx%d" % (i, i) for i in range(25)))
    with pytest.raises(UserError, match="dev.tsv:2: unknown label 'x0' .* .and 24 more faulty"):
        parsing.read_rows(GLUE["rte"], str(tmp_path), "dev")
    lines = caplog.messages
    assert lines[0] == "25 faulty rows, the first 20:" and len(lines) == 21
    assert "dev.tsv:21: unknown label 'x19'" in lines[20]


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match="task rte: no such file: .*dev.tsv"):
        parsing.read_rows(GLUE["rte"], str(tmp_path), "dev")


def test_known_broken_rows_are_left_out_with_a_note(tmp_path, caplog):
    good = ["%d\ta\tb\t1" % i for i in range(200)]
    header = "id\tquestion1\tquestion2\tis_duplicate"
    write(tmp_path, "train.tsv", header, "x\ta\t\t1", *good, "y\ta")
    rows = parsing.read_rows(GLUE["qqp"], tmp_path, "train")
    assert [row.id for row in rows] == [str(i) for i in range(200)]
    assert "left out 2 row(s)" in caplog.text
    write(tmp_path, "train.tsv", header, "x\ta\t\t1", *good, "y\ta\tb\t2")
    with pytest.raises(UserError, match="train.tsv:2: column 'question2' is empty .and 1 more"):
        parsing.read_rows(GLUE["qqp"], tmp_path, "train")
