"""TREC's files: relevance judgements or documents to rank, and texts in files next to them.

A line of these files has names alone; the texts come from two other files:

    dev.qrels       7 0 x 2             queries.tsv      7<TAB>red kite
    dev.run         7 Q0 x 1 9.5 bm25   documents.tsv    x<TAB>a kite

and the row of a table is 7, red kite, x, a kite, 2. As in trec_eval, further columns, empty lines
and comments (#) do not count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

from xlnet.errors import UserError
from xlnet.tasks.files import decoding, forms, readers, row_errors
from xlnet.tasks.task import Row, Task
from xlnet.tokenization.tokenizer import is_text

# The columns of a line.
_JUDGEMENT = "query 0 document relevance"
_RANKED = "query Q0 document rank score name"

# In place of the relevance of a document whose query has no judgement at all.
UNJUDGED = object()

# The number of a line, and its cells or what is wrong with it.
_Line = tuple[int, Union[list[str], str]]


# ---- a function for each form: (task, path, lines) to the `forms.Table` of a ranking


def _read_qrels(task: Task, path: str, lines: decoding.Lines) -> forms.Table:
    """Judgements, `query 0 document relevance` on each line."""

    def relevance(cells: list[str]) -> str:
        return cells[3]

    return _join_texts(task, path, _split(path, lines, _JUDGEMENT), relevance)


def _read_run(task: Task, path: str, lines: decoding.Lines) -> forms.Table:
    """Documents to rank, `query Q0 document rank score name` on each line.

    Their relevance is in a file of judgements with the same name and .qrels: 0 for a document that
    it does not have, `UNJUDGED` for a query that it does not have. Without the file there is none.
    """
    qrels = judgements_of(task, path, "run")
    judged: dict[tuple[str, str], float] = {}
    if qrels:
        judged, errors = _judgements(task, qrels[0])
        errors.end(qrels[0], skips=True)  # `check_judgements` refuses them where they are needed
    queries = {query for query, _ in judged}

    def relevance(cells: list[str]) -> Any:
        if not qrels:
            return None
        query, document = cells[0], cells[2]
        return f"{judged.get((query, document), 0)}" if query in queries else UNJUDGED

    return _join_texts(task, path, _split(path, lines, _RANKED), relevance)


FORMS = {"qrels": _read_qrels, "run": _read_run}


# ---- judgements


def form_of(task: Task, path: str) -> str:
    """The name of a file's form: declared for all files, or its extension."""
    return readers.declared_form(task, path).name or readers.extension(path)


def judgements_of(task: Task, path: str, of_forms: Sequence[str] = ("run",)) -> list[str]:
    """The files of judgements that belong to files of these forms, those of a run next to it; []
    for other files."""
    found = []
    for each in readers.each_path(path):
        form = form_of(task, each)
        if each != "-" and form in of_forms:
            found.append(each if form == "qrels" else readers.stem(each) + ".qrels")
    return list(filter(os.path.exists, found))


def check_judgements(task: Task, path: str) -> None:
    """Raises UserError for runs without judgements next to them, and for errors in these, unless
    they are skipped."""
    for each in readers.each_path(path):
        is_run = each != "-" and form_of(task, each) == "run"
        if is_run and os.path.exists(each) and not judgements_of(task, each):
            raise UserError(f"{each}: no judgements {readers.stem(each)}.qrels next to it")
    if task.files.skips_errors:
        return
    for each in judgements_of(task, path):
        _, errors = _judgements(task, each)
        errors.refuse()


def missing(task: Task, qrels: Iterable[str], rows: Iterable[Row]) -> dict[str, list[float]]:
    """The relevance of the relevant documents that are not among rows, by query."""
    judged: dict[tuple[str, str], float] = {}
    for path in qrels:
        judged.update(_judgements(task, path)[0])
    for row in rows:
        judged.pop((row.query, row.id), None)
    found: dict[str, list[float]] = {}
    for (query, _), relevance in judged.items():
        if relevance > 0:
            found.setdefault(query, []).append(relevance)
    return found


def next_to(task: Task, path: str) -> list[str]:
    """The files of texts that belong to judgements or a run, and the judgements of a run."""
    found = (*_paths_of_texts(path), *judgements_of(task, path))
    return [each for each in found if os.path.exists(each)]


def _paths_of_texts(path: str) -> list[str]:
    """The files of queries and of documents; "-": those in the current directory."""
    if path == "-":
        return ["queries.tsv", "documents.tsv"]
    directory, name = os.path.split(readers.stem(path))
    queries = readers.find_file(directory, (f"{name}.queries.tsv", "queries.tsv"))
    return [queries, os.path.join(directory, "documents.tsv")]


def _judgements(task: Task, path: str) -> tuple[dict[tuple[str, str], float], row_errors.RowErrors]:
    """(the relevance by (query, document), the errors of other lines)."""
    found: dict[tuple[str, str], float] = {}
    errors = row_errors.RowErrors()
    lines = readers.read_lines(
        path, "judgements", task.files.form.encoding, task.files.skips_errors
    )
    for number, cells in _split(path, lines, _JUDGEMENT):
        place = f"{path}:{number}"
        if isinstance(cells, str):
            errors.add(place, cells)
            continue
        query, _, document, grade, *_ = cells
        reader: Any = task.reader  # that of rankings, which has this method
        relevance, error = reader.parse_score(grade)
        if (query, document) in found:
            errors.add(place, f"duplicate document '{document}' of query '{query}'")
        elif error:
            errors.add(place, error)
        else:
            found[query, document] = relevance
    return found, errors


def _split(path: str, lines: Iterable[str], expected: str) -> list[_Line]:
    """The lines that are not empty or comments; expected: the columns of a line."""
    count = len(expected.split())
    found: list[_Line] = []
    for number, line in enumerate(lines, 1):
        cells = line.split()
        if not cells or line.startswith("#"):
            continue
        if len(cells) < count:
            found.append((number, f"{len(cells)} column(s), expected {count}: {expected}"))
        else:
            found.append((number, cells))
    if not found:
        raise UserError(f"{path}: no lines besides comments, expected {expected}")
    return found


# ---- texts


def _join_texts(
    task: Task, path: str, rows: Sequence[_Line], relevance: Callable[[list[str]], Any]
) -> forms.Table:
    """The `Table` of a ranking, of lines that name query and document.

    Texts are in NAME.queries.tsv or queries.tsv, and in documents.tsv, next to the file NAME.

    Args:
      relevance: a function of the cells of a line.
    """
    named = task.columns
    columns = [named.query, *named.text_a, named.id, *named.text_b, *named.label]
    if len(columns) != 5 or None in columns:
        raise UserError(
            f"{path}: TREC's files are for rankings whose queries, documents and their "
            "names have a column each"
        )
    path_of_queries, path_of_documents = _paths_of_texts(path)
    right = [cells for _, cells in rows if isinstance(cells, list)]
    queries = _read_texts(task, path_of_queries, {cells[0] for cells in right})
    documents = _read_texts(task, path_of_documents, {cells[2] for cells in right})

    def joined(cells: Union[list[str], str]) -> forms.Cells:
        if isinstance(cells, str):
            return cells
        query, document = cells[0], cells[2]
        if query not in queries:
            return f"query '{query}' is not in {path_of_queries}"
        if document not in documents:
            return f"document '{document}' is not in {path_of_documents}"
        return [query, queries[query], document, documents[document], relevance(cells)]

    table_rows = ((number, joined(cells)) for number, cells in rows)
    return forms.Table([str(name) for name in columns], forms.by_line(path, table_rows))


def _read_texts(task: Task, path: str, wanted: set[str]) -> dict[str, str]:
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
