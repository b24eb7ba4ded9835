"""Encodings of text files: which ones bytes that are not UTF-8 may have."""

from __future__ import annotations

import codecs
import re
from typing import Optional

from xlnet.errors import UserError

# Common encodings before UTF-8; of equally likely ones the earlier is proposed first. Others, such
# as Latin-1 and Shift JIS, are subsets of these.
_COMMON = ("cp1252", "gb18030", "cp1251", "cp932", "big5", "cp949", "cp1250", "euc_jp", "cp1254",
           "cp1253", "cp1255", "cp1256", "cp1257", "cp874", "cp1258", "koi8_r", "koi8_u",
           "iso8859_2", "iso8859_5", "iso8859_6", "iso8859_7", "cp866", "cp850", "cp852", "cp437",
           "mac_roman", "mac_cyrillic")
_RARE = _COMMON.index("cp866")      # from here on: of DOS and old Macs
_PROPOSED = 3
_LOOKED_AT = 1 << 16        # [bytes]
_WORD = re.compile(rb"[^\s,;\"]*[\x80-\xff][^\s,;\"]*")
_SAMPLE = 40                # [characters]


def check(name: str) -> None:
    """Raises UserError unless this is the name of a text encoding."""
    try:
        codecs.lookup(name)
        "".encode(name)
    except LookupError:
        raise UserError("encoding: unknown '%s'; expected a name such as utf-8, utf-16, cp1252, "
                        "gb18030 or shift_jis" % name) from None


def other_than_utf8(name: Optional[str]) -> Optional[str]:
    """The name of an encoding; None if it is UTF-8, where a byte order mark is never text."""
    is_utf8 = codecs.lookup(name or "utf-8").name in ("utf-8", "utf-8-sig")
    return None if is_utf8 else name


def hint(content: bytes) -> str:
    """"; it looks like cp1252 (schön) or ...", to be added to an error; "" if none is likely.

    In brackets is the same part of the text in each encoding.

    Args:
      content: lines that are not UTF-8.
    """
    content = content[:_LOOKED_AT]
    names = likely(content)
    if not names:
        return ""
    words = list(dict.fromkeys(_WORD.findall(content)))
    # Words that differ in all encodings.
    telling = [word for word in words
               if len({word.decode(name, "replace") for name in names}) == len(names)]
    sample = b" ".join((telling or words)[:3])
    shown = ["%s (%s)" % (name, sample.decode(name, "replace")[:_SAMPLE]) for name in names]
    return "; it looks like %s: look at it, and give --encoding=%s%s" % (
        " or ".join(shown), names[0], ", or the one that reads right" if len(names) > 1 else "")


def likely(content: bytes) -> list[str]:
    """Likely encodings of bytes, the likeliest first; each gives a different text."""
    import charset_normalizer
    places = {}
    for match in charset_normalizer.from_bytes(content, cp_isolation=list(_COMMON), threshold=0.4):
        for name in {match.encoding, *match.could_be_from_charset} & set(_COMMON):
            # Rounded: small differences say less than how common an encoding is.
            rank = _COMMON.index(name)
            places[name] = (round(match.chaos, 1),
                            -round(match.coherence - 0.1 * (rank >= _RARE), 1), rank)
    texts: dict[str, str] = {}
    for name in sorted(places, key=places.__getitem__):
        texts.setdefault(content.decode(name, "replace"), name)
    return list(texts.values())[:_PROPOSED]
