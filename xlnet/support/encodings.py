"""The encodings of text, and the forms of its characters."""

from __future__ import annotations

import codecs
import unicodedata

from xlnet.support.errors import wrong


def check(name: str) -> None:
    """Raises UserError unless this is the name of a text encoding."""
    try:
        codecs.lookup(name)
        "".encode(name)
    except LookupError:
        expected = "a name such as utf-8, utf-16, cp1252, gb18030 or shift_jis"
        raise wrong("encoding", f"'{name}'", expected, "--encoding") from None


def composed(name: str) -> str:
    """A name in Unicode's composed form. macOS and some exports write ü as
    u and a combining mark, which looks the same."""
    return unicodedata.normalize("NFC", name)
