"""The task type of rankings: its files, its reader, output layer and scores.

A line of TREC's files has names alone; the texts come from two files next to them:

    dev.qrels       7 0 x 2             queries.tsv      7<TAB>red kite
    dev.run         7 Q0 x 1 9.5 bm25   documents.tsv    x<TAB>a kite

and the row of a table is 7, red kite, x, a kite, 2. A run has no relevance: it is in the file of
judgements of the same name. As in trec_eval, further columns, empty lines and comments (#) do not
count.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

import numpy as np

from xlnet.support.errors import wrong
from xlnet.tasks.files import forms, readers
from xlnet.tasks.files.row_store import digest, store_rows
from xlnet.tasks.files.table_rows import RowErrors
from xlnet.tasks.output.prediction_files import PredictionFile
from xlnet.tasks.ranking import measures
from xlnet.tasks.ranking.measures import Judged, best_first, by_query
from xlnet.tasks.task import Row, Task
from xlnet.tasks.types import contract
from xlnet.tasks.types.contract import THRESHOLD, LossOptions, checked
from xlnet.tasks.types.simple import REGRESSION

_log = logging.getLogger(__name__)

PAIRS_PER_QUERY = 50  # maximum in training, sampled among those of different relevance

# ---- TREC's files

# The columns of a line, by form.
_COLUMNS = {
    "qrels": "query 0 document relevance",
    "run": "query Q0 document rank score name",
}


def _form_of(task: Task, path: str) -> str:
    """A key of `_COLUMNS`; "" for other files."""
    name = readers.declared_form(task, path).name
    return name if name in _COLUMNS else ""


def _read_table(task: Task, path: str) -> forms.Table:
    """The table of judgements, or of a run, whose relevance is empty."""
    form, named = _form_of(task, path), task.columns
    columns = [named.query, *named.text_a, named.id, *named.text_b, *named.label]
    if len(columns) != 5 or None in columns:
        expected = "a table, as the task is no ranking with these columns"
        raise wrong(path, "TREC's file", expected)
    lines = forms.lines(path, "a ranking", task.files.form.encoding)
    entries = list(_entries(path, lines, form))
    path_of_queries, path_of_documents = _paths_of_texts(path)
    queries = _read_texts(task, path_of_queries, {cells[0] for _, cells in entries})
    documents = _read_texts(task, path_of_documents, {cells[2] for _, cells in entries})

    def rows() -> Iterator[tuple[str, Any]]:
        for place, cells in entries:
            query, document = cells[0], cells[2]
            relevance = cells[3] if form == "qrels" else None
            if query not in queries:
                yield place, f"query '{query}' is not in {path_of_queries}"
            elif document not in documents:
                yield place, f"document '{document}' is not in {path_of_documents}"
            else:
                texts = [query, queries[query], document, documents[document]]
                yield place, dict(zip(columns, [*texts, relevance]))

    return forms.Table([str(name) for name in columns], rows())


def _judgements_of(run: str) -> str:
    """The path of the judgements of a run."""
    return readers.stem(run) + ".qrels"


def _paths_of_texts(path: str) -> tuple[str, str]:
    """The files of queries and of documents; "-": those in the current directory."""
    directory, name = os.path.split("" if path == "-" else readers.stem(path))
    queries = readers.find_file(directory, (f"{name}.queries.tsv", "queries.tsv"))
    return queries, os.path.join(directory, "documents.tsv")


def _entries(
    path: str, lines: Iterable[str], form: str
) -> Iterator[tuple[str, list[str]]]:
    """(place, columns) of the lines that are not empty or comments."""
    count, expected = 0, _COLUMNS[form]
    for number, line in enumerate(lines, 1):
        cells = line.split()
        if not cells or line.startswith("#"):
            continue
        if len(cells) < len(expected.split()):
            raise wrong(f"{path}:{number}", f"{len(cells)} columns", expected)
        count += 1
        yield f"{path}:{number}", cells
    if not count:
        raise wrong(path, "no lines besides comments", expected)


def _read_texts(task: Task, path: str, wanted: set[str]) -> dict[str, str]:
    """The texts of the names `wanted` from a file of `name<TAB>text`, which may be a collection
    larger than the memory."""
    texts: dict[str, str] = {}
    lines = forms.lines(path, "texts of a ranking", task.files.form.encoding)
    for number, line in enumerate(lines, 1):
        name, tab, text = line.partition("\t")
        name = name.strip()
        if name and not tab:
            raise wrong(f"{path}:{number}", "no tab", "a name, a tab and a text")
        if name in texts:
            raise wrong(f"{path}:{number}", f"'{name}' again", "another name")
        if name in wanted:
            texts[name] = text.replace("\t", " ")
    return texts


def parse_grade(task: Task, cells: list) -> float:
    """An integer; below 0, which TREC has for junk, counts as 0."""
    column, text = task.columns.label[0], "".join(map(readers.to_text, cells)).strip()
    if not text:
        raise ValueError(f"column '{column}' is empty")
    if not re.fullmatch(r"-?\d{1,2}(\.0*)?", text, re.ASCII):
        raise ValueError(f"column '{column}': '{text}', expected an integer below 100")
    return max(float(text), 0.0)


class RankingReader(contract.Reader):
    """Documents of queries; in training pairs of documents. `Row.source` has the relevance of all
    judged documents of the query, if they come from the judgements of a run."""

    unit = "pairs"

    def table(self, path: str) -> forms.Table:
        if _form_of(self.task, path):
            return _read_table(self.task, path)
        return super().table(path)

    def read(self, path: str, need_labels: bool) -> Sequence[Row]:
        if not need_labels or _form_of(self.task, path) != "run":
            return super().read(path, need_labels)
        # The relevance is that of the judgements next to a run, 0 for a document without any.
        rows = super().read(path, need_labels=False)
        judged: dict[str, dict[str, float]] = {}
        for each in readers.each_path(path):
            self._add_judgements(_judgements_of(each), judged)

        def labelled() -> Iterator[Row]:
            for row in rows:
                if row.query in judged:
                    of_query = judged[row.query]
                    source = tuple(of_query.values())
                    yield row._replace(label=of_query.get(row.id, 0.0), source=source)

        kept = store_rows(labelled())
        queries = {row.query for row in rows}
        if not kept:
            raise wrong(path, f"no judgement for any of {len(queries)} queries", "some")
        unjudged = len(queries - set(judged))
        if unjudged:
            # All of their documents would count as not relevant.
            _log.warning(
                "note: %s: %d of %d queries have no judgement and are left out",
                path,
                unjudged,
                len(queries),
            )
        return kept

    def _add_judgements(self, path: str, judged: dict[str, dict[str, float]]) -> None:
        """Adds the judgements of a file to the relevance of each document, by query."""
        documents, errors = set(), RowErrors()
        lines = forms.lines(path, "judgements", self.task.files.form.encoding)
        for place, (query, _, document, text, *_) in _entries(path, lines, "qrels"):
            relevance, error = self.parse_label([text])
            if (query, document) in documents:
                error = f"duplicate document '{document}' of query '{query}'"
            if error:
                errors.add(place, error)
            documents.add((query, document))
            judged.setdefault(query, {})[document] = relevance
        errors.refuse()

    def files_of(self, path: str) -> Sequence[str]:
        """The file, and the files that belong to judgements and runs."""
        form, found = _form_of(self.task, path), [path]
        if form:
            found += filter(os.path.exists, _paths_of_texts(path))
        if form == "run":
            found += filter(os.path.exists, [_judgements_of(path)])
        return found

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

    def training_rows(
        self, rows: Sequence[Row], seed: int, data_dir: str
    ) -> Sequence[Row]:
        pairs = store_rows(pair_rows(rows, PAIRS_PER_QUERY, seed))
        if not pairs:
            raise wrong(
                f"the train file in {data_dir}",
                "no query with two documents of different relevance",
                "some, as they are compared",
                "--train_file",
            )
        return pairs


def pair_rows(rows: Sequence[Row], most: int, seed: int) -> Iterator[Row]:
    """Yields rows of two documents to train on: with two pairs of texts and the label 1, as the
    first document is the better one.

    Args:
      rows: n of them.
      most: maximum number of pairs per query, sampled among those of different relevance; 0: all.
      seed: of the sampling.
    """
    random = np.random.default_rng(seed)
    for query in by_query(rows):
        documents = [rows[index] for index in query]
        better, worse = _unequal(np.array([row.label for row in documents]))
        if most and len(better) > most:
            sample = np.sort(random.choice(len(better), most, replace=False))
            better, worse = better[sample], worse[sample]
        for one, other in zip(better, worse):
            pairs = documents[one].pairs + documents[other].pairs
            yield documents[one]._replace(pairs=pairs, label=1.0)


def _unequal(relevance: np.ndarray) -> tuple[np.ndarray, ...]:
    """All pairs of documents whose first one has the higher relevance: two int arrays."""
    return np.nonzero(relevance[:, None] > relevance[None, :])


class RankingHead(contract.Head):
    """A score for each document of a query. The loss is the logistic loss on the difference of the
    scores of two documents (RankNet, https://doi.org/10.1145/1102351.1102363)."""

    def num_choices(self, is_training: bool) -> int:
        return 2 if is_training else 1

    def logits(self, nn: Any, features: dict, is_training: bool) -> Any:
        """Scores [B]; in training their differences in each pair."""
        scores = super().logits(nn, features, is_training)
        if not is_training:
            return scores
        import tensorflow.compat.v1 as tf

        pairs = tf.reshape(scores, [-1, 2])
        return pairs[:, 0] - pairs[:, 1]

    def loss(
        self, nn: Any, logits: Any, features: dict, options: Optional[LossOptions]
    ) -> Any:
        """The label of a pair is the probability that the first document is the better one. The
        loss of an evaluation is that of `RankingScorer.evaluate`."""
        return nn.sigmoid_cross_entropy(logits, features["label_ids"])

    def outputs_in_words(self) -> str:
        return "scores of documents, trained on pairs of them"


class RankingScorer(contract.Scorer):
    """Measures of the orders of documents by their scores."""

    def check_metric(self, name: str) -> None:
        if measures.cutoff_of(name) is None:
            expected = f"one of {', '.join(measures.MEASURES)}, to each of which @k may be added"
            raise wrong(f"metric of task {self.task.name}", name, expected, "--metric")

    def gold_labels(self, rows: Sequence[Row]) -> Judged:
        relevance, queries, judged = super().gold_labels(rows), by_query(rows), []
        for query in queries:
            of_query = rows[query[0]].source
            if of_query is None:
                of_query = relevance[query]
            judged.append(np.array(of_query, np.float64))
        return Judged(relevance, queries, judged)

    def evaluate(
        self, values: Any, gold_labels: Judged, threshold: float = THRESHOLD
    ) -> dict:
        """The measures, and the mean logistic loss over all pairs of different relevance. Without a
        relevant document every order is as good as any other."""
        values = checked(self, values, len(gold_labels.relevance))
        result = dict.fromkeys(self.task.metrics, np.nan)
        if gold_labels.highest:
            result = measures.evaluate(self.task.metrics, values, gold_labels)
        losses = [np.zeros(0)]
        for query in gold_labels.queries:
            better, worse = _unequal(gold_labels.relevance[query])
            margins = values[query][better].astype(np.float64) - values[query][worse]
            losses.append(np.logaddexp(0, -margins))
        joined = np.concatenate(losses)
        result["loss"] = float(joined.mean()) if len(joined) else 0.0
        return result

    def prediction_files(
        self, rows: Sequence[Row], values: Any, threshold: float = THRESHOLD
    ) -> list:
        """A table, and the ranking as trec_eval takes it."""
        run = PredictionFile("run", "as a TREC run", _run_lines(rows, values))
        return [*super().prediction_files(rows, values, threshold), run]


def _run_lines(rows: Sequence[Row], scores: np.ndarray) -> Iterator[str]:
    """Yields a line `query Q0 document rank score xlnet` for each row, best documents first.
    scores: float32 [n], written with all their digits to keep different ones different."""
    scores = np.asarray(scores)
    for query in by_query(rows):
        for rank, index in enumerate(best_first(scores, query), 1):
            row = rows[index]
            yield f"{row.query} Q0 {row.id} {rank} {scores[index]:.9g} xlnet\n"


RANKING = dataclasses.replace(
    REGRESSION,
    name="ranking",
    parse=parse_grade,
    metrics={},
    default_metrics=("ndcg@10", "map", "err@10"),
    lower_is_better=frozenset(),
    verb="rank",
    selecting_flag="query_id_column",
    reader=RankingReader,
    head=RankingHead,
    scorer=RankingScorer,
)
