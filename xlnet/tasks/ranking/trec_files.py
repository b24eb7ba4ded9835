"""TREC's files: relevance judgements or documents to rank, and texts in files next to them.

A line of these files has names alone; the texts come from two other files:

    dev.qrels       7 0 x 2             queries.tsv      7<TAB>red kite
    dev.run         7 Q0 x 1 9.5 bm25   documents.tsv    x<TAB>a kite

and the row of a table is 7, red kite, x, a kite, 2. A run has no relevance: it is in the file of
judgements of the same name. As in trec_eval, further columns, empty lines and comments (#) do not
count.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from xlnet.support.errors import UserError, wrong
from xlnet.tasks.files import decoding, forms, readers
from xlnet.tasks.task import Task

# The columns of a line, by form.
COLUMNS = {
    "qrels": "query 0 document relevance",
    "run": "query Q0 document rank score name",
}


def form_of(task: Task, path: str) -> str:
    """A key of `COLUMNS`; "" for other files."""
    name = readers.declared_form(task, path).name
    return name if name in COLUMNS else ""


def read_table(task: Task, path: str, lines: decoding.Lines) -> forms.Table:
    """The table of judgements, or of a run, whose relevance is empty."""
    named = task.columns
    columns = [named.query, *named.text_a, named.id, *named.text_b, *named.label]
    if len(columns) != 5 or None in columns:
        raise wrong(
            path, "TREC's file", "a table, as the task is no ranking with these columns"
        )
    entries = list(_entries(path, lines, form_of(task, path)))
    path_of_queries, path_of_documents = paths_of_texts(path)
    queries = _read_texts(task, path_of_queries, {cells[0] for _, cells in entries})
    documents = _read_texts(task, path_of_documents, {cells[2] for _, cells in entries})

    def rows() -> Iterator[tuple[str, Any]]:
        for place, cells in entries:
            query, document = cells[0], cells[2]
            if query not in queries:
                yield place, f"query '{query}' is not in {path_of_queries}"
            elif document not in documents:
                yield place, f"document '{document}' is not in {path_of_documents}"
            else:
                relevance = cells[3] if form_of(task, path) == "qrels" else None
                yield (
                    place,
                    [query, queries[query], document, documents[document], relevance],
                )

    return forms.Table([str(name) for name in columns], rows())


def judgements_of(run: str) -> str:
    """The path of the judgements of a run."""
    return readers.stem(run) + ".qrels"


def read_judgements(task: Task, path: str) -> dict[str, dict[str, float]]:
    """The relevance of each document, by query."""
    found: dict[str, dict[str, float]] = {}
    reader: Any = task.reader  # that of rankings, which has this method
    lines = readers.read_lines(path, "judgements", task.files.form.encoding)
    for place, (query, _, document, text, *_) in _entries(path, lines, "qrels"):
        relevance, error = reader.parse_score(text)
        documents = found.setdefault(query, {})
        if document in documents:
            error = f"duplicate document '{document}' of query '{query}'"
        if error:
            raise UserError(f"{place}: {error}")
        documents[document] = relevance
    return found


def paths_of_texts(path: str) -> tuple[str, str]:
    """The files of queries and of documents; "-": those in the current directory."""
    directory, name = os.path.split("" if path == "-" else readers.stem(path))
    queries = readers.find_file(directory, (f"{name}.queries.tsv", "queries.tsv"))
    return queries, os.path.join(directory, "documents.tsv")


def _entries(
    path: str, lines: Iterable[str], form: str
) -> Iterator[tuple[str, list[str]]]:
    """(place, columns) of the lines that are not empty or comments."""
    count, expected = 0, COLUMNS[form]
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
    lines = readers.read_lines(path, "texts of a ranking", task.files.form.encoding)
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
