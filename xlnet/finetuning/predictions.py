"""Prediction files: for people and programs, and for the GLUE server.

Shape letters: n rows, L labels.
"""

import numpy as np

from xlnet import files
from xlnet.finetuning import metrics, ranking


def write_predictions(path, task, rows, values, threshold=metrics.THRESHOLD):
    """Writes a TSV of a header and one line per row, in order, whole or not at all.

    Args:
      values: probabilities [n, L] (columns `id label p_<label>...`; `labels`, separated as in the
        task's files, where a row may have several), or scores [n] (columns `id score`, before them
        the `query` of a ranking).
      threshold: as in `metrics.decide`.
    """
    answers = _answers(task, rows, values, threshold)
    ids = [_cell(row.id) for row in rows]
    if task.kind == "ranking":
        lines = ["query\tid\tscore"] + ["%s\t%s\t%s" % (_cell(row.query), id, answer)
                                        for row, id, answer in zip(rows, ids, answers)]
    elif task.is_regression:
        lines = ["id\tscore"] + ["%s\t%s" % pair for pair in zip(ids, answers)]
    else:
        header = ["id", "labels" if task.multi_label else "label"]
        lines = ["\t".join(header + ["p_" + _cell(label) for label in task.labels])]
        for id, answer, probabilities in zip(ids, answers, values):
            lines.append("\t".join([id, answer] + ["%.6f" % p for p in probabilities]))
    files.write_text(path, "\n".join(lines) + "\n")


def write_submission(path, task, rows, values):
    """Writes the columns `index` and `prediction`, as the GLUE server takes them.

    The server wants the name `task.submissions[split]`; `rows` and `values` are as in
    `write_predictions`.
    """
    answers = _answers(task, rows, values, metrics.THRESHOLD)
    lines = ["index\tprediction"] + ["%s\t%s" % (row.id, answer)
                                     for row, answer in zip(rows, answers)]
    files.write_text(path, "\n".join(lines) + "\n")


def write_run(path, rows, scores):
    """Writes a ranking as trec_eval takes it: a line `query Q0 document rank score xlnet` for each
    row, best documents first. scores: float32 [n], with all their digits, so that none are equal
    that were not.
    """
    scores = np.asarray(scores)
    lines = []
    for query in ranking.by_query(rows):
        for rank, number in enumerate(ranking.best_first(scores, query), 1):
            lines.append("%s Q0 %s %d %.9g xlnet" % (rows[number].query, rows[number].id, rank,
                                                     scores[number]))
    files.write_text(path, "\n".join(lines) + "\n")


def _answers(task, rows, values, threshold):
    """Returns the predicted label(s) or the score of each row as text."""
    values = np.asarray(values)
    expected = (len(rows),) if task.is_regression else (len(rows), len(task.labels))
    if values.shape != expected:
        raise ValueError("task %s: values have shape %s, expected %s"
                         % (task.name, values.shape, expected))
    decided = metrics.decide(task, values, threshold)
    if task.is_regression:
        return ["%.6f" % value for value in decided]
    if task.multi_label:
        return [_cell(task.label_separator.join(
            name for name, is_on in zip(task.labels, row) if is_on)) for row in decided]
    return [_cell(task.labels[id]) for id in decided]


def _cell(text):
    """Text without the characters that end a cell or a line."""
    return " ".join(text.split()) if {"\t", "\n", "\r"} & set(text) else text
