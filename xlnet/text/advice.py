"""What the first lines of plain text say about its flags: errors and notes before work begins.

How text is read is declared by flags; nothing here changes it.
"""

from __future__ import annotations

import collections
import itertools
import logging
import re
from collections.abc import Sequence
from typing import Optional

from xlnet import encodings
from xlnet.errors import UserError
from xlnet.settings.data import BLANK_LINE, InputSettings
from xlnet.text import reading
from xlnet.text.reading import Chunk
from xlnet.text.recognition import LOOKED_AT, TEXT, first_bytes
from xlnet.text.sentences import sentences_and_joints
from xlnet.text.text_forms import mark_of, mark_refused

_log = logging.getLogger(__name__)

_FEW = 20  # fewer lines, or paragraphs, are too few to judge by
_NARROWEST, _WIDEST = 25, 100  # [characters] of hard-wrapped lines
_WITHIN_WIDTH = 0.98  # fraction of the lines that are not longer than the width
_FULL = 0.75  # a full line has at least this fraction of the width
_MOST = 0.8  # a text is in a form if at least this fraction of its lines, or paragraphs, is
_CUT = 0.6  # of hard-wrapped lines, at least this fraction ends inside of a sentence
_DRAWN = re.compile(r"([^\w\s.…!?]|_)\1{2,}")  # a line such as =====
_SENTENCE_END = re.compile(r"[.!?…。！？:][\"'”’»)\]]*\Z")


def check(chunks: Sequence[Chunk], settings: InputSettings, reads_documents: bool = True) -> None:
    """Looks at the beginning of each file of plain text.

    Args:
      reads_documents: whether it matters where documents end.

    Raises:
      UserError: a mark between documents that is not declared.
    """
    if not getattr(settings, "from_raw_text", True):
        return
    texts = {chunk.path: chunk for chunk in chunks if chunk.form.kind == TEXT}
    notes: dict[str, list[str]] = {}  # note -> paths
    for chunk in texts.values():
        lines = _first_lines(chunk, settings)
        if settings.document_separator is None:
            _refuse_marks(chunk.path, lines)
        found = _note(lines, settings, reads_documents, is_only_file=len(texts) == 1)
        if found:
            notes.setdefault(found, []).append(chunk.path)
    for note, paths in notes.items():
        _log.warning("note: %s: %s", reading.some_of(paths), note)


def _first_lines(chunk: Chunk, settings: InputSettings) -> list[str]:
    """The first lines of a file, stripped; not the last one if it may be cut off."""
    with reading.naming(chunk.path):
        head = first_bytes(chunk.path)
    codec = encodings.other_than_utf8(settings.encoding) or "utf-8-sig"
    lines = head.decode(codec, "replace").split("\n")
    if len(head) == LOOKED_AT or not lines[-1]:
        lines.pop()
    return [line.strip() for line in lines]


def _refuse_marks(path: str, lines: Sequence[str]) -> None:
    for number, line in enumerate(lines, 1):
        mark = mark_of(line)
        if mark:
            raise UserError(f"{path}, line {number}: {mark_refused(mark)}")


def _note(
    lines: Sequence[str], settings: InputSettings, reads_documents: bool, is_only_file: bool
) -> Optional[str]:
    """A note that the lines do not look as the settings declare them, with the flag for what they
    look like; None if there is nothing to note."""
    if settings.text_format == "wrapped":
        return None
    blocks = [list(block) for is_text, block in itertools.groupby(lines, bool) if is_text]
    unit = "sentence" if settings.text_format == "lines" else "paragraph"
    if _is_wrapped(blocks):
        return (
            f"the lines look hard-wrapped, and each is read as a {unit}; give "
            "--text_format=wrapped if a paragraph has several lines"
        )
    if not reads_documents:
        return None
    separator = settings.document_separator
    if separator == BLANK_LINE:
        return None
    if separator is not None:
        # Blank lines say that the file has documents, if the mark does not. The lines are stripped,
        # and a mark such as "-- " alone on its line with them.
        has_separator = any(separator.strip() in line for line in lines)
        if len(lines) > _FEW and len(blocks) > 1 and not has_separator:
            return (
                f"no {separator!r} in its first {len(lines)} lines, and so they are one document: "
                "blank lines do not end documents where --document_separator is given"
            )
        return None
    single_lines = sum(len(block) == 1 for block in blocks)
    if len(blocks) > _FEW and single_lines >= _MOST * len(blocks) and _are_paragraphs(blocks):
        return (
            "nearly every line has a blank line behind it, and so is a document of its own; give "
            "--text_format=wrapped if these are paragraphs of one document"
        )
    if len(blocks) == 1 and len(blocks[0]) > _FEW:
        return _note_of_one_document(lines, is_only_file)
    return None


def _note_of_one_document(lines: Sequence[str], is_only_file: bool) -> Optional[str]:
    """A note that a text without blank lines may have several documents."""
    drawn = collections.Counter(filter(_DRAWN.fullmatch, lines))
    for line, count in drawn.most_common(1):
        if count > 1:
            return (
                "no blank line in its first lines, and so they are one document, although there "
                f"are lines {line!r}; give --document_separator={line!r} if they are between "
                "documents"
            )
    # Of several files, each may be a document.
    if not is_only_file:
        return None
    return (
        f"no blank line in its first {len(lines)} lines, and so they are one document; "
        "documents have a blank line between them, or what --document_separator says, or are "
        "files"
    )


def _is_wrapped(blocks: Sequence[Sequence[str]]) -> bool:
    """Whether the text looks hard-wrapped: its lines are filled up to a common width, and break
    inside of sentences.

    blocks: the lines between blank lines.
    """
    # The last line of a paragraph is shorter than the others and ends a sentence: it says nothing.
    inner = [line for block in blocks for line in block[:-1]]
    count = len(inner)
    if count < _FEW:
        return False

    # The width is the length that nearly all lines have at most; a long word may exceed it.
    lengths = sorted(map(len, inner))
    width = lengths[int(_WITHIN_WIDTH * count)]
    if not _NARROWEST <= width <= _WIDEST:
        return False

    full_lines = sum(len(line) >= _FULL * width for line in inner)
    lines_inside_sentences = sum(not _SENTENCE_END.search(line) for line in inner)
    return full_lines >= _MOST * count and lines_inside_sentences >= _CUT * count


def _are_paragraphs(blocks: Sequence[Sequence[str]]) -> bool:
    """Whether the first lines of most blocks have several sentences, as paragraphs have."""
    with_several = sum(len(sentences_and_joints(block[0])) > 1 for block in blocks)
    return with_several > len(blocks) / 2
