"""Heads: a summary of the network's output, losses, and layers that task types build on.

Shape letters as in `modeling`; C classes or choices. Variable names are those of the original
implementation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow.compat.v1 as tf

from xlnet.model import kernels_tuned
from xlnet.model.kernels import Dropout, Mask, additive_mask, dropout, layer_norm
from xlnet.model.modeling import masked_softmax
from xlnet.model.ops import (
    count_to,
    dense,
    dense_back,
    gather_rows,
    in_rows,
    merge_heads,
    shape_of,
    split_heads,
)
from xlnet.model.parameters import (
    LayerContext,
    dense_weights,
    get_initializer,
    get_weight,
    head_kernel,
    norm_weights,
)
from xlnet.model.stateless_random import fold_in
from xlnet.settings.network import DTYPES, RunConfig, XLNetConfig

# ---- summary ----


def summarize(
    config: XLNetConfig,
    run: RunConfig,
    sequence: tf.Tensor,
    *,
    summary_type: str = "last",
    padding: tf.Tensor | None = None,
    use_proj: bool = True,
    seed: tf.Tensor | None = None,
    first_row: tf.Tensor | None = None,
    scope: str = "sequnece_summary",
) -> tf.Tensor:
    """One vector per example of sequence, float32 [B,Q,D] -> [B,D], variables under `scope`.

    Args:
      summary_type: "last" position, "first", "mean", or "attn" (attention with one learned query).
      padding: [B,Q], 1 is padding: "first" is then the first real token; "mean" and "attn" ignore
        padding. None: all positions count, as in the original implementation.
      use_proj: whether to add a dense tanh layer.
      seed, first_row: of dropout, as in `modeling.transformer_xl`.
      scope: misspelt in the released checkpoints, and therefore here.
    """
    # The dropouts of the network fold 1, 2, ... into the seed; folding in 0 first gives the summary
    # other masks. Everything is computed in float32, which costs little for one vector per example.
    if seed is not None:
        seed = fold_in(seed, 0)
    net = LayerContext(config, run, seed, first_row, "fp32")
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        # <cls> is the last token of a text; its padding is on the left.
        if summary_type == "last":
            summary = sequence[:, -1]
        elif summary_type == "first" and padding is None:
            summary = sequence[:, 0]
        elif summary_type == "first":
            first = tf.argmin(padding, axis=1)[:, None]
            summary = gather_rows(sequence, first)[:, 0]
        elif summary_type == "mean" and padding is None:
            summary = tf.reduce_mean(sequence, axis=1)
        elif summary_type == "mean":
            real = 1.0 - tf.cast(padding, tf.float32)
            # Of padding alone: 0.
            count = tf.maximum(tf.reduce_sum(real, axis=1, keepdims=True), 1.0)
            summary = tf.matmul(real[:, None], sequence)[:, 0] / count
        elif summary_type == "attn":
            summary = _attention_summary(net, sequence, padding)
        else:
            expected = "expected last, first, mean or attn"
            raise ValueError(f"summary_type is {summary_type!r}, {expected}")
        if use_proj:
            weights = dense_weights(net, "summary", config.d_model, config.d_model)
            summary = tf.tanh(dense(summary, *weights))
        return net.dropout(summary, run.dropout)


def _attention_summary(
    net: LayerContext, sequence: tf.Tensor, padding: tf.Tensor | None
) -> tf.Tensor:
    """Multi-head attention of one learned query to all positions of the sequence, [B,Q,D] -> [B,D].

    Positions do not count, and there is no residual connection.
    """
    config, run = net.config, net.run

    def project(x: tf.Tensor, name: str) -> tf.Tensor:
        """x [B,T,D] by the kernel of this name: [B,N,T,H]."""
        return split_heads(dense(x, head_kernel(net, name)), config.n_head)

    # All examples share the query, which checkpoints call a bias.
    query = net.variable("summary_bias", [config.d_model])
    shape = [shape_of(sequence)[0], 1, config.d_model]
    query = tf.broadcast_to(query[None, None], shape)
    mask = None
    if padding is not None:  # the query does not see it
        masked = tf.cast(padding, tf.bool)[:, None]  # [B,1,Q]
        mask = additive_mask(Mask(masked=masked))
    with tf.variable_scope("abs_attn"):  # "absolute", as positions are not relative
        q = project(query, "q")  # [B,N,1,H]
        k = project(sequence, "k")  # [B,N,Q,H]
        v = project(sequence, "v")  # [B,N,Q,H]
        scores = tf.matmul(q, k, transpose_b=True) / config.d_head**0.5  # [B,N,1,Q]
        probabilities = net.dropout(masked_softmax(scores, mask), run.dropatt)
        heads = tf.matmul(probabilities, v)  # [B,N,1,H]
        merged = merge_heads(heads)[:, 0]  # [B,N*H]
        output = net.dropout(
            dense_back(merged, head_kernel(net, "o")), run.dropout
        )  # [B,D]
        return kernels_tuned.layer_norm(output, *norm_weights(net, "LayerNorm"))


# ---- losses and output layers ----


def lm_loss(
    sequence: tf.Tensor,
    target: tf.Tensor,
    embedding_table: tf.Tensor,
    precision: str = "fp32",
) -> tf.Tensor:
    """-log p(target | the tokens before it in the order), of each target (paper, section 2.3), a
    softmax over the vocabulary:

        p(x) = exp(e(x) · g + b(x)) / sum over x' of exp(e(x') · g + b(x'))

    with the embeddings e: the softmax is tied to them.

    sequence [B,P,D], target int [B,P], embedding_table [V,D] -> float32 [B,P], in nats;
    precision: of the matmul, as in `RunConfig`.
    """
    return _softmax_cross_entropy(
        lm_logits(sequence, embedding_table, precision), target
    )


def lm_logits(
    sequence: tf.Tensor, embedding_table: tf.Tensor, precision: str = "fp32"
) -> tf.Tensor:
    """The logits at each target position, tied to the embedding: [B,P,D], [V,D] -> float32
    [B,P,V]."""
    vocabulary = embedding_table.shape.as_list()[0]
    with tf.variable_scope("lm_loss"):
        bias = get_weight("bias", [vocabulary], tf.initializers.zeros())
    # One matmul for the targets of all sequences. The softmax over V that follows is float32.
    dtype = DTYPES[precision]
    flat = in_rows(tf.cast(sequence, dtype))  # [B*P,D]
    logits = tf.matmul(flat, tf.cast(embedding_table, dtype), transpose_b=True)
    logits = tf.nn.bias_add(tf.cast(logits, tf.float32), bias)  # [B*P,V]
    return tf.reshape(logits, shape_of(sequence)[:-1] + [vocabulary])


def dense_layer(
    run: RunConfig, inputs: tf.Tensor, size: int, name: str, has_bias: bool = True
) -> tf.Tensor:
    """[...,D] -> [...,size], by the variables `name`/kernel and, with a bias, `name`/bias."""
    width, bias = inputs.shape.as_list()[-1], None
    with tf.variable_scope(name):
        kernel = get_weight("kernel", [width, size], get_initializer(run))
        if has_bias:
            bias = get_weight("bias", [size], tf.initializers.zeros())
    return dense(inputs, kernel, bias)


def _softmax_cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, smoothing: float = 0.0
) -> tf.Tensor:
    """logits [...,C], labels int [...] -> [...]; smoothing: fraction of the target's probability
    that is spread evenly over all classes."""
    if not smoothing:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits
        )
    count = logits.shape.as_list()[-1]
    targets = tf.one_hot(labels, count) * (1.0 - smoothing) + smoothing / count
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=targets, logits=logits)


@dataclasses.dataclass
class HeadBuilder:
    """The layers from which a task's head is built: `nn` in `tasks.contract.Task`.

    Attributes:
      run: how the network is run.
      scope: name of the output layer's variables.
      sequence: the network's output [B*C,T,D], the choices of an example one after the other.
      padding: [B*C,T], 1 where there is no token.
      summary: function without arguments, called as `nn.summary()`: a vector of each text,
        [B*C,D]. `TaskModel._logits` gives it `summarize` above.
      seed: of dropout in training, uint64 [1]; None: inference.
    """

    run: RunConfig
    scope: str
    sequence: tf.Tensor
    padding: tf.Tensor
    summary: Callable[[], tf.Tensor]
    seed: tf.Tensor | None = None

    def dense(
        self, inputs: tf.Tensor, size: int, name: str, has_bias: bool = True
    ) -> tf.Tensor:
        """As `dense_layer`."""
        return dense_layer(self.run, inputs, size, name, has_bias)

    def dense_of_pairs(
        self, inputs: tf.Tensor, others: tf.Tensor, size: int, name: str
    ) -> tf.Tensor:
        """The dense layer `name` of each input concatenated with each other one: [B,T,D], [B,k,E]
        -> [B,k,T,size].

        The kernel is [D+E,size]; its two parts are multiplied separately, so that the k * T pairs
        are never built.
        """
        widths = [inputs.shape.as_list()[-1], others.shape.as_list()[-1]]
        initializer = get_initializer(self.run)
        with tf.variable_scope(name):
            kernel = get_weight("kernel", [sum(widths), size], initializer)
            bias = get_weight("bias", [size], tf.initializers.zeros())
        of_input, of_other = tf.split(kernel, widths)
        of_inputs = dense(inputs, of_input, bias)[:, None]
        return of_inputs + dense(others, of_other)[:, :, None]

    def layer_norm(self, inputs: tf.Tensor, name: str) -> tf.Tensor:
        """Normalizes the last axis, by the variables `name`/gamma and `name`/beta."""
        width = inputs.shape.as_list()[-1:]
        with tf.variable_scope(name):
            gamma = get_weight("gamma", width, tf.initializers.ones())
            beta = get_weight("beta", width, tf.initializers.zeros())
        return layer_norm(inputs, gamma, beta)

    @staticmethod
    def beside_network() -> tf.variable_scope:
        """The variable scope of an output layer outside of `model/`: in the original checkpoints
        the names of multiple choice and question answering begin with that of the layer."""
        inner = tf.get_variable_scope()
        return tf.variable_scope(
            tf.VariableScope(inner.reuse, custom_getter=inner.custom_getter)
        )

    def dropout(self, inputs: tf.Tensor) -> tf.Tensor:
        """The network's dropout of hidden states, in training. Call it once in an output layer."""
        if self.seed is None or not self.run.dropout:
            return inputs
        # The seed of layer 0; the dropouts of that layer fold in a further number.
        return dropout(inputs, Dropout(self.run.dropout, fold_in(self.seed, -1)))

    softmax_cross_entropy = staticmethod(_softmax_cross_entropy)
    count_to = staticmethod(count_to)
    gather_rows = staticmethod(gather_rows)

    @staticmethod
    def sigmoid_cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """logits, labels: float32 of one shape; labels from 0 to 1."""
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
