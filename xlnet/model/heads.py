"""Heads: a summary of the network's output, losses, and layers that task types build on.

Shape letters: B batch, Q positions of the sequence, T positions of a text, P target positions, N
heads, H d_head, D d_model, V vocabulary, C classes or choices. Variable names are those of the
original implementation.
"""

from __future__ import annotations

import dataclasses

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
    run_config: RunConfig,
    sequence: tf.Tensor,
    *,
    summary_type: str = "last",
    padding: tf.Tensor | None = None,
    use_proj: bool = True,
    seed: tf.Tensor | None = None,
    first_row: tf.Tensor | None = None,
    scope: str = "sequnece_summary",
) -> tf.Tensor:
    """One vector per example, float32 [B,D]; variables under `scope`.

    Args:
      config: the architecture.
      run_config: how the network is run.
      sequence: the network's output, float32 [B,Q,D].
      summary_type: "last" position, "first", "mean", or "attn" (attention with one learned query).
      padding: [B,Q], 1 is padding: "first" is then the first real token; "mean" and "attn" ignore
        padding. None: all positions count, as in the original implementation.
      use_proj: whether to add a dense tanh layer.
      seed: of the network's dropout, see `stateless_random`; None: there is none.
      first_row: the index of batch element 0 in the global batch; None: there are no indices.
      scope: misspelt in the released checkpoints, and therefore here.

    Raises:
      ValueError: the summary type is unknown.
    """
    # The dropouts of the network fold 1, 2, ... into the seed; folding in 0 first gives the summary
    # other masks.
    if seed is not None:
        seed = fold_in(seed, 0)
    # Everything is computed in float32, which costs little for one vector per example.
    net = LayerContext(config, run_config, seed, first_row, precision="fp32")
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        # The padding of a text is on its left, and <cls> is its last token.
        if summary_type == "last":
            summary = sequence[:, -1]
        elif summary_type == "first" and padding is None:
            summary = sequence[:, 0]
        elif summary_type == "first":
            first = tf.argmin(padding, axis=1)[:, None]  # [B,1], where the first 0 is
            summary = gather_rows(sequence, first)[:, 0]
        elif summary_type == "mean" and padding is None:
            summary = tf.reduce_mean(sequence, axis=1)
        elif summary_type == "mean":
            is_token = 1.0 - tf.cast(padding, tf.float32)  # [B,Q]
            count = tf.reduce_sum(is_token, axis=1, keepdims=True)  # [B,1]
            count = tf.maximum(count, 1.0)  # the mean of padding alone is 0
            # The sum of the tokens' vectors, as a matmul [B,1,Q] by [B,Q,D].
            summary = tf.matmul(is_token[:, None], sequence)[:, 0] / count
        elif summary_type == "attn":
            summary = _attention_summary(net, sequence, padding)
        else:
            expected = "expected last, first, mean or attn"
            raise ValueError(f"summary_type is {summary_type!r}, {expected}")
        if use_proj:
            weights = dense_weights(net, "summary", config.d_model, config.d_model)
            summary = tf.tanh(dense(summary, *weights))
        return net.dropout(summary, run_config.dropout)


def _attention_summary(
    net: LayerContext, sequence: tf.Tensor, padding: tf.Tensor | None
) -> tf.Tensor:
    """Multi-head attention of one learned query to all positions of the sequence, [B,Q,D] -> [B,D].

    The scores do not depend on positions, and there is no residual connection. padding: [B,Q], 1
    where the query does not look; None: it looks everywhere.
    """
    config, run_config = net.config, net.run_config

    def project(x: tf.Tensor, name: str) -> tf.Tensor:
        """x [B,T,D] projected by the kernel of this name: [B,N,T,H]."""
        return split_heads(dense(x, head_kernel(net, name)), config.n_head)

    # All examples share the query, which checkpoints call a bias.
    query = net.variable("summary_bias", [config.d_model])  # [D]
    shape = [shape_of(sequence)[0], 1, config.d_model]
    query = tf.broadcast_to(query[None, None], shape)
    mask = None
    if padding is not None:
        masked = tf.cast(padding, tf.bool)[:, None]  # [B,1,Q]
        mask = additive_mask(Mask(masked=masked))
    with tf.variable_scope("abs_attn"):  # "absolute", as positions are not relative
        q = project(query, "q")  # [B,N,1,H]
        k = project(sequence, "k")  # [B,N,Q,H]
        v = project(sequence, "v")  # [B,N,Q,H]
        scores = tf.matmul(q, k, transpose_b=True) / config.d_head**0.5  # [B,N,1,Q]
        probabilities = net.dropout(masked_softmax(scores, mask), run_config.dropatt)
        heads = tf.matmul(probabilities, v)  # [B,N,1,H]
        merged = merge_heads(heads)[:, 0]  # [B,N*H]
        output = dense_back(merged, head_kernel(net, "o"))  # [B,D]
        output = net.dropout(output, run_config.dropout)
        return kernels_tuned.layer_norm(output, *norm_weights(net, "LayerNorm"))


# ---- losses and output layers ----


def lm_loss(
    at_targets: tf.Tensor,
    target: tf.Tensor,
    embedding_table: tf.Tensor,
    precision: str = "fp32",
) -> tf.Tensor:
    """The cross-entropy of each target, -log p(target | context): float32 [B,P], in nats. With a
    factorization order the context is the memory and the tokens before the target (paper, section
    2.3). p is a softmax over the vocabulary:

        p(x) = exp(e(x) · g + b(x)) / sum over x' of exp(e(x') · g + b(x'))

    with the embeddings e, to which the softmax is tied, and a learned bias b.

    Args:
      at_targets: g, the network's output at the target positions, [B,P,D].
      target: int [B,P], the target tokens.
      embedding_table: e, [V,D].
      precision: of the matmul, "fp32", "bf16" or "fp16".
    """
    logits = lm_logits(at_targets, embedding_table, precision)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)


def lm_logits(
    at_targets: tf.Tensor, embedding_table: tf.Tensor, precision: str = "fp32"
) -> tf.Tensor:
    """The logits e(x) · g + b(x) of each token x of the vocabulary: float32 [B,P,V], from g
    `at_targets` [B,P,D], e `embedding_table` [V,D] and a learned bias b [V]; arguments as of
    `lm_loss`."""
    vocabulary = embedding_table.shape.as_list()[0]
    with tf.variable_scope("lm_loss"):
        bias = get_weight("bias", [vocabulary], tf.initializers.zeros())
    # One matmul for the targets of all sequences. The softmax over V that the callers make of the
    # logits is float32, so these are, too.
    dtype = DTYPES[precision]
    flat = in_rows(tf.cast(at_targets, dtype))  # [B*P,D]
    logits = tf.matmul(flat, tf.cast(embedding_table, dtype), transpose_b=True)
    logits = tf.nn.bias_add(tf.cast(logits, tf.float32), bias)  # [B*P,V]
    return tf.reshape(logits, shape_of(at_targets)[:-1] + [vocabulary])


def dense_layer(
    run_config: RunConfig,
    inputs: tf.Tensor,
    size: int,
    name: str,
    has_bias: bool = True,
) -> tf.Tensor:
    """A dense layer, inputs [...,D] -> [...,size], with the variables `name`/kernel and, if it has
    a bias, `name`/bias."""
    width, bias = inputs.shape.as_list()[-1], None
    with tf.variable_scope(name):
        kernel = get_weight("kernel", [width, size], get_initializer(run_config))
        if has_bias:
            bias = get_weight("bias", [size], tf.initializers.zeros())
    return dense(inputs, kernel, bias)


@dataclasses.dataclass
class HeadBuilder:
    """The layers from which a task's head is built: `nn` in `tasks.contract.Task`.

    Attributes:
      config: the architecture.
      run_config: how the network is run.
      scope: name of the output layer's variables.
      sequence: the network's output [B*C,T,D], the choices of an example one after the other.
      padding: [B*C,T], 1 where there is no token.
      summary_type, use_proj: as of `summarize`, for `summary`.
      seed: of dropout in training, uint64 [1]; None: inference.
    """

    config: XLNetConfig
    run_config: RunConfig
    scope: str
    sequence: tf.Tensor
    padding: tf.Tensor
    summary_type: str = "last"
    use_proj: bool = True
    seed: tf.Tensor | None = None

    def summary(self) -> tf.Tensor:
        """A vector of each text, [B*C,D], as of `summarize`."""
        return summarize(
            self.config,
            self.run_config,
            self.sequence,
            summary_type=self.summary_type,
            padding=self.padding,
            use_proj=self.use_proj,
            seed=self.seed,
        )

    def dense(
        self, inputs: tf.Tensor, size: int, name: str, has_bias: bool = True
    ) -> tf.Tensor:
        """As `dense_layer`."""
        return dense_layer(self.run_config, inputs, size, name, has_bias)

    def dense_of_pairs(
        self, inputs: tf.Tensor, others: tf.Tensor, size: int, name: str
    ) -> tf.Tensor:
        """The dense layer `name` of each pair of an input and one of the others, concatenated:
        inputs [B,T,D], others [B,k,E] (k of the width E) -> [B,k,T,size].

        The kernel is [D+E,size]; its two parts are multiplied separately and the products added, so
        that the k * T pairs are never built.
        """
        widths = [inputs.shape.as_list()[-1], others.shape.as_list()[-1]]
        initializer = get_initializer(self.run_config)
        with tf.variable_scope(name):
            kernel = get_weight("kernel", [sum(widths), size], initializer)
            bias = get_weight("bias", [size], tf.initializers.zeros())
        input_kernel, other_kernel = tf.split(kernel, widths)  # [D,size] and [E,size]
        of_inputs = dense(inputs, input_kernel, bias)[:, None]  # [B,1,T,size]
        return of_inputs + dense(others, other_kernel)[:, :, None]

    def layer_norm(self, inputs: tf.Tensor, name: str) -> tf.Tensor:
        """Normalizes the last axis, by the variables `name`/gamma and `name`/beta."""
        width = inputs.shape.as_list()[-1:]
        with tf.variable_scope(name):
            gamma = get_weight("gamma", width, tf.initializers.ones())
            beta = get_weight("beta", width, tf.initializers.zeros())
        return layer_norm(inputs, gamma, beta)

    @staticmethod
    def outside_model() -> tf.variable_scope:
        """A variable scope outside of `model/`: in the original checkpoints the names of the output
        layers of multiple choice and question answering do not begin with it."""
        # A scope without a name, but with the current one's reuse and seeds (`custom_getter`).
        inner = tf.get_variable_scope()
        return tf.variable_scope(
            tf.VariableScope(inner.reuse, custom_getter=inner.custom_getter)
        )

    def dropout(self, inputs: tf.Tensor) -> tf.Tensor:
        """The network's dropout of hidden states, in training. Call it once in an output layer: a
        second call would have the same mask."""
        if self.seed is None or not self.run_config.dropout:
            return inputs
        # The seed that folding in -1 gives is that of layer 0. The dropouts of that layer fold in a
        # further number, so none of them has this seed itself.
        return dropout(inputs, Dropout(self.run_config.dropout, fold_in(self.seed, -1)))

    count_to = staticmethod(count_to)
    gather_rows = staticmethod(gather_rows)

    @staticmethod
    def softmax_cross_entropy(
        logits: tf.Tensor, labels: tf.Tensor, smoothing: float = 0.0
    ) -> tf.Tensor:
        """-log p(label) of each element, with p the softmax of its logits: logits [...,C], labels
        int [...] -> [...]. smoothing: the fraction of the label's probability that is spread evenly
        over all classes."""
        if not smoothing:
            return tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=logits
            )
        count = logits.shape.as_list()[-1]
        targets = tf.one_hot(labels, count) * (1.0 - smoothing) + smoothing / count
        return tf.nn.softmax_cross_entropy_with_logits_v2(labels=targets, logits=logits)

    @staticmethod
    def sigmoid_cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The cross-entropy of each element, in the shape of both: float32 logits of probabilities,
        and labels from 0 to 1."""
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
