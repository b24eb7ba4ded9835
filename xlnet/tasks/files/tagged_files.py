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

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Optional

from xlnet.errors import UserError
from xlnet.tasks.files import (
    decoding,
    forms,
    readers,
    tagged_columns,
    tagged_hints,
    tagged_json,
)
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.files.tagged_columns import ColumnForm
from xlnet.tasks.files.tagged_words import TEXT_KEY, ColumnLines, TaggedSentence, of_text

BY_EXTENSION = {
    "conllu": "conllu",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "json",
    "parquet": "parquet",
}
_WHAT = "sentences with tagged words"  # the role of a file in errors


class Declared(NamedTuple):
    """What flags say about files of tagged words; None: the default of the file's extension."""

    form: Optional[str] = None  # a key of `_READERS`
    word_column: str = "1"  # in JSON and Parquet the key; a number: the usual ones
    tag_column: Optional[str] = None
    sentence_column: Optional[str] = None  # of columns: that of the number of the sentence
    delimiter: Optional[str] = None
    quoting: Optional[str] = None  # "standard" or "none"
    header: Optional[str] = None  # "names" or "none"; None: names if columns have names
    encoding: Optional[str] = None
    # Key -> value of the examples that are kept. None: nobody said what to do with rejected ones.


def form_of(path: str, declared: Optional[str]) -> str:
    """The form of a file: as declared, or of its extension; the standard input is text."""
    if declared:
        return declared
    if path == "-":
        return "text"
    return BY_EXTENSION.get(readers.extension(path), "conll")


def check_output(path: str, declared: Optional[str], output: str) -> None:
    """Raises UserError for a name of predictions that promises another form than they have: JSON
    lines for texts and JSON, and the columns of the file with one more for columns."""
    form = form_of(readers.each_path(path)[0], declared)
    are_columns = form in ("conll", "conllu")
    wrong = ("json", "jsonl") if are_columns else ("csv", "tsv", "conll", "conllu", "json")
    if readers.extension(output) in wrong:
        what = (
            "the columns of the file and one more, expected a name that does not end in .json or "
            ".jsonl"
            if are_columns
            else "JSON lines, expected a name that ends in .jsonl"
        )
        raise UserError(f"{output}: predictions for a file in the form {form} are {what}")


def read(
    path: str,
    declared: Declared,
    need_tags: bool,
    *,
    skips: bool = False,
) -> Iterator[TaggedSentence]:
    """Yields the sentences of a file, or of several. Errors are raised after the last one.

    Args:
      path: a file, `readers.Paths`, or "-", the standard input.
      declared: how the files are written.
      need_tags: whether sentences without tags are errors.
      skips: leave out sentences with errors, with a warning that counts them. If tags are not
        needed, a sentence without words represents each, so that predictions are aligned with the
        file.
    """
    first: dict[str, str] = {}  # the first file of each form
    ends_in_word = False  # whether the last line so far has a word
    for each in readers.each_path(path):
        form = form_of(each, declared.form)
        first.setdefault(form, each)
        if len(first) > 1 and not need_tags:  # predictions are written in the form of the file
            raise UserError(
                "{} and {} have different forms: {}; expected files of one form to predict".format(
                    *first.values(), " and ".join(first)
                )
            )
        for number, sentence in enumerate(_READERS[form](each, declared, need_tags, skips)):
            source = sentence.source
            if isinstance(source, ColumnLines):
                # A sentence ends with its file, also where the lines of several are written as one.
                if ends_in_word and number == 0:
                    source = source._replace(before=("", *source.before))
                    sentence = sentence._replace(source=source)
                ends_in_word = source.after[-1:] != ("",)
            yield sentence


# ---- a function for each form


def _read_conll(
    path: str, declared: Declared, need_tags: bool, skips: bool
) -> Iterator[TaggedSentence]:
    lines = readers.read_lines(path, _WHAT, declared.encoding)
    form = column_form(path, declared)
    if not declared.form and form.word_column == "1" and not form.has_header:
        problem = tagged_hints.of_columns(lines.start(), lines, form.delimiter)
        if problem:
            raise UserError(f"{path}: {problem}")
    yield from tagged_columns.ColumnReader(path, lines, form, need_tags).read(skips)


def _read_conllu(
    path: str, declared: Declared, need_tags: bool, skips: bool
) -> Iterator[TaggedSentence]:
    lines = readers.read_lines(path, _WHAT, declared.encoding)
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
    lines = readers.read_lines(path, _WHAT, declared.encoding)
    if not declared.form:
        problem = tagged_hints.of_text(lines.start(), lines)
        if problem:
            raise UserError(f"{path}: {problem}")

    def sentence(line: str, place: str) -> TaggedSentence:
        if not line.strip():  # predictions are aligned with the lines
            return tagged_json.skipped({TEXT_KEY: line}, place)
        if "\r" in line:
            raise ValueError(decoding.RETURN_INSIDE)
        return of_text(line, place)

    numbered = forms.by_line(path, enumerate(lines, 1))
    yield from _sentences(path, numbered, sentence, skips, keeps=skips)


def _read_jsonl(
    path: str, declared: Declared, need_tags: bool, skips: bool
) -> Iterator[TaggedSentence]:
    lines = readers.read_lines(path, _WHAT, declared.encoding)
    hint = ""
    yield from _of_objects(path, forms.json_lines(path, lines), declared, need_tags, skips, hint)


def _read_json(
    path: str, declared: Declared, need_tags: bool, skips: bool
) -> Iterator[TaggedSentence]:
    lines = readers.read_lines(path, _WHAT, declared.encoding)
    yield from _of_objects(path, forms.json_items(path, lines), declared, need_tags, skips)


def _read_parquet(
    path: str, declared: Declared, need_tags: bool, skips: bool
) -> Iterator[TaggedSentence]:
    rows = tagged_json.parquet_objects(path, decoding.opener(path, _WHAT))
    yield from _of_objects(path, rows, declared, need_tags, skips)


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
            f"{path}: a .csv file of columns; give --delimiter=,{tagged_hints.WITH_COMMAS}"
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
        header=declared.header,
        sentence_column=declared.sentence_column,
    )


def _of_objects(
    path: str,
    values: Iterable[tuple[str, Any]],
    declared: Declared,
    need_tags: bool,
    skips: bool,
    hint: str = "",
) -> Iterator[TaggedSentence]:
    """The sentences of (place, object) pairs; hint: the end of errors."""
    objects = tagged_json.ObjectReader(declared.word_column, declared.tag_column, need_tags)
    keeps = skips and not need_tags
    yield from _sentences(path, values, objects.sentence, skips, keeps, hint)
    objects.notes.note(path, "entities or examples are not used as they are")


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
        except UserError:
            raise
        except ValueError as e:
            errors.add(place, str(e))
            if keeps:
                yield tagged_json.skipped(value, place)
            continue
        if made is not None:
            has_words = has_words or bool(made.words)
            yield made
    if not skips or keeps and not has_words:
        errors.refuse(hint)
    errors.end(path, skips)
