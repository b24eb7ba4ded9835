"""Ranking: measures by hand, pairs, files of both forms and their faults, the loss."""

import dataclasses
import os

import numpy as np
import pytest
from helpers.tasks import read_rows, write

from xlnet.support.errors import UserError
from xlnet.tasks import ranking
from xlnet.tasks.contract import LossOptions
from xlnet.tasks.fields import Row
from xlnet.tasks.known import TASKS

RANKING = TASKS["ranking"]


def rows_of(*grades, query="q"):
    """Documents a, b, c, ... of a query."""
    return [
        Row(
            "abcdefgh"[i], (("text of " + query, f"document {i}"),), float(grade), query
        )
        for i, grade in enumerate(grades)
    ]


def measured(names, rows, scores):
    scorer = dataclasses.replace(RANKING, metrics=tuple(names))
    return scorer.evaluate(np.array(scores), scorer.gold(rows), 0.5)


# --- Measures


def test_measures_by_hand():
    # In order of the scores: grades 0, 2, 1.
    names = ("ndcg@10", "ndcg@2", "map", "err@10", "err@2")
    result = measured(names, rows_of(2, 0, 1), [0.5, 0.9, 0.1])
    ideal = 3 / np.log2(2) + 1 / np.log2(3)
    assert result["ndcg@10"] == pytest.approx((3 / np.log2(3) + 1 / np.log2(4)) / ideal)
    assert result["ndcg@2"] == pytest.approx(3 / np.log2(3) / ideal)
    assert result["map"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    # The reader stops at grade 2 with 3/4, at grade 1 with 1/4.
    assert result["err@10"] == pytest.approx(3 / 4 / 2 + 1 / 4 * 1 / 4 / 3)
    assert result["err@2"] == pytest.approx(3 / 4 / 2)
    assert list(result) == [*names, "loss"]


def test_the_ideal_order_has_documents_that_are_not_ranked():
    """As by trec_eval, with a cutoff or without."""
    ranked, judged = np.array([1.0]), np.array([1.0, 1.0])
    expected = 1 / (1 + 1 / np.log2(3))
    for name in ("ndcg", "ndcg@10", "trec_ndcg", "trec_ndcg@10"):
        assert ranking.measure(name, ranked, judged, 1.0) == pytest.approx(expected)
    assert ranking.measure("ndcg@1", ranked, judged, 1.0) == 1


def test_equal_scores_are_in_the_order_of_names_backwards_wherever_they_are():
    rows = rows_of(0, 1, 0)
    for shuffled in (rows, rows[::-1]):
        (query,) = ranking.by_query(shuffled)
        ordered = query.rows[ranking.best_first(np.zeros(3))]
        assert [shuffled[i].id for i in ordered] == ["c", "b", "a"]


# --- Pairs


def test_pairs_are_of_one_query_and_of_different_grades():
    rows = rows_of(1, 0, 2, 1) + rows_of(0, 3, query="r") + rows_of(1, 1, query="s")
    pairs = RANKING.training_rows(rows, 0)
    grades = {row.pairs[0]: row.label for row in rows}
    assert len(pairs) == 5 + 1 and {row.query for row in pairs} == {"q", "r"}
    for row in pairs:
        better, worse = row.pairs
        assert better[0] == worse[0] == "text of " + row.query
        assert grades[better] > grades[worse] and row.label == 1


def test_without_documents_of_different_relevance_nothing_is_trained():
    with pytest.raises(UserError, match="found no query with two documents of differ"):
        RANKING.training_rows(rows_of(1, 1), 0)


def test_sampled_pairs_follow_from_the_seed(monkeypatch):
    rows = [row for name in "qr" for row in rows_of(0, 1, 2, 3, 4, 5, query=name)]
    everything = RANKING.training_rows(rows, 1)
    monkeypatch.setattr(ranking, "PAIRS_PER_QUERY", 4)
    drawn, again, other = (RANKING.training_rows(rows, seed) for seed in (1, 1, 2))
    assert drawn == again != other
    assert [row.query for row in drawn] == ["q"] * 4 + ["r"] * 4
    assert len(set(drawn)) == 8 and set(drawn) < set(everything)


def test_the_loss_of_an_evaluation_is_that_of_all_pairs():
    rows = rows_of(2, 0, 1) + rows_of(1, 0, query="r") + rows_of(0, 0, query="s")
    values = np.array([1.0, 0.0, 3.0, 2.0, 2.0, 9.0, 9.0])
    expected = np.mean(np.log(1 + np.exp(-np.array([1.0, -2.0, 3.0, 0.0]))))
    assert measured(["map"], rows, values)["loss"] == pytest.approx(expected)
    assert measured(["map"], rows[5:], values[5:])["loss"] == 0


# --- Files

HEADER = "query_id\tquery\tdocument_id\tdocument\tgrade"


def read(directory, split="dev", **how):
    return read_rows(RANKING, str(directory), split, **how)


def write_trec(directory):
    write(directory, "queries.tsv", "7\tred kite", "8\tblue sky", "9\tnobody's")
    write(
        directory,
        "documents.tsv",
        "x\ta kite",
        "y\tthe sky above",
        "z\tnothing",
        "",
        "w\t",
    )
    write(directory, "dev.qrels", "7 0 x 2", "7 0 y 0", "8\t0\ty\t1", "8 0 z -1")


EXPECTED = [
    Row("x", (("red kite", "a kite"),), 2.0, "7"),
    Row("y", (("red kite", "the sky above"),), 0.0, "7"),
    Row("y", (("blue sky", "the sky above"),), 1.0, "8"),
    Row("z", (("blue sky", "nothing"),), 0.0, "8"),
]


def test_trec_files_and_a_table_have_the_same_rows(tmp_path):
    write_trec(tmp_path)
    assert read(tmp_path) == EXPECTED
    table = [HEADER]
    for row in EXPECTED:
        query, document = row.pairs[0]
        table.append(f"{row.query}\t{query}\t{row.id}\t{document}\t{row.label:.0f}")
    (tmp_path / "table").mkdir()
    write(tmp_path / "table", "dev.tsv", *table)
    assert read(tmp_path / "table") == EXPECTED
    # All names may be numbers from 0 on.
    write(tmp_path, "queries.tsv", "0\tsky")
    write(tmp_path, "documents.tsv", "0\tgrass")
    write(tmp_path, "dev.qrels", "0 0 0 0")
    assert [row.label for row in read(tmp_path)] == [0.0]


def test_which_files_a_ranking_reads(tmp_path):
    """So that a run resumes only with the same texts and judgements."""
    write_trec(tmp_path)
    write(tmp_path, "dev.run", "8 Q0 y 1 9.5 bm25")
    write(tmp_path, "test.qrels", "7 0 x 2")
    texts = ["queries.tsv", "documents.tsv"]
    for name, others in (
        ("dev.run", [*texts, "dev.qrels"]),
        ("test.qrels", texts),
        ("train.tsv", []),
    ):
        found = RANKING.files_of(str(tmp_path / name))
        assert [os.path.basename(path) for path in found] == [name, *others]


def test_a_run_names_what_is_ranked_and_judgements_grade_it(tmp_path):
    write_trec(tmp_path)
    lines = ["8 Q0 y 1 9.5 bm25", "7 Q0 z 1 3.5 bm25"]
    write(tmp_path, "dev.run", *lines)
    found = [(row.query, row.id, row.label) for row in read(tmp_path)]
    assert found == [("8", "y", 1.0), ("7", "z", 0.0)]
    write(tmp_path, "test.run", *lines)
    assert [row.label for row in read(tmp_path, "test")] == [None, None]
    with pytest.raises(UserError, match="test.qrels"):
        read(tmp_path, "test", need_labels=True)


def test_unjudged_queries_of_a_run_are_not_measured_as_in_trec_eval(tmp_path, caplog):
    """A query with judgements of which none is relevant counts as 0."""
    queries = range(20)
    write(tmp_path, "queries.tsv", *(f"{q}\tquery {q}" for q in queries))
    write(tmp_path, "documents.tsv", *(f"d{d}\ttext {d}" for d in range(3)))
    write(
        tmp_path,
        "dev.run",
        *(f"{q} Q0 d{d} {d + 1} {9 - d} x" for q in queries for d in range(3)),
    )
    write(tmp_path, "dev.qrels", *(f"{q} 0 d0 {int(q != 4)}" for q in range(5)))
    rows = read(tmp_path)
    assert {row.query for row in rows} == set("01234") and len(rows) == 15
    values = np.array([9.0 - int(row.id[1]) for row in rows])
    assert RANKING.evaluate(values, RANKING.gold(rows), 0.5)["map"] == 0.8
    assert "dev.run: without 15 of 20 queries that have no judgement" in caplog.text
    # They are predicted.
    assert len(read(tmp_path, need_labels=False)) == 60
    write(tmp_path, "dev.qrels", "none 0 d0 1")
    said = "dev.run: found no judgement for 20 of 20 queries"
    with pytest.raises(UserError, match=said):
        read(tmp_path)


@pytest.mark.parametrize(
    "name, lines, message",
    [
        ("dev.tsv", ["q\tred\td\tkite\t0.5"], ":2: column 'grade': '0.5', expected an"),
        ("dev.tsv", ["q\tred\td\tkite\t"], ":2: column 'grade': '', expected an"),
        ("dev.tsv", ["q\tred\ta b\tkite\t1"], ":2: document 'a b': expected a name"),
        ("dev.tsv", ["q\tred\td\tkite\t1"] * 2, ":3: duplicate document 'd' of quer"),
        ("dev.qrels", ["7 0 x"], ":1: 3 column(s), expected 4"),
        ("dev.qrels", ["7 0 x 1", "5 0 x 1"], ":2: query '5' is not in "),
        ("dev.qrels", ["7 0 x best"], ":1: column 'grade': 'best', expected"),
        ("dev.qrels", ["7 0 x 1", "7 0 x 0"], ":2: duplicate document 'x' of query"),
        ("documents.tsv", None, "no such file: "),
    ],
)
def test_faults_of_files(tmp_path, name, lines, message):
    write_trec(tmp_path)
    if name == "dev.tsv":
        (tmp_path / "dev.qrels").unlink()
        lines = [HEADER, *lines]
    if lines is None:
        (tmp_path / name).unlink()
    else:
        write(tmp_path, name, *lines)
    with pytest.raises(UserError) as e:
        read(tmp_path)
    said = str(e.value)
    assert name in said and message in said and "\n" not in said


def test_trec_files_need_a_column_of_each_kind(tmp_path):
    write_trec(tmp_path)
    columns = dataclasses.replace(RANKING.columns, text_a=("query", "title"))
    task = dataclasses.replace(RANKING, columns=columns)
    with pytest.raises(UserError, match="found TREC's file, expected a table"):
        read_rows(task, str(tmp_path), "dev")


def test_prediction_files():
    rows = [row for name in ("q2", "q1") for row in rows_of(0, 1, 2, query=name)]
    scores = np.array([0.5, 2, 2, -1, 1 / 3, -1.5], np.float32)
    files = RANKING.prediction_files(rows, scores, 0.5)
    assert list(files) == ["tsv", "run"]
    assert "".join(files["run"]).splitlines() == [
        "q2 Q0 c 1 2 xlnet",
        "q2 Q0 b 2 2 xlnet",
        "q2 Q0 a 3 0.5 xlnet",
        "q1 Q0 b 1 0.333333343 xlnet",
        "q1 Q0 a 2 -1 xlnet",
        "q1 Q0 c 3 -1.5 xlnet",
    ]
    lines = list(files["tsv"])
    assert lines[0] == ["query", "id", "score", "gold"]
    assert [line[:2] for line in lines[1:]] == [(row.query, row.id) for row in rows]
    assert lines[5][2] == "0.333333343"
    # The measures are those of the run file.
    ranks, names = np.zeros(len(rows)), [(row.query, row.id) for row in rows]
    for query, _, name, rank, _, _ in map(str.split, files["run"]):
        ranks[names.index((query, name))] = -int(rank)
    found = measured(RANKING.metrics, rows, ranks)
    expected = measured(RANKING.metrics, rows, scores)
    assert {**found, "loss": 0} == {**expected, "loss": 0}


# --- The loss


def test_pairwise_head_by_hand(graph):
    import tensorflow.compat.v1 as tf

    from xlnet.model import heads
    from xlnet.settings.network import RunConfig

    summary = tf.constant(np.random.RandomState(0).randn(4, 3), tf.float32)
    run = RunConfig(True, False, False, 0.0, 0.0)
    nn = heads.HeadBuilder(None, run, "s", None, None)
    nn.summary = lambda: summary
    labels = {"label_ids": tf.ones([2])}
    margin = RANKING.logits(nn, labels, is_training=True)
    loss = RANKING.loss(nn, margin, labels, LossOptions())
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        scores = RANKING.logits(nn, {}, is_training=False)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        loss, scores = session.run([loss, scores])
    np.testing.assert_allclose(
        loss, np.log(1 + np.exp(scores[1::2] - scores[::2])), rtol=1e-5
    )
