"""Ranking: documents sorted for queries, learned from pairs of documents of different relevance.

A row is a document of a query. Its label is the relevance: 0 is not relevant, higher is better.

Files are tables, or those of TREC: judgements (qrels) have the relevance of documents for queries,
a run the documents that a search found for them. Their lines have the names of queries and
documents; the texts come from two files next to them:

    dev.qrels       7 0 x 2             queries.tsv      7<TAB>red kite
    dev.run         7 Q0 x 1 9.5 bm25   documents.tsv    x<TAB>a kite

and the row of a table is 7, red kite, x, a kite, 2. A run has no relevance; the judgements of the
same name have it.

What is counted for which query, as by trec_eval:

- A query without any judgement is left out of all means.
- One with judgements and without a relevant document counts as 0. If no query has one, metrics are
  undefined.
- The denominators of recall and MAP, and the ideal order of NDCG, have all judged documents, also
  those that a run does not have.
- Documents of equal scores are in the order of their names, the last one first.

The measures are not taken from libraries: those of trec_eval are compiled, take names in place of
arrays and lack ERR; scikit-learn averages over ties and has no documents that a run missed.

Shape letters: n rows, m documents of one query.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.support.errors import UserError, wrong
from xlnet.tasks.contract import LossOptions, Regression
from xlnet.tasks.fields import Form, Row
from xlnet.tasks.files import forms

_log = logging.getLogger(__name__)

PAIRS_PER_QUERY = 50  # maximum in training, sampled among those of different relevance

# To each of which @k may be added for a cutoff.
MEASURES = ("map", "ndcg", "err", "mrr", "p", "recall", "trec_ndcg")
_METRIC = re.compile(f"({'|'.join(MEASURES)})(@[1-9][0-9]*)?")

# ---- TREC's files

# The columns of a line, by what the file has; those of "texts" have tabs between them, others
# blanks.
_COLUMNS = {
    "qrels": ("query", "iteration", "document", "relevance"),
    "run": ("query", "Q0", "document", "rank", "score", "name"),
    "texts": ("name", "text"),
}
_TREC_FORMS = ("qrels", "run")
# The file of the texts, next to judgements and runs, by the column that has the name of a text.
_TEXT_FILE = {"query": "queries.tsv", "document": "documents.tsv"}


# ---- the rows


class Query(NamedTuple):
    """The m documents of a query that are among the rows, sorted by name in reverse: those of equal
    scores stay in this order, so that measures do not depend on the order of a file.

    Attributes:
      rows: the indices of their rows, int [m].
      relevance: theirs, float64 [m]; nan where it is not known.
      judged: relevance of all judged documents of the query, in any order, float64 [j]: those of
        the rows, or of the judgements that belong to a run.
    """

    rows: np.ndarray
    relevance: np.ndarray
    judged: np.ndarray


def by_query(rows: Sequence[Row]) -> list[Query]:
    """The documents of each query, in the order of the queries' first rows."""
    rows_of: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        rows_of.setdefault(row.query, []).append(index)
    queries = []
    for indices in rows_of.values():
        indices.sort(key=lambda index: rows[index].id, reverse=True)
        # A label of None becomes nan.
        relevance = np.array([rows[index].label for index in indices], np.float64)
        judged = rows[indices[0]].source  # the same in all rows of the query
        if judged is None:
            judged = relevance
        queries.append(Query(np.array(indices), relevance, np.array(judged)))
    return queries


def best_first(scores: np.ndarray) -> np.ndarray:
    """The positions of the documents of a query, int [m], that with the highest of the scores [m]
    first; equal ones stay in order."""
    return np.argsort(-scores, kind="stable")


def _unequal_pairs(query: Query) -> tuple[np.ndarray, ...]:
    """All pairs of documents of different relevance: (int [pairs], of the better ones; int [pairs],
    of the worse ones), positions in the arrays of the query."""
    return np.nonzero(query.relevance[:, None] > query.relevance[None, :])


# ---- measures


def measure(name: str, ranked: np.ndarray, judged: np.ndarray, highest: float) -> float:
    """The value of a measure for one query, 0 without a relevant document.

    Args:
      name: one of `MEASURES`, perhaps with a cutoff: "ndcg@10".
      ranked: relevance of the documents in the order of the scores, float64 [m].
      judged: relevance of all judged documents, float64 [j].
      highest: the highest relevance of all queries.
    """
    name, _, cutoff = name.partition("@")
    k = int(cutoff or len(ranked))
    ranked = ranked[:k]
    is_relevant = ranked > 0
    all_relevant = max(int(np.count_nonzero(judged)), 1)  # 1: no division by 0
    positions = np.arange(1, len(ranked) + 1)
    if name == "map":
        # Of mean average precision what is averaged over queries: the mean of the precision at the
        # position of each relevant document.
        precision = np.cumsum(is_relevant) / positions
        return (precision * is_relevant).sum() / all_relevant
    if name == "mrr":  # the reciprocal of the position of the first relevant document
        return (is_relevant / positions).max()
    if name == "p":
        return np.count_nonzero(ranked) / k
    if name == "recall":
        return np.count_nonzero(ranked) / all_relevant
    if name == "err":
        # Expected reciprocal rank (https://doi.org/10.1145/1645953.1646033): the reader goes down
        # the list and stops at a document with a probability that depends on its relevance.
        stops = (2**ranked - 1) / 2**highest
        arrives = np.concatenate([[1.0], np.cumprod(1 - stops)[:-1]])
        return (arrives * stops / positions).sum()
    # NDCG with gains of 2^relevance - 1 (https://doi.org/10.1145/1102351.1102363), or trec_ndcg as
    # trec_eval has it, with gains equal to the relevance.
    if name == "ndcg":
        ranked, judged = 2**ranked - 1, 2**judged - 1
    # Without a cutoff the ideal order has all judged documents, also those that are not ranked.
    best = np.sort(judged)[::-1][: int(cutoff or len(judged))]
    ideal_gain = (best / np.log2(np.arange(2, len(best) + 2))).sum()
    gain = (ranked / np.log2(positions + 1)).sum()
    return gain / ideal_gain if ideal_gain else 0.0


# ---- the task type


class Ranking(Regression):
    """Documents of queries; in training pairs of documents. The loss is the logistic loss on the
    difference of the scores of two documents (RankNet, https://doi.org/10.1145/1102351.1102363).

    `Row.query` and `Row.id` are the names of the query and the document. `Row.source` of a run with
    judgements is a tuple of the relevance of all judged documents of the query; else None.
    """

    kind = "ranking"
    measures = ()
    default_metrics = ("ndcg@10", "map", "err@10")
    verb = "rank"

    def parse_label(self, cells: list) -> float:
        """The relevance in the only cell, an integer; below 0, which TREC has for junk, it is 0."""
        column = self.columns.label[0]
        text = forms.to_text(cells[0]).strip()
        if not re.fullmatch(r"-?\d{1,2}(\.0*)?", text, re.ASCII):
            raise ValueError(
                f"column '{column}': '{text}', expected an integer below 100"
            )
        return max(float(text), 0.0)

    def _lines(self, path: str, kind: str) -> forms.Records:
        """(place, cells) of the lines that are not empty: where a line is, for errors, and a dict
        of str by column. A UserError for a line that cannot be read.

        kind: what the file has, a key of `_COLUMNS`.
        """
        # The library's forms of these files: tabs, or blanks, between the columns of a line.
        name = "text" if kind == "texts" else "conll"
        encoding = forms.declared_form(self, path).encoding
        form = Form(name, header="none", names=_COLUMNS[kind], encoding=encoding)
        for place, cells in forms.read(path, form, "a ranking"):
            if isinstance(cells, str):  # an error
                raise UserError(f"{place}: {cells}")
            if cells:
                yield place, cells

    def _texts_of(self, path: str, wanted: set[str]) -> dict[str, str]:
        """The texts of a file by name, of the names in `wanted` alone: a collection of documents
        may be larger than the memory."""
        texts = {}
        for place, cells in self._lines(path, "texts"):
            name = cells["name"].strip()
            if name in texts:
                raise wrong(place, f"'{name}' again", "another name")
            if name in wanted:
                texts[name] = cells["text"]
        return texts

    def table(self, path: str) -> forms.Records:
        """Yields (place, cells) of each record of a table, or of judgements or a run of TREC, with
        the names of columns that a table of the task would have. The relevance is None in a run. A
        document or query without its text has an error, a str, in place of the cells."""
        form = str(forms.declared_form(self, path).name)
        if form not in _TREC_FORMS:
            yield from super().table(path)
            return
        columns = self.columns
        # The columns of a table, in the order of `values` below.
        names = [
            columns.query,
            columns.id,
            *columns.text_a,
            *columns.text_b,
            *columns.label,
        ]
        if len(names) != 5 or None in names:
            raise wrong(path, "TREC's file", "a table: the task is no ranking")
        lines = list(self._lines(path, form))
        texts, folder = {}, os.path.dirname(path)
        for column, file in _TEXT_FILE.items():
            wanted = {cells[column] for _, cells in lines}
            texts[column] = self._texts_of(os.path.join(folder, file), wanted)
        for place, cells in lines:
            query, document = cells["query"], cells["document"]
            text_a, text_b = texts["query"].get(query), texts["document"].get(document)
            if text_a is None:
                yield place, f"query '{query}' is not in {_TEXT_FILE['query']}"
            elif text_b is None:
                yield place, f"document '{document}' is not in {_TEXT_FILE['document']}"
            else:
                values = query, document, text_a, text_b, cells.get("relevance")
                yield place, dict(zip(names, values))

    def read(self, path: str, need_labels: bool) -> Sequence[Row]:
        """As `TableReader.read`. With `need_labels` the rows of a run have the relevance of the
        judgements next to it, 0 for a document without any; queries without any judgement are left
        out."""
        if not need_labels or forms.declared_form(self, path).name != "run":
            return super().read(path, need_labels)
        rows = super().read(path, need_labels=False)
        judged: dict[str, dict[str, float]] = {}  # relevance by query and document
        for run in forms.each_path(path):
            self._add_judgements(forms.stem(run) + ".qrels", judged)
        kept = []
        for row in rows:
            if row.query in judged:
                relevance_of = judged[row.query]
                label = relevance_of.get(row.id, 0.0)
                source = tuple(relevance_of.values())
                kept.append(row._replace(label=label, source=source))
        queries = {row.query for row in rows}
        unjudged = f"{len(queries - set(judged))} of {len(queries)} queries"
        if not kept:
            raise wrong(path, f"no judgement for {unjudged}", "some")
        if len(kept) < len(rows):
            # These queries are not kept: all of their documents would count as not relevant.
            _log.warning("note: %s: without %s that have no judgement", path, unjudged)
        return kept

    def _add_judgements(self, path: str, judged: dict[str, dict[str, float]]) -> None:
        """Adds the relevance in a file of judgements to `judged`: by the name of the query a dict
        by the name of the document."""
        for place, cells in self._lines(path, "qrels"):
            relevance_of = judged.setdefault(cells["query"], {})
            document = cells["document"]
            if document in relevance_of:
                raise wrong(place, f"document '{document}' again", "another document")
            try:
                relevance_of[document] = self.parse_label([cells["relevance"]])
            except ValueError as e:
                raise UserError(f"{place}: {e}") from e

    def files_of(self, path: str) -> Sequence[str]:
        """The file; of judgements or a run also those of the texts, and of a run the judgements, if
        they exist."""
        if forms.declared_form(self, path).name not in _TREC_FORMS:
            return [path]
        folder = os.path.dirname(path)
        others = [os.path.join(folder, file) for file in _TEXT_FILE.values()]
        others.append(forms.stem(path) + ".qrels")
        # Each once: `path` may be the judgements.
        return list(dict.fromkeys([path, *filter(os.path.exists, others)]))

    def check_row(self, row: Row, seen: dict) -> None:
        """Raises ValueError for a name with spaces, and for a document that a query has twice.
        seen: its keys are the (query, document) of the rows before; adds that of this row."""
        for what, name in (("query", row.query), ("document", row.id)):
            # Spaces divide the columns of TREC's runs, in which predictions are written, too.
            if not name or name.split() != [name]:
                raise ValueError(f"{what} '{name}': expected a name without spaces")
        if (row.query, row.id) in seen:
            raise ValueError(f"duplicate document '{row.id}' of query '{row.query}'")
        seen[row.query, row.id] = True

    def training_rows(self, rows: Sequence[Row], seed: int) -> Sequence[Row]:
        """Rows of two documents of a query, sampled of all whose relevance differs: each has two
        pairs of texts, (query, document), the better document first, and the label 1."""
        random = np.random.default_rng(seed)
        rows_of_two = []
        for query in by_query(rows):
            better, worse = _unequal_pairs(query)
            if len(better) > PAIRS_PER_QUERY:
                sample = random.choice(len(better), PAIRS_PER_QUERY, replace=False)
                sample.sort()  # in the order of all pairs
                better, worse = better[sample], worse[sample]
            documents = [rows[index] for index in query.rows]
            for first, second in zip(better, worse):
                pairs = documents[first].pairs + documents[second].pairs
                row = documents[first]._replace(pairs=pairs, label=1.0)
                rows_of_two.append(row)
        if not rows_of_two:
            found = "no query with two documents of different relevance"
            raise wrong("train", found, "some, as they are compared", "--train_file")
        return rows_of_two

    # -- the output layer: a score for each document of a query

    def num_choices(self, is_training: bool) -> int:
        """A record has two documents in training, else one."""
        return 2 if is_training else 1

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """Scores [B]; in training, of records with two documents, the score of the first one less
        that of the second, [B]."""
        scores = super().logits(nn, features, is_training)  # [B*C]
        if not is_training:
            return scores
        return scores[::2] - scores[1::2]

    def loss(self, nn: Any, logits: Any, features: dict, options: LossOptions) -> Any:
        """The loss of the training, float32 [B], of differences of scores. The label of a pair is
        the probability that the first document is the better one, 1. For an evaluation `evaluate`
        has the loss, as pairs are not records."""
        return nn.sigmoid_cross_entropy(logits, features["label_ids"])

    # -- predictions: measures of the orders of documents by their scores

    def check_metric(self, name: str) -> None:
        """Raises UserError unless `name` is one of `MEASURES`, perhaps with a cutoff."""
        if not _METRIC.fullmatch(name):
            expected = f"one of {', '.join(MEASURES)}, to each of which @k may be added"
            raise wrong(f"metric of task {self.name}", name, expected, "--metric")

    def gold(self, rows: Sequence[Row]) -> list[Query]:
        """The relevance of the documents of each query."""
        return by_query(rows)

    def evaluate(self, values: Any, gold: list[Query], threshold: float) -> dict:
        """The mean of each measure over the queries, and as `loss` the mean logistic loss over all
        pairs of different relevance. Measures are nan if no query has a relevant document, as every
        order is as good as any other. values: scores, float32 [n]."""
        highest = max(query.judged.max() for query in gold)
        losses, ranked = [], []
        for query in gold:
            scores = values[query.rows].astype(np.float64)
            better, worse = _unequal_pairs(query)
            # log(1 + exp(score of the worse - score of the better one))
            losses += np.logaddexp(0, scores[worse] - scores[better]).tolist()
            ranked.append(query.relevance[best_first(scores)])
        result = {}
        for name in self.metrics:
            of_queries = []
            for relevance, query in zip(ranked, gold):
                of_queries.append(measure(name, relevance, query.judged, highest))
            result[name] = float(np.mean(of_queries)) if highest else np.nan
        result["loss"] = float(np.mean(losses)) if losses else 0.0
        return result

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float
    ) -> dict[str, Iterable]:
        """The table of all types, and with the extension "run" the ranking as trec_eval takes it.
        values: scores, float32 [n]."""
        files = super().prediction_files(rows, values, threshold)
        lines = []
        for query in by_query(rows):
            ordered = query.rows[best_first(values[query.rows])]
            for rank, index in enumerate(ordered, 1):
                row = rows[index]
                # With all digits of a float32, to keep different scores different.
                score = f"{values[index]:.9g}"
                lines.append(f"{row.query} Q0 {row.id} {rank} {score} xlnet\n")
        return {**files, "run": lines}
