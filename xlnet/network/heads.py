"""What is computed from the network's output: losses and predictions of each kind of task.

Shape letters as in `modeling`; C classes or choices. Variable names are those of the reference.
"""

from __future__ import annotations

import collections

import tensorflow.compat.v1 as tf

from xlnet.config import RunConfig
from xlnet.network.modeling import DTYPES, dense, get_initializer, get_weight
from xlnet.network.ops import negative_log_likelihood

# loss: [B] per example. logits: [B,C], or [B] for regression.
HeadOutputs = collections.namedtuple("HeadOutputs", "loss logits")


def lm_loss(sequence: tf.Tensor, target: tf.Tensor, embedding_table: tf.Tensor,
            precision: str = "fp32") -> tf.Tensor:
    """Negative log likelihood of each target (paper, equation 3), softmax tied to the embedding.

    sequence [B,P,D], target int32 [B,P], embedding_table [V,D] -> float32 [B,P], in nats;
    `precision`, that of the product, as in `RunConfig`.
    """
    vocabulary, width = embedding_table.shape.as_list()
    with tf.variable_scope("lm_loss"):
        bias = get_weight("bias", [vocabulary], tf.initializers.zeros())
    dtype = DTYPES[precision]
    flat = tf.cast(tf.reshape(sequence, [-1, width]), dtype)
    logits = tf.matmul(flat, tf.cast(embedding_table, dtype), transpose_b=True)
    logits = tf.nn.bias_add(tf.cast(logits, tf.float32), bias)               # [B*P,V]
    loss = negative_log_likelihood(logits, tf.reshape(target, [-1]))
    return tf.reshape(loss, tf.shape(target))


def classification(run: RunConfig, summary: tf.Tensor, labels: tf.Tensor, *, num_classes: int,
                   scope: str) -> HeadOutputs:
    """Softmax over classes: summary [B,D], labels int32 [B] -> `HeadOutputs`, logits [B,C]."""
    logits = _logit(run, summary, num_classes, scope, "logit")
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return HeadOutputs(loss, logits)


def regression(run: RunConfig, summary: tf.Tensor, labels: tf.Tensor, *, scope: str) -> HeadOutputs:
    """Squared error: summary [B,D], labels float32 [B] -> `HeadOutputs`, logits [B]."""
    logits = tf.squeeze(_logit(run, summary, 1, scope, "logit"), axis=-1)
    return HeadOutputs(tf.square(logits - labels), logits)


def multiple_choice(run: RunConfig, summary: tf.Tensor, labels: tf.Tensor, *,
                    num_choices: int) -> HeadOutputs:
    """Softmax over choices: summary [B*C,D], an example's choices together; labels int32 [B]."""
    logits = tf.reshape(_logit(run, summary, 1, "logits", "dense"), [-1, num_choices])
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return HeadOutputs(loss, logits)


def pairwise(run: RunConfig, summary: tf.Tensor, labels: tf.Tensor, *, scope: str) -> HeadOutputs:
    """Logistic loss on the difference of two scores (RankNet,
    https://doi.org/10.1145/1102351.1102363): summary [B*2,D], an example's two texts together,
    labels float32 [B], the probability that the first one is the better one -> `HeadOutputs`,
    logits [B]. The weights are those of `regression`.
    """
    scores = tf.reshape(_logit(run, summary, 1, scope, "logit"), [-1, 2])
    margin = scores[:, 0] - scores[:, 1]                                                  # [B]
    loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=margin)
    return HeadOutputs(loss, margin)


def _logit(run, summary, size, scope, name):
    with tf.variable_scope(scope), tf.variable_scope(name):
        kernel = get_weight("kernel", [summary.shape.as_list()[-1], size], get_initializer(run))
        return dense(summary, kernel, get_weight("bias", [size], tf.initializers.zeros()))


def multi_label(run: RunConfig, summary: tf.Tensor, labels: tf.Tensor, *,
                scope: str) -> HeadOutputs:
    """An independent yes or no for each label: summary [B,D], labels float32 [B,C] of 0 and 1.

    The loss of an example is the mean over its labels.
    """
    logits = _logit(run, summary, labels.shape.as_list()[-1], scope, "logit")
    loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return HeadOutputs(tf.reduce_mean(loss, axis=1), logits)
