"""Text to ids in a TensorFlow graph, with the ids of `tokenizer.Tokenizer`.

Shape letters: N texts, T characters of all texts.
"""

# 1. Cleaning is plain TensorFlow: rules for spaces and quotes, then a table of replaced characters
#    from Python's Unicode data. So the graph does not depend on the Unicode version of the server.
#    NFKD also sorts combining characters, but these are removed, so a table of single characters
#    suffices. The exception is Σ, which becomes ς at the end of a word.
# 2. tensorflow-text runs SentencePiece.
# 3. A piece that ends in a digit and a comma is split again, by a table of all pieces.

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.errors import UserError
from xlnet.tokenization.tokenizer import Tokenizer, character_class, clean_text, space_class

_SURROGATES = range(0xD800, 0xE000)
_BLOCK = 256  # characters that are tried together: most blocks do not change

# Replaces code points that are not characters (U+FFFE) and bytes that are not UTF-8: for private
# use, so unknown to any vocabulary, as those are.
_NO_CHARACTER = 0xE000


def require_tensorflow_text() -> Any:
    """The package tensorflow_text; UserError if it is not installed."""
    try:
        with warnings.catch_warnings():  # of its own imports
            warnings.simplefilter("ignore")
            import tensorflow_text
    except ImportError:
        raise UserError(
            "raw text needs tensorflow-text in the graph, which is not installed: "
            "pip install 'tensorflow-text=={}.*', or export with --signatures=ids".format(
                tf.version.VERSION.rpartition(".")[0]
            )
        ) from None
    return tensorflow_text


class GraphTokenizer:
    """The ids of a `Tokenizer`, computed in the graph; UserError without tensorflow-text."""

    def __init__(self, tokenizer: Tokenizer):
        self._text = require_tensorflow_text()
        self.plain = tokenizer
        self.sep_id, self.cls_id = tokenizer.sep_id, tokenizer.cls_id
        self._cleaning: list[Callable[[tf.Tensor], tf.Tensor]] = []
        if not tokenizer.keep_accents:
            self._cleaning.append(_Table(_decomposed, "decomposition"))
        if tokenizer.uncased:
            self._cleaning += [_final_sigma, _Table(str.lower, "lower_case")]

    def clean(self, texts: tf.Tensor) -> tf.Tensor:
        """`Tokenizer.clean` of each text, UTF-8: string [N] -> string [N]."""
        # `" ".join(text.split())`, and the quotes of TeX.
        texts = tf.strings.regex_replace(texts, f"[{space_class()}]+", " ")
        texts = tf.strings.regex_replace(texts, "^ | $", "")
        for quote in ("``", "''"):
            texts = tf.strings.regex_replace(texts, quote, '"')
        for step in self._cleaning:
            texts = step(texts)
        return texts

    def ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """`Tokenizer.encode_lines`: string [N] -> int32 [N, (pieces)]."""
        model = self._text.SentencepieceTokenizer(self.plain.model_bytes(), out_type=tf.int32)
        return _split_commas(model.tokenize(self.clean(texts)), self.plain)


def _split_commas(ids: tf.RaggedTensor, tokenizer: Tokenizer) -> tf.RaggedTensor:
    """The rule for commas after digits: int32 [N, (pieces)] -> the same with more pieces."""
    parts = [tokenizer.split_ids.get(id, [id]) for id in range(tokenizer.vocab_size)]
    found = tf.gather(
        tf.ragged.constant(parts, tf.int32, row_splits_dtype=tf.int64), ids.flat_values
    )  # [pieces, (parts)]
    return tf.RaggedTensor.from_row_splits(
        found.flat_values, tf.gather(found.row_splits, ids.row_splits), validate=False
    )


# ---- cleaning ----


def _decomposed(character: str) -> str:
    """NFKD of a character without combining ones."""
    return clean_text(character, remove_space=False)


def _final_sigma(texts: tf.Tensor) -> tf.Tensor:
    """Σ as ς at the end of a word: after a cased letter and not before one, not counting ignored
    characters such as apostrophes (Unicode, section 3.13)."""
    cased, ignored = map(character_class, _sigma_classes())
    return tf.strings.regex_replace(
        texts,
        f"([{cased}][{ignored}]*)\u03a3([{ignored}]*(?:[^{cased}{ignored}]|$))",
        "\\1\u03c2\\2",
    )


@functools.cache
def _sigma_classes() -> tuple[set[int], set[int]]:
    """The characters after which `str.lower` makes ς of Σ, and those that it ignores."""
    codes = [code for code in range(1, sys.maxunicode + 1) if code not in _SURROGATES]

    def makes_final(before: str) -> set[int]:
        """The characters after which it does, with `before` in front of each."""
        texts = "\0".join([before + chr(code) + "\u03a3" for code in codes]).lower().split("\0")
        return {code for code, text in zip(codes, texts) if text.endswith("\u03c2")}

    cased = makes_final("")
    return cased, makes_final("A") - cased


class _Table:
    """Replaces each character of texts by the value of a function."""

    def __init__(self, function: Callable[[str], str], name: str):
        self._name = name
        self._rows, self._begins, self._values = character_table(function)

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """string [N] -> string [N]"""
        with tf.name_scope(self._name):
            # The replacement of each character is a row of a ragged table, kept as its flat
            # values and where each row begins.
            codes = decode(texts)
            flat = codes.flat_values  # [T]
            rows = tf.gather(tf.constant(self._rows), tf.minimum(flat, len(self._rows) - 1))
            # An unchanged character has an index behind all values.
            count, begins = len(self._values), tf.constant(self._begins)
            is_same = rows < 0
            known = tf.maximum(rows, 0)
            begin = tf.where(is_same, count + flat, tf.gather(begins, known))
            end = tf.where(is_same, count + flat + 1, tf.gather(begins, known + 1))
            places = tf.ragged.range(begin, end, row_splits_dtype=tf.int64)
            place = places.flat_values
            values = tf.where(
                place >= count,
                place - count,
                tf.gather(tf.constant(self._values), tf.minimum(place, count - 1)),
            )
            return encode(
                tf.RaggedTensor.from_row_splits(
                    values, tf.gather(places.row_splits, codes.row_splits), validate=False
                )
            )


def decode(texts: tf.Tensor) -> tf.RaggedTensor:
    """The code points of texts, UTF-8: string [N] -> int32 [N, (characters)]."""
    return tf.strings.unicode_decode(texts, "UTF-8", replacement_char=_NO_CHARACTER)


def encode(codes: tf.RaggedTensor) -> tf.Tensor:
    """The reverse: int32 [N, (characters)] -> string [N]."""
    return tf.strings.unicode_encode(codes, "UTF-8", replacement_char=_NO_CHARACTER)


@functools.cache
def character_table(function: Callable[[str], str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The replacement of each character: int32 arrays `rows` [highest changed + 2], r, or -1 for no
    change; `begins`; and `values`: replacement r is values[begins[r]:begins[r + 1]]."""
    changed: dict[int, list[int]] = {}
    for first in range(0, sys.maxunicode + 1, _BLOCK):
        block = "".join(
            chr(code) for code in range(first, first + _BLOCK) if code not in _SURROGATES
        )
        if function(block) != block:
            made = {ord(character): function(character) for character in block}
            changed.update(
                (code, list(map(ord, text))) for code, text in made.items() if text != chr(code)
            )
    rows = np.full(max(changed, default=-1) + 2, -1, np.int32)
    rows[list(changed)] = np.arange(len(changed))
    begins = np.cumsum([0, *map(len, changed.values())]).astype(np.int32)
    values = np.array([code for made in changed.values() for code in made], np.int32)
    return rows, begins, values
