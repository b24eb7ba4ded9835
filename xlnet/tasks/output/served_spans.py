"""The best spans over all windows of a paragraph, as texts, inside of a TensorFlow graph: what
`span_answers` does.

`tf` is TensorFlow, handed in. Shape letters: N questions, M windows of all, S starts, E ends of
each start, C spans of all questions, K answers that are kept.
"""

from __future__ import annotations

from typing import Any

from xlnet.tasks.output import served
from xlnet.tokenization.character_classes import space_class


def join(tf: Any, outputs: dict, question: Any) -> dict:
    """`span_answers.join`: outputs of M windows, and the question of each, int64 [M].

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
    """`span_answers.answers`: what `join` returns and string [N] -> what is said of each question.

    Returns:
      `answer` string [N], "" where there is none, `start`, `end` int32, its characters in the
      context, -1 where there is none; `null_probability`, that there is none; and, whether there is
      an answer or not, the best texts `texts` string [N,K] with their shares `probabilities` of
      their own sum, "" and 0 where there are fewer, and `probability` [N], that of the best one.
    """
    best = _distinct(tf, found, contexts, most)
    rows, scores = best["score"].value_rowids(), best["score"].flat_values
    weights = tf.exp(scores - tf.gather(tf.reduce_max(best["score"], axis=1), rows))
    sums = tf.math.unsorted_segment_sum(weights, rows, best["score"].nrows())
    shares = tf.cast(weights / tf.gather(sums, rows), tf.float32)
    texts, starts, ends, probabilities = (
        values.to_tensor(empty, shape=[None, most]) for values, empty in (
            (best["text"], ""), (best["start"], -1), (best["end"], -1),
            (best["score"].with_flat_values(shares), 0.)))
    null = tf.sigmoid(tf.cast(found["null_score"], tf.float64))
    has_none = tf.equal(texts[:, 0], "") | (null > threshold)
    return served.Answer(
        answer=tf.where_v2(has_none, "", texts[:, 0]),
        start=tf.where_v2(has_none, -1, starts[:, 0]),
        end=tf.where_v2(has_none, -1, ends[:, 0]),
        probability=probabilities[:, 0],
        null_probability=tf.cast(null, tf.float32),
        texts=texts,
        probabilities=probabilities)._asdict()


def _distinct(tf, found, contexts, most):
    """`span_answers.distinct`: the best spans of each question, ragged [N, (at most K)], as `text`,
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
    """The texts of spans, string [C]: by way of the characters, as each span would else take a copy
    of its context. Code points that are no characters, such as U+FFFE, are not told apart."""
    codes = tf.strings.unicode_decode(contexts, "UTF-8")
    first = tf.gather(codes.row_starts(), rows)
    places = tf.ragged.range(first + tf.cast(start, tf.int64), first + tf.cast(end, tf.int64),
                             row_splits_dtype=tf.int64)
    return tf.strings.unicode_encode(
        places.with_flat_values(tf.gather(codes.flat_values, places.flat_values)), "UTF-8")


def _length(tf, texts):
    return tf.strings.length(texts, unit="UTF8_CHAR")


def _is_first(tf, values):
    """Whether no value before it is the same: [C] -> bool [C]."""
    different, which = tf.unique(values)
    place = tf.range(tf.size(values))
    first = tf.math.unsorted_segment_min(place, which, tf.size(different))
    return tf.equal(tf.gather(first, which), place)
