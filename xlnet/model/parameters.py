"""The learned weights, under the names of the released checkpoints, and what all layers share:
precision, dropout, the form for the device.

Shape letters: B batch, N heads, H d_head, D d_model.
"""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from xlnet.model import kernels_tuned, ops
from xlnet.model.kernels import NO_DROPOUT, Dense, Dropout, Norm, Weights
from xlnet.model.stateless_random import fold_in
from xlnet.settings.network import DTYPES, RunConfig, XLNetConfig

# The names of the matrices within the Transformer; that of an output layer is not among them.
_MATRIX = re.compile("/transformer/.*(/kernel|/lookup_table)$")
# The initializers that take a seed.
_RANDOM = (tf.initializers.random_normal, tf.initializers.random_uniform)


def model_scope(kept_in: str | None = None) -> tf.variable_scope:
    """The variable scope of the network. The initial value of a weight depends only on its name and
    the seed of the graph: it is the same for any devices and micro-batches.

    Args:
      kept_in: the precision in which the network's matrices are stored, for inference only: "fp32",
        "bf16" or "fp16", that of the matmuls, which would otherwise round them in each step.
        Biases, norms and the output layer's matrix stay float32. None: float32.
    """

    def get_variable(
        getter: Callable[..., Any],
        name: str,
        *args: Any,
        initializer: Any = None,
        **kwargs: Any,
    ) -> Any:
        """`tf.get_variable`, which is `getter`, with this weight's own seed and dtype."""
        # A seed is a function of the variable's name: a CRC of 32 bits, of which 31 are taken, as
        # TensorFlow's seeds have so many.
        if isinstance(initializer, _RANDOM):
            seed = zlib.crc32(name.encode()) >> 1
            values = dict(initializer.get_config(), seed=seed)
            initializer = type(initializer).from_config(values)
        if kept_in and _MATRIX.search(name):
            kwargs["dtype"] = tf.as_dtype(DTYPES[kept_in])
            initializer = _rounding(initializer)
        return getter(name, *args, initializer=initializer, **kwargs)

    # The variables are reused: replicas, micro-batches and a compiled step use the same ones.
    return tf.variable_scope("model", custom_getter=get_variable, reuse=tf.AUTO_REUSE)


def _rounding(initializer: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """An initializer that samples in float32, then casts to the type of the variable."""
    return lambda shape, dtype: tf.cast(initializer(shape, tf.float32), dtype)


class LayerContext:
    """What a layer, or the network around its layers, needs besides its inputs: sizes, rates,
    precision, form, the next dropout.

    Args:
      config: the architecture.
      run_config: how the network is run. As an attribute, its device is not None.
      seed: of all dropout, uint64 [1] or two 32-bit halves, see `stateless_random`; None: there is
        none.
      first_row: the index of batch element 0 in the global batch, on which dropout masks depend;
        None: batch elements have no index.
      precision: of the matmuls, "fp32", "bf16" or "fp16"; None: that of the run.
    """

    def __init__(
        self,
        config: XLNetConfig,
        run_config: RunConfig,
        seed: tf.Tensor | None,
        first_row: Any = None,
        precision: str | None = None,
    ):
        """The arguments are those of the class."""
        self.config = config
        # The device is determined here: a function that builds a layer does not see the device
        # scope of its caller.
        device = run_config.device or ops.device_here()
        self.run_config = dataclasses.replace(run_config, device=device)
        self.seed = seed
        self.first_row = first_row
        # Matmuls are in this type; weights, softmax, layer norm and loss are float32.
        self.dtype = tf.as_dtype(DTYPES[precision or str(run_config.precision)])
        # How elementwise work enters the graph, by the device.
        self.elementwise_form = kernels_tuned.form_of(
            device, run_config.is_training, config.d_inner
        )
        self._dropouts = 0  # how many there were so far

    def variable(
        self,
        name: str,
        shape: Sequence[int],
        initializer: tf.initializers.Initializer | None = None,
    ) -> tf.Tensor:
        """A weight of `get_weight`, cast to the dtype of the matmuls. initializer None: that of the
        run."""
        return self.cast(
            get_weight(name, shape, initializer or get_initializer(self.run_config))
        )

    def cast(self, x: tf.Tensor) -> tf.Tensor:
        """x in the dtype of the matmuls."""
        return tf.cast(x, self.dtype)

    def dropout(self, x: tf.Tensor, rate: float) -> tf.Tensor:
        """Dropout of x [B,...]. Each call has its own mask, a function of the seed and the batch
        element."""
        return kernels_tuned.dropout(self.elementwise_form, x, self.next_dropout(rate))

    def next_dropout(self, rate: float) -> Dropout:
        """The dropout for the next place, at this rate; off if the run does not train.

        The seed of the n-th dropout folds in n, so the masks of a network depend on the order in
        which its parts call this.
        """
        if not self.run_config.is_training or not rate:
            return NO_DROPOUT
        assert self.seed is not None, "dropout in training needs a seed"
        self._dropouts += 1
        return Dropout(rate, fold_in(self.seed, self._dropouts), self.first_row)


def get_initializer(run_config: RunConfig) -> tf.initializers.Initializer:
    """The initializer of all kernels and embeddings, per `run_config.init`."""
    if run_config.init == "uniform":
        return tf.initializers.random_uniform(
            -run_config.init_range, run_config.init_range
        )
    return tf.initializers.random_normal(stddev=run_config.init_std)


def get_weight(
    name: str, shape: Sequence[int], initializer: tf.initializers.Initializer
) -> tf.Tensor:
    """A variable of this name, made or reused, as a tensor: float32 unless `model_scope` stores it
    otherwise."""
    # Read here, once: a gather from the variable itself would make later reads copy it.
    return tf.convert_to_tensor(
        tf.get_variable(name, shape, tf.float32, initializer, use_resource=True)
    )


def layer_weights(net: LayerContext, has_segments: bool) -> list[Weights]:
    """The `Weights` of each layer, from variables in `layer_<i>`; r_w, r_r, r_s and seg_embed from
    one variable for all layers. has_segments: without, r_s and seg_embed are None.

    Untied (`untie_r`), a layer has its own r_w, r_r and r_s; seg_embed is always the layer's own.
    """
    config = net.config
    heads = [config.n_head, config.d_head]

    def biases(name: str) -> list[Any]:
        """The bias `name` of each layer, [N,1,H]."""
        # Released models have a bias for each layer, stacked; Transformer-XL has one for all.
        if config.untie_r:
            return tf.unstack(net.variable(name, [config.n_layer] + heads)[:, :, None])
        return [net.variable(name, heads)[:, None]] * config.n_layer

    r_w, r_r = biases("r_w_bias"), biases("r_r_bias")
    r_s = seg_embed = [None] * config.n_layer
    if has_segments:
        r_s = biases("r_s_bias")
        embeddings = net.variable("seg_embed", [config.n_layer, 2] + heads)
        seg_embed = tf.unstack(embeddings[:, :, :, None])  # [2,N,1,H] each
    layers = []
    width, inner_width = config.d_model, config.d_inner
    for layer in range(config.n_layer):
        with tf.variable_scope(f"layer_{layer}"):
            weights = Weights(
                q=head_kernel(net, "rel_attn/q"),
                k=head_kernel(net, "rel_attn/k"),
                v=head_kernel(net, "rel_attn/v"),
                r=head_kernel(net, "rel_attn/r"),
                o=head_kernel(net, "rel_attn/o"),
                r_w=r_w[layer],
                r_r=r_r[layer],
                r_s=r_s[layer],
                seg_embed=seg_embed[layer],
                attention_norm=norm_weights(net, "rel_attn/LayerNorm"),
                inner=dense_weights(net, "ff/layer_1", width, inner_width),
                outer=dense_weights(net, "ff/layer_2", inner_width, width),
                feed_forward_norm=norm_weights(net, "ff/LayerNorm"),
            )
        layers.append(weights)
    return layers


def head_kernel(net: LayerContext, scope: str) -> tf.Tensor:
    """The projection `scope`/kernel [D,N,H], read as a matrix [D,N*H]."""
    config = net.config
    with tf.variable_scope(scope):
        # Of three axes, as checkpoints have it.
        kernel = net.variable("kernel", [config.d_model, config.n_head, config.d_head])
    return tf.reshape(kernel, [config.d_model, config.n_head * config.d_head])


def dense_weights(
    net: LayerContext, scope: str, width_in: int, width_out: int
) -> Dense:
    """The weights of a dense layer, `scope`/kernel [width_in,width_out] and `scope`/bias
    [width_out]."""
    with tf.variable_scope(scope):
        kernel = net.variable("kernel", [width_in, width_out])
        bias = net.variable("bias", [width_out], tf.initializers.zeros())
    return kernel, bias


def norm_weights(net: LayerContext, scope: str) -> Norm:
    """`scope`/gamma and `scope`/beta of a layer norm, float32 [D] each."""
    with tf.variable_scope(scope):
        beta = get_weight("beta", [net.config.d_model], tf.initializers.zeros())
        gamma = get_weight("gamma", [net.config.d_model], tf.initializers.ones())
    return gamma, beta
