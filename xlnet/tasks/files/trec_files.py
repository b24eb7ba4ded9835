"""TREC's files: relevance judgements or documents to rank, and texts in files next to them."""

from __future__ import annotations

import os

from xlnet.errors import UserError
from xlnet.tasks.files import faults, readers
from xlnet.tokenization.tokenizer import is_text

_JUDGEMENT = "query 0 document relevance"       # a line of qrels


def _read_qrels(task, path, lines):
    """Judgements, `query 0 document relevance` on each line."""
    return _join_texts(task, path, [_split(line, _JUDGEMENT) for line in lines],
                       lambda cells: cells[3], {})


def _read_run(task, path, lines):
    """Documents to rank, `query Q0 document rank score name` on each line.

    Their relevance is in a file of judgements with the same name and .qrels, 0 for documents that
    it does not have; without the file there is none. As metrics count them, the relevance of
    relevant documents that are not in the run is `Row.source` of their query's first row.
    """
    qrels, judged = readers.stem(path) + ".qrels", None
    if path != "-" and os.path.exists(qrels):
        lists = [_split(line, _JUDGEMENT)
                 for line in readers.read_lines(qrels, "judgements", task.encoding)]
        faults.refuse(("%s:%d" % (qrels, i), cells) for i, cells in enumerate(lists, 1)
                      if isinstance(cells, str))
        judged = {(cells[0], cells[2]): cells[3] for cells in lists}
    rows = [_split(line, "query Q0 document rank score name") for line in lines]
    retrieved = {(cells[0], cells[2]) for cells in rows if isinstance(cells, list)}
    missing: dict[str, list[float]] = {}
    for (query, document), text in (judged or {}).items():
        relevance, error = task.reader.parse_score(text)
        if not error and relevance > 0 and (query, document) not in retrieved:
            missing.setdefault(query, []).append(relevance)
    return _join_texts(
        task, path, rows,
        lambda cells: None if judged is None else judged.get((cells[0], cells[2]), "0"), missing)


def _split(line, expected):
    """The cells of a line between spaces, or an error."""
    cells, count = line.split(), len(expected.split())
    return cells if len(cells) == count else "%d column(s), expected %d: %s" % (
        len(cells), count, expected)


def _join_texts(task, path, rows, relevance, sources):
    """The `Table` of a ranking, of lines that name query and document.

    Texts are in NAME.queries.tsv or queries.tsv, and in documents.tsv, next to the file NAME.
    relevance: function of a line's cells.
    """
    columns = [task.query, *task.text_a, task.id, *task.text_b, *task.label]
    if len(columns) != 5 or None in columns:
        raise UserError("%s: TREC's files are for rankings whose queries, documents and their "
                        "names have a column each" % path)
    directory = "" if path == "-" else os.path.dirname(path)
    own_queries = () if path == "-" else (
        os.path.basename(readers.stem(path)) + ".queries.tsv",)
    paths = [readers.find_file(directory, (*own_queries, "queries.tsv")),
             os.path.join(directory, "documents.tsv")]
    texts = [_read_texts(task, each, {cells[column] for cells in rows if isinstance(cells, list)})
             for each, column in zip(paths, (0, 2))]

    def join(cells):
        if isinstance(cells, str):
            return cells
        for what, name, known, each in zip(("query", "document"), cells[::2], texts, paths):
            if name not in known:
                return "%s '%s' is not in %s" % (what, name, each)
        query, document = cells[0], cells[2]
        return [query, texts[0][query], document, texts[1][document], relevance(cells)]

    return readers.Table(columns, readers.by_line(path, enumerate(map(join, rows), 1)), sources)


def _read_texts(task, path, wanted):
    """The texts of the names `wanted` from a file of `name<TAB>text`, which may be a collection
    larger than the memory."""
    texts: dict[str, str] = {}
    found = faults.Found()
    lines = readers.read_lines(path, "ranking", task.encoding, skips=True)
    for number, line in enumerate(lines, 1):
        name, tab, text = line.partition("\t")
        name = name.strip()
        if name and not tab:
            found.add("%s:%d" % (path, number), "expected a name, a tab and a text")
        elif name in texts:
            found.add("%s:%d" % (path, number), "duplicate '%s'" % name)
        elif name in wanted and not is_text(text):
            escaped = next(c for c in text if not is_text(c))       # of a byte
            found.add("%s:%d" % (path, number), "not UTF-8: byte 0x%02x" % (ord(escaped) & 0xff))
        elif name in wanted:
            texts[name] = text.replace("\t", " ")
    found.refuse()
    return texts


FORMS = {"qrels": _read_qrels, "run": _read_run}
