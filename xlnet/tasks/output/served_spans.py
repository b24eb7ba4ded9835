"""The best spans over all windows of a paragraph, as texts: `span_answers` as a TensorFlow graph.

`tf` is TensorFlow, passed by the caller. Shape letters: N questions, M windows of all questions, S
starts, E ends of each start, C spans of all questions, K answers that are kept.
"""

from __future__ import annotations

from typing import Any

from xlnet.tokenization.tokenizer import space_class


def join(tf: Any, outputs: dict, question: Any) -> dict:
    """As `span_answers.join`, of the outputs of M windows and the question of each, int64 [M].

    Returns:
      `start`, `end` int32 and `score` float64, all spans of each question, best first: ragged
      [N, (spans)]; `null_score` [N].
    """
    allowed = outputs["is_allowed"]                                           # [M,S,E]
    none = tf.zeros_like(outputs["end_log_prob"])
    start_score = tf.cast(outputs["start_log_prob"][:, :, None] + none, tf.float64)
    start = tf.cast(outputs["char_start"][:, :, None] + none, tf.int32)
    values = (start, tf.cast(outputs["char_end"], tf.int32),
              start_score + tf.cast(outputs["end_log_prob"], tf.float64))
    rows = tf.gather(question, tf.where(allowed)[:, 0])                                # [C]
    start, end, score = (tf.boolean_mask(value, allowed) for value in values)
    null_score = tf.math.segment_min(outputs["null_score"], question)
    best_first = tf.argsort(score, direction="DESCENDING", stable=True)
    order = tf.gather(best_first, tf.argsort(tf.gather(rows, best_first), stable=True))
    rows = tf.gather(rows, order)
    return dict({name: tf.RaggedTensor.from_value_rowids(
        tf.gather(value, order), rows, nrows=tf.size(null_score, out_type=tf.int64),
        validate=False) for name, value in zip(("start", "end", "score"), (start, end, score))},
        null_score=null_score)


def answers(tf: Any, found: dict, contexts: Any, most: int, threshold: float) -> dict:
    """As `span_answers.answers`, of the results of `join` and the contexts, string [N].

    Returns:
      A dict for N questions: `answer` string, "" for none; `start`, `end` int32, its characters in
      the context, -1 for none; `null_probability`, of no answer. Whether there is an answer or not,
      the best `texts` string [N,K] and their `probabilities`, whose sum is 1, "" and 0 where there
      are fewer, and the `probability` of the best one.
    """
    best = _distinct(tf, found, contexts, most)
    rows, scores = best["score"].value_rowids(), best["score"].flat_values
    weights = tf.exp(scores - tf.gather(tf.reduce_max(best["score"], axis=1), rows))
    sums = tf.math.unsorted_segment_sum(weights, rows, best["score"].nrows())
    ratios = tf.cast(weights / tf.gather(sums, rows), tf.float32)
    texts, starts, ends, probabilities = (
        values.to_tensor(empty, shape=[None, most]) for values, empty in (
            (best["text"], ""), (best["start"], -1), (best["end"], -1),
            (best["score"].with_flat_values(ratios), 0.)))
    null = tf.sigmoid(tf.cast(found["null_score"], tf.float64))
    has_none = tf.equal(texts[:, 0], "") | (null > threshold)
    return {"answer": tf.where_v2(has_none, "", texts[:, 0]),
            "start": tf.where_v2(has_none, -1, starts[:, 0]),
            "end": tf.where_v2(has_none, -1, ends[:, 0]),
            "probability": probabilities[:, 0], "null_probability": tf.cast(null, tf.float32),
            "texts": texts, "probabilities": probabilities}


def _distinct(tf, found, contexts, most):
    """As `span_answers.distinct`: the best spans of each question, ragged [N, (at most K)]: `text`,
    its `start` and `end`, and `score`."""
    rows, start, end, score = (
        tf.boolean_mask(values, found["end"].flat_values > found["start"].flat_values)
        for values in (found["score"].value_rowids(), *(
            found[name].flat_values for name in ("start", "end", "score"))))
    span = _cut(tf, contexts, rows, start, end)
    bare = tf.strings.regex_replace(span, "^[%s]+" % space_class(), "")
    text = tf.strings.regex_replace(bare, "[%s]+$" % space_class(), "")
    start += _length(tf, span) - _length(tf, bare)
    kept = _is_first(tf, tf.strings.join([tf.as_string(rows), text], " ")) & tf.not_equal(text, "")
    best = {name: tf.RaggedTensor.from_value_rowids(
        tf.boolean_mask(value, kept), tf.boolean_mask(rows, kept),
        nrows=tf.size(contexts, out_type=tf.int64), validate=False)[:, :most]
        for name, value in (("start", start), ("end", start + _length(tf, text)), ("score", score))}
    start, end = best["start"].flat_values, best["end"].flat_values
    exact = tf.strings.substr(tf.gather(contexts, best["start"].value_rowids()), start, end - start,
                              unit="UTF8_CHAR")
    return dict(best, text=best["start"].with_flat_values(exact))


def _cut(tf, contexts, rows, start, end):
    """The texts of spans, string [C]: through code points, as `substr` would copy the context for
    each span. Code points that are not characters, such as U+FFFE, all become the same one."""
    codes = tf.strings.unicode_decode(contexts, "UTF-8")
    first = tf.gather(codes.row_starts(), rows)
    indices = tf.ragged.range(first + tf.cast(start, tf.int64), first + tf.cast(end, tf.int64),
                              row_splits_dtype=tf.int64)
    return tf.strings.unicode_encode(
        indices.with_flat_values(tf.gather(codes.flat_values, indices.flat_values)), "UTF-8")


def _length(tf, texts):
    return tf.strings.length(texts, unit="UTF8_CHAR")


def _is_first(tf, values):
    """Whether no earlier value is the same: [C] -> bool [C]."""
    different, which = tf.unique(values)
    index = tf.range(tf.size(values))
    first = tf.math.unsorted_segment_min(index, which, tf.size(different))
    return tf.equal(tf.gather(first, which), index)
