"""Measures of the order of documents, as trec_eval has them; NDCG and ERR with exponential gains.

They are not taken from libraries: those of trec_eval are compiled, take names in place of arrays
and lack ERR; scikit-learn averages over ties and has no documents that a run missed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import numpy as np

from xlnet.tasks.task import Row


class Judged(NamedTuple):
    """The judgements of a split.

    Attributes:
      relevance: of the rows, float32 [n].
      queries: the rows of each query, Q int arrays [m], as of `by_query`.
      judged: the relevance of all judged documents of each query, Q float64 arrays: of its rows, or
        of the judgements of a run.
    """

    relevance: np.ndarray
    queries: list[np.ndarray]
    judged: list[np.ndarray]

    @property
    def highest(self) -> float:
        """The highest relevance that there is."""
        return max(relevance.max() for relevance in self.judged)


def by_query(rows: Sequence[Row]) -> list[np.ndarray]:
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
    return [np.array(sorted(each, key=names.__getitem__, reverse=True)) for each in found.values()]


def best_first(values: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Sorts the row numbers of a query, int [m], by their scores; values: scores [n]."""
    return query[np.argsort(-values[query], kind="stable")]


def evaluate(names: Sequence[str], values: np.ndarray, judged: Judged) -> dict:
    """The mean of each measure over the queries.

    Args:
      names: of measures, "map", "ndcg@10".
      values: scores [n].
      judged: the judgements of the same rows.
    """
    result = {}
    for name in names:
        measure, cutoff = MEASURES[name.partition("@")[0]], cutoff_of(name)
        each = []
        for query, relevance in zip(judged.queries, judged.judged):
            ranked = judged.relevance[best_first(np.asarray(values), query)].astype(np.float64)
            each.append(measure(ranked, cutoff or len(ranked), relevance, judged.highest))
        result[name] = float(np.mean(each))
    return result


def cutoff_of(name: str) -> Optional[int]:
    """The k of a measure's name "ndcg@k"; 0: it has none; None: there is no such measure."""
    found = re.fullmatch("([a-z_]+)(?:@([1-9][0-9]*))?", name)
    if not found or found[1] not in MEASURES:
        return None
    return int(found[2] or 0)


# A measure of a query: a function of (relevance [m] of the documents in the order of the scores;
# cutoff k; relevance of all judged documents of the query; highest relevance of all queries).
Measure = Callable[[np.ndarray, int, np.ndarray, float], float]


def _average_precision(ranked: np.ndarray, k: int, judged: np.ndarray, highest: float) -> float:
    relevant = ranked[:k] > 0
    precision = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
    return (precision * relevant).sum() / max(int(np.count_nonzero(judged)), 1)


def _reciprocal_rank(ranked: np.ndarray, k: int, judged: np.ndarray, highest: float) -> float:
    found = np.flatnonzero(ranked[:k])
    return 1 / (found[0] + 1) if len(found) else 0.0


def _precision(ranked: np.ndarray, k: int, judged: np.ndarray, highest: float) -> float:
    return np.count_nonzero(ranked[:k]) / k


def _recall(ranked: np.ndarray, k: int, judged: np.ndarray, highest: float) -> float:
    return np.count_nonzero(ranked[:k]) / max(int(np.count_nonzero(judged)), 1)


def _success(ranked: np.ndarray, k: int, judged: np.ndarray, highest: float) -> float:
    return float(ranked[:k].any())


def _ndcg(ranked: np.ndarray, k: int, judged: np.ndarray, highest: float) -> float:
    """With gains of 2^relevance - 1 (https://doi.org/10.1145/1102351.1102363)."""
    return _trec_ndcg(2**ranked - 1, k, 2**judged - 1, highest)


def _trec_ndcg(ranked: np.ndarray, k: int, judged: np.ndarray, highest: float) -> float:
    """As trec_eval, with gains equal to the relevance."""
    ideal = _dcg(np.sort(judged)[::-1][:k])
    return _dcg(ranked[:k]) / ideal if ideal else 0.0


def _dcg(gains: np.ndarray) -> float:
    return (gains / np.log2(np.arange(2, len(gains) + 2))).sum()


def _err(ranked: np.ndarray, k: int, judged: np.ndarray, highest: float) -> float:
    """Expected reciprocal rank (https://doi.org/10.1145/1645953.1646033): the reader goes down the
    list and stops at a document with a probability that depends on its relevance."""
    stops = (2 ** ranked[:k] - 1) / 2**highest
    arrives = np.concatenate([[1.0], np.cumprod(1 - stops)[:-1]])
    return (arrives * stops / np.arange(1, len(stops) + 1)).sum()


# By name, to which @k may be added for a cutoff.
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
