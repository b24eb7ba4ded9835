"""Files of sentences with tagged words: columns, JSON or raw text; and which of these a file is.

Columns (CoNLL): a word a line, its columns between tabs or spaces; an empty line between sentences.
Columns have numbers from 1 on, or the names in the first line. These lines are not words:
-DOCSTART-; comments that begin with # before a sentence (CoNLL-U's `# name = value`, GermEval's
`#<TAB>url`); CoNLL-U's ranges `1-2` and empty nodes `8.1`.

JSON: an object a line, or a list of objects. An object has a text and, if it is labelled, its
entities (spaCy, Prodigy, doccano), in characters; or tokens and their tags (Hugging Face). The
words of a text are those of `tagged_words.find_words`.

Raw text: a sentence a line.
"""

from __future__ import annotations

import collections
import logging
import re
import unicodedata
from collections.abc import Iterator
from typing import Optional

from xlnet.errors import UserError
from xlnet.tasks.files import readers, schemes, tagged_columns, tagged_json
from xlnet.tasks.files.row_errors import RowErrors
from xlnet.tasks.files.tagged_words import TaggedSentence, of_text

_log = logging.getLogger(__name__)


def read(
    path: str,
    form: Optional[str],
    word_column: str,
    tag_column: Optional[str],
    need_tags: bool,
    *,
    encoding: Optional[str] = None,
    delimiter: Optional[str] = None,
    skips: bool = False,
) -> Iterator[TaggedSentence]:
    """Yields the sentences of a file, or of several. Errors are raised after the last one.

    form: conll, jsonl or text; None: recognized by the content. Columns are a number or a name; in
    JSON, any number: the first known key; None: the last one. skips: leave out sentences with
    errors, with a warning that counts them. If tags are not needed, a sentence without words
    represents each, so that predictions are aligned with the file.
    """
    forms: dict[str, str] = {}  # to the first file
    keeps = skips and not need_tags
    for each in readers.each_path(path):
        lines = readers.read_lines(each, "sentences with tagged words", encoding, skips)
        its_form = form or _form_of(each, lines, need_tags, delimiter)
        forms.setdefault(its_form, each)
        if len(forms) > 1 and not need_tags:  # predictions are written in the form of the file
            raise UserError(
                "{} and {} have different forms: {}; expected files of one form to predict".format(
                    *forms.values(), " and ".join(forms)
                )
            )
        if its_form == "text":
            yield from _sentences(
                each,
                readers.by_line(
                    each, (pair for pair in enumerate(lines, 1) if keeps or pair[1].strip())
                ),
                of_text,
                skips,
                keeps,
            )
        elif its_form == "jsonl":
            objects = tagged_json.ObjectReader(word_column, tag_column, need_tags)
            yield from _sentences(
                each, readers.json_values(each, lines, keeps), objects.sentence, skips, keeps
            )
            objects.notes.note(each, "entities or examples are not used as they are")
        else:
            yield from tagged_columns.ColumnReader(
                each, lines, word_column, tag_column, need_tags, delimiter
            ).read(skips)


def _sentences(path, values, sentence, skips, keeps):
    """Yields `sentence(value, place)` of (place, value) pairs, unless it is None; its ValueErrors
    are the errors of the file. keeps: whether something represents a skipped one."""
    errors, has_words = RowErrors(), False
    for place, value in values:
        try:
            made = sentence(value, place)
        except ValueError as e:
            errors.add(place, str(e))
            if keeps:
                yield tagged_json.skipped(value, place)
        else:
            if made:
                has_words = True
                yield made
    errors.end(path, skips and (has_words or not keeps))


# ---- the form of a file

_HAN_KANA_HANGUL = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff]")
_ENDS = ".!?…。！？।॥"  # of sentences
_INSIDE = re.compile("[，、；：。！？]")  # in a line: it is more than a word
# A line of several words without spaces is on average longer than a word [characters].
_LONGEST_WORD, _LONGEST_CHINESE_WORD = 15, 3


def _form_of(path, lines, need_tags, delimiter):
    """The form of a file by its complete content, and a line that says what was assumed."""
    if path.endswith((".json", ".jsonl")) or re.match(r'\{\s*"|\[\s*[{"\[]', lines.start()):
        return "jsonl"
    # A file that must have tags is not raw text, and neither is one with tabs or tags.
    if (
        need_tags
        or delimiter
        or lines.start().startswith(tagged_columns.CONLL_2012)
        or tagged_columns.separator(lines) == "\t"
    ):
        return "conll"
    # Sentences have different numbers of words, end with a full stop, or are longer than words;
    # words are on lines of their own, and so are the signs between them.
    #
    #     a word a line     EU        raw text     EU rejects German call.
    #                       rejects                Peter Blackburn
    #                       .
    widths: collections.Counter[int] = collections.Counter()
    rows = tagged = ends = signs = size = chinese = 0
    is_after_blank = has_blank = False
    for line in lines:
        text = line.strip()
        if not text:
            is_after_blank = rows > 0
            continue
        if tagged_columns.is_comment(line):
            continue
        has_blank = has_blank or is_after_blank
        cells = text.split()
        rows += 1
        widths[len(cells)] += 1
        tagged += cells[-1] != cells[0] and schemes.tag_error(cells[-1]) is None
        is_sign = all(unicodedata.category(char)[0] in "PS" for char in text)
        signs += is_sign
        ends += (
            not is_sign
            and len(cells[-1]) > 1
            and (
                cells[-1].rstrip("\"'”’」』)）")[-1:] in tuple(_ENDS) or bool(_INSIDE.search(text))
            )
        )
        size += len(text)
        chinese += bool(_HAN_KANA_HANGUL.search(text))
    if not rows or 2 * tagged > rows:
        return "conll"
    width, count = widths.most_common(1)[0]
    longest = _LONGEST_CHINESE_WORD if 2 * chinese > rows else _LONGEST_WORD
    if count < 0.9 * rows or 2 * ends > rows or width > 1 and rows == 1:
        found = "text"
    elif width == 1:
        found = "text" if not signs and size > longest * rows else "conll"
    elif has_blank:
        found = "conll"
    else:
        raise UserError(
            f"{path}: {rows} lines of {width} words each may be sentences or a word a "
            "line with its "
            "columns; give --input_format=text or --input_format=conll"
        )
    _log.info(
        "note: %s is read as %s",
        path,
        (
            "raw text, a sentence a line (--input_format=conll: a word a line)"
            if found == "text"
            else "a word a line (--input_format=text: raw text, a sentence a line)"
        ),
    )
    return found
