"""TREC's files: judgements or the documents to be ranked, and their texts in files next to them."""

from __future__ import annotations

import os

from xlnet import files
from xlnet.errors import UserError
from xlnet.tasks.files import faults, readers

_JUDGEMENT = "query 0 document grade"       # a line of qrels


def _read_qrels(task, path, lines, header, skips):
    """Judgements, `query 0 document grade` on each line."""
    return _join_texts(task, path, [_split(line, _JUDGEMENT) for line in lines],
                       lambda cells: cells[3], {})


def _read_run(task, path, lines, header, skips):
    """Documents to be ranked, `query Q0 document rank score name` on each line.

    Grades are those of the judgements in the file of its name with .qrels; what was not judged
    has grade 0. Without them there are no grades. The first row of a query has, as `Row.source`,
    the grades of the relevant documents that are not in the file, which measures count too.
    """
    qrels, grades = readers.stem(path) + ".qrels", None
    if path != "-" and os.path.exists(qrels):
        judged = [_split(line, _JUDGEMENT)
                  for line in readers.read_lines(qrels, "judgements", task.encoding)]
        faults.refuse([("%s:%d" % (qrels, i), cells) for i, cells in enumerate(judged, 1)
                       if isinstance(cells, str)])
        grades = {(cells[0], cells[2]): cells[3] for cells in judged}
    rows = [_split(line, "query Q0 document rank score name") for line in lines]
    retrieved = {(cells[0], cells[2]) for cells in rows if isinstance(cells, list)}
    missing: dict[str, list[float]] = {}
    for (query, document), text in (grades or {}).items():
        grade, fault = task.reader.parse_score(text)
        if not fault and grade > 0 and (query, document) not in retrieved:
            missing.setdefault(query, []).append(grade)
    return _join_texts(
        task, path, rows,
        lambda cells: None if grades is None else grades.get((cells[0], cells[2]), "0"), missing)


def _split(line, expected):
    """The cells of a line between spaces, or its fault."""
    cells, count = line.split(), len(expected.split())
    return cells if len(cells) == count else "%d column(s), expected %d: %s" % (
        len(cells), count, expected)


def _join_texts(task, path, rows, grade, sources):
    """The `Table` of a ranking: lines that name query and document, with the texts of both.

    Texts are in NAME.queries.tsv or queries.tsv, and in documents.tsv, beside the file NAME.
    grade: function of a line's cells.
    """
    columns = [task.query, *task.text_a, task.id, *task.text_b, *task.label]
    if len(columns) != 5 or None in columns:
        raise UserError("%s: TREC's files are for rankings whose queries, documents and their "
                        "names have a column each" % path)
    directory = "" if path == "-" else os.path.dirname(path)
    own_queries = os.path.basename(readers.stem(path)) + ".queries.tsv"
    places = [readers.find_file(directory, (own_queries, "queries.tsv")),
              os.path.join(directory, "documents.tsv")]
    texts = [_read_texts(place, {cells[column] for cells in rows if isinstance(cells, list)})
             for place, column in zip(places, (0, 2))]

    def join(cells):
        if isinstance(cells, str):
            return cells
        for what, name, known, place in zip(("query", "document"), cells[::2], texts, places):
            if name not in known:
                return "%s '%s' is not in %s" % (what, name, place)
        query, document = cells[0], cells[2]
        return [query, texts[0][query], document, texts[1][document], grade(cells)]

    return readers.Table(columns, enumerate(map(join, rows), 1), readers.by_line(path), sources)


def _read_texts(path, wanted):
    """The texts of the names `wanted` from a file of `name<TAB>text`, which may be a collection
    larger than the memory."""
    files.require_file(path, "ranking")
    found: dict[str, str] = {}
    bad = []
    with open(path, "rb") as f:
        for number, line in enumerate(f, 1):
            start, tab, text = line.rstrip(b"\r\n").partition(b"\t")
            try:
                name = start.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if not tab and not name:        # an empty line is nobody's
                    continue
                fault = None if tab else "expected a name, a tab and a text"
                if tab and name in wanted:
                    fault = "duplicate '%s'" % name if name in found else None
                    found.setdefault(name, text.decode("utf-8").replace("\t", " "))
            except UnicodeDecodeError as e:
                fault = "not UTF-8: byte 0x%02x" % e.object[e.start]
            if fault:
                bad.append(("%s:%d" % (path, number), fault))
    faults.refuse(bad)
    return found


FORMS = {"qrels": _read_qrels, "run": _read_run}
