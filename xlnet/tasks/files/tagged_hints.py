"""Which flag may read a file of tagged words that has another form than the declared one.

Nothing here decides how a file is read. Its content is looked at to end an error with the flag that
helps, and to refuse a file that nobody declared and that looks like another form.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Optional

from xlnet.tasks.files import schemes

_LOOKED_AT = 1000  # lines
_JSON = re.compile(r'\{\s*["}]|\[\s*[{"\[]')
_RANGE_OR_EMPTY_NODE = re.compile(r"\d+[-.]\d+")  # in CoNLL-U, in place of a word's number


WITH_COMMAS = (
    " with --word_column and --tag_column, and --sentence_column if there is no empty line between "
    "sentences"
)


def of_line(line: str, delimiter: Optional[str]) -> str:
    """The end of an error about the columns of a line that was split at `delimiter`; None: at
    spaces and tabs."""
    if _JSON.match(line.lstrip()):
        return "; JSON lines are --input_format=jsonl, a JSON list is --input_format=json"
    if line.startswith("#"):
        return "; comments and numbers of words are --input_format=conllu"
    if "\t" in line and delimiter != "\t":
        return "; if the columns are between tabs, give --delimiter=tab"
    if "," in line and delimiter != ",":
        return f"; between columns with commas give --delimiter=,{WITH_COMMAS}"
    return ""


def of_columns(start: str, lines: Iterable[str], delimiter: Optional[str]) -> Optional[str]:
    """What is wrong with a file that is read as columns because its form was not declared; None:
    nothing. start: the beginning of its text."""
    if _JSON.match(start):
        return (
            "it begins like JSON; give --input_format=jsonl for an object a line, "
            "--input_format=json for a list of objects, or --input_format=conll for columns"
        )
    if _counts_words(itertools.islice(lines, _LOOKED_AT), delimiter):
        return (
            "column 1 counts the words (1, 2, 3), expected words; give --input_format=conllu to "
            "leave the numbers out, --word_column for the column of the words, or "
            "--input_format=conll if the numbers are words"
        )
    return None


def of_text(start: str, lines: Iterable[str]) -> Optional[str]:
    """The same of raw text, a sentence a line."""
    if _JSON.match(start):
        return (
            "it begins like JSON; give --input_format=jsonl for an object a line, "
            "--input_format=json for a list of objects, or --input_format=text for text"
        )
    for number, line in enumerate(itertools.islice(lines, _LOOKED_AT), 1):
        cells = line.split()
        has_tag = len(cells) > 1 and "-" in cells[-1] and schemes.tag_error(cells[-1]) is None
        if has_tag or "\t" in line or line.startswith("-DOCSTART-"):
            return (
                f"line {number} has columns; give --input_format=conll for a word a line, or "
                "--input_format=text for a sentence a line"
            )
    return None


def _counts_words(lines: Iterable[str], delimiter: Optional[str]) -> bool:
    """Whether the first column counts the words of each sentence, from 1 or 0 on."""
    before: Optional[int] = None  # the number in the line before; None: a sentence begins
    has_two = False  # whether a sentence of two words or more was seen
    for line in lines:
        if not line.strip():
            before = None
            continue
        if before is None and line.startswith(("#", "-DOCSTART-")):
            continue
        cell = line.strip(" ").split(delimiter)[0].strip()
        if _RANGE_OR_EMPTY_NODE.fullmatch(cell):
            continue
        expected = ("0", "1") if before is None else (str(before + 1),)
        if cell not in expected:
            return False
        has_two = has_two or before is not None
        before = int(cell)
    return has_two
