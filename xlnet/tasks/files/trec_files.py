"""TREC's files: relevance judgements or documents to rank, and texts in files next to them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Optional

from xlnet.errors import UserError
from xlnet.tasks.files import readers, row_errors
from xlnet.tasks.task import Row, Task
from xlnet.tokenization.tokenizer import is_text

# Lines of files. As in trec_eval further columns, empty lines and comments do not count.
_JUDGEMENT, _RANKED = "query 0 document relevance", "query Q0 document rank score name"

# In place of the relevance of a document whose query has no judgement at all.
UNJUDGED = object()


# A line of these files has names alone; the texts come from two other files:
#
#     dev.qrels       7 0 x 2             queries.tsv      7<TAB>red kite
#     dev.run         7 Q0 x 1 9.5 bm25   documents.tsv    x<TAB>a kite
#
# and the row of a table is 7, red kite, x, a kite, 2.


def _read_qrels(task, path, lines):
    """Judgements, `query 0 document relevance` on each line."""
    return _join_texts(task, path, _split(path, lines, _JUDGEMENT), lambda cells: cells[3])


def _read_run(task, path, lines):
    """Documents to rank, `query Q0 document rank score name` on each line.

    Their relevance is in a file of judgements with the same name and .qrels: 0 for a document that
    it does not have, `UNJUDGED` for a query that it does not have. Without the file there is none.
    """
    rows = _split(path, lines, _RANKED)
    qrels = judgements_of(path, "run")
    if not qrels:
        return _join_texts(task, path, rows, lambda cells: None)
    judged = _judgements(task, qrels[0])
    queries = {query for query, _ in judged}

    def relevance(cells):
        if cells[0] not in queries:
            return UNJUDGED
        return f"{judged.get((cells[0], cells[2]), 0)}"

    return _join_texts(task, path, rows, relevance)


def judgements_of(
    path: str, form: Optional[str] = None, of_forms: Sequence[str] = ("run",)
) -> list[str]:
    """The files of judgements that belong to files of these forms; [] for other files."""
    found = [
        readers.stem(each) + ".qrels"
        for each in readers.each_path(path)
        if each != "-" and (form or readers.extension(each)) in of_forms
    ]
    return list(filter(os.path.exists, found))


def missing(task: Task, qrels: Iterable[str], rows: Iterable[Row]) -> dict[str, list[float]]:
    """The relevance of the relevant documents that are not among rows, by query."""
    judged: dict[tuple[str, str], float] = {}
    for path in qrels:
        judged.update(_judgements(task, path, is_noted=False))
    for row in rows:
        judged.pop((row.query, row.id), None)
    found: dict[str, list[float]] = {}
    for (query, _), relevance in judged.items():
        if relevance > 0:
            found.setdefault(query, []).append(relevance)
    return found


def next_to(path: str) -> list[str]:
    """The files of texts that belong to judgements or a run, and the judgements of a run."""
    return [each for each in (*_paths_of_texts(path), *judgements_of(path)) if os.path.exists(each)]


def _paths_of_texts(path):
    """The files of queries and of documents; "-": those in the current directory."""
    directory = "" if path == "-" else os.path.dirname(path)
    own_queries = () if path == "-" else (os.path.basename(readers.stem(path)) + ".queries.tsv",)
    return [
        readers.find_file(directory, (*own_queries, "queries.tsv")),
        os.path.join(directory, "documents.tsv"),
    ]


def _judgements(task, path, is_noted=True):
    """Dict of (query, document) to relevance; is_noted: whether lines with errors are."""
    found: dict[tuple[str, str], float] = {}
    errors = row_errors.RowErrors()
    lines = readers.read_lines(
        path, "judgements", task.files.form.encoding, task.files.skips_errors
    )
    for number, cells in _split(path, lines, _JUDGEMENT):
        if isinstance(cells, str):
            relevance, error = 0.0, cells
        elif (cells[0], cells[2]) in found:
            error = f"duplicate document '{cells[2]}' of query '{cells[0]}'"
        else:
            relevance, error = task.reader.parse_score(cells[3])
        if error:
            errors.add(f"{path}:{number}", error)
        else:
            found[cells[0], cells[2]] = relevance
    if is_noted:
        errors.end(path, task.files.skips_errors)
    return found


def _split(path, lines, expected):
    """(number of the line, its cells between spaces, or an error) of each line."""
    count = len(expected.split())
    rows = [
        (number, line.split())
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    ]
    if not rows:
        raise UserError(f"{path}: no lines besides comments, expected {expected}")
    return [
        (
            number,
            cells
            if len(cells) >= count
            else f"{len(cells)} column(s), expected {count}: {expected}",
        )
        for number, cells in rows
    ]


def _join_texts(task, path, rows, relevance):
    """The `Table` of a ranking, of `_split` lines that name query and document.

    Texts are in NAME.queries.tsv or queries.tsv, and in documents.tsv, next to the file NAME.
    relevance: function of a line's cells.
    """
    columns = [
        task.columns.query,
        *task.columns.text_a,
        task.columns.id,
        *task.columns.text_b,
        *task.columns.label,
    ]
    if len(columns) != 5 or None in columns:
        raise UserError(
            f"{path}: TREC's files are for rankings whose queries, documents and their "
            "names have a column each"
        )
    paths = _paths_of_texts(path)
    texts = [
        _read_texts(task, each, {cells[column] for _, cells in rows if isinstance(cells, list)})
        for each, column in zip(paths, (0, 2))
    ]

    def join(cells):
        if isinstance(cells, str):
            return cells
        for what, name, known, each in zip(("query", "document"), cells[::2], texts, paths):
            if name not in known:
                return f"{what} '{name}' is not in {each}"
        query, document = cells[0], cells[2]
        return [query, texts[0][query], document, texts[1][document], relevance(cells)]

    return readers.Table(
        columns, readers.by_line(path, ((number, join(cells)) for number, cells in rows))
    )


def _read_texts(task, path, wanted):
    """The texts of the names `wanted` from a file of `name<TAB>text`, which may be a collection
    larger than the memory."""
    texts: dict[str, str] = {}
    found = row_errors.RowErrors()
    lines = readers.read_lines(path, "ranking", task.files.form.encoding, skips=True)
    for number, line in enumerate(lines, 1):
        name, tab, text = line.partition("\t")
        name = name.strip()
        if name and not tab:
            found.add(f"{path}:{number}", "expected a name, a tab and a text")
        elif name in texts:
            found.add(f"{path}:{number}", f"duplicate '{name}'")
        elif name in wanted and not is_text(text):
            escaped = next(c for c in text if not is_text(c))  # of a byte
            found.add(f"{path}:{number}", "not UTF-8: byte 0x%02x" % (ord(escaped) & 0xFF))
        elif name in wanted:
            texts[name] = text.replace("\t", " ")
    found.end(path, task.files.skips_errors)
    return texts


FORMS = {"qrels": _read_qrels, "run": _read_run}
