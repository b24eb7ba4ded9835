"""The layouts of text: lines of a file to sentences and the ends of documents.

A layout is a generator. It takes lines, (offset, text) with text None where a line is bad, and
yields events: `CorpusSentence`s and, between documents, `End`s. `bad` has the byte range of the
chunk, `begin` and `end`, and collects bad text, `add(offset, reason, detail)`; `refuse(offset,
detail)` raises the error whatever `on_error` says.

Where documents end is declared, by blank lines, files, records or `document_separator`. Marks that
other programs write between documents are an error where they are not declared: they would be read
as words, and the documents as one.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional

from xlnet import encodings
from xlnet.settings.data import BLANK_LINE, InputSettings
from xlnet.text.recognition import RECORDS, Form
from xlnet.text.sentences import sentences_and_joints
from xlnet.tokenization.tokenizer import is_text, is_unspaced

LONGEST_LINE = 1 << 20  # [bytes] some 200,000 words: beyond any paragraph, far below memory


class CorpusSentence(NamedTuple):
    """A sentence and where it is; layouts leave it to `reading` where documents begin and end."""

    offset: int  # of its line or record in the (unpacked) file [bytes]
    text: str
    is_joined: bool = False  # follows the sentence before it without a space
    ends_document: bool = False
    # As far as the chunk shows: the end of the document before may be outside of it.
    begins_document: bool = False


class End(NamedTuple):
    """A document ends here, and the next one begins."""

    offset: int


# Marks between documents, each on a line of its own; those of `_MARKS_IN_LINES` also at the
# beginning or the end of a line, where no text has them.
_MARKS = frozenset("<|endoftext|> <|end_of_text|> <s> </s> <eod> <sep> <eos> [SEP] [EOS]".split())
_MARK_EDGES = "<>[]"  # what marks begin or end with
_MARKS_IN_LINES = ("<|endoftext|>", "<|end_of_text|>")


def mark_of(line: str) -> Optional[str]:
    """The mark between documents that a stripped line is, begins with or ends with; or None."""
    if line in _MARKS:
        return line
    for mark in _MARKS_IN_LINES:
        if line.startswith(mark) or line.endswith(mark):
            return mark
    return None


def mark_refused(mark: str) -> str:
    """The error of a mark that is not declared, without its place."""
    return (
        f"'{mark}', a mark between documents, would be read as text; give "
        f"--document_separator='{mark}', or --document_separator={BLANK_LINE} if it is text"
    )


def events_of(texts: Iterable[Any], settings: InputSettings, bad: Any, form: Form) -> Iterator[Any]:
    """The events of the lines of a file; plain text is laid out as `settings.text_format` says."""
    if form.kind == RECORDS:
        return _from_records(texts, settings, bad)
    if settings.text_format == "wrapped":
        return _from_wrapped(texts, settings, bad)
    lines = _from_lines(texts, settings, bad)
    return lines if settings.text_format == "lines" else _from_paragraphs(lines)


def _from_lines(texts: Iterable[Any], settings: InputSettings, bad: Any) -> Iterator[Any]:
    """A sentence a line, a blank line or a separator between documents."""
    separator = settings.document_separator
    for offset, text in texts:
        if not offset:  # a document begins with the file
            yield End(offset)
        if text is None:
            continue
        # Without a separator in the lines, which is the common case and therefore fast.
        if separator is None or separator == BLANK_LINE:
            text = text.strip()
            if separator is None and text and (text[0] in _MARK_EDGES or text[-1] in _MARK_EDGES):
                _refuse_mark(text, offset, bad)
            yield CorpusSentence(offset, text) if text else End(offset)
            continue
        for number, part in enumerate(text.split(separator)):
            if number:
                yield End(offset)
            part = part.strip()
            if part:
                yield CorpusSentence(offset, part)


def _refuse_mark(line: str, offset: int, bad: Any) -> None:
    mark = mark_of(line)
    if mark:
        bad.refuse(offset, mark_refused(mark))


def _from_paragraphs(lines: Iterable[Any]) -> Iterator[Any]:
    """A paragraph a line: the events of `_from_lines`, with the sentences of each."""
    for event in lines:
        if isinstance(event, End):
            yield event
        else:
            yield from _sentences(*event[:2])


def _from_wrapped(texts: Iterable[Any], settings: InputSettings, bad: Any) -> Iterator[Any]:
    """A paragraph on several lines, a blank line between paragraphs; a file is a document, or what
    is between separators."""
    paragraph = _Paragraph(bad)
    separator = settings.document_separator
    for offset, text in texts:
        if not offset:  # a document begins with the file
            yield End(offset)
        # A bad line ends the paragraph: nobody knows what it said.
        if text is None:
            yield from paragraph.end()
            continue
        if separator is None:
            _refuse_mark(text.strip(), offset, bad)
        for number, part in enumerate([text] if separator is None else text.split(separator)):
            if number:
                yield from paragraph.end()
                yield End(offset)
            part = part.strip()
            if part:
                paragraph.add(offset, part)
            elif not text.strip():
                yield from paragraph.end()
    yield from paragraph.end()


class _Paragraph:
    """The lines of a paragraph, of which no more than `LONGEST_LINE` characters are held."""

    def __init__(self, bad: Any) -> None:
        self._bad = bad
        self._lines: list[str] = []
        self._size, self._begin = 0, 0

    def add(self, offset: int, line: str) -> None:
        if not self._size:
            self._begin = offset
        self._size += len(line) + 1
        if self._size <= LONGEST_LINE:
            self._lines.append(line)

    def end(self) -> Iterator[CorpusSentence]:
        """Yields the sentences; nothing of a paragraph that is too long."""
        if self._size > LONGEST_LINE:
            self._bad.add(
                self._begin,
                "paragraph too long",
                f"a paragraph of more than {LONGEST_LINE} characters begins here; expected blank "
                "lines between paragraphs",
            )
        elif self._size:
            yield from _sentences(self._begin, _joined(self._lines))
        self._lines, self._size = [], 0


def _joined(lines: Sequence[str]) -> str:
    """The lines of a paragraph as one, with a space between words of scripts that have some."""
    parts = list(lines[:1])
    for before, after in zip(lines, lines[1:]):
        is_unspaced = _is_of_unspaced(before[-1]) and _is_of_unspaced(after[0])
        parts.append(after if is_unspaced else " " + after)
    return "".join(parts)


def _is_of_unspaced(character: str) -> bool:
    """Whether a character is of a script without spaces, or its punctuation."""
    is_wide = unicodedata.east_asian_width(character) in "WF"
    return is_unspaced(character) or is_wide and unicodedata.category(character)[0] == "P"


def _sentences(offset: int, text: str) -> Iterator[CorpusSentence]:
    """Yields the sentences of running text that begins at `offset`."""
    for sentence, is_joined in sentences_and_joints(text):
        yield CorpusSentence(offset, sentence, is_joined)


def _from_records(texts: Iterable[Any], settings: InputSettings, bad: Any) -> Iterator[Any]:
    """A JSON object a line, a document each; newlines in its text end sentences, too."""
    for offset, text in texts:
        if not text or text.isspace() or not bad.is_own(offset):
            continue  # the records of another chunk are parsed there
        try:
            record = json.loads(text, object_pairs_hook=_object)
        except (ValueError, RecursionError) as e:
            bad.add(
                offset,
                "not JSON",
                "not JSON: %s"
                % (
                    f"{e.msg} at column {e.colno}"
                    if isinstance(e, json.JSONDecodeError)
                    else "a number too long or lists too deep"
                ),
            )
            yield End(offset)
            continue
        if settings.json_field in getattr(record, "twice", ()):
            bad.add(offset, "a field twice", f"field '{settings.json_field}' twice in an object")
            yield End(offset)
        else:
            yield from document(record, settings, offset, bad)


class _Object(dict):
    """An object of JSON that has keys more than once: `twice`."""

    twice: set[str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    with_keys_twice = _Object(found)
    names = [name for name, _ in pairs]
    with_keys_twice.twice = {name for name in found if names.count(name) > 1}
    return with_keys_twice


def document(record: Any, settings: InputSettings, offset: int, bad: Any) -> Iterator[Any]:
    """The events of a document that is a record, or of several if its text has separators; one
    without text is bad."""
    field, separator = settings.json_field, settings.document_separator
    if isinstance(record, dict) and field not in record:
        record = {encodings.composed(name): value for name, value in record.items()}
        field = encodings.composed(field)
    yield End(offset)
    text = record.get(field) if isinstance(record, dict) else None
    if not isinstance(record, dict) or field not in record:
        found = ", ".join(record) if isinstance(record, dict) else type(record).__name__
        bad.add(
            offset,
            f"no field '{field}'",
            "no field '{}'; expected a JSON object with it (json_field), found {!s:.200}".format(
                field, found or "none"
            ),
        )
    elif not isinstance(text, str):
        bad.add(
            offset,
            f"field '{field}' is not text",
            f"field '{field}' is {type(text).__name__}, expected text",
        )
    elif "\0" in text:
        bad.add(offset, "NUL byte", f"a NUL character in field '{field}'")
    elif not is_text(text):
        bad.add(offset, "not UTF-8", f"half of a surrogate pair in field '{field}'")
    elif any(len(line) > LONGEST_LINE for line in text.split("\n")):
        bad.add(
            offset,
            "line too long",
            f"a line of more than {LONGEST_LINE} characters in field '{field}'",
        )
    else:
        is_declared = separator not in (None, BLANK_LINE)
        for part in text.split(separator) if is_declared else [text]:
            for line in part.split("\n"):
                if separator is None:
                    _refuse_mark(line.strip(), offset, bad)
                yield from _sentences(offset, line)
            yield End(offset)
    yield End(offset)
