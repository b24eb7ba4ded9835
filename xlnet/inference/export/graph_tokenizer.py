"""Text to ids in a TensorFlow graph, by the operations of tensorflow-text, with the ids of
`tokenizer.Tokenizer`.

Shape letters: N texts.
"""

# 1. Cleaning: rules for spaces and quotes, the compatibility decomposition (NFKD), combining
#    characters removed, lower case. Characters that are newer than the Unicode of the process that
#    serves the graph stay as they are there.
# 2. SentencePiece.
# 3. A piece that ends in a digit and a comma is split again, by a table of all pieces.

from __future__ import annotations

import sys
import unicodedata
import warnings
from typing import Any

import tensorflow.compat.v1 as tf

from xlnet.corpus.tokenizer import Tokenizer, character_class, space_class
from xlnet.support.errors import UserError

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
            "pip install 'tensorflow-text=={}.*', or use the signature ids".format(
                tf.version.VERSION.rpartition(".")[0]
            )
        ) from None
    return tensorflow_text


class GraphTokenizer:
    """The ids of a `Tokenizer`, computed in the graph; UserError without tensorflow-text."""

    def __init__(self, tokenizer: Tokenizer):
        self._text = require_tensorflow_text()
        self._plain = tokenizer
        self.sep_id, self.cls_id = tokenizer.sep_id, tokenizer.cls_id

    def clean(self, texts: tf.Tensor) -> tf.Tensor:
        """`Tokenizer.clean` of each text, UTF-8: string [N] -> string [N]."""
        texts = tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", replacement_char=_NO_CHARACTER
        )
        # `" ".join(text.split())`, and the quotes of TeX.
        texts = tf.strings.regex_replace(texts, f"[{space_class()}]+", " ")
        texts = tf.strings.regex_replace(texts, "^ | $", "")
        for quote in ("``", "''"):
            texts = tf.strings.regex_replace(texts, quote, '"')
        if not self._plain.keep_accents:
            texts = self._text.normalize_utf8(texts, "NFKD")
            combining = [
                code for code in range(sys.maxunicode + 1) if _is_combining(code)
            ]
            texts = tf.strings.regex_replace(
                texts, f"[{character_class(combining)}]", ""
            )
        if self._plain.uncased:  # TensorFlow's operation would end a text at a NUL
            texts = tf.strings.regex_replace(texts, r"\x{0}", chr(_NO_CHARACTER))
            texts = tf.strings.lower(texts, "utf-8")
        return texts

    def ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """`Tokenizer.encode_lines`: string [N] -> int32 [N, (pieces)]."""
        model = self._text.SentencepieceTokenizer(
            self._plain.model_bytes(), out_type=tf.int32
        )
        ids = model.tokenize(self.clean(texts))
        # The rule for commas after digits: each piece is replaced by its parts.
        parts = [
            self._plain.split_ids.get(id, [id]) for id in range(self._plain.vocab_size)
        ]
        table = tf.ragged.constant(parts, tf.int32, row_splits_dtype=tf.int64)
        found = tf.gather(table, ids.flat_values)  # [pieces, (parts)]
        return tf.RaggedTensor.from_row_splits(
            found.flat_values,
            tf.gather(found.row_splits, ids.row_splits),
            validate=False,
        )


def _is_combining(code: int) -> bool:
    return unicodedata.combining(chr(code)) > 0
