"""Texts to the features of a record in a TensorFlow graph, as `features.encoding` makes them.

Task types use `GraphEncoder` in place of a tokenizer. Batches are as long as their longest text.

Shape letters: N texts, C choices, T tokens of the longest text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.corpus.tokenizer import space_class
from xlnet.inference.export.graph_tokenizer import GraphTokenizer
from xlnet.support.errors import UserError
from xlnet.tasks.features import encoding

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

    def pairs(
        self, text_a: tf.Tensor, text_b: Optional[tf.Tensor] = None
    ) -> dict[str, tf.Tensor]:
        """Texts, or pairs of texts, string [N] -> the features of N records."""
        if self._layout.long_document not in _CUTS:
            raise UserError(
                "long_document {} cannot be expressed in the graph, which has {}; serve the model "
                "directory (xlnet serve), or export with "
                "the signature ids".format(self._layout.long_document, ", ".join(_CUTS))
            )
        texts = [self._ids(text) for text in (text_a, text_b) if text is not None]
        fitted = [
            self._cut(ids, length) for ids, length in zip(texts, self._kept(*texts))
        ]
        return self._laid_out(fitted)

    def records(
        self, pairs: Sequence[Sequence[Optional[tf.Tensor]]]
    ) -> dict[str, tf.Tensor]:
        """As `pairs`, of N records of C choices.

        pairs: of each choice its text and its second text, string [N]; None: it has no second one.
        """
        firsts = [first for first, _ in pairs]
        seconds = [second for _, second in pairs if second is not None]
        texts = []
        for side in (firsts, seconds):
            if side:
                texts.append(tf.reshape(tf.stack(side, axis=1), [-1]))  # [N*C]
        features = self.pairs(*texts)
        count = tf.shape(firsts[0])[0]  # N
        return {
            name: tf.reshape(value, [count, -1]) for name, value in features.items()
        }

    def choices(
        self,
        text_a: tf.Tensor,
        text_b: Optional[tf.Tensor],
        options: tf.Tensor,
        fills_gaps: bool,
    ) -> dict[str, tf.Tensor]:
        """The features of N records of C choices; a blank answer is missing, and becomes padding.

        Args:
          text_a: string [N].
          text_b: questions about them, string [N]; None: there are none.
          options: answers, string [N,C].
          fills_gaps: whether an answer goes into the gap of its question, if there is one; else it
            goes behind the question.
        """
        options = _complete(options)
        num_records, num_choices = tf.shape(options)[0], tf.shape(options)[1]
        flat = tf.reshape(options, [-1])  # [N*C]
        second_texts = flat
        if text_b is not None:
            second_texts = _answered(tf.repeat(text_b, num_choices), flat, fills_gaps)
        features = self.pairs(tf.repeat(text_a, num_choices), second_texts)

        is_absent = is_blank(flat)[:, None]  # [N*C,1]
        for name, padding in (
            ("input_ids", 0),
            ("input_mask", 1.0),
            ("segment_ids", encoding.SEG_PAD),
        ):
            values = features[name]
            values = tf.where_v2(is_absent, tf.cast(padding, values.dtype), values)
            features[name] = tf.reshape(values, [num_records, -1])
        return features

    def replaced(self, texts: tf.Tensor) -> tf.Tensor:
        """Texts, string of any shape, after the replacements of the task."""
        for old, new in self._replacements:
            # RE2 matches a character that is given by its number literally, whatever it is.
            literal = "".join(
                character if character.isalnum() else f"\\x{{{ord(character):x}}}"
                for character in old
            )
            texts = tf.strings.regex_replace(texts, literal, new.replace("\\", "\\\\"))
        return texts

    def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The ids of texts, ragged [N, (pieces)], after the replacements of the task."""
        return self._tokenizer.ids(self.replaced(texts))

    def _kept(
        self, ids_a: tf.RaggedTensor, ids_b: Optional[tf.RaggedTensor] = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """How many ids of each text fit next to the special tokens: int64 [N] twice. The rule is
        that of `encoding.fit_to_length`: of a budget of 10 ids, lengths of (8, 6) become (5, 5),
        (8, 3) become (7, 3), and (2, 9) become (2, 8)."""
        length_a = ids_a.row_lengths()
        length_b = tf.zeros_like(length_a) if ids_b is None else ids_b.row_lengths()
        budget = self._layout.max_seq_length - (2 if ids_b is None else 3)
        # Both are cut where neither is short: then the first has half of the budget, rounded up.
        least_a = 1 if self._layout.cut_first else budget - budget // 2
        kept_a = tf.minimum(length_a, tf.maximum(budget - length_b, least_a))
        return kept_a, tf.minimum(length_b, budget - kept_a)

    def _cut(self, ids: tf.RaggedTensor, kept: tf.Tensor) -> tf.RaggedTensor:
        """`kept` int64 [N] of the ids of each text: the beginning, or both ends."""
        first = tf.zeros_like(kept)
        if self._layout.long_document != "head_tail":
            return _slices(ids, first, kept)
        tail = kept - kept // 4
        return tf.concat(
            [
                _slices(ids, first, kept // 4),
                _slices(ids, ids.row_lengths() - tail, tail),
            ],
            axis=1,
        )

    def _laid_out(self, texts: Sequence[tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """`encoding.lay_out` of one or two texts, ids int32 [N, (pieces)]: `session.IDS` [N,T],
        where T is the length of the longest record."""
        count = texts[0].nrows()

        def column(id: int) -> tf.RaggedTensor:
            """A special token in each record."""
            return tf.RaggedTensor.from_uniform_row_length(
                tf.fill([count], id), 1, nrows=count
            )

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
        length = tf.reduce_max(
            tf.concat([ids.row_lengths(), [encoding.MIN_SEQ_LENGTH]], 0)
        )
        return {
            "input_ids": _left_padded(ids, length, 0),
            "input_mask": _left_padded(mask, length, 1.0),
            "segment_ids": _left_padded(segments, length, encoding.SEG_PAD),
        }


def _slices(
    rows: tf.RaggedTensor, begin: tf.Tensor, size: tf.Tensor
) -> tf.RaggedTensor:
    """A slice of each row, ragged [N, (items)]: `size` items from the item `begin` on, int64
    [N]."""
    begin = rows.row_starts() + begin
    indices = tf.ragged.range(begin, begin + size, row_splits_dtype=tf.int64)
    return indices.with_flat_values(tf.gather(rows.flat_values, indices.flat_values))


def _left_padded(rows: tf.RaggedTensor, length: tf.Tensor, padding: Any) -> tf.Tensor:
    """Ragged [N, (items)] as [N,T], padded on the left; length: T, int64."""
    index = tf.range(length)[None] - (
        length - rows.row_lengths()[:, None]
    )  # [N,T], in the row
    is_padding = index < 0
    index_in_flat = rows.row_starts()[:, None] + tf.maximum(index, 0)
    flat = tf.concat(
        [rows.flat_values, [padding]], axis=0
    )  # never empty, so it can be indexed
    return tf.where_v2(is_padding, padding, tf.gather(flat, index_in_flat))


def _answered(questions: tf.Tensor, options: tf.Tensor, fills_gaps: bool) -> tf.Tensor:
    """Options in the gaps of their questions, or behind them: string [N] twice -> [N]."""
    behind = tf.strings.join([questions, options], " ")
    if not fills_gaps:
        return behind
    # The option goes behind each part of the question but the last one.
    parts = tf.strings.split(
        tf.strings.regex_replace(questions, "_+", "_"), "_", result_type="RaggedTensor"
    )
    question_of_part = parts.value_rowids()  # [parts of all questions]
    last_of_question = parts.row_limits() - 1  # [N], indices of parts
    index = tf.range(tf.size(question_of_part, out_type=tf.int64))
    is_last = tf.equal(index, tf.gather(last_of_question, question_of_part))
    behind_part = tf.where_v2(is_last, "", tf.gather(options, question_of_part))
    joined = tf.strings.join([parts.flat_values, behind_part])
    filled = tf.strings.reduce_join(parts.with_flat_values(joined), axis=1)  # [N]
    has_gap = parts.row_lengths() > 1
    return tf.where(has_gap, filled, behind)


def is_blank(texts: tf.Tensor) -> tf.Tensor:
    """Whether each text has nothing but spaces, bool of the shape of `texts`."""
    return tf.strings.regex_full_match(texts, f"[{space_class()}]*")


def _complete(options: tf.Tensor) -> tf.Tensor:
    """The same answers, string [N,C]; an error of the graph for an example that has fewer than two,
    or an empty one before others."""
    is_there = tf.logical_not(is_blank(options))
    has_gap = tf.reduce_any(is_there[:, 1:] & tf.logical_not(is_there[:, :-1]), axis=1)
    is_bad = has_gap | (tf.reduce_sum(tf.cast(is_there, tf.int32), axis=1) < 2)
    check = tf.debugging.Assert(
        tf.logical_not(tf.reduce_any(is_bad)),
        [
            "expected two or more answers, empty ones behind the others; examples that have not:",
            tf.where(is_bad)[:, 0],
        ],
    )
    with tf.control_dependencies([check]):
        return tf.identity(options)
