"""Ranking: documents sorted for queries, learned from their relevance or from pairs of documents.

A row is a document of a query. Its label is the relevance: 0 is not relevant, higher is better.

What is counted for which query, as by trec_eval:

- A query without any judgement is left out of all means.
- One with judgements and without a relevant document counts as 0. If no query has one, metrics are
  undefined.
- One whose rows were all skipped is left out, like one that a run does not have.
- The denominators of recall and MAP, and the ideal order of NDCG, have all relevant documents of
  the judgements, also those that the run does not have or whose rows were skipped.
- Documents of equal scores are in the order of their names, the last one first.

Shape letters: n rows, Q queries, m documents of one query.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.tasks.files import trec_files
from xlnet.tasks.files.row_store import digest, store_rows
from xlnet.tasks.output.prediction_files import PredictionFile
from xlnet.tasks.task import Row, Task
from xlnet.tasks.types.contract import (
    THRESHOLD,
    Comparison,
    LossOptions,
    TaskType,
    checked,
)
from xlnet.tasks.types.regression import (
    RegressionExport,
    RegressionHead,
    RegressionReader,
    RegressionScorer,
)

_log = logging.getLogger(__name__)

PAIRS_PER_QUERY = 50  # maximum in training, sampled among those of different relevance

# relevance: float32 [n]. queries: the rows of each query, as of `by_query`. missing: the relevance
# of relevant documents of each query that have no row, Q arrays.
Judged = collections.namedtuple("Judged", "relevance queries missing")


@dataclasses.dataclass(frozen=True)
class RankingOptions:
    """How rankings are trained and measured."""

    pairwise: bool = False
    highest_grade: int = 0  # of a perfect document, for ERR; 0: the highest one of a file


class RankingReader(RegressionReader):
    """Documents of queries; in training pairs of documents if `pairwise`."""

    forms = trec_files.FORMS

    @property
    def unit(self) -> str:
        return "pairs" if self.options.pairwise else "rows"

    def read(self, path: str, need_labels: bool) -> Sequence[Row]:
        """The rows of a file. As in trec_eval, the metrics of a run count only queries with
        judgements, and for these all relevant documents. A document whose row was skipped counts as
        not retrieved."""
        if need_labels:
            trec_files.check_judgements(self.task, path)
        rows = super().read(path, need_labels)
        # The judgements next to a run may have documents that the run lacks. Judgements that are
        # read themselves have such documents only if some of their rows were skipped.
        qrels = trec_files.judgements_of(
            self.task,
            path,
            ("run", "qrels") if self.task.files.skips_errors else ("run",),
        )
        if not need_labels or not qrels:
            return rows
        # Queries without judgements are left out, as all of their documents would count as not
        # relevant.
        judged = store_rows(row for row in rows if row.label is not None)
        if not judged:
            raise UserError("{}: no query has a judgement in {}".format(path, ", ".join(qrels)))
        queries, left = (len({row.query for row in each}) for each in (rows, judged))
        if left < queries:
            _log.warning(
                "note: %s: %d of %d queries have no judgement in %s and are left out",
                path,
                queries - left,
                queries,
                ", ".join(qrels),
            )
        # Relevant documents that the run lacks, or that were skipped, count in the denominators of
        # recall, MAP and NDCG: they are in `Row.source` of the first row of their query.
        missing = trec_files.missing(self.task, qrels, judged)
        return store_rows(row._replace(source=missing.pop(row.query, None)) for row in judged)

    def files_of(self, path: str) -> Sequence[str]:
        """The file, and the files that belong to judgements and runs."""
        is_table = trec_files.form_of(self.task, path) not in trec_files.FORMS
        return (path,) if is_table else (path, *trec_files.next_to(self.task, path))

    def parse_label(self, cells: list) -> tuple:
        """None, without an error, for a query without judgements."""
        is_unjudged = bool(cells) and cells[0] is trec_files.UNJUDGED
        return (None, None) if is_unjudged else super().parse_label(cells)

    def parse_score(self, text: str) -> tuple:
        """An integer; below 0, which TREC has for junk, counts as 0."""
        column, highest = self.task.columns.label[0], self.options.highest_grade
        if not re.fullmatch(r"-?\d{1,2}(\.0*)?", text, re.ASCII):
            return None, f"column '{column}': '{text}', expected an integer below 100"
        relevance = max(float(text), 0.0)
        if highest and relevance > highest:
            return None, f"column '{column}': {text} is above highest_grade {highest}"
        return relevance, None

    def check_row(self, row: Row, seen: dict) -> Optional[str]:
        """seen: the text of each query, and the documents, of the rows before."""
        for what, name in (("query", row.query), ("document", row.id)):
            if not name or name.split() != [name]:
                return f"{what} '{name}': expected a name without spaces"
        text, document = digest(row.pairs[0][0]), digest(f"{row.query} {row.id}")
        if seen.setdefault(row.query, text) != text:
            return f"query '{row.query}' has another text than in the rows before"
        if document in seen:
            return f"duplicate document '{row.id}' of query '{row.query}'"
        seen[document] = True
        return None

    def training_rows(self, rows: Sequence[Row], seed: int, data_dir: str) -> Sequence[Row]:
        if not self.options.pairwise:
            return rows
        pairs = store_rows(pair_rows(rows, PAIRS_PER_QUERY, seed))
        if not pairs:
            raise UserError(
                f"data_dir: no query of the train file in {data_dir} has documents of different "
                "relevance, which ranking_loss pairwise compares"
            )
        return pairs


class RankingHead(RegressionHead):
    """A score for each document of a query. The loss is, for a pair of documents, the logistic loss
    on the difference of their scores (RankNet, https://doi.org/10.1145/1102351.1102363), or for
    each document, the squared error of its relevance."""

    def num_choices(self, is_training: bool) -> int:
        return 2 if self.options.pairwise and is_training else 1

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """Scores [B]; for pairs the difference of their scores, [B]."""
        scores = super().logits(nn, features, is_training)
        if self.num_choices(is_training) == 1:
            return scores
        import tensorflow.compat.v1 as tf

        pairs = tf.reshape(scores, [-1, 2])
        return pairs[:, 0] - pairs[:, 1]

    def loss(self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]) -> Any:
        """The label of a pair is the probability that the first document is the better one."""
        if self.options.pairwise and options:
            return nn.sigmoid_cross_entropy(logits, features["label_ids"])
        return super().loss(nn, logits, features, options)

    def outputs_in_words(self) -> str:
        return "scores of documents, trained on %s" % (
            "pairs of them" if self.options.pairwise else "their relevance"
        )


class RankingScorer(RegressionScorer):
    """Measures of the orders of documents by their scores."""

    default_metrics = ("ndcg@10", "map", "err@10")

    def check_metric(self, name: str) -> None:
        if _measure_of(name) is None:
            raise UserError(
                "metric: task {} has no {} (metrics: {}; {}, with any k)".format(
                    self.task.name,
                    name,
                    ", ".join(_WITHOUT_CUTOFF),
                    ", ".join(
                        [each + "@k" for each in MEASURES] + [each + "_k" for each in _TREC_EVAL]
                    ),
                )
            )

    def gold_labels(self, rows: Sequence[Row]) -> Judged:
        queries, missing = by_query(rows), {row.query: row.source for row in rows if row.source}
        return Judged(
            super().gold_labels(rows),
            queries,
            [np.array(missing.get(rows[query[0]].query, ()), np.float64) for query in queries],
        )

    def evaluate(self, values: Any, gold_labels: Judged, threshold: float = THRESHOLD) -> dict:
        values = checked(self, values, len(gold_labels.relevance))
        result = self._means(values, gold_labels)
        if self.options.pairwise:
            result["loss"] = pair_loss(values, gold_labels)
        return result

    def _means(self, values: Any, gold_labels: Judged) -> dict:
        # Without a relevant document every order is as good as any other.
        if not _highest(gold_labels):
            return dict.fromkeys(self.task.metrics, np.nan)
        return evaluate(self.task.metrics, values, gold_labels, self.options.highest_grade)

    def constant_prediction(
        self, values: Any, gold_labels: Judged, threshold: float = THRESHOLD
    ) -> Optional[str]:
        return super().constant_prediction(values, gold_labels.relevance)

    def compare(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> Iterator[Comparison]:
        """Yields the `Comparison`s. The prediction is the rank. The error is the fraction of the
        query's documents with another relevance that are on the wrong side of the document."""
        relevance = super().gold_labels(rows)
        ranks, counts, errors = (np.zeros(len(rows)) for _ in range(3))
        for query in by_query(rows):
            ranks[best_first(np.asarray(values), query)] = np.arange(1, len(query) + 1)
            counts[query] = len(query)
            # A pair is in the wrong order if the better document is ranked behind the other one.
            mine, rank = relevance[query], ranks[query]
            is_better = mine[:, None] > mine
            is_wrong = is_better & (rank[:, None] > rank)
            errors[query] = (is_wrong | is_wrong.T).sum(axis=1) / np.maximum(
                (is_better | is_better.T).sum(axis=1), 1
            )
        for row, rank, count, error in zip(rows, ranks, counts, errors):
            has_label = row.label is not None
            yield Comparison(
                f"{row.label:g}" if has_label else "",
                f"rank {int(rank)} of {int(count)}",
                None,
                float(error) if has_label else 0.0,
            )

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        """A table, and the ranking as trec_eval takes it."""
        return [
            *super().prediction_files(rows, values, threshold),
            PredictionFile(
                "run",
                "as a TREC run",
                run_lines(store_rows(row for row in rows if row.pairs), values),
            ),
        ]


def _with_settings(task: Task, settings: Any) -> Task:
    return dataclasses.replace(task, metrics=RankingScorer.default_metrics).with_options(
        pairwise=settings.ranking_loss == "pairwise", highest_grade=settings.highest_grade
    )


RANKING = TaskType(
    "ranking",
    RankingReader,
    RankingHead,
    RankingScorer,
    RankingOptions(),
    verb="rank",
    selecting_flag="query_id_column",
    with_settings=_with_settings,
    export=RegressionExport,
)


def run_lines(rows: Sequence[Row], scores: np.ndarray) -> Iterator[str]:
    """Yields a line `query Q0 document rank score xlnet` for each row, best documents first.
    scores: float32 [n], written with all their digits to keep different ones different."""
    scores = np.asarray(scores)
    for query in by_query(rows):
        for rank, index in enumerate(best_first(scores, query), 1):
            row = rows[index]
            yield f"{row.query} Q0 {row.id} {rank} {scores[index]:.9g} xlnet\n"


# ---- orders


def by_query(rows: Sequence[Row]) -> list:
    """The rows of each query: Q int arrays [m] of row numbers, in the order of the queries' first
    rows.

    A query's rows are sorted by document name in reverse. Documents of equal scores stay in this
    order, so that measures do not depend on the order of a file.
    """
    found: dict[str, list[int]] = {}
    names = []
    for index, row in enumerate(rows):
        found.setdefault(row.query, []).append(index)
        names.append(row.id)
    return [
        np.array(sorted(documents, key=names.__getitem__, reverse=True))
        for documents in found.values()
    ]


def best_first(values: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Sorts the row numbers of a query, int [m], by their scores; values: scores [n]."""
    return query[np.argsort(-values[query], kind="stable")]


# ---- pairs ----


def pair_rows(rows: Sequence[Row], most: int, seed: int) -> Iterator[Row]:
    """Yields rows of two documents to train on: with two pairs of texts and the label 1, as the
    first document is the better one. most: maximum number of pairs per query, sampled by `seed`
    among those of different relevance; 0: all."""
    random = np.random.default_rng(seed)
    for query in by_query(rows):
        documents = [rows[index] for index in query]
        better, worse = _unequal(np.array([row.label for row in documents]))
        if most and len(better) > most:
            sample = np.sort(random.choice(len(better), most, replace=False))
            better, worse = better[sample], worse[sample]
        for one, other in zip(better, worse):
            yield documents[one]._replace(
                pairs=documents[one].pairs + documents[other].pairs, label=1.0
            )


def _unequal(relevance: np.ndarray) -> tuple[np.ndarray, ...]:
    """All pairs of documents whose first one has the higher relevance: two int arrays."""
    return np.nonzero(relevance[:, None] > relevance[None, :])


def pair_loss(values: np.ndarray, judged: Judged) -> float:
    """The mean logistic loss over all pairs of different relevance, 0 without any; values [n]."""
    total, count = 0.0, 0
    for query in judged.queries:
        better, worse = _unequal(judged.relevance[query])
        margins = values[query][better].astype(np.float64) - values[query][worse]
        total += np.logaddexp(0, -margins).sum()
        count += len(margins)
    return float(total / max(count, 1))


# ---- measures ----

# These measures are not taken from libraries: those of trec_eval are compiled, take names in place
# of arrays and lack ERR; scikit-learn averages over ties and has no documents that a run missed.

# A measure of a query: a function of (relevance [m] of the run's documents in the order of the
# scores; cutoff; relevance of all judged documents of the query; highest relevance).
Measure = Callable[[np.ndarray, int, np.ndarray, float], float]


def evaluate(names: Sequence[str], values: np.ndarray, judged: Judged, highest: float = 0) -> dict:
    """The mean of each measure, "map", "ndcg@k" and others of `_measure_of`, over the queries.

    values: scores [n]. highest: relevance of a perfect document, for ERR; 0: the highest that there
    is.
    """
    values = np.asarray(values)
    relevance = np.maximum(np.asarray(judged.relevance, np.float64), 0)
    highest = highest or _highest(judged)
    # Documents that a run missed are not in its order, but are counted among the judged ones, with
    # which the best possible order is made.
    ranked = [
        (relevance[best_first(values, query)], missing)
        for query, missing in zip(judged.queries, judged.missing)
    ]
    result = {}
    for name in names:
        known = _measure_of(name)
        assert known, f"{name} is not a measure"
        measure, cutoff = known
        each = [
            measure(found, cutoff or len(found), np.concatenate([found, missing]), highest)
            for found, missing in ranked
        ]
        if name == "gm_map":  # the geometric mean
            result[name] = float(np.exp(np.mean(np.log(np.maximum(each, _LEAST)))))
        else:
            result[name] = float(np.mean(each))
    return result


def _highest(judged: Judged) -> float:
    """The highest relevance that there is, at least 0."""
    return max(np.concatenate([judged.relevance, *judged.missing]).max(), 0)


def _measure_of(name: str) -> Optional[tuple[Measure, int]]:
    """(function, cutoff; 0: none) of a measure's name; None: there is no such measure."""
    if name in _WITHOUT_CUTOFF:
        return _WITHOUT_CUTOFF[name], 0
    found = re.fullmatch("(.+)([@_])([1-9][0-9]*)", name)
    known = MEASURES if found and found[2] == "@" else _TREC_EVAL
    return (known[found[1]], int(found[3])) if found and found[1] in known else None


def _average_precision(
    relevance: np.ndarray, cutoff: int, judged: np.ndarray, highest: float
) -> float:
    relevant = relevance[:cutoff] > 0
    precision = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
    return (precision * relevant).sum() / max(np.count_nonzero(judged), 1)


def _reciprocal_rank(
    relevance: np.ndarray, cutoff: int, judged: np.ndarray, highest: float
) -> float:
    found = np.flatnonzero(relevance[:cutoff])
    return 1 / (found[0] + 1) if len(found) else 0.0


def _precision(relevance: np.ndarray, cutoff: int, judged: np.ndarray, highest: float) -> float:
    return np.count_nonzero(relevance[:cutoff]) / cutoff


def _recall(relevance: np.ndarray, cutoff: int, judged: np.ndarray, highest: float) -> float:
    return np.count_nonzero(relevance[:cutoff]) / max(int(np.count_nonzero(judged)), 1)


def _ndcg(relevance: np.ndarray, cutoff: int, judged: np.ndarray, highest: float) -> float:
    """With gains of 2^relevance - 1 (https://doi.org/10.1145/1102351.1102363)."""
    return _trec_ndcg(2**relevance - 1, cutoff, 2**judged - 1, highest)


def _trec_ndcg(relevance: np.ndarray, cutoff: int, judged: np.ndarray, highest: float) -> float:
    """As trec_eval, with gains equal to the relevance."""
    ideal = _dcg(np.sort(judged)[::-1][:cutoff])
    return _dcg(relevance[:cutoff]) / ideal if ideal else 0.0


def _dcg(gains: np.ndarray) -> float:
    return (gains / np.log2(np.arange(2, len(gains) + 2))).sum()


def _err(relevance: np.ndarray, cutoff: int, judged: np.ndarray, highest: float) -> float:
    """Expected reciprocal rank (https://doi.org/10.1145/1645953.1646033): the reader goes down the
    list and stops at a document with a probability that depends on its relevance."""
    stops = (2 ** relevance[:cutoff] - 1) / 2**highest
    arrives = np.concatenate([[1.0], np.cumprod(1 - stops)[:-1]])
    return (arrives * stops / np.arange(1, len(stops) + 1)).sum()


def _success(relevance: np.ndarray, cutoff: int, judged: np.ndarray, highest: float) -> float:
    return float((relevance[:cutoff] > 0).any())


def _precision_at_all(
    relevance: np.ndarray, cutoff: int, judged: np.ndarray, highest: float
) -> float:
    """The precision among as many documents as are relevant."""
    count = int(np.count_nonzero(judged))
    return np.count_nonzero(relevance[:count]) / max(count, 1)


# The measures by name, to which @k may be added for a cutoff.
MEASURES: dict[str, Measure] = {
    "map": _average_precision,
    "ndcg": _ndcg,
    "err": _err,
    "mrr": _reciprocal_rank,
    "p": _precision,
    "recall": _recall,
    "success": _success,
    "trec_ndcg": _trec_ndcg,
}
# The same under the names of trec_eval, with _k behind it; and measures of all documents.
_TREC_EVAL: dict[str, Measure] = {
    "map_cut": _average_precision,
    "P": _precision,
    "recall": _recall,
    "success": _success,
    "ndcg_cut": _trec_ndcg,
}
_WITHOUT_CUTOFF: dict[str, Measure] = {
    "map": _average_precision,
    "gm_map": _average_precision,
    "recip_rank": _reciprocal_rank,
    "Rprec": _precision_at_all,
}
_LEAST = 1e-5  # of an average precision in the geometric mean, as in trec_eval
