"""Documents ranked for queries: pairs of them to train on, and how good an order is.

A row is a document of a query, its label the grade: 0 is not relevant, the higher the better.
Shape letters: n rows, Q queries, m documents of one query.
"""

import numpy as np

RANDOM_ORDERS = 10     # of which the measures of a random order are the mean


def by_query(rows):
    """The rows of each query: Q int arrays [m] of row numbers, in the order of the queries' first
    rows.

    A query's rows are sorted by the document's name, backwards. Documents of equal scores stay in
    this order, as trec_eval has them, so that no measure depends on the order of a file.
    """
    found = {}
    for number, row in enumerate(rows):
        found.setdefault(row.query, []).append(number)
    return [np.array(sorted(numbers, key=lambda number: rows[number].id, reverse=True))
            for numbers in found.values()]


def best_first(values, query):
    """Sorts the row numbers of a query, int [m], by their scores; values: scores [n]."""
    return query[np.argsort(-values[query], kind="stable")]


# ---- pairs ----

def pair_rows(rows, most, seed):
    """Makes rows of two texts, the better document first, to train on.

    Args:
      rows: n `tasks.Row` with grades. most: pairs of a query, drawn among those of different
        grades; 0: all of them. seed: of the draw.

    Returns:
      A list of `tasks.Row` with two pairs and the label 1: the probability that the first one is
      the better one (RankNet, https://doi.org/10.1145/1102351.1102363).
    """
    random = np.random.default_rng(seed)
    made = []
    for query in by_query(rows):
        better, worse = _unequal(np.array([rows[number].label for number in query]))
        if most and len(better) > most:
            drawn = np.sort(random.choice(len(better), most, replace=False))
            better, worse = better[drawn], worse[drawn]
        for one, other in zip(query[better], query[worse]):
            made.append(rows[one]._replace(pairs=rows[one].pairs + rows[other].pairs, label=1.0))
    return made


def _unequal(grades):
    """All pairs of documents of which the first one has the higher grade: two int arrays."""
    return np.nonzero(grades[:, None] > grades[None, :])


def pair_loss(values, grades, queries):
    """The mean logistic loss over all pairs of different grades, 0 without any.

    values: scores [n]; grades [n]; queries: as `by_query` returns them.
    """
    total, count = 0.0, 0
    for query in queries:
        better, worse = _unequal(grades[query])
        margins = values[query][better].astype(np.float64) - values[query][worse]
        total += np.logaddexp(0, -margins).sum()
        count += len(margins)
    return float(total / max(count, 1))


# ---- measures ----

def evaluate(names, values, grades, queries, highest=0):
    """Returns the mean of each measure over the queries, an ordered dict of name to float.

    Args:
      names: "map", "ndcg@k", "err@k". values: scores [n]. grades: [n], those below 0 count as 0.
      queries: as `by_query` returns them. highest: grade of a perfect document, for ERR; 0: the
        highest of `grades`.

    A query without a relevant document counts as 0.
    """
    values = np.asarray(values)
    grades = np.maximum(np.asarray(grades, np.float64), 0)
    highest = highest or grades.max()
    ranked = [grades[best_first(values, query)] for query in queries]
    return {name: float(np.mean([_measure(name, each, highest) for each in ranked]))
            for name in names}


def random_order(names, grades, queries, highest=0):
    """What `evaluate` gives for an order by chance: the mean over some random ones."""
    random = np.random.default_rng(0)
    results = [evaluate(names, random.random(len(grades)), grades, queries, highest)
               for _ in range(RANDOM_ORDERS)]
    return {name: float(np.mean([result[name] for result in results])) for name in names}


def _measure(name, grades, highest):
    name, _, cutoff = name.partition("@")
    return MEASURES[name](grades, int(cutoff) if cutoff else len(grades), highest)


def _average_precision(grades, cutoff, highest):
    relevant = grades[:cutoff] > 0
    precision = np.cumsum(relevant) / np.arange(1, len(relevant) + 1)
    return (precision * relevant).sum() / max(np.count_nonzero(grades > 0), 1)


def _ndcg(grades, cutoff, highest):
    """Gains are 2^grade - 1 (https://doi.org/10.1145/1102351.1102363)."""
    ideal = _dcg(np.sort(grades)[::-1][:cutoff])
    return _dcg(grades[:cutoff]) / ideal if ideal else 0.0


def _dcg(grades):
    return ((2 ** grades - 1) / np.log2(np.arange(2, len(grades) + 2))).sum()


def _err(grades, cutoff, highest):
    """Expected reciprocal rank (https://doi.org/10.1145/1645953.1646033): the reader goes down the
    list and stops at a document with the probability that its grade says."""
    stops = (2 ** grades[:cutoff] - 1) / 2 ** highest
    arrives = np.concatenate([[1.0], np.cumprod(1 - stops)[:-1]])
    return (arrives * stops / np.arange(1, len(stops) + 1)).sum()


# By name: (grades [m] in the order of the scores, first documents looked at, highest grade).
MEASURES = {"map": _average_precision, "ndcg": _ndcg, "err": _err}
