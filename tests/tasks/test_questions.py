"""Questions: files, places of answers, windows, the best spans, what is written, scores."""

import collections
import dataclasses
import gzip
import json
import math
import random
import re
import string
import types

import numpy as np
import pytest
from helpers.paths import GOLDEN, SPIECE
from scipy import special

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.finetuning import SpanSettings
from xlnet.support.errors import UserError
from xlnet.tasks import contract, encoding, known
from xlnet.tasks.fields import Columns, Row
from xlnet.tasks.files import parsing
from xlnet.tasks.questions import answers
from xlnet.tasks.questions.answers import GoldAnswer, position_of
from xlnet.tasks.questions.spans import BestSpans

CONTEXT = "The cat sat. The dog ran after it, 3 times."
SPANS = known.TASK_TYPES["spans"]
TABLE = SPANS(
    "table",
    Columns(("context",), ("question",), ("answer", "start"), id="id", query="context"),
    (),
    SPANS.default_metrics,
)
SQUAD = known.find_task("squad2")


def question(id="q1", text="Who ran?", answers=(("The dog", 13),), **more):
    """A question of SQuAD's JSON; answers: (text, start) each; None: no such key."""
    made = dict({"id": id, "question": text}, **more)
    if answers is not None:
        made["answers"] = [
            {"text": text, "answer_start": start} for text, start in answers
        ]
    return made


def article(*questions, context=CONTEXT):
    return {"title": "t", "paragraphs": [{"context": context, "qas": list(questions)}]}


def read(tmp_path, value, need_labels=True, task=SQUAD, name="train-v2.0.json"):
    path = tmp_path / name
    path.write_text(
        value if isinstance(value, str) else json.dumps(value), encoding="utf-8"
    )
    return task.read(str(path), need_labels)


def row(context=CONTEXT, answers=(), id="q1"):
    return Row(
        id, ((context, "?"),), tuple(GoldAnswer(*answer) for answer in answers), context
    )


def span(start, end, null_score):
    """The predictions for a question: one span, and the logit of no answer."""
    return BestSpans([[start, end, -1.0, -1.0]], special.expit(null_score))


# ---- files


def test_squad_s_files(tmp_path):
    articles = [
        article(question(), question("q2", answers=(), is_impossible=True)),
        article(question(7, answers=(("b c", 2), ("c", 4))), context="a b c"),
        article(question("plausible", is_impossible=True)),
    ]
    rows = read(tmp_path, {"version": "v2.0", "data": articles})
    two = (GoldAnswer("b c", 2), GoldAnswer("c", 4))
    assert rows == [
        Row("q1", ((CONTEXT, "Who ran?"),), (GoldAnswer("The dog", 13),), CONTEXT),
        Row("q2", ((CONTEXT, "Who ran?"),), (), CONTEXT),
        Row("7", (("a b c", "Who ran?"),), two, "a b c"),
        Row("plausible", ((CONTEXT, "Who ran?"),), (), CONTEXT),
    ]
    assert read(tmp_path, articles) == rows
    (withheld,) = read(tmp_path, [article(question(answers=None))], need_labels=False)
    assert withheld.label is None


@pytest.mark.parametrize(
    "data, message",
    [
        ([{"paragraphs": 3}], "item 1: not an article as in SQuAD (TypeError"),
        ([article(question(), question())], "question 2: duplicate id 'q1'"),
        ([article(question(answers=(("x", "y"),)))], "found 'y' as answer_start"),
        ([article(question(answers=((" ", 0),)))], "found an empty answer, expected"),
        ([article(question(answers=None))], "no answers"),
        ([article(question(answers=(), is_impossible=False))], "no answers"),
    ],
)
def test_faults_of_files(tmp_path, data, message):
    with pytest.raises(UserError, match="train-v2.0.json") as error:
        read(tmp_path, {"data": data})
    assert message in str(error.value) and "\n" not in str(error.value)


def test_tables(tmp_path):
    text = "id\tcontext\tquestion\tanswer\tstart\n1\ta b c\twhat?\tb\t2.0\n2\ta b c\twhere?\t\t\n"
    rows = read(tmp_path, text, task=TABLE, name="t.tsv")
    assert [row.label for row in rows] == [(GoldAnswer("b", 2),), ()]
    # Questions on one paragraph are held out together.
    train, dev = parsing.hold_out([*rows, rows[0]._replace(query="other")], 0.5)
    assert sorted(map(len, (train, dev))) == [1, 2]
    lines = [
        {"id": "x", "context": "a b a", "question": "?", "answer": ["b", "a"]},
        {"id": "y", "context": "a b a", "question": "?", "answer": "a"},
    ]
    content = "\n".join(map(json.dumps, lines))
    columns = dataclasses.replace(TABLE.columns, label=("answer",))
    task = dataclasses.replace(TABLE, columns=columns)
    rows = read(tmp_path, content, task=task, name="t.jsonl")
    assert [row.label for row in rows] == [
        (GoldAnswer("b", None), GoldAnswer("a", None)),
        (GoldAnswer("a", None),),
    ]


@pytest.mark.parametrize(
    "flags, is_evaluated",
    [({}, True), (dict(dev_file="dev.json"), False), (dict(predict_file="-"), False)],
)
def test_a_file_to_be_predicted_is_evaluated_too(flags, is_evaluated):
    given = dict(task_name="squad2", data_dir=".", model_dir="m", do_train=True)
    given.update(predict_file="new.json")
    settings = SpanSettings(**dict(given, **flags))
    assert settings.evaluates_predict_file is is_evaluated


def test_an_answer_has_two_columns_at_most():
    settings = SpanSettings(
        data_dir=".", model_dir="m", label_column="answer,start,end"
    )
    with pytest.raises(UserError, match="label_column: found more than two columns"):
        known.resolve_task(settings)


def test_places_of_answers(caplog):
    for answer, place in (
        (("The dog", 13), (13, 20)),
        ((" dog ", 16), (17, 20)),  # without the spaces
        (("dog", 16), (17, 20)),  # a wrong start
        (("dog", None), (17, 20)),
        (("The", 12), (13, 16)),  # the nearest one
        (("The", None), (-1, -1)),
        (("The", -1), (-1, -1)),  # as in CMRC
        (("cow", 1), (-1, -1)),
    ):
        assert position_of(row(answers=(answer, ("cat", 4)))) == place, answer
    # The start is that of the answer with its spaces.
    spaced = Row("q", (("x x", "?"),), (GoldAnswer(" x", 1),))
    assert position_of(spaced) == (2, 3)
    # None is dropped in silence.
    lost = row(answers=(("cow", 3),), id="lost")
    rows = [row(answers=(("dog", 16),)), row(id="none"), lost]
    assert SQUAD.training_rows(rows, 0) == rows[:2]
    assert "train: without 1 of 3 questions with an answer that has" in caplog.text
    assert list(map(position_of, rows[:2])) == [(17, 20), (-1, -1)]
    said = "train: found 1 of 1 questions with an answer that has no known"
    with pytest.raises(UserError, match=said):
        SQUAD.training_rows([lost], 0)


# ---- windows


def widest(count, room, stride):
    """The windows, and for each piece the one with most context, by the rule, one by one."""
    starts = [0]
    while starts[-1] + room < count:
        starts.append(starts[-1] + min(room, stride))
    spans, best = [(start, min(start + room, count)) for start in starts], []
    for piece in range(count):
        scores = []
        for start, end in spans:
            context = min(piece - start, end - 1 - piece) + 0.01 * (end - start)
            scores.append(context if start <= piece < end else -1)
        best.append(scores.index(max(scores)))
    return spans, best


@pytest.mark.parametrize("room", (1, 2, 5, 8, 13))
def test_windows_cover_all_and_each_piece_has_one_with_most_context(room):
    for count in range(60):
        for stride in range(1, room + 1):
            spans, best = widest(count, room, stride)
            owners = []
            for index, window in enumerate(encoding.windows_of(count, room, stride)):
                assert window[:2] == spans[index]
                owners += [index] * (window.widest_end - window.widest_start)
            assert owners == best and len(spans) == index + 1, (count, room, stride)


def rows_of(case, tokenizer):
    found = ()
    if case["answer_start"] is not None:
        found = (GoldAnswer(case["answer"], case["answer_start"]),)
    asked = Row("0", ((case["context"], case["question"]),), found)
    names = ("doc_stride", "max_query_length")
    task = SQUAD.with_options(**{name: case[name] for name in names})
    layout = encoding.Layout(case["max_seq_length"])
    arrays, counts, _ = task.encode([asked], tokenizer, layout)
    assert counts.tolist() == [len(case["features"])]
    rows = []
    for row in range(counts[0]):
        rows.append({name: values[row] for name, values in arrays.items()})
    return rows


def test_no_span_ends_before_it_begins():
    """Also where tokens are pieces of the same character."""
    tf = pytest.importorskip("tensorflow.compat.v1")
    with tf.Graph().as_default(), tf.Session() as session:
        of_starts, of_ends = tf.zeros([1, 1]), tf.zeros([1, 1, 3])
        logits = {
            "start_top_index": tf.constant([[1]]),
            "end_top_index": tf.constant([[[0, 1, 2]]]),
            "start_top_log_probs": of_starts,
            "end_top_log_probs": of_ends,
            "cls_logits": of_starts,
        }
        characters = {"char_start": tf.zeros([1, 3]), "char_end": tf.ones([1, 3])}
        nn = types.SimpleNamespace(sequence=tf.zeros([1, 3, 4]))
        found = session.run(SQUAD.outputs(nn, logits, characters))
    assert found["is_allowed"].tolist() == [[[False, True, True]]]


@pytest.mark.skipif(not SPIECE.exists(), reason="no shared data")
def test_features_are_those_of_the_original():
    """Positions of answers, or closer to them."""
    with gzip.open(GOLDEN / "squad_features.json.gz") as f:
        cases = json.load(f)
    tokenizer = Tokenizer(str(SPIECE))
    equal = 0
    for case in cases:
        for ours, theirs in zip(rows_of(case, tokenizer), case["features"]):
            check_inputs(ours, theirs)
            if not case["training"]:
                continue
            first, last = ours["start_positions"], ours["end_positions"]
            expected = theirs["start_position"], theirs["end_position"]
            assert ours["is_impossible"] == theirs["is_impossible"]
            # Where another window has more context, char_start is -1.
            if (first, last) == expected or ours["char_start"][first] < 0:
                equal += 1
                continue
            start, end = ours["char_start"][first], ours["char_end"][last]
            our_text = case["context"][int(start) : int(end)].strip()
            start = theirs["tok_start_to_orig_index"][expected[0]]
            end = theirs["tok_end_to_orig_index"][expected[1]] + 1
            their_text = case["context"][start:end].strip()
            assert case["answer"].strip() in our_text
            assert len(our_text) <= len(their_text) or case["answer"] not in their_text
    assert len(cases) == 80 and equal > 40


def check_inputs(ours, theirs):
    """Ids, masks and the window with most context."""
    for name in ("input_ids", "input_mask", "segment_ids"):
        np.testing.assert_array_equal(ours[name], theirs[name], name)
    size, cls_index = theirs["paragraph_len"], theirs["cls_index"]
    assert (ours["paragraph_len"], ours["cls_index"]) == (size, cls_index)
    place = np.arange(len(ours["input_ids"]))
    hidden = (place >= size) & (place != cls_index)
    np.testing.assert_array_equal(hidden, theirs["p_mask"])
    is_widest = np.zeros(len(place), bool)
    is_widest[:size] = [theirs["token_is_max_context"][str(i)] for i in range(size)]
    np.testing.assert_array_equal(ours["char_start"] >= 0, is_widest)


# ---- answers


def outputs(*windows):
    """What the network says of windows, each (null score, [(start, [(end, allowed), ...]), ...]),
    the first of each the most likely."""
    nulls, starts, ends, are_allowed = [], [], [], []
    for null, spans in windows:
        nulls.append(null)
        starts.append([start for start, _ in spans])
        ends.append([[end for end, _ in each] for _, each in spans])
        are_allowed.append([[ok for _, ok in each] for _, each in spans])
    starts, ends = np.array(starts, np.float32), np.array(ends, np.float32)
    of_starts = np.log(np.linspace(0.6, 0.2, starts.shape[1], dtype=np.float32))
    of_ends = np.log(np.linspace(0.6, 0.1, ends.shape[2], dtype=np.float32))
    return {
        "null_score": np.array(nulls, np.float32),
        "char_start": starts,
        "char_end": ends,
        "start_log_prob": of_starts + np.zeros_like(starts),
        "end_log_prob": of_ends + np.zeros_like(ends),
        "is_allowed": np.array(are_allowed),
    }


WINDOWS = outputs(
    (2.0, [(0, [(3, False), (7, True)]), (4, [(7, True), (11, True)])]),
    (-1.0, [(13, [(20, True), (16, False)]), (0, [(7, True), (3, False)])]),
    (0.5, [(4, [(7, True), (11, False)]), (8, [(11, False), (12, False)])]),
)


def test_the_best_span_of_all_windows_and_the_window_that_speaks_most_for_an_answer():
    counts = np.array([2, 1])
    loss = contract.mean_over_records(np.arange(3, dtype=np.float32), counts)
    assert loss.tolist() == [0.5, 2.0]
    values = SQUAD.join(WINDOWS, counts)
    nulls = [found.null_probability for found in values]
    assert nulls == [special.expit(-1.0), special.expit(0.5)]
    first = values[0].spans
    assert [span[:2] for span in first] == [[13, 20], [4, 7], [0, 7], [0, 7], [4, 11]]
    assert first[0][2:] == pytest.approx([math.log(0.6)] * 2)


def written(rows, values, task=SQUAD, threshold=0.5):
    files = task.prediction_files(rows, values, threshold)
    return [json.loads("".join(lines)) for lines in files.values()]


def test_official_files():
    rows = [row(answers=(("The dog", 13),)), row(answers=(), id="q2"), row(id="q3")]
    values = [
        *SQUAD.join(WINDOWS, np.array([2, 1])),
        BestSpans([], special.expit(-3.0)),
    ]
    files = SQUAD.prediction_files(rows, values, 0.5)
    assert list(files) == ["json", "nbest.json", "na_prob.json"]
    texts, n_best, null = written(rows, values)
    assert texts == {"q1": "The dog", "q2": "", "q3": ""}  # none; no span is allowed
    assert null == pytest.approx(
        {id: 1 / (1 + math.exp(-score)) for id, score in zip(texts, (-1.0, 0.5, -3.0))}
    )
    assert [entry["text"] for entry in n_best["q1"]] == [
        "The dog",
        "cat",
        "The cat",
        "cat sat",
    ]
    assert sum(entry["probability"] for entry in n_best["q1"]) == pytest.approx(1)
    spans = [CONTEXT[entry["start"] : entry["end"]] for entry in n_best["q1"]]
    assert spans == [entry["text"] for entry in n_best["q1"]]
    assert n_best["q1"][0]["start_log_prob"] == pytest.approx(math.log(0.6))
    assert n_best["q2"][0]["text"] == "cat" and n_best["q3"] == []
    assert written(rows, values, threshold=0.7)[0]["q2"] == "cat"
    assert written([rows[0]], [span(13, 20, 1e9)], threshold=1.0)[0]["q1"] == "The dog"
    assert len(written(rows, values, SQUAD.with_options(n_best_size=2))[1]["q1"]) == 2


# ---- scores

# (prediction, answer, exact match, F1) by hand from the rules of SQuAD's script.
WORDS = (
    ("The Normans", "normans", 1, 1),  # articles, case
    ("10th and 11th centuries", "in the 10th and 11th centuries", 0, 8 / 9),
    ("U.S.", "US", 1, 1),  # punctuation goes, words join
    ("well-known", "well known", 0, 0),
    ("Zürich", "Zurich", 0, 0),  # accents are letters
    ("“Ann”", "Ann", 0, 0),  # only ASCII's punctuation goes
    ("anthem", "them", 0, 0),  # an article is a whole word
    ("", "cat", 0, 0),
)


def score(rule, prediction, *golds):
    (found,) = answers.scores(rule, [prediction], [row(answers=golds)]).tolist()
    return tuple(found)


def test_words_of_squad():
    for prediction, answer, exact, f1 in WORDS:
        for rule in ("squad1.1", "squad2.0"):
            found = score(rule, prediction, ("other", None), (answer, None))
            assert found == (exact, pytest.approx(f1))
    # The versions differ where no word is left.
    assert score("squad1.1", "The", ("a", None)) == (1, 0)
    for prediction, golds in (("The", [("a", None)]), ("", [("a", None)]), ("The", [])):
        assert score("squad2.0", prediction, *golds) == (1, 1)
    for rule in ("squad1.1", "squad2.0", "characters"):  # without an answer
        assert (score(rule, ""), score(rule, "x")) == ((1, 1), (0, 0))


# Segments as CMRC's script makes them with NLTK 3.10's words; “ and " stand for its `` and ''.
SEGMENTS = (
    ("长364.6公里由nexon开发", ["长", "364.6", "公", "里", "由", "nexon", "开", "发"]),
    # A point in the middle stays.
    ("1,903年u.s. army", ["1,903", "年", "u.s.", "army"]),
    ("面积46,600m²", ["面", "积", "46,600m²"]),
    ("trust... the seer", ["trust", "...", "the", "seer"]),
    ('("ann")don\'t', ["(", "“", "ann", '"', ")", "do", "n't"]),
    ("", []),
)


def test_characters_of_cmrc():
    for text, expected in SEGMENTS:
        assert answers.segments(text) == expected
    assert answers.cmrc("《广茂铁路》", "广茂铁路。") == (1, 1)
    assert answers.cmrc("A-B：C", "abc") == (1, 1)
    # The longest run is 茂铁路: 3 of 4 and 3 of 5.
    assert answers.cmrc("广茂铁路", "三茂铁路线") == (0, pytest.approx(2 * 3 / 9))
    found = score("characters", "上下", ("下上", None), ("东", None))
    assert found == (0, pytest.approx(0.5))


# The official script, version 2.0: its rules, shortened.


def official_scores(data, predictions):
    """{question: exact}, {question: f1} of {question: texts of its answers}."""

    def normalized(text):
        text = "".join(c for c in text.lower() if c not in string.punctuation)
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())

    def f1(answer, prediction):
        answer, prediction = normalized(answer).split(), normalized(prediction).split()
        same = sum(
            (collections.Counter(answer) & collections.Counter(prediction)).values()
        )
        if not answer or not prediction:
            return int(answer == prediction)
        precision, recall = same / len(prediction), same / len(answer)
        return 2 * precision * recall / (precision + recall) if same else 0

    exact, best_f1 = {}, {}
    for id, golds in data.items():
        golds = [answer for answer in golds if normalized(answer)] or [""]
        exact[id] = max(
            int(normalized(a) == normalized(predictions[id])) for a in golds
        )
        best_f1[id] = max(f1(a, predictions[id]) for a in golds)
    return exact, best_f1


def official_best(data, predictions, scores, na_probs):
    """(best mean in percent, its threshold)"""
    best, threshold = current, _ = sum(not answers for answers in data.values()), 0.0
    for id in sorted(na_probs, key=na_probs.get):
        current += scores[id] if data[id] else -1 if predictions[id] else 0
        if current > best:
            best, threshold = current, na_probs[id]
    return 100.0 * best / len(scores), threshold


BEST = ["best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"]


def test_scores_are_the_official_script_s_of_the_files_that_are_written():
    """With the probabilities of no answer as its na_probs."""
    rng = random.Random(0)
    for _ in range(60):
        rows, values = [], []
        for i in range(rng.randint(2, 25)):
            words = rng.choices("the a cat, dog. sat Cat an x!".split(), k=8)
            context = " ".join(words)
            spans = []
            for start in rng.choices(range(len(context)), k=rng.randint(0, 3)):
                end = min(start + rng.randint(1, 14), len(context))
                spans.append([start, end, 0.0, rng.random()])
            golds = [
                (" ".join(words[start : start + rng.randint(1, 3)]), None)
                for start in rng.choices(range(7), k=rng.choice([0, 1, 1, 2]))
            ]
            rows.append(row(context, golds, str(i)))
            null = rng.choice([-50, rng.gauss(0, 3), 50.0])
            best_first = sorted(spans, key=lambda span: -span[3])
            values.append(BestSpans(best_first, float(special.expit(null))))
        if all(one.label for one in rows):
            continue
        data = {one.id: [answer.text for answer in one.label] for one in rows}
        result = SQUAD.evaluate(values, rows, 0.5)
        assert list(result)[-4:] == BEST  # after those of parts, as the script has them
        texts, _, null = written(rows, values)
        answered = written(rows, values, threshold=1.0)[0]
        assert all(texts[id] == ("" if null[id] > 0.5 else answered[id]) for id in data)
        for name, scores, of_answered in zip(
            ("exact", "f1"),
            official_scores(data, texts),
            official_scores(data, answered),
        ):
            assert result[name] == pytest.approx(100 * np.mean(list(scores.values())))
            best, threshold = official_best(data, answered, of_answered, null)
            assert result["best_" + name] == pytest.approx(best)
            assert result[f"best_{name}_thresh"] == threshold
