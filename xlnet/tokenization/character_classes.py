"""Classes of characters for the package regex and for RE2, TensorFlow's regular expressions.

Those for RE2 come from Python's Unicode data, so that a graph does not depend on the version of
Unicode of the process that serves it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable

# The inside of a class, for `regex`: characters of Chinese and Japanese words. `tokenizer` has its
# own ranges, of characters that can begin a syllable, on which stored runs depend; CMRC's scorer
# has those of its authors.
HAN_OR_KANA = r"\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\u30fc"


def character_class(codes: Iterable[int]) -> str:
    """The inside of a class that holds these characters."""
    spans: list[list[int]] = []
    for code in sorted(codes):
        if spans and spans[-1][1] == code - 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    return "".join("\\x{%x}-\\x{%x}" % tuple(span) for span in spans)


@functools.cache
def space_class() -> str:
    """The inside of a class that holds the characters of which `str.isspace` is true."""
    return character_class(code for code in range(sys.maxunicode + 1) if chr(code).isspace())
