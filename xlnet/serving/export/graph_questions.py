"""Questions about paragraphs as windows in a TensorFlow graph, as `question_windows` makes them.
Batches are as long as their longest window.

Shape letters: N questions, M windows of all, T tokens of the longest window.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from xlnet.serving.export.graph_offsets import GraphAligner
from xlnet.serving.export.graph_tokenizer import GraphTokenizer
from xlnet.settings.finetuning import QUESTION_SPECIAL_TOKENS
from xlnet.tasks.features import question_windows


def encode(tokenizer: GraphTokenizer, contexts: tf.Tensor, questions: tf.Tensor, length: int, *,
           stride: int, max_query_length: int) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """`question_windows.encode` of string [N] twice, without labels: the features of M windows, and
    int64 [M], the question of each. Arguments as there.
    """
    paragraphs = GraphAligner(tokenizer).encode(contexts)
    queries = tokenizer.ids(questions)[:, :max_query_length]
    row, start, end, widest_start, widest_end = _windows(
        paragraphs.ids.row_lengths(),
        length - queries.row_lengths() - QUESTION_SPECIAL_TOKENS, stride)
    size = end - start
    begin = tf.gather(paragraphs.ids.row_starts(), row) + start
    places = tf.ragged.range(begin, begin + size, row_splits_dtype=tf.int64)    # of the pieces
    pieces, starts, ends = (places.with_flat_values(tf.gather(each.flat_values, places.flat_values))
                            for each in paragraphs)
    features = _laid_out(tokenizer, pieces, tf.gather(queries, row))
    any_number = tf.constant(-1, tf.int64)
    shape = tf.stack([any_number, tf.shape(features["input_ids"], out_type=tf.int64)[1]])
    features.update({name: tf.cast(value, tf.int32) for name, value in (
        ("cls_index", size + tf.gather(queries.row_lengths(), row) + 2), ("paragraph_len", size),
        ("widest_start", widest_start - start), ("widest_end", widest_end - start))})
    features.update({name: tf.cast(value.to_tensor(0, shape=shape), tf.float32)
                     for name, value in zip(question_windows.TOKEN_FEATURES, (starts, ends))})
    return features, row


def _windows(count, room, stride):
    """`question_windows.windows_of` each question: numbers of pieces, and of those that fit, int64
    [N] -> question, start, end, widest_start and widest_end of each window, int64 [M]."""
    step = tf.minimum(room, stride)
    windows = 1 + tf.maximum(-(-(count - room) // step), 0)                            # [N]
    numbers = tf.ragged.range(windows, row_splits_dtype=tf.int64)
    row, number = numbers.value_rowids(), numbers.flat_values                          # [M]
    start = number * tf.gather(step, row)
    end = tf.minimum(start + tf.gather(room, row), tf.gather(count, row))
    is_first = tf.equal(number, 0)
    is_last = tf.concat([is_first[1:], [True]], 0)
    next_start, next_end = (tf.where_v2(is_last, end, tf.roll(each, -1, 0))
                            for each in (start, end))           # of a last window: empty
    border = _borders(start, end, next_start, next_end)
    return (row, start, end,
            tf.where_v2(is_first, tf.zeros_like(start), tf.concat([[0], border[:-1]], 0)),
            tf.where_v2(is_last, tf.gather(count, row), border))


def _borders(start, end, next_start, next_end):
    """The first piece with more context in the next window than in this one: int64 [M] four times
    -> [M]. In the last window of a question it is the end."""
    both = tf.ragged.range(next_start, tf.maximum(end, next_start), row_splits_dtype=tf.int64)
    place, row = both.flat_values, both.value_rowids()
    gains = _context(place, row, next_start, next_end) - _context(place, row, start, end)
    gaining = both.with_flat_values(tf.where_v2(gains > 0, place, tf.gather(end, row)))
    return tf.minimum(tf.reduce_min(gaining, axis=1), end)      # without pieces: the largest int


def _context(place, row, start, end):
    """As in `question_windows`, bit for bit, so that ties are the same."""
    start, end = tf.gather(start, row), tf.gather(end, row)
    return tf.cast(tf.minimum(place - start, end - 1 - place), tf.float64) \
        + 0.01 * tf.cast(end - start, tf.float64)


def _laid_out(tokenizer, pieces, queries):
    """`pieces <sep> question <sep> <cls>`, padded on the right: int32 [M, (pieces)] twice ->
    features [M,T]."""
    def column(id):
        return tf.fill([pieces.nrows(), 1], id)
    sep, cls = column(tokenizer.sep_id), column(tokenizer.cls_id)
    rows = tf.concat([pieces, sep, queries, sep, cls], axis=1)
    place = tf.range(rows.bounding_shape(axis=1))[None]
    size, before = rows.row_lengths()[:, None], pieces.row_lengths()[:, None]
    segments = tf.where_v2(place <= before, question_windows.SEG_PARAGRAPH,
                           question_windows.SEG_QUESTION)
    segments = tf.where_v2(place < size - 1, segments, question_windows.SEG_CLS)
    is_padding = place >= size
    return dict(input_ids=rows.to_tensor(0), input_mask=tf.cast(is_padding, tf.float32),
                segment_ids=tf.where_v2(is_padding, question_windows.SEG_PAD, segments))
