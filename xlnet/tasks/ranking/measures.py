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
    return [
        np.array(sorted(each, key=names.__getitem__, reverse=True))
        for each in found.values()
    ]


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
            ranked = judged.relevance[best_first(np.asarray(values), query)].astype(
                np.float64
            )
            k = cutoff or len(ranked)
            each.append(measure(Query(ranked[:k], k, relevance, judged.highest)))
        result[name] = float(np.mean(each))
    return result


def cutoff_of(name: str) -> Optional[int]:
    """The k of a measure's name "ndcg@k"; 0: it has none; None: there is no such measure."""
    found = re.fullmatch("([a-z_]+)(?:@([1-9][0-9]*))?", name)
    if not found or found[1] not in MEASURES:
        return None
    return int(found[2] or 0)


class Query(NamedTuple):
    """What a measure of a query is computed from.

    Attributes:
      ranked: relevance of the first k documents in the order of the scores, float64 [<= k].
      k: the cutoff.
      judged: relevance of all judged documents, float64.
      highest: the highest relevance of all queries.
    """

    ranked: np.ndarray
    k: int
    judged: np.ndarray
    highest: float


def _average_precision(query: Query) -> float:
    relevant = query.ranked > 0
    precision = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
    return (precision * relevant).sum() / max(int(np.count_nonzero(query.judged)), 1)


def _reciprocal_rank(query: Query) -> float:
    found = np.flatnonzero(query.ranked)
    return 1 / (found[0] + 1) if len(found) else 0.0


def _precision(query: Query) -> float:
    return np.count_nonzero(query.ranked) / query.k


def _recall(query: Query) -> float:
    return np.count_nonzero(query.ranked) / max(int(np.count_nonzero(query.judged)), 1)


def _success(query: Query) -> float:
    return float(query.ranked.any())


def _ndcg(query: Query) -> float:
    """With gains of 2^relevance - 1 (https://doi.org/10.1145/1102351.1102363)."""
    ranked, judged = 2**query.ranked - 1, 2**query.judged - 1
    return _trec_ndcg(query._replace(ranked=ranked, judged=judged))


def _trec_ndcg(query: Query) -> float:
    """As trec_eval, with gains equal to the relevance."""
    ideal = _dcg(np.sort(query.judged)[::-1][: query.k])
    return _dcg(query.ranked) / ideal if ideal else 0.0


def _dcg(gains: np.ndarray) -> float:
    return (gains / np.log2(np.arange(2, len(gains) + 2))).sum()


def _err(query: Query) -> float:
    """Expected reciprocal rank (https://doi.org/10.1145/1645953.1646033): the reader goes down the
    list and stops at a document with a probability that depends on its relevance."""
    stops = (2**query.ranked - 1) / 2**query.highest
    arrives = np.concatenate([[1.0], np.cumprod(1 - stops)[:-1]])
    return (arrives * stops / np.arange(1, len(stops) + 1)).sum()


# By name, to which @k may be added for a cutoff.
MEASURES: dict[str, Callable[[Query], float]] = {
    "map": _average_precision,
    "ndcg": _ndcg,
    "err": _err,
    "mrr": _reciprocal_rank,
    "p": _precision,
    "recall": _recall,
    "success": _success,
    "trec_ndcg": _trec_ndcg,
}
