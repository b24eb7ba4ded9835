"""The encodings of text: their names, and those that bytes may have."""

from __future__ import annotations

import codecs
import re
import unicodedata

from xlnet.support.errors import UserError

# Common encodings before UTF-8; of equally likely ones the earlier is proposed first. Others, such
# as Latin-1 and Shift JIS, are subsets of these.
_COMMON = (
    "cp1252",
    "gb18030",
    "cp1251",
    "cp932",
    "big5",
    "cp949",
    "cp1250",
    "euc_jp",
    "cp1254",
    "cp1253",
    "cp1255",
    "cp1256",
    "cp1257",
    "cp874",
    "cp1258",
    "koi8_r",
    "koi8_u",
    "iso8859_2",
    "iso8859_5",
    "iso8859_6",
    "iso8859_7",
    "cp866",
    "cp850",
    "cp852",
    "cp437",
    "mac_roman",
    "mac_cyrillic",
)
_LOOKED_AT = 1 << 16  # [bytes]
_WORD = re.compile(rb"[^\s,;\"]*[\x80-\xff][^\s,;\"]*")
_SAMPLE = 40  # [characters]


def check(name: str) -> None:
    """Raises UserError unless this is the name of a text encoding."""
    try:
        codecs.lookup(name)
        "".encode(name)
    except LookupError:
        raise UserError(
            f"encoding: unknown '{name}'; expected a name such as utf-8, utf-16, cp1252, "
            "gb18030 or shift_jis"
        ) from None


def composed(name: str) -> str:
    """The name of a column or field in Unicode's composed form. macOS and some exports write ü as
    u and a combining mark, which looks the same."""
    return unicodedata.normalize("NFC", name)


def hint(content: bytes) -> str:
    """ "; give --encoding=cp1252 (schön) ...", to be added to an error about lines that are not
    UTF-8; "" if no encoding is likely."""
    import charset_normalizer

    content = content[:_LOOKED_AT]
    found = charset_normalizer.from_bytes(content, cp_isolation=list(_COMMON)).best()
    # Several encodings may give the same text; the most common one of these is named.
    text = str(found)
    same = [
        name for name in _COMMON if found and content.decode(name, "replace") == text
    ]
    if not same:
        return ""
    word = next(iter(_WORD.findall(content)), b"").decode(same[0], "replace")
    return f"; if {word[:_SAMPLE]!r} reads right, give --encoding={same[0]}"
