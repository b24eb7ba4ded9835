"""The layouts of text: lines of a file to sentences and the ends of documents.

A layout is a generator. It takes lines, (offset, text) with text None where a line is bad, and
yields events: `Sentence`s and, between documents, `End`s. `bad` has the byte range of the
chunk, `begin` and `end`, and collects bad text, `add(offset, reason, detail)`.
"""

from __future__ import annotations

import codecs
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import regex

from xlnet import json_stream, tables
from xlnet.errors import UserError
from xlnet.settings.data import InputSettings
from xlnet.text.recognition import ARTICLES, RECORDS, TABLE, Form
from xlnet.text.sentences import sentences_and_joints
from xlnet.tokenization.character_classes import HAN_OR_KANA
from xlnet.tokenization.tokenizer import is_text

_BLOCK = 1 << 12             # [bytes] of JSON, read at once
LONGEST_LINE = 1 << 20       # [bytes] some 200,000 words: beyond any paragraph, far below memory


class Sentence(NamedTuple):
    """A sentence and where it is; layouts leave it to `reading` where documents begin and end."""
    offset: int              # of its line, paragraph or record in the (unpacked) file [bytes]
    text: str
    is_joined: bool = False  # follows the sentence before it without a space
    ends_document: bool = False
    begins_document: bool = False    # as far as its chunk shows: the end before may be out of sight


class End(NamedTuple):
    """A document ends here, and the next one begins."""
    offset: int


def events_of(texts: Iterable[Any], settings: InputSettings, bad: Any,
              form: Form) -> Iterator[Any]:
    """The events of the lines of a file; plain text is laid out as `settings.text_format` says."""
    if form.kind == RECORDS:
        return _from_records(texts, settings.json_field, bad)
    if form.kind == TABLE:
        return _from_table(texts, settings.json_field, form, bad)
    if form.kind == ARTICLES:
        return _from_articles(texts)
    return {"lines": _from_lines, "paragraphs": _from_paragraphs, "wikitext": _from_wikitext,
            "book": _from_book}[settings.text_format](texts, bad)


def _from_lines(texts, _):
    """A sentence a line, a blank line between documents."""
    for offset, text in texts:
        if text is None:
            continue
        text = text.strip()
        yield Sentence(offset, text) if text else End(offset)


def _from_paragraphs(texts, bad):
    """A paragraph a line, a blank line between documents."""
    for event in _from_lines(texts, bad):
        if isinstance(event, End):
            yield event
        else:
            yield from _sentences(*event[:2])


def _sentences(offset, text):
    """Yields the sentences of running text that begins at `offset`."""
    for sentence, is_joined in sentences_and_joints(text):
        yield Sentence(offset, sentence, is_joined)


def _from_records(texts, field, bad):
    """A JSON object a line, a document each; newlines in its text end sentences, too."""
    for offset, text in texts:
        if not text or text.isspace() or not bad.begin <= offset < bad.end:
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as e:
            bad.add(offset, "not JSON", "not JSON: %s" % (
                "%s at column %d" % (e.msg, e.colno) if isinstance(e, json.JSONDecodeError)
                else "a number too long or lists too deep"))
            yield End(offset)
        else:
            yield from document(record, field, offset, bad)


def from_json(f: Any, settings: InputSettings, bad: Any) -> Iterator[Any]:
    """The events of JSON objects, in a list or one after the other; a document each.

    Offsets are numbers of items, from 1 on.
    """
    start, number = f.read_exactly(_BLOCK), 0
    f.seek(3 * start.startswith(codecs.BOM_UTF8))
    is_list = start.lstrip(codecs.BOM_UTF8 + b" \t\r\n").startswith(b"[")
    chunks = codecs.iterdecode(iter(lambda: f.read(_BLOCK), b""), settings.encoding or "utf-8")
    try:
        for number, value in enumerate(
                json_stream.items(chunks, "item" if is_list else "", are_several=True), 1):
            yield from document(value, settings.json_field, number, bad)
    except UserError:
        raise
    except ValueError as e:
        if f.damage:
            bad.add(number + 1, "damaged .gz",
                    "the .gz file is damaged or cut off here (%s)" % f.damage)
        else:
            bad.add(number + 1, "the rest of a JSON file", "not JSON: %s" % e)


def _from_table(texts, field, form, bad):
    """CSV, a document a row, in the column `field`."""
    names: list[str] = []
    good = ((offset, text) for offset, text in texts if text is not None)
    for offset, row in tables.rows(good, **tables.dialect(form.delimiter, form.is_quoted)):
        if isinstance(row, str):
            bad.add(offset, "not CSV", row)
        elif not names:
            names = [name.strip() for name in row]
        elif any(row):
            if len(row) < len(names) or any(row[len(names):]):
                bad.add(offset, "wrong number of columns", "%d column(s), expected %d" % (
                    len(row), len(names)))
            else:
                yield from document(dict(zip(names, row)), field, offset, bad)


def _from_articles(texts):
    """WikiExtractor: a paragraph a line; `<doc ...>` and `</doc>` around each document."""
    for offset, text in texts:
        text = (text or "").strip()
        if text == "</doc>" or text.startswith("<doc ") and text.endswith(">"):
            yield End(offset)
        elif text:
            yield from _sentences(offset, html.unescape(text))


def document(record: Any, field: str, offset: int, bad: Any) -> Iterator[Any]:
    """The events of a document that is a record."""
    text = _field_of(record, field, offset, bad)
    yield End(offset)
    if text is not None:
        for line in text.split("\n"):
            yield from _sentences(offset, line)
    yield End(offset)


def _field_of(record, field, offset, bad):
    """The text of a record; None, after that was reported, if it has none."""
    if not isinstance(record, dict) or field not in record:
        found = ", ".join(record) if isinstance(record, dict) else type(record).__name__
        return bad.add(offset, "no field '%s'" % field,
                       "no field '%s'; expected a JSON object with it (json_field), found %.200s"
                       % (field, found or "none"))
    document = record[field]
    if not isinstance(document, str):
        return bad.add(offset, "field '%s' is not text" % field,
                       "field '%s' is %s, expected text" % (field, type(document).__name__))
    if "\0" in document:
        return bad.add(offset, "NUL byte", "a NUL character in field '%s'" % field)
    if not is_text(document):
        return bad.add(offset, "not UTF-8", "half of a surrogate pair in field '%s'" % field)
    if any(len(line) > LONGEST_LINE for line in document.split("\n")):
        return bad.add(offset, "line too long", "a line of more than %d characters in field '%s'"
                       % (LONGEST_LINE, field))
    return document


_ESCAPE = re.compile(r" @([-,.])@ ")


def _from_wikitext(texts, bad):
    """WikiText: a paragraph a line; ` = Title = ` between blank lines begins a document.

    Titles and headings of sections, ` = = Name = = `, are sentences, as the text below refers to
    them. Their marks, and those of ` @-@ `, are removed.
    """
    after_blank = bad.begin == 0
    for offset, text, before_blank in _with_next(texts):
        depth = _heading_depth(text) if text and after_blank and before_blank else 0
        if depth == 1:
            yield End(offset)
        if depth:
            yield Sentence(offset, _ESCAPE.sub(r"\1", text[2 * depth:-2 * depth].strip()))
        elif text:
            yield from _sentences(offset, _ESCAPE.sub(r"\1", text))
        after_blank = text == ""


def _heading_depth(text):
    """The number of = on either side of a heading: 1 for a title, 0 if it is not a heading."""
    words = text.split(" ")
    left, right = (next((i for i, word in enumerate(side) if word != "="), 0)
                   for side in (words, words[::-1]))
    return left if left == right else 0


def _with_next(texts):
    """Yields (offset, stripped text, whether a blank line or the file's end follows)."""
    held = None
    for offset, text in texts:
        text = text if text is None else text.strip()
        if held:
            yield (*held, text == "")
        held = offset, text
    if held:
        yield (*held, True)


def _from_book(texts, bad):
    """Hard-wrapped paragraphs between blank lines; a file or a form feed's part is a document.

    A paragraph begins at its first line that is not blank, bad or good: the line before a chunk
    decides whether its first line begins one.
    """
    first, size = None, 0
    lines: list[str] = []
    for offset, text in _book_lines(texts):
        if text in ("", "\f"):
            yield from _sentences(first, _join(lines))
            first, lines, size = None, [], 0
            if text:
                yield End(offset)
            continue
        first = offset if first is None else first
        if first < bad.begin and offset >= bad.end:
            return                  # a paragraph from before the chunk continues behind it
        is_fine, size = size <= LONGEST_LINE, size + len(text or "")
        if size <= LONGEST_LINE:
            lines.append(text or "")
        elif is_fine:
            lines = []
            bad.add(first, "paragraph too long", "a paragraph of more than %d characters, "
                    "expected blank lines between paragraphs (text_format=book)" % LONGEST_LINE)
    yield from _sentences(first, _join(lines))


def _book_lines(texts):
    """Yields (offset, stripped text), a form feed as a separate line "\\f"; bad lines as None."""
    for offset, text in texts:
        if text is None:
            yield offset, None
            continue
        for index, part in enumerate(text.split("\f")):
            if index:
                yield offset, "\f"
            yield offset, part.strip()


# Letters, punctuation and full-width forms.
_CJK = regex.compile("[%s\\p{InCJK_Symbols_and_Punctuation}\uff00-\uff60]" % HAN_OR_KANA)


def _join(lines):
    """Joins hard-wrapped lines: with a space, but not behind a hyphen or between CJK characters."""
    joined: list[str] = []
    for line in filter(None, lines):
        last = joined[-1][-1] if joined else "-"        # no space before the first line
        if last not in "-—" and not (_CJK.match(last) and _CJK.match(line[0])):
            joined.append(" ")
        joined.append(line)
    return "".join(joined)
