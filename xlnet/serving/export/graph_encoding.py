"""Texts to the features of a record in a TensorFlow graph, as `features.encoding` makes them.

Task types use `GraphEncoder` in place of a tokenizer. Batches are as long as their longest text.

Shape letters: N texts, M windows of them, C choices, T tokens of the longest text.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Optional

import tensorflow.compat.v1 as tf

from xlnet.errors import UserError
from xlnet.serving.export.graph_tokenizer import GraphTokenizer
from xlnet.tasks.features import encoding
from xlnet.tokenization.tokenizer import space_class

_CUTS = ("truncate", "head_tail", "sliding")

# A feature of windows: int64 [M], the text of each.
WINDOW_OF = "window_of"


class GraphEncoder:
    """Makes features of texts, UTF-8 strings, for records of a layout.

    Args:
      replacements: (old, new) in every text, as of `Task`.
    """

    def __init__(self, tokenizer: GraphTokenizer, layout: encoding.Layout,
                 replacements: Sequence[tuple[str, str]] = ()):
        self._tokenizer = tokenizer
        self._replacements = replacements
        self._layout = layout

    def pairs(self, text_a: tf.Tensor, text_b: Optional[tf.Tensor] = None) -> dict[str, tf.Tensor]:
        """Texts, or pairs of texts, string [N] -> the features of N records, or of M windows, with
        `WINDOW_OF`, of a layout with sliding windows.

        Raises:
          UserError: the graph cannot express how the layout cuts long texts.
        """
        if self._layout.long_document not in _CUTS:
            raise UserError("long_document %s cannot be expressed in the graph, which has %s; "
                            "export with --signatures=ids" % (
                                self._layout.long_document, ", ".join(_CUTS)))
        ids_a = self._ids(text_a)
        ids_b = None if text_b is None else self._ids(text_b)
        if self._layout.long_document == "sliding":
            *windows, row = self._windows(ids_a, ids_b)
            return dict(self._laid_out(*windows), **{WINDOW_OF: row})
        return self._laid_out(*self._fitted(ids_a, ids_b))

    def records(self, pairs: Sequence[Sequence[Optional[tf.Tensor]]]) -> dict[str, tf.Tensor]:
        """As `pairs`, of N records of C choices: texts (pairs with None), or pairs of texts."""
        if len(pairs) == 1:
            return self.pairs(*pairs[0])
        sides = [[pair[i] for pair in pairs if pair[i] is not None] for i in (0, 1)]
        if self._layout.long_document == "sliding" or len(sides[1]) not in (0, len(pairs)):
            raise UserError("long_document sliding, or texts and pairs in one row, cannot be "
                            "expressed in the graph; export with --signatures=ids")
        features = self.pairs(*(tf.reshape(tf.stack(side, axis=1), [-1]) for side in sides if side))
        return {name: tf.reshape(value, [tf.shape(pairs[0][0])[0], -1])
                for name, value in features.items()}

    def choices(self, text_a: tf.Tensor, text_b: Optional[tf.Tensor],
                options: tf.Tensor, fills_gaps: bool) -> dict[str, tf.Tensor]:
        """The features of N records of C choices; a blank answer is missing, and becomes padding.

        Args:
          text_a: string [N].
          text_b: questions about them, string [N]; None: there are none.
          options: answers, string [N,C].
          fills_gaps: whether an answer goes into the gap of its question, if there is one; else it
            goes behind the question.
        """
        if self._layout.long_document == "sliding":
            raise UserError("long_document sliding cannot be expressed in the graph where a choice "
                            "is made; export with --signatures=ids")
        count = tf.shape(options)[1]
        flat = tf.reshape(options, [-1])
        if text_b is not None:
            flat = _answered(tf.repeat(text_b, count), flat, fills_gaps)
        features = self.pairs(tf.repeat(text_a, count), flat)
        is_absent = tf.strings.regex_full_match(
            tf.reshape(options, [-1]), "[%s]*" % space_class())[:, None]
        for name, padding in (("input_ids", 0), ("input_mask", 1.), ("segment_ids",
                                                                     encoding.SEG_PAD)):
            features[name] = tf.where_v2(is_absent, tf.cast(padding, features[name].dtype),
                                         features[name])
        return {name: tf.reshape(value, [tf.shape(options)[0], -1])
                for name, value in features.items()}

    def _ids(self, texts):
        for old, new in self._replacements:
            texts = tf.strings.regex_replace(texts, _literal(old), new.replace("\\", "\\\\"))
        return self._tokenizer.ids(texts)

    def _fitted(self, ids_a, ids_b):
        """`encoding.fitted` with one window for each text."""
        kept = self._kept(ids_a, ids_b)
        return [None if ids is None else self._cut(ids, length)
                for ids, length in zip((ids_a, ids_b), kept)]

    def _windows(self, ids_a, ids_b):
        """`encoding.fitted` with sliding windows: ids [M, (pieces)] of both texts, and the index of
        the text of each window, int64 [M]."""
        kept = self._kept(ids_a, ids_b)
        texts = [(ids, length) for ids, length in zip((ids_a, ids_b), kept) if ids is not None]
        steps = [tf.maximum(length // 2, 1) for _, length in texts]
        lasts = [-(-(ids.row_lengths() - length) // step)           # the last window's number, [N]
                 for (ids, length), step in zip(texts, steps)]
        numbers = tf.ragged.range(functools.reduce(tf.maximum, lasts) + 1,
                                  row_splits_dtype=tf.int64)
        row, number = numbers.value_rowids(), numbers.flat_values                     # [M]
        windows = []
        for (ids, length), step, last in zip(texts, steps, lasts):
            begin = tf.where_v2(number < tf.gather(last, row), number * tf.gather(step, row),
                                tf.gather(ids.row_lengths() - length, row))
            windows.append(_slices(ids, row, begin, tf.gather(length, row)))
        return windows[0], windows[1] if ids_b is not None else None, row

    def _kept(self, ids_a, ids_b):
        """How many ids of each text fit next to the special tokens: int64 [N] twice."""
        length_a = ids_a.row_lengths()
        length_b = tf.zeros_like(length_a) if ids_b is None else ids_b.row_lengths()
        budget = self._layout.max_seq_length - (2 if ids_b is None else 3)
        if self._layout.cut_first:
            kept_a = tf.minimum(length_a, tf.maximum(budget - length_b, 1))
            return kept_a, tf.minimum(length_b, budget - kept_a)
        half, shorter = budget // 2, tf.minimum(length_a, length_b)
        # The longer one is cut until both are equal, then both are, the second one first.
        kept = [tf.where_v2(length_a + length_b <= budget, own, tf.where_v2(
            shorter <= half, tf.where_v2(is_longer, budget - shorter, shorter),
            tf.constant(rest, tf.int64))) for own, is_longer, rest in (
                (length_a, length_a > length_b, budget - half),
                (length_b, length_a <= length_b, half))]
        return kept[0], kept[1]

    def _cut(self, ids, kept):
        """`kept` int64 [N] of the ids of each text: the beginning, or both ends."""
        row, first = tf.range(ids.nrows()), tf.zeros_like(kept)
        if self._layout.long_document != "head_tail":
            return _slices(ids, row, first, kept)
        tail = kept - kept // 4
        return tf.concat([_slices(ids, row, first, kept // 4),
                          _slices(ids, row, ids.row_lengths() - tail, tail)], axis=1)

    def _laid_out(self, ids_a, ids_b):
        """`encoding.lay_out` with T of the longest text."""
        rows = _joined(self._tokenizer, [(ids_a, encoding.SEG_A)] + (
            [] if ids_b is None else [(ids_b, encoding.SEG_B)]), encoding.SEG_CLS)
        length = tf.reduce_max(tf.concat([
            rows["input_ids"].row_lengths(), [encoding.MIN_SEQ_LENGTH]], 0))
        return {name: _left_padded(each, length, padding) for (name, each), padding in zip(
            rows.items(), (0, 1., encoding.SEG_PAD))}


def _slices(rows, row, begin, size):
    """Slices of ragged rows, ragged [M, (items)]: the row of each, its first item in that row, and
    its size, int64 [M]."""
    begin = tf.gather(rows.row_starts(), row) + begin
    places = tf.ragged.range(begin, begin + size, row_splits_dtype=tf.int64)
    return places.with_flat_values(tf.gather(rows.flat_values, places.flat_values))


def _joined(tokenizer, texts, cls_segment):
    """Texts, (ids int32 [N, (pieces)], segment) each, as `text <sep>` one after another, and <cls>:
    `session.IDS`, ragged [N, (T)]."""
    count = texts[0][0].nrows()

    def column(id):
        return tf.RaggedTensor.from_uniform_row_length(tf.fill([count], id), 1, nrows=count)
    parts = [(each, segment) for ids, segment in texts for each in (ids, column(tokenizer.sep_id))]
    parts.append((column(tokenizer.cls_id), cls_segment))
    ids = tf.concat([part for part, _ in parts], axis=1)
    return {"input_ids": ids,
            "input_mask": ids.with_flat_values(tf.zeros_like(ids.flat_values, tf.float32)),
            "segment_ids": tf.concat([part.with_flat_values(tf.fill(
                tf.shape(part.flat_values), segment)) for part, segment in parts], axis=1)}


def _left_padded(rows, length, padding=0):
    """Ragged [N, (items)] as [N,T], padded on the left; length: T, int64."""
    place = tf.range(length)[None] - (length - rows.row_lengths()[:, None])
    where = rows.row_starts()[:, None] + tf.maximum(place, 0)
    flat = tf.concat([rows.flat_values, [padding]], axis=0)     # in case it is empty
    return tf.where_v2(place < 0, padding, tf.gather(flat, where))


def _literal(text):
    """The pattern of RE2 that matches a text."""
    return "".join(character if character.isalnum() else "\\x{%x}" % ord(character)
                   for character in text)


def _answered(questions, options, fills_gaps):
    """Options in the gaps of their questions, or behind them: string [N] twice -> [N]."""
    behind = tf.strings.join([questions, options], " ")
    if not fills_gaps:
        return behind
    parts = tf.strings.split(tf.strings.regex_replace(questions, "_+", "_"), "_",
                             result_type="RaggedTensor")
    row, last = parts.value_rowids(), parts.row_limits() - 1
    place = tf.range(tf.size(row, out_type=tf.int64))
    filled = tf.strings.join([parts.flat_values, tf.where_v2(
        tf.equal(place, tf.gather(last, row)), "", tf.gather(options, row))])
    filled = tf.strings.reduce_join(parts.with_flat_values(filled), axis=1)
    has_gap = parts.row_lengths() > 1
    return tf.where(has_gap, filled, behind)
