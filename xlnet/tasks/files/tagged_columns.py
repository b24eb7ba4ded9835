"""Sentences in columns: a word a line with its columns, an empty line between sentences.

Two forms are read. Plain CoNLL has words, empty lines, and lines that begin with -DOCSTART-, which
are not words. CoNLL-U, and GermEval's files, also number the words of a sentence in their first
column, have comments before a sentence, ranges of words (1-2) and empty nodes (8.1).

A line is split at the declared delimiter, or at spaces and tabs. Columns have numbers from 1 on, or
the names in the first line. The lines are kept, so that predictions are the file with one column
more.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Optional

from xlnet import encodings
from xlnet.errors import UserError
from xlnet.tasks.files import decoding, readers, schemes, tagged_hints
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.files.tagged_words import ADDED, NOT_TEXT, ColumnLines, TaggedSentence
from xlnet.tokenization.tokenizer import is_text

DOCUMENT = "-DOCSTART-"
_CONLL_2012 = "#begin document"
_WEBANNO = "#FORMAT=WebAnno"
_NO_TAG = "_"  # in place of the tag of a line that has no prediction
# CoNLL-U: what is in place of the number of a word on lines that are not words.
_RANGE_OR_EMPTY_NODE = re.compile(r"\d+[-.]\d+")


class ColumnForm(NamedTuple):
    """How columns are written, as it was declared."""

    word_column: str = "1"  # a number from 1 on, or a name in the first line
    tag_column: Optional[str] = None  # None: the last one
    delimiter: Optional[str] = None  # None: any number of spaces and tabs
    is_quoted: bool = False  # whether cells may be in quotation marks, as of CSV
    is_conllu: bool = False
    header: Optional[str] = None  # "names" or "none"; None: names if columns have names
    # The column with the number or name of a word's sentence, on its first word or on all; None:
    # empty lines alone are between sentences.
    sentence_column: Optional[str] = None

    @property
    def has_header(self) -> bool:
        """Whether the first line has the names of the columns."""
        columns = (self.word_column, self.tag_column, self.sentence_column)
        names = [name for name in columns if name]
        if self.header is None:
            return not all(map(str.isdecimal, names))
        return self.header == "names"


# ---- a line


def split_line(line: str, form: ColumnForm) -> list[str]:
    """The cells of a line; raises ValueError if it has a carriage return, or quotation marks that
    are not those of a quoted file."""
    if "\r" in line:
        raise ValueError(decoding.RETURN_INSIDE)
    if form.delimiter is None:
        return re.split("[ \t]+", line.strip(" \t"))
    if not form.is_quoted or '"' not in line:
        return [cell.strip(" ") for cell in line.split(form.delimiter)]
    other = rf'[^"{re.escape(form.delimiter)}]*'
    cell = rf'(?:"(?:[^"]|"")*"|{other})'
    if not re.fullmatch(rf"{cell}(?:{re.escape(form.delimiter)}{cell})*", line):
        raise ValueError(
            "a quotation mark that does not begin, end or fill a quoted cell; if quotation marks "
            "are words, give --quoting=none"
        )
    (cells,) = csv.reader([line], delimiter=form.delimiter, strict=True)
    return [cell.strip(" ") for cell in cells]


# ---- a file


class ColumnReader:
    """The sentences of one file, whose lines `read` yields in their order."""

    def __init__(
        self,
        path: str,
        lines: decoding.Lines,
        form: ColumnForm,
        need_tags: bool,
    ):
        _refuse_other_conll(path, lines)
        self._path = path
        self._lines = lines
        self._form = form
        self._need_tags = need_tags
        # How a line of tags continues the lines of the file.
        self._separator = form.delimiter or _separator_in(lines, self._is_comment)
        # The line with the names of the columns, if they have names; from 0 on.
        self._header: Optional[int] = None
        if form.has_header:
            self._header = next(
                number for number, line in enumerate(lines) if not self._is_blank(line)
            )
        # The line that has all columns: that of their names, or the first one with a word.
        self._model, line = self._first_line()
        try:
            self._names = list(map(encodings.composed, split_line(line, form)))
        except ValueError as e:
            raise UserError(f"{path}:{self._model + 1}: {e}") from None
        self._width = len(self._names)
        self._word, self._tag = self._find_columns(line)
        self._number: Optional[int] = None  # the index of the column of the sentence
        if form.sentence_column:
            self._number = self._index(form.sentence_column, "--sentence_column")

    def _first_line(self) -> tuple[int, str]:
        for number, line in enumerate(self._lines):
            if number == self._header:
                return number, line
            is_word = not self._is_blank(line) and not self._is_comment(line)
            if self._header is None and is_word and not line.startswith(DOCUMENT):
                return number, line
        raise UserError(f"{self._path}: no words")

    def _is_blank(self, line: str) -> bool:
        return not line.strip(" \t" + (self._form.delimiter or ""))

    def _is_comment(self, line: str) -> bool:
        return self._form.is_conllu and line.startswith("#")

    def _find_columns(self, line: str) -> tuple[int, Optional[int]]:
        """The indices of the words and of the tags, which may be missing where nobody needs
        them."""
        form = self._form
        # The first column of CoNLL-U has the numbers of the words.
        has_numbers = form.is_conllu and form.word_column == "1"
        word = self._index("2" if has_numbers else form.word_column, "--word_column")
        tag: Optional[int]
        if form.tag_column is None:
            tag = self._width - 1
        elif self._need_tags or form.tag_column in self._known_columns(form.tag_column):
            tag = self._index(form.tag_column, "--tag_column")
        else:
            tag = None
        if not self._need_tags:
            return word, tag
        if form.tag_column is None and not self._names[-1]:
            last = max(i for i, cell in enumerate(self._names) if cell)
            raise UserError(
                f"{self._path}: the last column is empty, expected tags; give "
                f"--tag_column={last + 1}"
            )
        if tag == word:
            raise UserError(
                f"{self._path}: column {word + 1} is that of the words and of the tags"
                f"{tagged_hints.of_line(line, form.delimiter)}"
            )
        return word, tag

    def _known_columns(self, column: str) -> list[str]:
        """The numbers of all columns if `column` is a number, else their names."""
        if column.isdecimal():
            return [str(number) for number in range(1, self._width + 1)]
        return self._names

    def _index(self, column: str, flag: str) -> int:
        known = self._known_columns(column)
        if column not in known:
            line = (self._form.delimiter or " ").join(self._names)
            hint = tagged_hints.of_line(line, self._form.delimiter)
            raise UserError(
                f"{self._path}: {readers.no_column(column, known)}; {flag} names it{hint}"
            )
        return readers.column(self._path, column, known)

    def read(self, skips: bool) -> Iterator[TaggedSentence]:
        """Yields the sentences, in order; raises an error for all bad lines after the last one.

        skips: leave out sentences with bad lines; if tags are not needed, one without words is in
        its place.
        """
        errors = RowErrors()
        has_words = False
        # the last complete sentence; lines after it may still be added to it
        last: Optional[TaggedSentence] = None
        before: list[str] = []  # lines without a word since the last sentence, as written again
        lines: list[str] = []  # of the sentence, all of them
        words: list[tuple[str, str, list[str]]] = []  # (place, line, cells) of its words
        extra: list[str] = []  # ranges and empty nodes since the last word, as written again
        known = 0  # errors before this sentence
        number_before = ""  # of the sentence, at the word before, if a column has it
        for number, line in enumerate(itertools.chain(self._lines, [""])):
            place = f"{self._path}:{number + 1}"
            # The sentence before is complete at a line between sentences, and at a number that the
            # word before does not have.
            is_between = self._is_blank(line) or line.startswith(DOCUMENT) or number == self._header
            number_here = "" if is_between else self._number_in(line, number_before)
            if is_between or number_here not in ("", number_before):
                sentence = None
                if len(errors) == known and words:
                    sentence = self._sentence(before, words)
                    has_words = True
                elif len(errors) > known and skips and not self._need_tags:
                    sentence = self._skipped(place, before, lines)
                    extra.clear()
                if sentence:
                    if last:
                        yield last
                    last = sentence
                    before = []
                before += extra
                known = len(errors)
                lines, words, extra = [], [], []
            number_before = number_here
            if is_between:
                before.append(self._line_between_sentences(number, line))
                continue
            if not lines and self._is_comment(line):
                before.append(line)
                continue
            lines.append(line)
            try:
                cells = self._checked_cells(line, words)
            except ValueError as e:
                errors.add(place, str(e))
                continue
            if self._form.is_conllu and _RANGE_OR_EMPTY_NODE.fullmatch(cells[0]):
                extra.append(line + self._separator + _NO_TAG)
            else:
                words.append((place, "\n".join([*extra, line]), cells))
                extra = []
        errors.end(self._path, skips and has_words)
        if last is None:
            raise UserError(f"{self._path}: no words")
        before.pop()  # the empty line that was added at the end
        assert isinstance(last.source, ColumnLines)
        yield last._replace(source=last.source._replace(after=tuple(before)))

    def _checked_cells(self, line: str, words: Sequence[tuple[str, str, list[str]]]) -> list[str]:
        """The cells of a line with a word; raises ValueError. words: those of the sentence so far,
        as in `read`."""
        if not is_text(line):
            raise ValueError(NOT_TEXT)
        cells = split_line(line, self._form)
        if len(cells) != self._width:
            raise ValueError(
                f"{len(cells)} column(s), expected {self._width} as in line {self._model + 1}"
                f"{tagged_hints.of_line(line, self._form.delimiter)}"
            )
        if self._form.is_conllu:
            if _RANGE_OR_EMPTY_NODE.fullmatch(cells[0]):
                return cells
            # Some files count words from 0 on. A gap means that a word is missing.
            expected = ["0", "1"]
            if words:
                first = words[0][2][0]
                expected = [str(int(first) + len(words))]
            if cells[0] not in expected:
                raise ValueError(
                    f"column 1 is '{cells[0]}', expected {expected[-1]}, the number of the word "
                    "(CoNLL-U); a file without numbers is --input_format=conll"
                )
        if not cells[self._word]:
            hint = "; if quotation marks are words, give --quoting=none" if '"' in line else ""
            raise ValueError(f"column {self._word + 1} is empty, expected a word{hint}")
        return cells

    def _number_in(self, line: str, before: str) -> str:
        """The cell of the sentence column; if there is no such cell, that of the word before."""
        if self._number is None:
            return before
        try:
            return split_line(line, self._form)[self._number]
        except (ValueError, IndexError):
            return before  # an error of the line

    def _line_between_sentences(self, number: int, line: str) -> str:
        """A line between sentences in the file of predictions."""
        if number == self._header:
            return line + self._separator + ADDED
        if line.startswith(DOCUMENT):
            return line + self._separator + schemes.OUTSIDE
        return ""

    def _sentence(
        self, before: list[str], words: list[tuple[str, str, list[str]]]
    ) -> TaggedSentence:
        tags = None
        if self._tag is not None:
            tags = tuple(cells[self._tag] for _, _, cells in words)
        return TaggedSentence(
            words=tuple(cells[self._word] for _, _, cells in words),
            after_space=None,
            tags=tags,
            places=tuple(place for place, _, _ in words),
            source=ColumnLines(
                tuple(before),
                tuple(line for _, line, _ in words),
                (),
                self._separator,
                str(self._word + 1),
                "" if self._tag is None else str(self._tag + 1),
                self._form.delimiter or " \t",
                self._form.is_quoted,
            ),
        )

    def _skipped(self, place: str, before: list[str], lines: list[str]) -> TaggedSentence:
        """A sentence without words in place of one with errors, so that predictions are aligned
        with the file."""
        source = ColumnLines(tuple(before), tuple(lines), (), self._separator)
        return TaggedSentence((), None, None, (place,), source)


def _refuse_other_conll(path: str, lines: decoding.Lines) -> None:
    """Raises UserError for CoNLL forms that are not supported, which their first line names."""
    start = lines.start()
    if start.startswith(_CONLL_2012):
        raise UserError(
            f"{path}: a CoNLL-2012 file ({_CONLL_2012}), whose brackets are not read; expected a "
            "word a line with its tag, such as B-PERSON, I-PERSON or O"
        )
    if start.startswith(_WEBANNO):
        raise UserError(f"{path}: WebAnno TSV; expected INCEpTION's or WebAnno's export CoNLL 2002")


def _separator_in(lines: Iterable[str], is_comment: Callable[[str], bool]) -> str:
    """The separator to write predictions with, of a file that is split at spaces and tabs: a tab if
    the first line with columns has one."""
    for line in lines:
        if not is_comment(line) and len(line.split()) > 1:
            return "\t" if "\t" in line else " "
    return " "


# ---- predictions


def check_tags(path: str, source: ColumnLines, tags: Iterable[str]) -> None:
    """Raises UserError if the file that a sentence is from cannot have one of the tags as a column
    more."""
    if source.is_quoted:
        return
    for tag in tags:
        if set(tag) & set(source.splits_at):
            raise UserError(
                f"{path}: the model has the tag '{tag}', which would be two columns of the "
                "predictions; expected another delimiter (--delimiter=tab), or JSON"
            )


def _quoted(tag: str, source: ColumnLines) -> str:
    """A tag as a cell of the file that its sentence is from."""
    if source.is_quoted and set(tag) & {source.splits_at, '"'}:
        return '"' + tag.replace('"', '""') + '"'
    return tag


def conll_lines(
    sources: Iterable[ColumnLines], tags: Iterable[Optional[Sequence[str]]]
) -> Iterator[str]:
    """Yields the lines of a file with one column more: the tags of each sentence; "_" on each line
    of a skipped one, whose tags are None. Its bytes that are no characters become U+FFFD."""
    for source, column in zip(sources, tags):
        if column is None:
            column = [_NO_TAG] * len(source.rows)
        rows = (
            row + source.separator + _quoted(tag, source) for row, tag in zip(source.rows, column)
        )
        for line in (*source.before, *rows, *source.after):
            if not is_text(line):
                line = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            yield line + "\n"
