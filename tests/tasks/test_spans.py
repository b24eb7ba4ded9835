"""Questions as a kind of task: files, places of answers, the best spans, what is written."""

import collections
import dataclasses
import json
import logging
import math
import random
import re
import string

import numpy as np
import pytest
from helpers.paths import DATA
from helpers.tasks import read_rows

from xlnet.errors import UserError
from xlnet.settings.finetuning import SpanSettings
from xlnet.tasks.files import parsing, squad_files
from xlnet.tasks.files.squad_files import GoldAnswer, position_of
from xlnet.tasks.output import span_answers
from xlnet.tasks.output.span_answers import BestSpans, ScoredSpan
from xlnet.tasks.task import Columns, InlineExample, Row, Task
from xlnet.tasks.types import custom, known
from xlnet.tasks.types.known import TASK_TYPES

CONTEXT = "The cat sat. The dog ran after it, 3 times."
SPANS = TASK_TYPES["spans"]
TABLE = Task(
    "table",
    Columns(("context",), ("question",), ("answer", "start"), id="id", query="context"),
    None,
    SPANS.scorer.default_metrics,
    SPANS,
)
SQUAD = known.find_task("squad2")


def question(id="q1", text="Who ran?", answers=(("The dog", 13),), **more):
    listed = (
        None
        if answers is None
        else [{"text": text, "answer_start": start} for text, start in answers]
    )
    made = dict({"id": id, "question": text}, **more)
    return made if listed is None else dict(made, answers=listed)


def article(*questions, context=CONTEXT):
    return {"title": "t", "paragraphs": [{"context": context, "qas": list(questions)}]}


def read(tmp_path, value, need_labels=True, task=SQUAD, name="train-v2.0.json"):
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return parsing.read_file(task, str(path), need_labels)


def row(context=CONTEXT, answers=(), id="q1"):
    return Row(id, ((context, "?"),), tuple(GoldAnswer(*answer) for answer in answers), context)


def span(start, end, null_score):
    """The predictions for a question: one span, and the logit of no answer."""
    return BestSpans([ScoredSpan(start, end, -1.0, -1.0)], null_score)


def test_squad_s_files(tmp_path):
    rows = read(
        tmp_path,
        {
            "version": "v2.0",
            "data": [
                article(question(), question("q2", answers=(), is_impossible=True)),
                article(question(7, answers=(("b c", 2), ("c", 4))), context="a b c"),
            ],
        },
    )
    assert rows == [
        Row("q1", ((CONTEXT, "Who ran?"),), (GoldAnswer("The dog", 13),), CONTEXT),
        Row("q2", ((CONTEXT, "Who ran?"),), (), CONTEXT),
        Row("7", (("a b c", "Who ran?"),), (GoldAnswer("b c", 2), GoldAnswer("c", 4)), "a b c"),
    ]
    unlabelled = read(tmp_path, {"data": [article(question(answers=None))]}, need_labels=False)
    assert unlabelled[0].label is None


def test_squad_s_list_may_come_after_other_values(tmp_path):
    for before in ({"meta": {"source": "x"}}, {"authors": ["a"]}, {"version": "[1]"}):
        assert read(tmp_path, {**before, "data": [article(question())]})[0].id == "q1"


WRONG = (
    ('{"data": [', "not valid JSON"),
    ({"data": {}}, "expected a list of JSON objects, or an object whose data is that list"),
    ({"data": [3]}, "item 1: expected a JSON object, found int"),
    ({"data": [{"paragraphs": 3}]}, "article 1: expected an object with a list of paragraphs"),
    (
        {"version": "KorQuAD_2.0", "data": [{"context": "<p>a</p>", "qas": [question()]}]},
        "item 1: a context with qas and without paragraphs, as in KorQuAD 2, which is not read",
    ),
    (
        {"data": [{"paragraphs": [{"qas": []}]}]},
        "article 1, paragraph 1: expected an object with a context and a list of qas",
    ),
    ({"data": [article("q")]}, "article 1, paragraph 1, question 1: expected an object, found str"),
    ({"data": [article({"question": "?", "answers": []})]}, "a question without id"),
    ({"data": [article({"id": "a", "answers": []})]}, "question 'a' has no text"),
    (
        {"data": [article(question(), question())]},
        "article 1, paragraph 1, question 2: duplicate id 'q1'",
    ),
    ({"data": [article(question(), context=" ")]}, "column 'context' is empty"),
    (
        {"data": [article(question(answers=(("The dog", 43),)))]},
        "question 'q1': answer_start 43 is outside of the context of 43 characters",
    ),
    ({"data": [article(question(answers=(("The dog", -2),)))]}, "answer_start -2 is outside"),
    ({"data": [article(question(answers=(("x", "y"),)))]}, 'answer_start "y", expected an integer'),
    ({"data": [article(question(answers=(("x", "--6"),)))]}, 'answer_start "--6", expected an in'),
    ({"data": [article(question(answers=(("x", "9" * 5000),)))]}, "expected an integer"),
    ({"data": [article(question(answers=((5, 0),)))]}, "answer 5, expected a text"),
    ({"data": [article(question(answers=((" ", 0),)))]}, "an answer is empty"),
    ({"data": [article(question(answers=None))]}, "no answers"),
    (
        {"data": [article(question(answers=(), is_impossible=False))]},
        "article 1, paragraph 1, question 1: no answers",
    ),
    (
        {"data": [article(question(is_impossible="no"))]},
        'question 1: is_impossible is "no", expected true or false',
    ),
    ({"data": []}, "no rows"),
)


def test_a_list_of_squad_s_articles(tmp_path):
    """Without the object around it, or an article on each line."""
    articles = [article(question()), article(question("q2"))]
    for name, content in (
        ("a.json", json.dumps(articles)),
        ("a.jsonl", "\n".join(map(json.dumps, articles))),
    ):
        rows = read(tmp_path, content, name=name)
        assert [row.id for row in rows] == ["q1", "q2"]
        assert rows[0].label == (GoldAnswer("The dog", 13),)


def test_a_start_is_that_of_its_own_answer():
    mixed = [{"text": "dog", "answer_start": 17}, "ran", {"text": "cat"}]
    expected = (GoldAnswer("dog", 17), GoldAnswer("ran", None), GoldAnswer("cat", None))
    assert squad_files.parse_answers([mixed, None]) == (expected, None)
    mixed[0]["answer_start"] = "x"
    assert squad_files.parse_answers([mixed])[1] == 'answer_start "x", expected an integer'


def test_a_question_to_predict_may_have_a_wrong_gold_answer(tmp_path):
    """Answers are not needed; learned or scored, one outside of its context is an error."""
    for asked, error in (
        (question(answers=(("The dog", 99),)), "answer_start 99 is outside"),
        (question(answers=(), is_impossible=False), "no answers"),
        (question(is_impossible="perhaps"), "expected true or false"),
    ):
        value = {"data": [article(asked)]}
        with pytest.raises(UserError, match=error):
            read(tmp_path, value)
        (found,) = read(tmp_path, value, need_labels=False)
        assert found.pairs == ((CONTEXT, "Who ran?"),)
    twice = {"data": [article(question(), question())]}
    with pytest.raises(UserError, match="duplicate id 'q1'"):
        read(tmp_path, twice, need_labels=False)


def test_mrqa_is_refused_by_name(tmp_path):
    lines = [
        {"header": {"dataset": "SQuAD", "split": "train"}},
        {"context": CONTEXT, "context_tokens": [["The", 0]], "qas": []},
    ]
    for value in lines:
        with pytest.raises(UserError, match="a.jsonl:1: MRQA's JSON lines, which are not read"):
            read(tmp_path, json.dumps(value), name="a.jsonl")


@pytest.mark.parametrize(
    "row, message",
    [
        ("1,a b c,what?,b,2,True", None),
        ("1,a b c,what?,b,2,False", None),
        ("1,a b c,what?,b,2,", None),
        ("1,a b c,what?,b,2", ":2: 5 column.*, expected 6"),
        ("1,a b c,what?,b,2,True,", ":2: 7 column.*, expected 6"),
        ("1,a b c,what?,b,2,True,,", ":2: 8 column.*, expected 6"),
    ],
)
def test_rows_of_another_width_do_not_lose_is_impossible(tmp_path, row, message):
    text = f"id,context,question,answer,start,is_impossible\n{row}\n"
    if message:
        with pytest.raises(UserError, match=message):
            read(tmp_path, text, task=TABLE, name="t.csv")
        return
    (found,) = read(tmp_path, text, task=TABLE, name="t.csv")
    assert found.label == (() if "True" in row else (GoldAnswer("b", 2),))


def test_empty_rows_of_a_table_are_left_out_of_training(tmp_path):
    """A spreadsheet leaves rows of commas alone."""
    text = "id,context,question,answer,start\n,,,,\n1,a b c,what?,b,2\n,,,,\n"
    (row,) = read(tmp_path, text, task=TABLE, name="t.csv")
    assert row.id == "1"


@pytest.mark.parametrize("value, message", WRONG)
def test_faults_of_files(tmp_path, value, message):
    with pytest.raises(UserError) as error:
        read(tmp_path, value)
    assert message in str(error.value) and "train-v2.0.json" in str(error.value)
    assert "\n" not in str(error.value)


def test_where_json_is_broken_and_how_far_it_was_read(tmp_path):
    whole = json.dumps({"data": [article(question())]}, indent=1)
    for broken, message in (
        (whole[:-10], "not valid JSON: Expecting ',' delimiter: line 21 column"),
        (whole + "]", "not valid JSON: Extra data: line 24 column 2"),
        (whole.replace('"qas": [', '"qas": '), "not valid JSON: Expecting"),
        (whole.encode().replace(b"Who", b"Wh\xf6"), "not UTF-8: byte 0xf6 at column"),
    ):
        path = tmp_path / "train-v2.0.json"
        path.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
        with pytest.raises(UserError, match=re.escape(message)) as error:
            parsing.read_file(SQUAD, str(path), True)
        assert "\n" not in str(error.value) and "train-v2.0.json" in str(error.value)


@pytest.mark.parametrize("encoding", ("utf-8-sig", "utf-16"))
def test_other_encodings_and_places_of_keys(tmp_path, encoding):
    value = {
        "data": [{"paragraphs": [{"qas": [question()], "context": CONTEXT}], "title": [1]}],
        "version": {"number": 2},
    }
    (tmp_path / "train-v2.0.json").write_text(json.dumps(value), encoding=encoding)
    rows = parsing.read_file(SQUAD, str(tmp_path / "train-v2.0.json"), True)
    assert rows == [Row("q1", ((CONTEXT, "Who ran?"),), (GoldAnswer("The dog", 13),), CONTEXT)]


def test_all_faults_of_a_file_are_listed(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "xlnet"), pytest.raises(UserError, match="1 more faulty"):
        read(tmp_path, {"data": [article({"id": "a"}, {"question": "b"})]})
    assert "question 1: question 'a' has no text" in caplog.text
    assert "question 2: a question without id" in caplog.text


def test_tables(tmp_path):
    rows = read(
        tmp_path,
        "id\tcontext\tquestion\tanswer\tstart\n1\ta b c\twhat?\tb\t2\n2\ta b c\twhere?\t\t\n",
        task=TABLE,
        name="t.tsv",
    )
    assert [row.label for row in rows] == [(GoldAnswer("b", 2),), ()]
    # Questions on one paragraph are held out together.
    train, dev = parsing.hold_out([*rows, rows[0]._replace(query="other")], 0.5)
    assert sorted(map(len, (train, dev))) == [1, 2]
    alone = TABLE.with_files(by_split={"train": "t.tsv"}, dev_share=0.1)
    for split in ("train", "dev"):
        with pytest.raises(UserError, match="t.tsv: all rows belong together, so none can be held"):
            read_rows(alone, str(tmp_path), split, True)
    found = TABLE.with_columns(label=("answer",))
    lines = [
        {"id": "x", "context": "a b a", "question": "?", "answer": ["b", "a"]},
        {"id": "y", "context": "a b a", "question": "?", "answer": "a"},
    ]
    rows = read(tmp_path, "\n".join(map(json.dumps, lines)), task=found, name="t.jsonl")
    assert [row.label for row in rows] == [
        (GoldAnswer("b", None), GoldAnswer("a", None)),
        (GoldAnswer("a", None),),
    ]
    assert [position_of(row)[:2] for row in rows] == [(2, 3), (-1, -1)]


def given(tmp_path, predicted, name="new.json", **changes):
    """The task of a run with a predict_file."""
    (tmp_path / name).write_text(
        predicted if isinstance(predicted, str) else json.dumps({"data": [article(*predicted)]})
    )
    return custom.resolve_task(
        SpanSettings(
            **dict(
                dict(
                    task_name="squad2",
                    data_dir=str(tmp_path),
                    model_dir="m",
                    do_train=True,
                    predict_file=str(tmp_path / name),
                ),
                **changes,
            )
        )
    )


@pytest.mark.parametrize(
    "questions, is_dev",
    [
        ([question(answers=None)], False),
        ([question(answers=())], False),
        ([question(answers=(), is_impossible=False)], False),
        ([question(answers=(), is_impossible=True)], True),
        ([question(answers=(), is_impossible="?")], False),
        ([question()], True),
        ([question("q1", answers=()), question()], True),
        (["q"], False),
    ],
)
def test_a_file_to_be_predicted_is_evaluated_too_if_it_has_answers(
    tmp_path, questions, is_dev, caplog
):
    with caplog.at_level(logging.INFO, "xlnet"):
        task = given(tmp_path, questions)
    assert task.files.by_split["train"] == "train-v2.0.json"
    assert task.files.by_split["dev"] == (str(tmp_path / "new.json") if is_dev else "dev-v2.0.json")
    assert ("new.json has no answers: it is predicted, and not evaluated" in caplog.text) != is_dev


def test_a_table_whose_answers_are_all_empty_is_not_evaluated(tmp_path):
    """A gold answer that is withheld is an empty cell, as one that does not exist."""
    lines = "id,context,question,answer\n1,a b,who?,{}\n2,a c,who?,\n"
    for answer, is_dev in (("", False), ("b", True)):
        task = given(tmp_path, lines.format(answer), "new.csv", task_name="custom")
        assert (task.files.by_split.get("dev") == str(tmp_path / "new.csv")) == is_dev


def test_questions_are_held_out_unless_the_named_file_is_evaluated(tmp_path):
    (tmp_path / "train.tsv").write_text("id\tcontext\tquestion\tanswer\n1\ta b\twhat?\tb\n")
    alone = dict(
        task_name="custom", data_dir=str(tmp_path / "train.tsv"), name="new.txt", input_format="tsv"
    )
    task = given(tmp_path, "id\tcontext\tquestion\n1\ta b\twhat?\n", **alone)
    assert (list(task.files.by_split), task.files.dev_share) == (["train"], 0.1)
    task = given(tmp_path, "id\tcontext\tquestion\tanswer\n1\ta b\twhat?\ta\n", **alone)
    assert (list(task.files.by_split), task.files.dev_share) == (["train", "dev"], 0.0)


def test_a_file_is_looked_at_for_answers_in_its_declared_form(tmp_path):
    """Columns between semicolons were not found, so that the file was not evaluated."""
    columns = "id;context;question;answer\n1;a b;what?;b\n"
    (tmp_path / "train.csv").write_text(columns)
    alone = dict(task_name="custom", data_dir=str(tmp_path / "train.csv"), delimiter=";")
    task = given(tmp_path, columns, name="new.csv", **alone)
    assert task.files.by_split["dev"] == str(tmp_path / "new.csv")


def test_a_missing_column_of_questions_names_its_flag(tmp_path):
    (tmp_path / "train.csv").write_text("id,context,question\n1,a b,what?\n")
    alone = dict(task_name="custom", data_dir=str(tmp_path / "train.csv"), predict_file=None)
    for column in ("context", "question", "answer"):
        task = given(tmp_path, "", **alone, **{f"{column}_column": "other"})
        with pytest.raises(UserError, match=f"no column 'other'.*--{column}_column names it"):
            read_rows(task, str(tmp_path), "train")


def test_without_data_dir_nothing_but_what_is_named_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("train.json", "dev.json", "train.tsv"):
        (tmp_path / name).write_text("{}")
    alone = dict(data_dir="", do_train=False)
    for more, files in (
        (dict(do_predict=True, predict_file="-"), {}),
        (dict(do_prepro=True), {}),
        (dict(do_eval=True), {"dev": str(tmp_path / "new.json")}),
    ):
        task = given(tmp_path, [question(answers=None)], task_name="custom", **alone, **more)
        assert (task.files.by_split, task.files.dev_share) == (files, 0.0)


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "parquet"])
def test_a_row_that_is_impossible_has_no_answer(tmp_path, form, caplog):
    """KLUE-MRC keeps plausible answers in such rows; SQuAD's JSON has another key for them."""
    rows = [
        ("1", "foo bar", "?", "bar", 4, True),
        ("2", "foo bar", "?", "bar", 4, False),
        ("3", "foo bar", "?", "", None, True),
    ]
    names = "id context question answer start is_impossible".split()
    path = tmp_path / ("rows." + form)
    if form == "parquet":
        pytest.importorskip("pyarrow")
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(dict(zip(names, map(list, zip(*rows))))), str(path))
    elif form == "csv":
        path.write_text(
            "\n".join(
                ",".join("" if cell is None else str(cell) for cell in cells)
                for cells in (names, *rows)
            )
        )
    else:
        objects = [dict(zip(names, cells)) for cells in rows]
        path.write_text(
            json.dumps(objects) if form == "json" else "\n".join(map(json.dumps, objects))
        )
    found = parsing.read_file(TABLE, str(path), True)
    assert [one.label for one in found] == [(), (GoldAnswer("bar", 4),), ()]
    assert (
        f"rows.{form}: 1 questions are is_impossible and have answers, which are not used"
        in caplog.text
    )


def test_rows_of_hugging_face_that_are_impossible(tmp_path):
    def line(id, is_impossible, *texts):
        return json.dumps(
            {
                "id": id,
                "context": "foo bar",
                "question": "?",
                "answers": {"text": texts, "answer_start": [4] * len(texts)},
                "is_impossible": is_impossible,
            }
        )

    rows = read(
        tmp_path,
        "\n".join([line("1", True, "bar"), line("2", True), line("3", False, "bar")]),
        name="t.jsonl",
    )
    assert [one.label for one in rows] == [(), (), (GoldAnswer("bar", 4),)]
    for broken, message in (
        (line("4", False), "no answers"),
        (line("4", "perhaps", "bar"), ('is_impossible is "perhaps", expected true or false')),
    ):
        with pytest.raises(UserError, match="t.jsonl:1: " + message):
            read(tmp_path, broken, name="t.jsonl")
    assert read(tmp_path, line("4", False), name="t.jsonl", need_labels=False)[0].label is None


COUNTS = {
    "squad1": {"train": 2152, "dev": 582},
    "squad2": {"train": 3225, "dev": 1118},
    "cmrc2018": {"trial": 1002, "dev": 1118},
}


@pytest.mark.skipif(not DATA.exists(), reason="no shared data")
@pytest.mark.parametrize("name", COUNTS)
def test_shared_files(name, caplog):
    task = known.find_task(name)
    for split, count in COUNTS[name].items():
        rows = read_rows(
            task,
            str(DATA / name.rstrip("12") if "squad" in name else DATA / name),
            split,
            need_labels=True,
        )
        assert len(rows) == count == len(task.reader.training_rows(rows, 0, ""))
    assert (": 7 questions are empty or have no answer at its answer_start" in caplog.text) == (
        name == "cmrc2018"
    )


def test_places_of_answers():
    assert position_of(row(answers=(("The dog", 13),)))[:] == (13, 20, None)
    assert position_of(row(answers=((" dog ", 16),)))[:] == (17, 20, None)  # without the spaces
    assert position_of(row(answers=(("dog", 16),)))[:] == (17, 20, "answer_start 16, found at 17")
    assert position_of(row(answers=(("dog", -1),))).start == 17
    assert position_of(row(answers=(("dog", None),))) == (17, 20, None)
    assert position_of(row(answers=(("The", 12),)))[:] == (13, 16, "answer_start 12, found at 13")
    for start in (-1, None):
        assert position_of(row(answers=(("The", start),))) == (
            -1,
            -1,
            "the answer is in the context several times",
        )
    assert position_of(row(answers=(("cow", 1),))).error == "the answer is not in the context"
    assert not position_of(row()).is_known and position_of(row()).error is None


def test_the_first_answer_with_a_place_is_learned(caplog):
    several = row(answers=(("cow", 1), ("The", None), ("dog", 17)))
    assert position_of(several) == (
        17,
        20,
        "the answer is not in the context, another one is learned",
    )
    assert SQUAD.reader.training_rows([several], 0, "") == [several]
    squad_files.note_positions("train.json", [several])
    assert "question 'q1': the answer is not in the context, another one is learned" in caplog.text
    assert "not trained on" not in caplog.text
    assert position_of(row(answers=(("cow", 1), ("hen", 2)))).error == (
        "the answer is not in the context"
    )


def test_wrong_offsets_are_named_and_counted_and_none_is_dropped_in_silence(caplog):
    rows = [row(answers=(("dog", start),), id=f"q{start}") for start in (16, 17, 18)]
    rows.append(row(answers=(("cow", 3),), id="lost"))
    empty = row(id="empty")._replace(pairs=((CONTEXT, " "),))
    with caplog.at_level(logging.WARNING, "xlnet"):
        squad_files.note_positions("train.json", [*rows, empty, row(id="none")])
    assert caplog.messages[0].splitlines() == [
        "note: train.json: 4 questions are empty or have no answer at its answer_start:",
        "  question 'q16': answer_start 16, found at 17",
        "  question 'q18': answer_start 18, found at 17",
        "  question 'lost': the answer is not in the context, so it is not trained on",
        "  question 'empty': the question is empty",
    ]
    assert SQUAD.reader.training_rows([*rows, row(id="none")], 0, "") == [*rows[:3], row(id="none")]
    with pytest.raises(UserError, match="no answer of the train file in d has a known"):
        SQUAD.reader.training_rows(rows[3:], 0, "d")


# ---- answers


def outputs(*windows):
    """What the network says of windows, each (null score, [(start, [(end, allowed), ...]), ...]),
    the first of each the most likely."""
    starts = np.array([[start for start, _ in spans] for _, spans in windows], np.float32)
    ends = np.array(
        [[[end for end, _ in ends] for _, ends in spans] for _, spans in windows], np.float32
    )
    return {
        "null_score": np.array([null for null, _ in windows], np.float32),
        "loss": np.arange(len(windows), dtype=np.float32),
        "char_start": starts,
        "char_end": ends,
        "start_log_prob": np.log(np.linspace(0.6, 0.2, starts.shape[1], dtype=np.float32))
        + np.zeros_like(starts),
        "end_log_prob": np.log(np.linspace(0.6, 0.1, ends.shape[2], dtype=np.float32))
        + np.zeros_like(ends),
        "is_allowed": np.array(
            [[[ok for _, ok in ends] for _, ends in spans] for _, spans in windows]
        ),
    }


WINDOWS = outputs(
    (2.0, [(0, [(3, False), (7, True)]), (4, [(7, True), (11, True)])]),
    (-1.0, [(13, [(20, True), (16, False)]), (0, [(7, True), (3, False)])]),
    (0.5, [(4, [(7, True), (11, False)]), (8, [(11, False), (12, False)])]),
)


def test_the_best_span_of_all_windows_and_the_window_that_speaks_most_for_an_answer():
    values, loss = SQUAD.head.join(WINDOWS, np.array([2, 1]))
    assert loss.tolist() == [0.5, 2.0]
    assert [found.null_score for found in values] == [-1.0, 0.5]
    first = values[0].spans
    assert [span[:2] for span in first] == [(13, 20), (4, 7), (0, 7), (0, 7), (4, 11)]
    assert first[0].score == pytest.approx(2 * math.log(0.6))
    texts = span_answers.distinct(CONTEXT, first, 3)
    assert [text for text, _ in texts] == ["The dog", "cat", "The cat"]


def test_official_files():
    rows = [row(answers=(("The dog", 13),)), row(answers=(), id="q2"), row(id="q3")]
    values = [*SQUAD.head.join(WINDOWS, np.array([2, 1])).values, BestSpans([], -3.0)]
    files = SQUAD.scorer.prediction_files(rows, values)
    assert [(file.extension, file.what) for file in files] == [
        ("json", None),
        ("nbest.json", "n best answers"),
        ("na_prob.json", "probabilities of no answer"),
    ]
    answers, n_best, null = (json.loads("".join(file.lines)) for file in files)
    assert answers == {"q1": "The dog", "q2": "", "q3": ""}  # none; no span is allowed
    assert null == pytest.approx(
        {id: 1 / (1 + math.exp(-score)) for id, score in zip(answers, (-1.0, 0.5, -3.0))}
    )
    assert [entry["text"] for entry in n_best["q1"]] == ["The dog", "cat", "The cat", "cat sat"]
    assert sum(entry["probability"] for entry in n_best["q1"]) == pytest.approx(1)
    assert n_best["q2"][0]["text"] == "cat" and n_best["q3"] == []
    sure = json.loads(SQUAD.scorer.prediction_files(rows, values, threshold=0.7)[0].lines[0])
    assert sure["q2"] == "cat"
    assert (
        len(
            json.loads(
                SQUAD.with_options(n_best_size=2).scorer.prediction_files(rows, values)[1].lines[0]
            )["q1"]
        )
        == 2
    )


@pytest.mark.parametrize("names", [(3, 1, 0, None), (None, 1), ("", 1), (" ", 1)])
@pytest.mark.parametrize("name", ["new.csv", "new.jsonl"])
def test_a_question_without_a_name_next_to_others_is_refused(tmp_path, names, name):
    """It had the number of its row, which may be the name of another one."""
    texts = {"context": "The dog ran.", "question": "Who?"}
    lines = [json.dumps({"id": each, **texts}) for each in names]
    if name == "new.csv":
        cells = ["" if each is None else str(each) for each in names]
        lines = ["id,context,question", *(f"{each},The dog ran.,Who?" for each in cells)]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=r"new.*:\d: column 'id' is empty"):
        parsing.read_to_predict(SQUAD, str(tmp_path / name))


def test_questions_of_a_file_without_names_are_numbered(tmp_path):
    (tmp_path / "new.csv").write_text("context,question\n" + 2 * "The dog ran.,Who?\n")
    found = parsing.read_to_predict(SQUAD, str(tmp_path / "new.csv"))
    assert [row.id for row in found] == ["0", "1"]


def test_what_is_wrong_with_an_answer():
    rows = [
        row(answers=(("The dog", 13), ("dog ran", 17))),
        row(answers=(), id="q2"),
        row(id="none")._replace(label=None),
        row(answers=(("cat sat", 4),), id="q3"),
    ]
    values = [span(13, 20, -5.0), span(0, 7, -1.0), span(0, 7, -1.0), span(0, 7, 2.0)]
    right, unanswerable, unlabelled, missed = SQUAD.scorer.compare(rows, values)
    assert right[:2] == ("The dog | dog ran", "The dog") and right.error == 0
    assert unanswerable[:2] == ("", "The cat") and unanswerable.error == 1
    assert unanswerable.probability == pytest.approx(1 - 1 / (1 + math.exp(1)))
    assert unlabelled[:2] == ("", "The cat") and unlabelled.error == 0
    assert missed[:2] == ("cat sat", "") and missed.error == 1
    assert missed.probability == pytest.approx(1 / (1 + math.exp(-2)))


@pytest.mark.parametrize("rule", ["squad1.1", "squad2.0", "characters"])
def test_a_question_is_wrong_where_it_lowers_the_score(rule):
    """Also one without an answer, for which two of the rules have no common word."""
    task = SQUAD.with_options(scoring=rule)
    rows = [
        row(answers=(), id="q1"),
        row(id="q2", answers=(("The", 13),)),
        row(id="q3", answers=(("The dog", 13),)),
    ]
    values = [span(13, 20, null) for null in (5.0, 5.0, -5.0)]
    for threshold in (0.0, 0.5, 1.0):
        cases = list(task.scorer.compare(rows, values, threshold))
        for each, value, case in zip(rows, values, cases):
            result = task.scorer.evaluate([value], task.scorer.gold_labels([each]), threshold)
            assert case.error == pytest.approx(1 - (result["exact"] + result["f1"]) / 200)


def test_an_answer_is_as_probable_as_among_the_others():
    found = BestSpans([ScoredSpan(13, 20, -1.0, -1.0), ScoredSpan(0, 7, -1.0, -1.0)], -40.0)
    (case,) = SQUAD.scorer.compare([row(answers=(("The dog", 13),))], [found])
    assert case.probability == pytest.approx(0.5)


def test_more_best_spans_than_five():
    spans = [ScoredSpan(i, i + 1, -float(i), 0.0) for i in range(20) if not CONTEXT[i].isspace()]
    (answer,) = SQUAD.with_options(n_best_size=9).scorer.results([row()], [BestSpans(spans, -5.0)])
    assert len(answer.best) == 9


def test_a_question_that_is_missing_is_an_error():
    for text in ("", " ", None):
        assert SQUAD.reader.row("0", InlineExample(CONTEXT, text)) == (
            None,
            "the question is empty, expected a text",
        )


def test_evaluation_is_that_of_the_files_written():
    rows = [
        row(answers=(("The dog", 13),)),
        row(answers=(), id="q2"),
        row(answers=(("the cat", 0),), id="q3"),
    ]
    values = [*SQUAD.head.join(WINDOWS, np.array([2, 1])).values, span(0, 11, 0.1)]
    result = SQUAD.scorer.evaluate(values, SQUAD.scorer.gold_labels(rows))
    assert list(result)[:2] == ["f1", "exact"]
    assert result["exact"] == pytest.approx(200 / 3) and result["HasAns_exact"] == 50
    # Answering the third one, too, would help; the second one then stays without an answer.
    assert result["best_f1"] == pytest.approx((1 + 1 + 2 / 3) / 3 * 100)
    assert result["best_f1_thresh"] == pytest.approx(1 / (1 + math.exp(-0.1)))
    more = SQUAD.scorer.evaluate(
        values, SQUAD.scorer.gold_labels(rows), threshold=result["best_f1_thresh"]
    )
    assert more["f1"] == pytest.approx(result["best_f1"])
    with pytest.raises(UserError, match="not finite"):
        SQUAD.scorer.evaluate([BestSpans([], math.nan)] * 3, SQUAD.scorer.gold_labels(rows))


def test_thresholds_are_shown_where_some_questions_have_no_answer():
    rows, values = [row(answers=(("The dog", 13),))], [span(13, 20, -1.0)]
    result = SQUAD.scorer.evaluate(values, SQUAD.scorer.gold_labels(rows))
    assert result == {"f1": 100.0, "exact": 100.0}
    chosen = dataclasses.replace(SQUAD, metrics=("best_f1", "f1", "exact"))
    assert chosen.scorer.evaluate(values, SQUAD.scorer.gold_labels(rows))["best_f1"] == 100.0
    both = SQUAD.scorer.gold_labels([*rows, row(id="none")])
    assert "best_f1_thresh" in SQUAD.scorer.evaluate(values * 2, both)


def test_which_rule_scores():
    assert TABLE.scorer.gold_labels([row(answers=(("a", 0),))]).rule == "squad1.1"
    assert TABLE.scorer.gold_labels([row(answers=(("a", 0),)), row()]).rule == "squad2.0"
    cmrc = known.find_task("cmrc2018")
    assert cmrc.scorer.gold_labels([row(answers=(("a", 0),))]).rule == "characters"


def test_a_threshold_of_1_leaves_no_question_without_an_answer():
    rows, values = [row(answers=(("The dog", 13),))], [span(13, 20, 1e9)]
    for threshold, answer in ((0.99, ""), (1.0, "The dog")):
        files = SQUAD.scorer.prediction_files(rows, values, threshold)
        assert json.loads("".join(files[0].lines)) == {"q1": answer}
        result = SQUAD.scorer.evaluate(values, SQUAD.scorer.gold_labels(rows), threshold)
        assert result["exact"] == (100 if answer else 0)


def test_examples_are_the_first_answers(tmp_path):
    rows = [row(answers=(("dog", 16), ("cat", 4))), row()]
    assert [example[2:] for example in SQUAD.reader.examples(rows)] == [(17, 20), (-1, -1)]
    assert squad_files.position_of(rows[1]) == (-1, -1, None)
    # What decides what records hold is part of their name.
    assert SQUAD.reader.record_options != SQUAD.with_options(doc_stride=64).reader.record_options


# ---- the official script, version 2.0: its rules, shortened


def official_scores(data, predictions):
    """{question: exact}, {question: f1} of {question: texts of its answers}."""

    def normalized(text):
        text = "".join(c for c in text.lower() if c not in string.punctuation)
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())

    def f1(answer, prediction):
        answer, prediction = normalized(answer).split(), normalized(prediction).split()
        same = sum((collections.Counter(answer) & collections.Counter(prediction)).values())
        if not answer or not prediction:
            return int(answer == prediction)
        precision, recall = same / len(prediction), same / len(answer)
        return 2 * precision * recall / (precision + recall) if same else 0

    exact, best_f1 = {}, {}
    for id, answers in data.items():
        answers = [answer for answer in answers if normalized(answer)] or [""]
        exact[id] = max(int(normalized(a) == normalized(predictions[id])) for a in answers)
        best_f1[id] = max(f1(a, predictions[id]) for a in answers)
    return exact, best_f1


def official_best(data, predictions, scores, na_probs):
    """(best mean in percent, its threshold)"""
    best, threshold = current, _ = sum(not answers for answers in data.values()), 0.0
    for id in sorted(na_probs, key=na_probs.get):
        current += scores[id] if data[id] else -1 if predictions[id] else 0
        if current > best:
            best, threshold = current, na_probs[id]
    return 100.0 * best / len(scores), threshold


def test_scores_are_the_official_script_s_of_the_files_that_are_written():
    """With the probabilities of no answer as its na_probs, and its threshold as ours."""
    rng = random.Random(0)
    for _ in range(60):
        rows, values = [], []
        for i in range(rng.randint(2, 25)):
            words = rng.choices("the a cat, dog. sat Cat an x!".split(), k=8)
            context = " ".join(words)
            spans = [
                ScoredSpan(start, min(start + rng.randint(1, 14), len(context)), 0.0, rng.random())
                for start in rng.choices(range(len(context)), k=rng.randint(0, 3))
            ]
            answers = [
                (" ".join(words[start : start + rng.randint(1, 3)]), None)
                for start in rng.choices(range(7), k=rng.choice([0, 1, 1, 2]))
            ]
            rows.append(row(context, answers, str(i)))
            values.append(
                BestSpans(
                    sorted(spans, key=lambda span: -span.score),
                    rng.choice([-50, rng.gauss(0, 3), 50.0]),
                )
            )
        if all(one.label for one in rows):
            continue
        data = {one.id: [answer.text for answer in one.label] for one in rows}
        result = SQUAD.scorer.evaluate(values, SQUAD.scorer.gold_labels(rows))
        assert list(result)[:2] == ["f1", "exact"]
        files = [json.loads(file.lines[0]) for file in SQUAD.scorer.prediction_files(rows, values)]
        answered = json.loads(SQUAD.scorer.prediction_files(rows, values, 1.0)[0].lines[0])
        for name, scores in zip(("exact", "f1"), official_scores(data, answered)):
            assert result[name] == pytest.approx(
                100
                * np.mean(
                    [not data[id] if files[2][id] > 0.5 else score for id, score in scores.items()]
                )
            )
            assert all(files[0][id] == ("" if files[2][id] > 0.5 else answered[id]) for id in data)
            best, threshold = official_best(data, answered, scores, files[2])
            assert result["best_" + name] == pytest.approx(best)
            assert result[f"best_{name}_thresh"] == threshold
            if list(files[2].values()).count(threshold) < 2:  # no tie
                again = SQUAD.scorer.evaluate(values, SQUAD.scorer.gold_labels(rows), threshold)
                # A prediction of an article alone is right, which the script's search leaves out.
                assert again[name] >= best - 1e-9
