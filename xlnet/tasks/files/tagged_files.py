"""Files of sentences with tagged words, one function for each declared form.

    form      extension          content
    conll     any other          a word a line with its columns, an empty line between sentences
    conllu    .conllu            the same with numbers of words and comments: CoNLL-U, GermEval
    jsonl     .jsonl, .ndjson    an object a line: a text and its entities, or tokens and tags
    json      .json              a list of such objects, or an object whose `data` is the list
    parquet   .parquet           a table whose rows are such objects
    text      standard input     a sentence a line, without tags

A form is declared by --input_format, in training or later, or by the extension. A .txt file to
predict may be columns or text, so its form must be given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional

from xlnet.errors import UserError
from xlnet.tasks.files import readers, tagged_columns, tagged_hints, tagged_json
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.files.tagged_columns import ColumnForm
from xlnet.tasks.files.tagged_words import TaggedSentence, of_text

FORMS = ("conll", "conllu", "jsonl", "json", "parquet", "text")
_BY_EXTENSION = {
    "conllu": "conllu",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "json",
    "parquet": "parquet",
}
_WHAT = "sentences with tagged words"  # the role of a file in errors


class Declared(NamedTuple):
    """What flags say about files of tagged words; None: the default of the file's extension."""

    form: Optional[str] = None  # of `FORMS`
    word_column: str = "1"  # in JSON and Parquet the key; a number: the usual ones
    tag_column: Optional[str] = None
    delimiter: Optional[str] = None
    quoting: Optional[str] = None  # "standard" or "none"
    encoding: Optional[str] = None
    keep_where: Mapping[str, str] = {}  # key -> value of the examples that are kept


def form_of(path: str, declared: Optional[str], is_predicted: bool = False) -> str:
    """The form of a file: as declared, or of its extension.

    is_predicted: whether it is a file of --predict_file, not of a split.
    """
    if declared:
        return declared
    if path == "-":
        return "text"
    extension = readers.extension(path)
    if is_predicted and extension == "txt":
        raise UserError(
            f"{path}: .txt may be columns or text; give --input_format=conll for a word a line, "
            "or --input_format=text for a sentence a line"
        )
    return _BY_EXTENSION.get(extension, "conll")


def read(
    path: str,
    declared: Declared,
    need_tags: bool,
    *,
    skips: bool = False,
    is_predicted: bool = False,
) -> Iterator[TaggedSentence]:
    """Yields the sentences of a file, or of several. Errors are raised after the last one.

    Args:
      path: a file, `readers.Paths`, or "-", the standard input.
      declared: how the files are written.
      need_tags: whether sentences without tags are errors.
      skips: leave out sentences with errors, with a warning that counts them. If tags are not
        needed, a sentence without words represents each, so that predictions are aligned with the
        file.
      is_predicted: as in `form_of`.
    """
    forms: dict[str, str] = {}  # the first file of each form
    for each in readers.each_path(path):
        form = form_of(each, declared.form, is_predicted)
        forms.setdefault(form, each)
        if len(forms) > 1 and not need_tags:  # predictions are written in the form of the file
            raise UserError(
                "{} and {} have different forms: {}; expected files of one form to predict".format(
                    *forms.values(), " and ".join(forms)
                )
            )
        yield from _READERS[form](each, declared, need_tags, skips)


# ---- a function for each form


def _read_conll(
    path: str, declared: Declared, need_tags: bool, skips: bool
) -> Iterator[TaggedSentence]:
    lines = readers.read_lines(path, _WHAT, declared.encoding, skips)
    form = column_form(path, declared)
    if not declared.form and form.word_column == "1":
        problem = tagged_hints.of_columns(lines.start(), lines, form.delimiter)
        if problem:
            raise UserError(f"{path}: {problem}")
    yield from tagged_columns.ColumnReader(path, lines, form, need_tags).read(skips)


def _read_conllu(
    path: str, declared: Declared, need_tags: bool, skips: bool
) -> Iterator[TaggedSentence]:
    lines = readers.read_lines(path, _WHAT, declared.encoding, skips)
    form = column_form(path, declared)
    # By the standard there are tabs between columns, and quotation marks are characters.
    form = form._replace(
        is_conllu=True,
        delimiter=declared.delimiter or "\t",
        is_quoted=declared.quoting == "standard",
    )
    yield from tagged_columns.ColumnReader(path, lines, form, need_tags).read(skips)


def _read_text(
    path: str, declared: Declared, need_tags: bool, skips: bool
) -> Iterator[TaggedSentence]:
    if need_tags:
        raise UserError(f"{path}: raw text has no tags; expected columns or JSON")
    lines = readers.read_lines(path, _WHAT, declared.encoding, skips)
    if not declared.form:
        problem = tagged_hints.of_text(lines.start(), lines)
        if problem:
            raise UserError(f"{path}: {problem}")
    # An empty line is not a sentence. With `skips` it has an empty answer.
    numbered = ((number, line) for number, line in enumerate(lines, 1) if skips or line.strip())
    yield from _sentences(path, readers.by_line(path, numbered), of_text, skips, keeps=skips)


def _read_objects(
    path: str, declared: Declared, need_tags: bool, skips: bool, form: str
) -> Iterator[TaggedSentence]:
    """JSON lines, a JSON document or Parquet: an object for each sentence."""
    keeps = skips and not need_tags
    objects = tagged_json.ObjectReader(
        declared.word_column, declared.tag_column, need_tags, declared.keep_where
    )
    values: Iterable[tuple[str, Any]]
    hint = ""
    if form == "parquet":
        values = tagged_json.parquet_rows(path)
    else:
        lines = readers.read_lines(path, _WHAT, declared.encoding, skips)
        if form == "json":
            values = tagged_json.document(path, lines)
        else:
            values = tagged_json.object_lines(path, lines, keeps)
            hint = tagged_hints.of_json_lines(lines.start())
    yield from _sentences(path, values, objects.sentence, skips, keeps, hint)
    objects.notes.note(path, "entities or examples are not used as they are")


def _read_jsonl(*arguments: Any) -> Iterator[TaggedSentence]:
    return _read_objects(*arguments, form="jsonl")


def _read_json(*arguments: Any) -> Iterator[TaggedSentence]:
    return _read_objects(*arguments, form="json")


def _read_parquet(*arguments: Any) -> Iterator[TaggedSentence]:
    return _read_objects(*arguments, form="parquet")


_READERS: dict[str, Callable[[str, Declared, bool, bool], Iterator[TaggedSentence]]] = {
    "conll": _read_conll,
    "conllu": _read_conllu,
    "jsonl": _read_jsonl,
    "json": _read_json,
    "parquet": _read_parquet,
    "text": _read_text,
}


# ---- what they share


def column_form(path: str, declared: Declared) -> ColumnForm:
    """How the columns of a file are written: as declared, or by its extension."""
    extension = readers.extension(path)
    delimiter = declared.delimiter
    if delimiter is None and extension == "tsv":
        delimiter = "\t"
    if delimiter is None and extension == "csv":
        raise UserError(
            f"{path}: a .csv file of columns; give --delimiter=, with --word_column and "
            "--tag_column, and an empty line between sentences instead of a column of their "
            "numbers"
        )
    if delimiter is None and declared.quoting == "standard":
        raise UserError(
            f"{path}: quoting is standard, but columns between spaces have no quoted cells; give "
            "--delimiter, or --quoting=none"
        )
    return ColumnForm(
        declared.word_column,
        declared.tag_column,
        delimiter,
        is_quoted=delimiter is not None and declared.quoting != "none",
    )


def _sentences(
    path: str,
    values: Iterable[tuple[str, Any]],
    sentence: Callable[[Any, str], Optional[TaggedSentence]],
    skips: bool,
    keeps: bool,
    hint: str = "",
) -> Iterator[TaggedSentence]:
    """Yields `sentence(value, place)` of (place, value) pairs, unless it is None; its ValueErrors
    are the errors of the file.

    Args:
      skips: whether sentences with errors are left out.
      keeps: whether something represents a skipped one.
      hint: the end of errors.
    """
    errors = RowErrors()
    has_words = False
    for place, value in values:
        try:
            made = sentence(value, place)
        except ValueError as e:
            errors.add(place, str(e))
            if keeps:
                yield tagged_json.skipped(value, place)
            continue
        if made is not None:
            has_words = True
            yield made
    if not skips or keeps and not has_words:
        errors.refuse(hint)
    errors.end(path, skips)
