"""Texts to the features of a record in a TensorFlow graph, as `features.encoding` makes them.

Task types use `GraphEncoder` in place of a tokenizer. Batches are as long as their longest text.

Shape letters: N texts, C choices, T tokens of the longest text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import tensorflow.compat.v1 as tf

from xlnet.errors import UserError
from xlnet.serving.export.graph_tokenizer import GraphTokenizer
from xlnet.tasks.features import encoding
from xlnet.tokenization.tokenizer import space_class

_CUTS = ("truncate", "head_tail")


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

    def pairs(self, text_a: tf.Tensor, text_b: Optional[tf.Tensor] = None) -> dict[str, tf.Tensor]:
        """Texts, or pairs of texts, string [N] -> the features of N records."""
        if self._layout.long_document not in _CUTS:
            raise UserError(
                "long_document {} cannot be expressed in the graph, which has {}; "
                "serve the model directory (xlnet serve), or export with "
                "--signatures=ids".format(self._layout.long_document, ", ".join(_CUTS))
            )
        texts = [self._ids(text) for text in (text_a, text_b) if text is not None]
        fitted = [self._cut(ids, length) for ids, length in zip(texts, self._kept(*texts))]
        return self._laid_out(fitted)

    def records(self, pairs: Sequence[Sequence[Optional[tf.Tensor]]]) -> dict[str, tf.Tensor]:
        """As `pairs`, of N records of C choices: C texts (pairs with None), or C pairs of texts."""
        sides = [[pair[i] for pair in pairs if pair[i] is not None] for i in (0, 1)]
        features = self.pairs(*(tf.reshape(tf.stack(side, axis=1), [-1]) for side in sides if side))
        return {
            name: tf.reshape(value, [tf.shape(pairs[0][0])[0], -1])
            for name, value in features.items()
        }

    def choices(
        self, text_a: tf.Tensor, text_b: Optional[tf.Tensor], options: tf.Tensor, fills_gaps: bool
    ) -> dict[str, tf.Tensor]:
        """The features of N records of C choices; a blank answer is missing, and becomes padding.

        Args:
          text_a: string [N].
          text_b: questions about them, string [N]; None: there are none.
          options: answers, string [N,C].
          fills_gaps: whether an answer goes into the gap of its question, if there is one; else it
            goes behind the question.
        """
        count = tf.shape(options)[1]
        flat = tf.reshape(options, [-1])
        if text_b is not None:
            flat = _answered(tf.repeat(text_b, count), flat, fills_gaps)
        features = self.pairs(tf.repeat(text_a, count), flat)
        is_absent = tf.strings.regex_full_match(tf.reshape(options, [-1]), f"[{space_class()}]*")[
            :, None
        ]
        for name, padding in (
            ("input_ids", 0),
            ("input_mask", 1.0),
            ("segment_ids", encoding.SEG_PAD),
        ):
            features[name] = tf.where_v2(
                is_absent, tf.cast(padding, features[name].dtype), features[name]
            )
        return {
            name: tf.reshape(value, [tf.shape(options)[0], -1]) for name, value in features.items()
        }

    def _ids(self, texts):
        for old, new in self._replacements:
            # RE2 takes any character of a pattern as its number, so none has another meaning.
            literal = "".join(
                character if character.isalnum() else f"\\x{{{ord(character):x}}}"
                for character in old
            )
            texts = tf.strings.regex_replace(texts, literal, new.replace("\\", "\\\\"))
        return self._tokenizer.ids(texts)

    def _kept(self, ids_a, ids_b=None):
        """How many ids of each text fit next to the special tokens: int64 [N] twice."""
        length_a = ids_a.row_lengths()
        length_b = tf.zeros_like(length_a) if ids_b is None else ids_b.row_lengths()
        # What `encoding` does by a loop, in closed form. Of a budget of 10 ids, lengths of (8, 6)
        # become (5, 5), (8, 3) become (7, 3), and (2, 9) become (2, 8).
        budget = self._layout.max_seq_length - (2 if ids_b is None else 3)
        if self._layout.cut_first:
            kept_a = tf.minimum(length_a, tf.maximum(budget - length_b, 1))
            return kept_a, tf.minimum(length_b, budget - kept_a)
        half, shorter = budget // 2, tf.minimum(length_a, length_b)
        # The longer one is cut until both are equal, then both are, the second one first.
        kept = [
            tf.where_v2(
                length_a + length_b <= budget,
                own,
                tf.where_v2(
                    shorter <= half,
                    tf.where_v2(is_longer, budget - shorter, shorter),
                    tf.constant(rest, tf.int64),
                ),
            )
            for own, is_longer, rest in (
                (length_a, length_a > length_b, budget - half),
                (length_b, length_a <= length_b, half),
            )
        ]
        return kept[0], kept[1]

    def _cut(self, ids, kept):
        """`kept` int64 [N] of the ids of each text: the beginning, or both ends."""
        first = tf.zeros_like(kept)
        if self._layout.long_document != "head_tail":
            return _slices(ids, first, kept)
        tail = kept - kept // 4
        return tf.concat(
            [_slices(ids, first, kept // 4), _slices(ids, ids.row_lengths() - tail, tail)], axis=1
        )

    def _laid_out(self, texts):
        """`encoding.lay_out` of one or two texts, ids int32 [N, (pieces)], with T of the longest:
        `session.IDS` [N,T]."""
        count = texts[0].nrows()

        def column(id):
            return tf.RaggedTensor.from_uniform_row_length(tf.fill([count], id), 1, nrows=count)

        # text <sep> (text <sep>) <cls>, with the segment of each part.
        parts = [
            (part, segment)
            for ids, segment in zip(texts, (encoding.SEG_A, encoding.SEG_B))
            for part in (ids, column(self._tokenizer.sep_id))
        ]
        parts.append((column(self._tokenizer.cls_id), encoding.SEG_CLS))
        ids = tf.concat([part for part, _ in parts], axis=1)
        segments = tf.concat(
            [
                part.with_flat_values(tf.fill(tf.shape(part.flat_values), segment))
                for part, segment in parts
            ],
            axis=1,
        )
        mask = ids.with_flat_values(tf.zeros_like(ids.flat_values, tf.float32))
        length = tf.reduce_max(tf.concat([ids.row_lengths(), [encoding.MIN_SEQ_LENGTH]], 0))
        return {
            "input_ids": _left_padded(ids, length, 0),
            "input_mask": _left_padded(mask, length, 1.0),
            "segment_ids": _left_padded(segments, length, encoding.SEG_PAD),
        }


def _slices(rows, begin, size):
    """A slice of each ragged row, ragged [N, (items)]: its first item and its size, int64 [N]."""
    begin = rows.row_starts() + begin
    places = tf.ragged.range(begin, begin + size, row_splits_dtype=tf.int64)
    return places.with_flat_values(tf.gather(rows.flat_values, places.flat_values))


def _left_padded(rows, length, padding):
    """Ragged [N, (items)] as [N,T], padded on the left; length: T, int64."""
    place = tf.range(length)[None] - (length - rows.row_lengths()[:, None])
    where = rows.row_starts()[:, None] + tf.maximum(place, 0)
    flat = tf.concat([rows.flat_values, [padding]], axis=0)  # in case it is empty
    return tf.where_v2(place < 0, padding, tf.gather(flat, where))


def _answered(questions, options, fills_gaps):
    """Options in the gaps of their questions, or behind them: string [N] twice -> [N]."""
    behind = tf.strings.join([questions, options], " ")
    if not fills_gaps:
        return behind
    # The option goes behind each part of the question but the last one.
    parts = tf.strings.split(
        tf.strings.regex_replace(questions, "_+", "_"), "_", result_type="RaggedTensor"
    )
    row, last = parts.value_rowids(), parts.row_limits() - 1
    place = tf.range(tf.size(row, out_type=tf.int64))
    filled = tf.strings.join(
        [
            parts.flat_values,
            tf.where_v2(tf.equal(place, tf.gather(last, row)), "", tf.gather(options, row)),
        ]
    )
    filled = tf.strings.reduce_join(parts.with_flat_values(filled), axis=1)
    has_gap = parts.row_lengths() > 1
    return tf.where(has_gap, filled, behind)
