"""The layouts of text: lines of a file to sentences and the ends of documents.

A layout is a generator. It takes lines, (offset, text) with text None where a line is bad, and
yields events: `CorpusSentence`s and, between documents, `End`s. `bad` has the byte range of the
chunk, `begin` and `end`, and collects bad text, `add(offset, reason, detail)`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from xlnet.settings.data import InputSettings
from xlnet.text.recognition import RECORDS, Form
from xlnet.text.sentences import sentences_and_joints
from xlnet.tokenization.tokenizer import is_text

LONGEST_LINE = 1 << 20  # [bytes] some 200,000 words: beyond any paragraph, far below memory


class CorpusSentence(NamedTuple):
    """A sentence and where it is; layouts leave it to `reading` where documents begin and end."""

    offset: int  # of its line or record in the (unpacked) file [bytes]
    text: str
    is_joined: bool = False  # follows the sentence before it without a space
    ends_document: bool = False
    begins_document: bool = False  # as far as its chunk shows: the end before may be out of sight


class End(NamedTuple):
    """A document ends here, and the next one begins."""

    offset: int


def events_of(texts: Iterable[Any], settings: InputSettings, bad: Any, form: Form) -> Iterator[Any]:
    """The events of the lines of a file; plain text is laid out as `settings.text_format` says."""
    if form.kind == RECORDS:
        return _from_records(texts, settings.json_field, bad)
    return _from_lines(texts) if settings.text_format == "lines" else _from_paragraphs(texts)


def _from_lines(texts):
    """A sentence a line, a blank line between documents."""
    for offset, text in texts:
        if text is None:
            continue
        text = text.strip()
        yield CorpusSentence(offset, text) if text else End(offset)


def _from_paragraphs(texts):
    """A paragraph a line, a blank line between documents."""
    for event in _from_lines(texts):
        if isinstance(event, End):
            yield event
        else:
            yield from _sentences(*event[:2])


def _sentences(offset, text):
    """Yields the sentences of running text that begins at `offset`."""
    for sentence, is_joined in sentences_and_joints(text):
        yield CorpusSentence(offset, sentence, is_joined)


def _from_records(texts, field, bad):
    """A JSON object a line, a document each; newlines in its text end sentences, too."""
    for offset, text in texts:
        if not text or text.isspace() or not bad.begin <= offset < bad.end:
            continue  # of another chunk, whose records are not parsed twice
        try:
            record = json.loads(text)
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
        else:
            yield from document(record, field, offset, bad)


def document(record: Any, field: str, offset: int, bad: Any) -> Iterator[Any]:
    """The events of a document that is a record; one without text is bad."""
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
        for line in text.split("\n"):
            yield from _sentences(offset, line)
    yield End(offset)
