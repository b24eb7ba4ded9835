"""Texts to the features of a record in a TensorFlow graph, by the operations of tensorflow-text:
the ids are those of `tokenizer.Tokenizer`, the features those of `features.encoding`.

Batches are as long as their longest text.

Shape letters: N texts, C choices, T tokens of the longest text.
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
from collections.abc import Sequence
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.corpus.tokenizer import Tokenizer, character_class, space_class
from xlnet.settings.finetuning import MIN_SEQ_LENGTH
from xlnet.support.errors import wrong
from xlnet.tasks.features import encoding

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
        version = tf.version.VERSION.rpartition(".")[0]
        expected = f"pip install 'tensorflow-text=={version}.*'"
        raise wrong(
            "raw text", "no tensorflow-text", expected, "or take the signature ids"
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
            every = range(sys.maxunicode + 1)
            combining = [code for code in every if unicodedata.combining(chr(code))]
            pattern = f"[{character_class(combining)}]"
            texts = tf.strings.regex_replace(texts, pattern, "")
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
        every_id = range(self._plain.vocab_size)
        parts = [self._plain.split_ids.get(id, [id]) for id in every_id]
        table = tf.ragged.constant(parts, tf.int32, row_splits_dtype=tf.int64)
        found = tf.gather(table, ids.flat_values)  # [pieces, (parts)]
        return tf.RaggedTensor.from_row_splits(
            found.flat_values,
            tf.gather(found.row_splits, ids.row_splits),
            validate=False,
        )


class GraphEncoder:
    """Makes features of texts, UTF-8 strings, for records of a layout.

    Args:
      replacements: (old, new) in every text, as of `Task`.
    """

    def __init__(
        self,
        tokenizer: GraphTokenizer,
        layout: encoding.Layout,
        replacements: Sequence[tuple[str, str]] = (),
    ):
        self._tokenizer = tokenizer
        self._replacements = replacements
        self._layout = layout

    def pairs(
        self, text_a: tf.Tensor, text_b: Optional[tf.Tensor] = None
    ) -> dict[str, tf.Tensor]:
        """Texts, or pairs of texts, string [N] -> the features of N records."""
        long_document = self._layout.long_document
        if long_document != "truncate":
            expected = "truncate, which a graph has"
            instead = "serve the model directory, or take the signature ids"
            raise wrong("long_document", long_document, expected, instead)
        ids = [self._tokenizer.ids(self._replaced(text_a))]
        if text_b is not None:
            ids.append(self._tokenizer.ids(self._replaced(text_b)))
        return self._laid_out(self._cut(ids))

    def _replaced(self, texts: tf.Tensor) -> tf.Tensor:
        """Texts, string of any shape, after the replacements of the task."""
        for old, new in self._replacements:
            # RE2 matches a character that is given by its number literally, whatever it is.
            literal = "".join(f"\\x{{{ord(character):x}}}" for character in old)
            texts = tf.strings.regex_replace(texts, literal, new.replace("\\", "\\\\"))
        return texts

    def _cut(self, texts: Sequence[tf.RaggedTensor]) -> list[tf.RaggedTensor]:
        """The first ids of each text, as many as fit beside the special tokens. The rule is that of
        `encoding.fit_to_length`: of a budget of 10 ids, lengths of (8, 6) become (5, 5), (8, 3)
        become (7, 3), and (2, 9) become (2, 8)."""
        lengths = [ids.row_lengths() for ids in texts]
        budget = self._layout.max_seq_length - 1 - len(texts)
        # Both are cut where neither is short: then the first has half of the budget, rounded up.
        least = 1 if self._layout.cut_first else budget - budget // 2
        rest = sum(lengths[1:], tf.zeros_like(lengths[0]))
        kept = [tf.minimum(lengths[0], tf.maximum(budget - rest, least))]
        for length in lengths[1:]:
            kept.append(tf.minimum(length, budget - kept[0]))
        found = []
        for ids, length, size in zip(texts, lengths, kept):
            is_kept = tf.ragged.range(length) < size[:, None]
            found.append(tf.ragged.boolean_mask(ids, is_kept))
        return found

    def _laid_out(self, texts: Sequence[tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """`encoding.lay_out` of one or two texts, ids int32 [N, (pieces)]: `session.IDS` [N,T],
        where T is the length of the longest record."""
        count = texts[0].nrows()

        def column(id: int) -> tf.RaggedTensor:
            """A special token in each record."""
            ids = tf.fill([count], id)
            return tf.RaggedTensor.from_uniform_row_length(ids, 1, nrows=count)

        # text <sep> (text <sep>) <cls>, with the segment of each part.
        parts, segments = [], []
        for ids, segment in zip(texts, (encoding.SEG_A, encoding.SEG_B)):
            for part in (ids, column(self._tokenizer.sep_id)):
                parts.append(part)
                segments.append(tf.zeros_like(part) + segment)
        parts.append(column(self._tokenizer.cls_id))
        segments.append(column(encoding.SEG_CLS))
        ids = tf.concat(parts, axis=1)
        least = tf.constant([MIN_SEQ_LENGTH], tf.int64)
        length = tf.reduce_max(tf.concat([ids.row_lengths(), least], 0))
        is_token = tf.sequence_mask(ids.row_lengths(), length, tf.float32)
        return {
            "input_ids": _left_padded(ids, length, 0),
            "input_mask": 1 - is_token[:, ::-1],
            "segment_ids": _left_padded(
                tf.concat(segments, axis=1), length, encoding.SEG_PAD
            ),
        }


def _left_padded(rows: tf.RaggedTensor, length: tf.Tensor, padding: int) -> tf.Tensor:
    """Ragged [N, (items)] as [N,T], padded on the left; length: T."""
    shape = tf.stack([rows.nrows(), length])
    backward = tf.reverse(rows, [1]).to_tensor(padding, shape=shape)
    return tf.reverse(backward, [1])
