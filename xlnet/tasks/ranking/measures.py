"""Measures of the order of documents, as trec_eval has them; NDCG and ERR with exponential gains.

They are not taken from libraries: those of trec_eval are compiled, take names in place of arrays
and lack ERR; scikit-learn averages over ties and has no documents that a run missed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np

from xlnet.tasks.task import Row

# To each of which @k may be added for a cutoff.
MEASURES = ("map", "ndcg", "err", "mrr", "p", "recall", "success", "trec_ndcg")


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
    found: dict[str, list[tuple[str, int]]] = {}
    for index, row in enumerate(rows):
        found.setdefault(row.query, []).append((row.id, index))
    queries = []
    for each in found.values():
        each.sort(reverse=True)
        queries.append(np.array([index for _, index in each]))
    return queries


def best_first(values: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Sorts the row numbers of a query, int [m], by their scores; values: scores [n]."""
    return query[np.argsort(-values[query], kind="stable")]


def cutoff_of(name: str) -> Optional[int]:
    """The k of a measure's name "ndcg@k"; 0: it has none; None: there is no such measure."""
    found = re.fullmatch("([a-z_]+)(?:@([1-9][0-9]*))?", name)
    if not found or found[1] not in MEASURES:
        return None
    return int(found[2] or 0)


def evaluate(names: Sequence[str], values: np.ndarray, judged: Judged) -> dict:
    """The mean of each measure over the queries.

    Args:
      names: of measures, "map", "ndcg@10".
      values: scores [n].
      judged: the judgements of the same rows.
    """
    values = np.asarray(values)
    result = {}
    for name in names:
        each = []
        for query, relevance in zip(judged.queries, judged.judged):
            ranked = judged.relevance[best_first(values, query)].astype(np.float64)
            k = cutoff_of(name) or len(ranked)
            measure = name.partition("@")[0]
            each.append(_measure(measure, ranked[:k], k, relevance, judged.highest))
        result[name] = float(np.mean(each))
    return result


def _measure(
    name: str, ranked: np.ndarray, k: int, judged: np.ndarray, highest: float
) -> float:
    """A measure of a query.

    Args:
      name: of `MEASURES`.
      ranked: relevance of the first k documents in the order of the scores, float64 [<= k].
      k: the cutoff.
      judged: relevance of all judged documents, float64.
      highest: the highest relevance of all queries.
    """
    is_relevant = ranked > 0
    all_relevant = max(int(np.count_nonzero(judged)), 1)
    positions = np.arange(1, len(ranked) + 1)
    if name == "map":
        precision = np.cumsum(is_relevant) / positions
        return (precision * is_relevant).sum() / all_relevant
    if name == "mrr":
        return (is_relevant / positions).max()
    if name == "p":
        return np.count_nonzero(ranked) / k
    if name == "recall":
        return np.count_nonzero(ranked) / all_relevant
    if name == "success":
        return float(is_relevant.any())
    if name == "err":
        # Expected reciprocal rank (https://doi.org/10.1145/1645953.1646033): the reader goes down
        # the list and stops at a document with a probability that depends on its relevance.
        stops = (2**ranked - 1) / 2**highest
        arrives = np.concatenate([[1.0], np.cumprod(1 - stops)[:-1]])
        return (arrives * stops / positions).sum()
    # NDCG with gains of 2^relevance - 1 (https://doi.org/10.1145/1102351.1102363), or as trec_eval
    # with gains equal to the relevance.
    if name == "ndcg":
        ranked, judged = 2**ranked - 1, 2**judged - 1
    best = np.sort(judged)[::-1][:k]
    ideal = (best / np.log2(np.arange(2, len(best) + 2))).sum()
    return (ranked / np.log2(positions + 1)).sum() / ideal if ideal else 0.0
