"""Sentences of CoNLL-style columns: a word a line, an empty line between sentences."""

from __future__ import annotations

import csv
import itertools
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

from xlnet.errors import UserError
from xlnet.tasks.files import decoding, readers, schemes
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.files.tagged_words import ADDED, NOT_TEXT, ColumnLines, TaggedSentence
from xlnet.tokenization.tokenizer import is_text

_log = logging.getLogger(__name__)

DOCUMENT = "-DOCSTART-"
_COMMENTS = "# ", "#\t"  # before the first sentence
_NAMED = re.compile(r"#\s*[^\s=][^=]* = ")  # CoNLL-U's comments, "# name = value"
CONLL_2012 = "#begin document"
_WEBANNO = "#FORMAT=WebAnno"
_LOOKED_AT = 1000  # lines by which a column that counts words is recognized
_RANGE = re.compile(r"\d+[-.]\d+")  # in place of a word's number
_NO_TAG = "_"  # in place of the tag of a line that has no prediction


def is_comment(line: str) -> bool:
    """Whether a line before the first sentence is not one of its words."""
    return line.startswith((DOCUMENT, *_COMMENTS)) or bool(_NAMED.match(line))


def separator(lines: Iterable[str]) -> str:
    """The separator of columns: tabs if most rows have one, or a space."""
    rows = tabs = 0
    for line in lines:
        if line.strip() and not is_comment(line):
            rows += 1
            tabs += "\t" in line
    return "\t" if 2 * tabs > rows else " "


_COMMAS = (
    "; between columns with commas give --delimiter=, with --word_column and --tag_column, "
    "and an empty line between sentences instead of a column of their numbers"
)


class ColumnReader:
    """Reads the lines of one file; arguments as in `tagged_files.read`."""

    def __init__(
        self,
        path: str,
        lines: decoding.Lines,
        word_column: str,
        tag_column: Optional[str],
        need_tags: bool,
        delimiter: Optional[str],
    ):
        if lines.start().startswith(CONLL_2012):
            raise UserError(
                f"{path}: a CoNLL-2012 file ({CONLL_2012}), whose brackets are not read; "
                "expected a "
                "word a line with its tag, such as B-PERSON, I-PERSON or O"
            )
        if lines.start().startswith(_WEBANNO):
            raise UserError(
                f"{path}: WebAnno TSV; expected INCEpTION's or WebAnno's export CoNLL 2002"
            )
        self._path = path
        self._lines = lines
        self._need_tags = need_tags
        self._separator = delimiter or separator(lines)
        self._is_quoted = self._separator != " " and _is_quoted(lines, self._separator)
        # The line that has all columns: that of their names, if there is one, or the first row.
        self._header: Optional[int] = None
        if any(name and not name.isdecimal() for name in (word_column, tag_column)):
            self._header = next(number for number, line in enumerate(lines) if line.strip(" \t"))
        first_row = next(
            (number for number, line in enumerate(lines) if self._is_row(number, line)), None
        )
        if first_row is None:
            raise UserError(f"{path}: no words")
        # Which columns have the words and the tags.
        self._model = first_row if self._header is None else self._header
        line = next(itertools.islice(lines, self._model, None))
        self._columns = self._cells(line)
        self._width = len(self._columns)
        self._word = self._position(word_column)
        self._tag = (
            self._width - 1
            if tag_column is None
            else self._position(tag_column, required=need_tags)
        )
        # CoNLL-U and GermEval count the words in their first column.
        self._counts = self._counts_words()
        if self._counts and self._word == 0:
            if self._width == 1 or need_tags and self._tag == 1:
                raise UserError(
                    f"{path}: column 1 counts the words (1, 2, 3), expected words; give "
                    "--word_column"
                )
            self._word = 1
            _log.info("note: %s: column 1 counts the words, column 2 is taken for the words", path)
        if need_tags and not self._columns[self._tag] and tag_column is None:
            filled = [i for i, cell in enumerate(self._columns) if cell]
            raise UserError(
                f"{path}: the last column is empty, expected tags; give "
                f"--tag_column={filled[-1] + 1}"
            )
        if need_tags and self._tag == self._word:
            raise UserError(
                "{}: column {} is that of the words and of the tags{}".format(
                    path, word_column, _COMMAS if "," in line else ""
                )
            )

    def _is_row(self, i, line):
        return bool(line.strip(" \t")) and i != self._header and not is_comment(line)

    def _cells(self, line):
        if self._separator == " ":
            return re.split("[ \t]+", line.strip(" \t"))
        if self._is_quoted and '"' in line:
            return next(csv.reader([line], delimiter=self._separator))
        return [cell.strip(" ") for cell in line.split(self._separator)]

    def _position(self, column, required=True):
        """The index of a column by its number or name; None if it does not exist."""
        known = self._columns
        if column.isdecimal():
            known = [str(number) for number in range(1, self._width + 1)]
        if required and len(known) < 3 and "," in "".join(known) and column not in known:
            raise UserError(f"{self._path}: {readers.no_column(column, known)}{_COMMAS}")
        return readers.column(self._path, column, known) if required or column in known else None

    def _counts_words(self):
        """Whether the first column counts the words of each sentence, from 1 or 0 on."""
        before, count = None, 0
        for i, line in enumerate(self._lines.first(_LOOKED_AT)):
            if not line.strip(" \t"):
                before = None
            elif self._is_row(i, line) and not (before is None and line.startswith("#")):
                cell = self._cells(line)[0]
                if not _RANGE.fullmatch(cell):
                    if cell not in (("0", "1") if before is None else (str(before + 1),)):
                        return False
                    before, count = int(cell), count + 1
        return count > 1

    def read(self, skips: bool) -> Iterator[TaggedSentence]:
        """Yields the sentences, in order."""
        errors, has_words, last = RowErrors(), False, None
        known = 0  # errors of the sentences before
        before: list[str] = []  # lines without a word, as they are written again
        lines: list[str] = []  # all lines of a sentence, as in the file
        rows: list[tuple] = []  # (place, line, cells) of its words
        ranges: list[str] = []  # lines of CoNLL-U that are written before the next row
        for i, line in enumerate(itertools.chain(self._lines, [""])):  # the end is a border
            is_blank = not line.strip(" \t")
            place = f"{self._path}:{i + 1}"
            # A border: the sentence before it is complete, or was skipped.
            if is_blank or i == self._header or line.startswith(DOCUMENT):
                sentence = None
                if len(errors) == known and rows:
                    sentence, has_words = self._sentence(before, rows), True
                elif len(errors) > known and skips and not self._need_tags:
                    sentence = TaggedSentence(
                        (),
                        None,
                        None,
                        (place,),
                        ColumnLines(tuple(before), tuple(lines), (), self._separator),
                    )
                    ranges.clear()
                if sentence:
                    if last:
                        yield last
                    last, before = sentence, []
                before += [row.rstrip("\n") for row in ranges]
                before.append(
                    ""
                    if is_blank
                    else line + self._separator + (ADDED if i == self._header else schemes.OUTSIDE)
                )
                known, lines, rows, ranges = len(errors), [], [], []
                continue
            # A comment before a sentence, a range of CoNLL-U, a word, or an error.
            cells = self._cells(line)
            is_complete = len(cells) == self._width and bool(cells[self._word])
            if (
                not lines
                and line.startswith("#")
                and (self._counts or not is_complete or _NAMED.match(line))
            ):
                before.append(line)
                continue
            lines.append(line)
            if self._counts and self._word and _RANGE.fullmatch(cells[0]):
                ranges.append(line + self._separator + _NO_TAG + "\n")
            elif not is_text(line):
                errors.add(place, NOT_TEXT)
            elif is_complete:
                rows.append((place, "".join((*ranges, line)), cells))
                ranges.clear()
            elif len(cells) != self._width:
                errors.add(
                    place,
                    "{} column(s), expected {} as in line {}{}".format(
                        len(cells),
                        self._width,
                        self._model + 1,
                        _COMMAS if "," in line and self._separator != "," else "",
                    ),
                )
            else:
                errors.add(place, "column %s is empty, expected a word" % (self._word + 1))
        errors.end(self._path, skips and has_words)
        if last is None:
            raise UserError(f"{self._path}: no words")
        yield last._replace(source=last.source._replace(after=tuple(before[:-1])))

    def _sentence(self, before, rows):
        """The sentence of rows without errors."""
        places, lines, cells = zip(*rows)
        return TaggedSentence(
            words=tuple(row[self._word] for row in cells),
            after_space=None,
            tags=None if self._tag is None else tuple(row[self._tag] for row in cells),
            places=places,
            source=ColumnLines(
                tuple(before),
                lines,
                (),
                self._separator,
                str(self._word + 1),
                "" if self._tag is None else str(self._tag + 1),
            ),
        )


_QUOTED_CELL = r'"(?:[^"]|"")*"'


def _is_quoted(lines, delimiter):
    """Whether cells are in quotation marks as pandas writes them: all cells, or those with a
    quotation mark or a delimiter. Elsewhere quotation marks are words."""
    cell = rf"(?:{_QUOTED_CELL}|[^\"{re.escape(delimiter)}]*)"
    row = re.compile(f"{cell}(?:{re.escape(delimiter)}{cell})*")
    is_needed, all_are = False, True
    for line in lines:
        if not line.strip():
            continue
        if not row.fullmatch(line):
            return False
        cells = re.findall(_QUOTED_CELL, line)
        all_are = all_are and len(cells) > line.count(delimiter)
        needed = ['""' in each[1:-1] or delimiter in each for each in cells]
        is_needed = is_needed or any(needed)
        if not all_are and not all(needed):
            return False
    return is_needed or all_are


def conll_lines(
    sources: Iterable[ColumnLines], tags: Iterable[Optional[Sequence[str]]]
) -> Iterator[str]:
    """Yields the lines of a file with one column more: the tags of each sentence, "_" on each line
    where they are None, those of a skipped one."""
    for source, column in zip(sources, tags):
        if column is None:
            column = [_NO_TAG] * len(source.rows)
        rows = (row + source.separator + tag for row, tag in zip(source.rows, column))
        for line in (*source.before, *rows, *source.after):
            yield line + "\n"
