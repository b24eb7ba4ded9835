"""The choice of a run's kernels, and their tuned forms, which runs use on all devices: explicit
gradients, scores in blocks, elementwise work in loops compiled by XLA.

On a CPU the blocks fit its cache. A GPU, and XLA that compiles a complete step, use the same forms
with larger blocks and without loops: they keep fewer tensors than TensorFlow's gradients. On a TPU
attention has a form of its own (`kernels_tpu`). Each computes the plain form, in `modeling` and
`kernels`, up to rounding. The dropout masks of loops, of XLA and of several blocks are others.

Shape letters as in `modeling`; `rows` are the query positions of a block, R' its distances.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.model.kernels import (
    ACTIVATIONS,
    LAYER_NORM_EPSILON,
    NO_DROPOUT,
    Dropout,
    Kernels,
    Stream,
    Weights,
    additive_mask,
    inverse_shift_index,
    relative_shift,
    shift_back,
)
from xlnet.model.ops import dense, dense_back, in_rows, repeated, shape_of
from xlnet.model.stateless_random import fold_in, hashed

Pass = Callable[..., Any]  # the elementwise part of a forward or backward pass
Compiled = Callable[[Pass], Pass]  # `one_by_one`, `loop` or `fused`
Dense = tuple[tf.Tensor, tf.Tensor]  # kernel and bias


class BlockSize(NamedTuple):
    """How many query positions make a block: at least `rows`, on a CPU so few that their scores fit
    the cache; more, as long as the scores of an example, N x rows x K, are at most `cells`, for a
    GPU, which is faster with larger blocks."""

    rows: int
    cells: int = 0


LOOPS_FROM = 1024  # d_inner from which loops save more time than compiling them takes
MOST_BLOCKS = (
    16  # more would make the graph large and slow to build: blocks grow instead
)
CPU_BLOCKS = BlockSize(rows=128)
GPU_BLOCKS = BlockSize(rows=1, cells=2**24)


# ---- the choice ----


def choose(device: str, is_training: bool, recompute: bool, d_inner: int) -> Kernels:
    """The forms for a run. device: "cpu" or "gpu", for TensorFlow's operations one by one;
    "xla" or "tpu": compiled. Other arguments: see `tuned`."""
    compiled: Compiled
    if device in ("xla", "tpu"):
        compiled = fused
    elif device == "cpu" and is_training and d_inner >= LOOPS_FROM:
        compiled = loop  # not on a GPU, where --xla compiles the complete step
    else:
        compiled = one_by_one
    return tuned(
        blocks=CPU_BLOCKS if device == "cpu" else GPU_BLOCKS,
        compiled=compiled,
        is_training=is_training,
        recompute=recompute,
    )


def device_here() -> str:
    """The device for `choose`: that of the current device scope; without one, "gpu" if there is a
    GPU, else "cpu"."""
    # TensorFlow has no function that returns the device scope; an operation that is made in it has
    # its device.
    found = tf.DeviceSpec.from_string(tf.no_op().device).device_type or ""
    if found.upper().startswith("TPU") or not found and _on_tpu_replica():
        return "tpu"
    if found:
        return found.lower()
    return "gpu" if tf2.config.get_visible_devices("GPU") else "cpu"


def _on_tpu_replica() -> bool:
    """Whether the graph of a TPU's replica is being built: it has no device scope."""
    return isinstance(tf2.distribute.get_strategy(), tf2.distribute.TPUStrategy)


def tuned(
    *, blocks: BlockSize, compiled: Compiled, is_training: bool, recompute: bool
) -> Kernels:
    """The forms with these blocks of attention.

    Args:
      compiled: what elementwise work and dropout go through: `one_by_one`, `loop` or `fused`.
      is_training: whether the feed-forward layer has an explicit gradient.
      recompute: whether the backward pass computes attention probabilities again.
    """
    return Kernels(
        relative_attention=functools.partial(
            _relative_attention, blocks, compiled, recompute
        ),
        prepare_mask=additive_mask,
        feed_forward=(
            functools.partial(_feed_forward, compiled)
            if is_training
            else _fused_feed_forward
        ),
        layer_norm=_layer_norm,
        dropout=functools.partial(_dropout, compiled),
    )


# ---- loops and dropout ----


def one_by_one(function: Pass) -> Pass:
    """The function itself: TensorFlow runs one operation after the other."""
    return function


def fused(function: Pass) -> Pass:
    """The function itself, in a graph that XLA compiles. XLA fuses elementwise work, so a dropout
    mask is hashed where it is used; Philox's random bits would be computed and stored first, which
    took a sixth of a step on an H100."""
    return function


def loop(function: Pass) -> Pass:
    """Compiles an elementwise function of tensors to one loop.

    TensorFlow reads and writes memory for each operation, and rounds to bfloat16 after it. XLA
    compiles all of them to one loop over the elements, once for each shape, in less than 0.1 s.
    Numbers are float32 within it. The results have no gradients. All calls in a graph share the
    compiled code.
    """

    def wide(*tensors: tf.Tensor) -> Any:
        dtype = tensors[0].dtype
        results = function(
            *(tf.cast(x, tf.float32) if x.dtype == dtype else x for x in tensors)
        )
        return tf.nest.map_structure(lambda x: tf.cast(x, dtype), results)

    def call(*tensors: tf.Tensor) -> Any:
        # The compiled functions are kept as an attribute of the graph: they can only be called in
        # the graph in which they were made, and are freed together with it. `init_scope` leaves the
        # graphs of functions, which share the loops of the graph around them.
        with tf.init_scope():
            graph = tf.get_default_graph()
        if not hasattr(graph, "loops"):
            graph.loops = {}
        if function not in graph.loops:
            graph.loops[function] = tf2.function(
                wide, jit_compile=True, autograph=False
            )
        return graph.loops[function](*tensors)

    return call


def mask_source_of(
    x_shape: Sequence[Any], drops: Dropout, compiled: Compiled
) -> list[tf.Tensor]:
    """What `_where_kept` takes the dropout mask of a tensor from: nothing without dropout; the
    mask, for `one_by_one`; for `loop` and `fused` its seed and `Dropout.first_row`, from which each
    pass computes it again, so that no tensor of the shape is kept."""
    if not drops.rate:
        return []
    if compiled is one_by_one:
        return [drops.kept(x_shape)]
    first_row = 0 if drops.first_row is None else drops.first_row
    return [drops.seed, tf.convert_to_tensor(first_row)]


def _where_kept(
    x: tf.Tensor, threshold: int, mask_source: Sequence[tf.Tensor]
) -> tf.Tensor:
    """x with zeros where it is dropped; the others are not scaled yet.

    threshold: `Dropout.dropped_of_65536`. mask_source: as `mask_source_of` returns it.
    """
    if not mask_source:
        return x
    if len(mask_source) == 1:
        kept = mask_source[0]
    else:
        seed, first_row = mask_source
        kept = hashed(shape_of(x), seed, first_row) >= tf.constant(
            threshold << 16, tf.uint32
        )
    return tf.where_v2(kept, x, tf.zeros([], x.dtype))


def _dropout(compiled: Compiled, x: tf.Tensor, drops: Dropout) -> tf.Tensor:
    """`kernels.dropout`, whose gradient takes the dropout mask from the same source."""
    if not drops.rate:
        return x
    mask_source = mask_source_of(shape_of(x), drops, compiled)
    scaled_where_kept = compiled(
        _scaled_where_kept(drops.dropped_of_65536, drops.scale)
    )

    @tf.custom_gradient
    def drop(x: tf.Tensor) -> Any:
        def gradient(dy: tf.Tensor) -> tf.Tensor:
            return scaled_where_kept(dy, *mask_source)

        return scaled_where_kept(x, *mask_source), gradient

    return drop(x)


@functools.cache
def _scaled_where_kept(threshold: int, scale: float) -> Pass:
    return lambda x, *mask_source: _where_kept(x * scale, threshold, mask_source)


# ---- relative attention: the score as two matmuls ----


def _relative_attention(
    blocks: BlockSize,
    compiled: Compiled,
    recompute: bool,
    q: tf.Tensor,
    k: tf.Tensor,
    v: tf.Tensor,
    k_r: tf.Tensor,
    weights: Weights,
    stream: Stream,
    drops: Dropout = NO_DROPOUT,
) -> tf.Tensor:
    """`modeling.relative_attention`; the first three arguments are those of `tuned`."""
    scale = 1.0 / math.sqrt(shape_of(q)[3])
    q = q * scale  # here rather than the scores, which are larger
    wide_q, wide_k = widened(q, k, weights, stream, scale)
    # One matmul of these gives the content and the segment term, another one the position term.
    inputs = _Inputs(wide_q, q + weights.r_r * scale, wide_k, v, k_r)
    mask = stream.mask
    bias = None if mask is None else mask.bias
    heads = _attend(
        blocks, compiled, recompute, inputs, bias, stream.first_distance_index, drops
    )
    if mask is None or mask.has_visible_key is None:
        return heads
    return heads * tf.cast(mask.has_visible_key, heads.dtype)


def widened(
    q: tf.Tensor, k: tf.Tensor, weights: Weights, stream: Stream, scale: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Queries [B,N,T,H+S] and keys [B,N,K,H+S] whose product is the content and the segment term.
    q: already multiplied by `scale`."""
    # The content and the segment term are one matmul of wider queries and keys. A key is
    # concatenated with its segment, one-hot; a query with its score for "same segment" at its own
    # segment. Softmax ignores terms that are equal for all keys of a query, so that score is
    # s = (q + r_s)(same - other), and 0 for other segments. A query of segment 0, and three keys:
    #
    #     wide_q                wide_k: [k_0 | 1 0], [k_1 | 1 0], [k_2 | 0 1]
    #     [q + r_w | s 0]       scores: content + s, content + s, content
    wide_q, wide_k = q + weights.r_w * scale, k
    if stream.segments is not None:
        assert weights.r_s is not None and stream.key_segments is not None
        same, other = tf.unstack(weights.seg_embed)  # [N,1,H]
        # s is computed as vector times matrix, which takes half the time of matrix times vector.
        towards_same = tf.matmul(
            repeated((same - other)[None], shape_of(q)[0]),
            q + weights.r_s * scale,
            transpose_b=True,
        )  # [B,N,1,T]
        towards_same = tf.reshape(towards_same, shape_of(q)[:3] + [1])  # [B,N,T,1]
        wide_q = tf.concat([wide_q, towards_same * stream.segments], axis=-1)
        key_segments = tf.broadcast_to(
            stream.key_segments, shape_of(k)[:3] + [stream.key_segments.shape[3]]
        )
        wide_k = tf.concat([wide_k, key_segments], axis=-1)
    return wide_q, wide_k


# ---- relative attention: its gradient, block after block ----


class _Inputs(NamedTuple):
    """The tensors that have gradients, for all query positions or those of a block. q: [B,N,T,H+S].
    q_r: [B,N,T,H]. k: [B,N,K,H+S]. v: [B,N,K,H]. k_r: [B or 1,N,R,H]."""

    q: tf.Tensor
    q_r: tf.Tensor
    k: tf.Tensor
    v: tf.Tensor
    k_r: tf.Tensor


class _Block(NamedTuple):
    """A block of query positions.

    number: its place among the blocks. start, stop: its query positions. low, high: the distances
    of R that these read. is_all: whether it is the only block.
    """

    number: int
    start: int
    stop: Any
    low: int
    high: Any
    is_all: bool


def _attend(
    size: BlockSize,
    compiled: Compiled,
    recompute: bool,
    inputs: _Inputs,
    bias: Optional[tf.Tensor],
    first_distance_index: Optional[tf.Tensor],
    drops: Dropout,
) -> tf.Tensor:
    """softmax(q k + shift(q_r k_r) + bias) v with dropout of the probabilities: [B,N,T,H]. The
    backward pass gets the inputs, the result and, without `recompute`, the probabilities."""
    blocks, inputs = _blocks(size, inputs, first_distance_index)
    work = _Work(
        shape_of(inputs.k)[2],
        shape_of(inputs.k_r)[2],
        first_distance_index,
        drops,
        compiled,
    )

    # TensorFlow's own gradient would keep several tensors as large as the scores, for all blocks.
    @tf.custom_gradient
    def attend(*tensors: tf.Tensor) -> Any:
        inputs = _Inputs(*tensors)
        kept: list[tf.Tensor] = []
        outputs: list[tf.Tensor] = []
        for block in blocks:
            # The blocks are computed one after the other, so that their scores share the
            # processor's cache.
            with tf.control_dependencies(outputs[-1:]):
                kept.append(work.probabilities(block, inputs, bias))
                outputs.append(work.output(block, kept[-1], inputs.v))
        output = _joined(outputs)

        def gradient(dy: tf.Tensor) -> list[tf.Tensor]:
            return _gradients(
                work,
                blocks,
                inputs,
                bias,
                [None] * len(kept) if recompute else kept,
                output,
                dy,
            )

        return output, gradient

    return attend(*inputs)


def _gradients(
    work: _Work,
    blocks: Sequence[_Block],
    inputs: _Inputs,
    bias: Optional[tf.Tensor],
    kept: Sequence[Optional[tf.Tensor]],
    output: tf.Tensor,
    dy: tf.Tensor,
) -> list[tf.Tensor]:
    """The gradients of the inputs. kept: the probabilities of each block, or None."""
    # A block has the complete gradient of its own queries, but only a part of that of the keys,
    # values and distances, which all blocks read.
    dq, dq_r = [], []
    shared: list[tf.Tensor] = []  # gradients of k, v and k_r: sums over the blocks
    for block, p in zip(blocks, kept):
        # The blocks are computed one after the other, and none before the backward pass begins.
        with tf.control_dependencies(shared or [dy]):
            again = inputs
            # of copies, else the session would keep the forward pass' result
            if p is None:
                again = _Inputs(*(tf.identity(x) for x in inputs))
                p = work.probabilities(block, again, bias)
            own = work.gradient(block, p, again, _rows(output, block), _rows(dy, block))
            dq.append(own.q)
            dq_r.append(own.q_r)
            dk_r = own.k_r
            if inputs.k_r.shape[0] == 1:  # the batch shares them
                dk_r = tf.reduce_sum(dk_r, axis=0, keepdims=True)
            if not block.is_all:  # zeros for the distances of other blocks
                dk_r = _padded(dk_r, block.low, shape_of(inputs.k_r)[2] - block.high)
            more = [own.k, own.v, dk_r]
            shared = [a + b for a, b in zip(shared, more)] if shared else more
    return [_joined(dq), _joined(dq_r)] + shared


def _blocks(
    size: BlockSize, inputs: _Inputs, first_distance_index: Optional[tf.Tensor]
) -> tuple[list[_Block], _Inputs]:
    """(the `_Block`s of the query positions, the inputs). Pads the k_r of "uni" with zeros for the
    distances of later keys, which the mask hides."""
    _, heads, num_keys, _ = shape_of(inputs.k)
    num_queries = shape_of(inputs.q)[2]
    num_distances = shape_of(inputs.k_r)[2]
    # Target positions, and dynamic numbers of positions, make one block.
    sizes = (num_queries, num_keys, num_distances)
    is_static = all(isinstance(number, int) for number in sizes)
    if first_distance_index is not None or not is_static:
        only = _Block(
            number=0, start=0, stop=num_queries, low=0, high=num_distances, is_all=True
        )
        return [only], inputs
    k_r = _padded(inputs.k_r, 0, num_queries + num_keys - num_distances)
    count = min(MOST_BLOCKS, math.ceil(num_queries / size.rows))
    if size.cells:
        count = min(count, math.ceil(num_queries * heads * num_keys / size.cells))
    # Of a block; the last one may have fewer.
    rows = max(size.rows, math.ceil(num_queries / count))
    # Row i reads the K distances from index Q - i on; `relative_shift` needs one more before them,
    # which it drops. Example: four query positions and keys in blocks of two (x: read, ·: dropped):
    #
    #     index     0 1 2 3 4 5 6 7
    #     row 0             x x x x     block 0: low 2, high 8
    #     row 1         · x x x x
    #     row 2         x x x x         block 1: low 0, high 6
    #     row 3     · x x x x
    blocks = []
    for number, start in enumerate(range(0, num_queries, rows)):
        stop = min(start + rows, num_queries)
        blocks.append(
            _Block(
                number=number,
                start=start,
                stop=stop,
                low=num_queries - stop,
                high=num_queries - start + num_keys,
                is_all=num_queries <= rows,
            )
        )
    return blocks, inputs._replace(k_r=k_r)


def _rows(x: tf.Tensor, block: _Block) -> tf.Tensor:
    """The block's rows of x [*,*,T or 1,*]."""
    return x if block.is_all or x.shape[2] == 1 else x[:, :, block.start : block.stop]


def _padded(x: tf.Tensor, before: Any, after: Any) -> tf.Tensor:
    """x [*,*,T,*] with zeros before and after along axis T."""
    return (
        tf.pad(x, [[0, 0], [0, 0], [before, after], [0, 0]]) if before or after else x
    )


def _joined(blocks: Sequence[tf.Tensor]) -> tf.Tensor:
    return blocks[0] if len(blocks) == 1 else tf.concat(blocks, axis=2)


class _Work:
    """The computation of one block. Both passes take the dropout mask from the same source, see
    `mask_source_of`; each block has a seed of its own."""

    def __init__(
        self,
        num_keys: Any,
        distances: Any,
        first_distance_index: Optional[tf.Tensor],
        drops: Dropout,
        compiled: Compiled,
    ):
        self._num_keys = num_keys
        self._first_distance_index = first_distance_index
        self._drops = drops
        self._compiled = compiled
        # This is computed in the forward pass, where TensorFlow merges equal operations of all
        # layers.
        self._inverse_shift_index = (
            None
            if first_distance_index is None
            else inverse_shift_index(num_keys, distances, first_distance_index)
        )
        forward, backward = attention_passes(drops.dropped_of_65536)
        self._drop = compiled(forward)
        self._score_gradient = compiled(backward)

    def probabilities(
        self, block: _Block, inputs: _Inputs, bias: Optional[tf.Tensor]
    ) -> tf.Tensor:
        """[B,N,rows,K], of all `_Inputs`."""
        q, q_r, k_r = self._of_block(block, inputs)
        score = tf.matmul(q, inputs.k, transpose_b=True)  # [B,N,rows,K]
        by_distance = tf.matmul(q_r, k_r, transpose_b=True)  # [B,N,rows,R']
        score += relative_shift(by_distance, self._num_keys, self._first_distance_index)
        # The softmax is float32 in every precision: bfloat16 loses a sum of many small numbers.
        score = tf.cast(score, tf.float32)
        if bias is not None:
            score += _rows(bias, block)
        return tf.cast(tf.nn.softmax(score), q.dtype)

    def output(self, block: _Block, p: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        """[B,N,rows,H]."""
        if not self._drops.rate:
            return tf.matmul(p, v)
        dropped_out_p = self._drop(p, *self._mask_source(block, p))
        # The scale of dropout is applied after the matmul, where the tensor is narrower.
        return tf.matmul(dropped_out_p, v) * self._drops.scale

    def gradient(
        self,
        block: _Block,
        p: tf.Tensor,
        inputs: _Inputs,
        output: tf.Tensor,
        dy: tf.Tensor,
    ) -> _Inputs:
        """The gradients of a block's `_Inputs`; [B,N,R',H] for the distances. p: [B,N,rows,K];
        output, dy: [B,N,rows,H]."""
        # Go back through dropout and the softmax to the gradient of the scores. For one query with
        # the probabilities p, d = dropout(p), which is scaled, and the output o it is
        # dscore = d (v dy) - p sum(o dy). Here the scale of d is in dy.
        #
        # Three keys, H = 1, no dropout: p = [.5, .3, .2], v = [1, 2, 0] give o = 1.1. With dy = 1,
        # v dy is [1, 2, 0] and sum(o dy) = 1.1, so dscore = p ([1, 2, 0] - 1.1)
        # = [-.05, .27, -.22], which sums to 0, as adding a constant to all scores changes nothing.
        q, q_r, k_r = self._of_block(block, inputs)
        scaled_dy = dy * self._drops.scale  # [B,N,rows,H]
        products = tf.cast(output * dy, tf.float32)  # [B,N,rows,H]
        total = tf.reduce_sum(products, axis=-1, keepdims=True)  # [B,N,rows,1]
        dscore, dropped_out_p = self._score_gradient(  # [B,N,rows,K] both
            p,
            tf.matmul(scaled_dy, inputs.v, transpose_b=True),
            tf.cast(total, p.dtype),
            *self._mask_source(block, p),
        )
        # Go back through the shift, then through the matmuls.
        distances = shape_of(k_r)[2]  # R'
        by_distance = shift_back(
            dscore, distances, self._inverse_shift_index
        )  # [B,N,rows,R']
        return _Inputs(
            q=tf.matmul(dscore, inputs.k),  # [B,N,rows,H+S]
            q_r=tf.matmul(by_distance, k_r),  # [B,N,rows,H]
            k=tf.matmul(dscore, q, transpose_a=True),  # [B,N,K,H+S]
            v=tf.matmul(dropped_out_p, scaled_dy, transpose_a=True),  # [B,N,K,H]
            k_r=tf.matmul(by_distance, q_r, transpose_a=True),  # [B,N,R',H]
        )

    def _of_block(
        self, block: _Block, inputs: _Inputs
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The block's rows of q and q_r, and its distances of k_r, [B,N,R',H]."""
        k_r = inputs.k_r if block.is_all else inputs.k_r[:, :, block.low : block.high]
        return (
            _rows(inputs.q, block),
            _rows(inputs.q_r, block),
            repeated(k_r, shape_of(inputs.q)[0]),
        )

    def _mask_source(self, block: _Block, p: tf.Tensor) -> list[tf.Tensor]:
        if not self._drops.rate:
            return []
        drops = self._drops  # one block has the mask of the plain form
        if block.number:
            drops = drops._replace(seed=fold_in(drops.seed, block.number))
        return mask_source_of(shape_of(p), drops, self._compiled)


@functools.cache
def attention_passes(threshold: int) -> tuple[Pass, Pass]:
    """Two elementwise functions, of the forward pass: (p, *mask_source) -> p after dropout, and of
    the backward pass: (p, v times the scaled dy, sum(o dy), *mask_source) -> (gradient of the
    score, p after dropout). After dropout p is zeroed, but not scaled: the caller scales what is
    multiplied by it."""

    def forward(p: tf.Tensor, *mask_source: tf.Tensor) -> tf.Tensor:
        return _where_kept(p, threshold, mask_source)

    def backward(
        p: tf.Tensor, dp: tf.Tensor, total: tf.Tensor, *mask_source: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        dropped_out_p = _where_kept(p, threshold, mask_source)
        return dropped_out_p * dp - p * total, dropped_out_p

    return forward, backward


# ---- feed-forward layer ----


def _fused_feed_forward(
    x: tf.Tensor,
    inner: Dense,
    outer: Dense,
    activation: str,
    drops: Dropout = NO_DROPOUT,
) -> tf.Tensor:
    """For inference: TensorFlow fuses a matmul with the bias and the activation that follow it."""
    z = tf.nn.bias_add(tf.matmul(in_rows(x), inner[0]), inner[1])  # [B*T,F]
    y = tf.nn.bias_add(tf.matmul(ACTIVATIONS[activation](z), outer[0]), outer[1])
    return tf.reshape(y, shape_of(x))


def _feed_forward(
    compiled: Compiled,
    x: tf.Tensor,
    inner: Dense,
    outer: Dense,
    activation: str,
    drops: Dropout = NO_DROPOUT,
) -> tf.Tensor:
    """`kernels.feed_forward` with an explicit gradient."""
    # x, z [B,T,F] and, in the form `one_by_one`, the dropout mask are kept. The backward pass
    # computes the activation again, as it needs its parts for the slope.
    forward, backward = _activation_passes(
        VALUE_AND_SLOPE[activation], drops.dropped_of_65536
    )
    forward, backward = compiled(forward), compiled(backward)
    scale = drops.scale
    z_shape = shape_of(x)[:-1] + inner[0].shape.as_list()[1:]  # [B,T,F]
    mask_source = mask_source_of(z_shape, drops, compiled)

    @tf.custom_gradient
    def feed(
        x: tf.Tensor,
        kernel: tf.Tensor,
        bias: tf.Tensor,
        outer_kernel: tf.Tensor,
        outer_bias: tf.Tensor,
    ) -> Any:
        z = dense(x, kernel, bias)  # [B,T,F]

        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, ...]:
            # else the forward pass' activation is kept
            with tf.control_dependencies([dy]):
                again = tf.identity(z)
            scaled = dy * scale
            dz, value = backward(again, dense_back(scaled, outer_kernel), *mask_source)
            return (
                dense_back(dz, kernel),
                tf.matmul(in_rows(x), in_rows(dz), transpose_a=True),
                column_sums(dz),
                tf.matmul(in_rows(value), in_rows(scaled), transpose_a=True),
                column_sums(dy),
            )

        # The scale of dropout is applied after the matmul, where the tensor is narrower.
        return dense(
            forward(z, *mask_source), outer_kernel
        ) * scale + outer_bias, gradient

    return feed(x, *inner, *outer)


def column_sums(x: tf.Tensor) -> tf.Tensor:
    """x [...,D] over all but the last axis: [D].

    `BiasAddGrad` takes half the time of `tf.reduce_sum`, but sums bfloat16 in bfloat16, which loses
    most of many small numbers.
    """
    if x.dtype == tf.bfloat16:
        return tf.reduce_sum(in_rows(x), axis=0)
    return tf.cast(
        tf.raw_ops.BiasAddGrad(out_backprop=tf.cast(in_rows(x), tf.float32)), x.dtype
    )


@functools.cache
def _activation_passes(
    value_and_slope: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]], threshold: int
) -> tuple[Pass, Pass]:
    """Two elementwise functions, of the forward pass: (z, *mask_source) -> value, and of the
    backward pass: (z, gradient of the value, *mask_source) -> (gradient of z, value). The value is
    that after dropout: zeroed, not yet scaled."""

    def forward(z: tf.Tensor, *mask_source: tf.Tensor) -> tf.Tensor:
        return _where_kept(value_and_slope(z)[0], threshold, mask_source)

    def backward(
        z: tf.Tensor, dvalue: tf.Tensor, *mask_source: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        value, slope = value_and_slope(z)
        dz = _where_kept(dvalue, threshold, mask_source) * slope
        return dz, _where_kept(value, threshold, mask_source)

    return forward, backward


def gelu(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """`kernels.gelu` and its slope.

    0.5 x (1 + tanh(u)) = x sigmoid(2 u), with u = sqrt(2 / pi) (x + 0.044715 x^3).
    """
    linear = 2.0 * math.sqrt(2.0 / math.pi)
    cubic = 0.044715 * linear
    # x is clipped: 256^2 overflows float16, and the slope would be 0 times infinity. Beyond 10 the
    # gate is 0 or 1 in any case.
    square = tf.minimum(x * x, tf.constant(1e4, x.dtype))
    gate = tf.sigmoid(x * (linear + cubic * square))
    value = x * gate
    return value, gate + value * (1.0 - gate) * (linear + 3.0 * cubic * square)


def gelu_erf(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """`kernels.gelu_erf` and its slope: x P(X <= x) for a standard normal X."""
    below = 0.5 * (1.0 + tf.math.erf(x * math.sqrt(0.5)))
    return x * below, below + x * tf.exp(-0.5 * x * x) * (
        1.0 / math.sqrt(2.0 * math.pi)
    )


def relu(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The positive part of x, and its slope."""
    return tf.nn.relu(x), tf.cast(x > 0, x.dtype)


VALUE_AND_SLOPE = {"relu": relu, "gelu": gelu, "gelu_erf": gelu_erf}


# ---- layer norm ----


def _layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    """`kernels.layer_norm` with an explicit gradient, which keeps one tensor of the shape of x."""

    @tf.custom_gradient
    def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        wide = tf.cast(x, tf.float32)
        centred = wide - tf.reduce_mean(wide, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        inverse = tf.rsqrt(variance + LAYER_NORM_EPSILON)
        normal = centred * inverse

        # With n the normalized x and g its gradient, the gradient of x is
        # (g - mean(g) - n mean(g n)) / deviation: n and the deviation are all that it needs.
        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            dy = tf.cast(dy, tf.float32)
            dn = dy * gamma
            along = tf.reduce_mean(dn * normal, axis=-1, keepdims=True)
            dx = (
                dn - tf.reduce_mean(dn, axis=-1, keepdims=True) - normal * along
            ) * inverse
            return tf.cast(dx, x.dtype), column_sums(dy * normal), column_sums(dy)

        return tf.cast(normal * gamma + beta, x.dtype), gradient

    return normalize(x, gamma, beta)
