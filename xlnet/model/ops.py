"""Operations on tensors that all parts of the network use, and how a layer enters TensorFlow's
graph.

Shape letters: B batch, T positions, P those of them that are read, N heads, H d_head, D width, I
and O the widths of a dense layer's input and output, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

# Tensors or arrays by name, such as the features of a batch.
Tensors = dict[str, tf.Tensor]
Arrays = dict[str, np.ndarray]


def gradients(
    y: Any, xs: Sequence[tf.Tensor], dy: Any = None
) -> list[tf.Tensor | None]:
    """`tf.gradients`, with the gradients of a tensor that is used several times summed in pairs.

    y: a tensor or a nest of them; dy: the gradients of y, of the same nest; None: ones. Returns the
    gradients of `xs`; None for one that y does not depend on.

    TensorFlow's sum of more tensors starts with the first buffer that it can reuse: where
    operations run in parallel, the last bit depends on which of them ends first.
    """
    # The default is changed for the time of the call, as no argument of `tf.gradients` reaches the
    # gradients within functions. It is a global of the process. That is safe because graphs of
    # training are built one at a time, and the threads of a strategy's replicas take turns. Should
    # another thread make gradients meanwhile, its sums would have another order of their terms.
    before = tf.AggregationMethod.DEFAULT
    tf.AggregationMethod.DEFAULT = tf.AggregationMethod.EXPERIMENTAL_TREE
    try:
        return tf.gradients(y, xs, dy)
    finally:
        tf.AggregationMethod.DEFAULT = before


def device_here() -> str:
    """The device of the current device scope: "cpu", "gpu" or "tpu". Without a scope, "tpu" in a
    replica of a TPU, else "gpu" if there is a GPU, else "cpu"."""
    # TensorFlow has no function that returns the device scope; an operation that is made in it has
    # its device, "" without a scope.
    in_scope = tf.DeviceSpec.from_string(tf.no_op().device).device_type or ""
    # The graph of a TPU's replica has no device scope.
    strategy = tf2.distribute.get_strategy()
    is_replica = not in_scope and isinstance(strategy, tf2.distribute.TPUStrategy)
    if in_scope.upper().startswith("TPU") or is_replica:  # also "TPU_REPLICATED_CORE"
        return "tpu"
    if in_scope:
        return in_scope.lower()
    return "gpu" if tf2.config.get_visible_devices("GPU") else "cpu"


def cast_integers(features: Tensors) -> Tensors:
    """The features by name, integers cast to the type of the device; others stay as they are.

    int64, as TensorFlow computes int32 on the host, where it is used for shapes, and would copy the
    results to the GPU in every step. int32 on a TPU, which computes int64 in two parts.
    """
    wanted, unwanted = tf.int64, tf.int32
    if device_here() == "tpu":
        wanted, unwanted = unwanted, wanted
    cast = {}
    for name, value in features.items():
        cast[name] = tf.cast(value, wanted) if value.dtype == unwanted else value
    return cast


def shape_of(x: tf.Tensor) -> list[Any]:
    """The shape as a list: Python ints where they are static, scalar tensors elsewhere."""
    sizes = x.shape.as_list()
    if None not in sizes:
        return sizes
    dynamic = tf.shape(x)
    return [dynamic[i] if size is None else size for i, size in enumerate(sizes)]


def count_to(size: Any, dtype: tf.DType) -> tf.Tensor:
    """0, 1, ... size - 1 in `dtype`: [size]; `size` as `shape_of` returns it, an int or a scalar.

    Without `tf.range`, which counts on the host: a GPU would wait for it.
    """
    if isinstance(size, int):
        return tf.constant(np.arange(size), dtype)
    return tf.cumsum(tf.fill([size], tf.ones([], dtype)), exclusive=True)


def lookup(table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Looks up ids [B,T] in table [V,D]: [B,T,D].

    The gradient of the table is dense, a sum over the ids: the embedding table is also the weights
    of the softmax, whose gradient is dense in any case. TensorFlow's own gradient would be sparse,
    and would compute indices on the host, for which a GPU would wait.
    """

    @tf.custom_gradient
    def run(table: tf.Tensor, ids: tf.Tensor) -> Any:
        """The rows of the ids; and `gradient`, for `tf.custom_gradient`."""

        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, None]:
            size, width = shape_of(table)
            rows = tf.reshape(dy, [-1, width])
            flat = tf.reshape(ids, [-1])
            return tf.math.unsorted_segment_sum(rows, flat, size), None

        return tf.gather(table, ids), gradient

    return run(table, ids)


def gather_rows(x: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Positions `rows` [B,P] of x [B,T,D]: [B,P,D], with the gradient of `lookup`."""
    batch, length, width = shape_of(x)
    # In the matrix [B*T,D] the rows of batch element b begin at b * T.
    begins = count_to(batch, rows.dtype) * tf.cast(length, rows.dtype)  # [B]
    return lookup(tf.reshape(x, [batch * length, width]), rows + begins[:, None])


def in_rows(x: tf.Tensor) -> tf.Tensor:
    """x [...,D] as a matrix [rows,D]."""
    return tf.reshape(x, [-1, x.shape[-1]])


def dense(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
    """`x [..., I] @ kernel [I, O] + bias [O]`: [..., O]. bias None: none is added.

    Not with `bias_add`: its gradient sums bfloat16 in bfloat16 on a CPU, where 8,192 times 0.01
    gives 4.
    """
    y = tf.matmul(in_rows(x), kernel)
    y = tf.reshape(y, shape_of(x)[:-1] + [kernel.shape[1]])
    return y if bias is None else y + bias


def dense_back(y: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """`y [..., O] @ transpose(kernel [I, O])`: [..., I], the gradient of the x of `dense`."""
    x = tf.matmul(in_rows(y), kernel, transpose_b=True)
    return tf.reshape(x, shape_of(y)[:-1] + [kernel.shape[0]])


def repeated(x: tf.Tensor, batch: Any) -> tf.Tensor:
    """x [1,...] once for each of `batch` batch elements, an int or a scalar: [B,...]. x [B,...] is
    returned as it is.

    For the operands of a matmul, whose batch dimensions must not broadcast. TensorFlow 2.21 with
    oneDNN, on a processor with AMX, writes out of bounds where they are [B,1] and [1,1], a network
    with one head: wrong matmuls from the second call on, then a crash. The smallest case:

        product = tf.function(lambda x, y: tf.matmul(x, y, transpose_b=True))
        for _ in range(5):
            print(np.unique(product(np.ones([3, 1, 9, 3], "f"), np.ones([1, 1, 18, 3], "f"))))

    prints [3.] each time with TF_ENABLE_ONEDNN_OPTS=0.
    """
    if x.shape[0] != 1 or (isinstance(batch, int) and batch == 1):
        return x

    @tf.custom_gradient
    def tiled(x: tf.Tensor) -> Any:
        """x once for each batch element; and `gradient`, for `tf.custom_gradient`."""

        # TensorFlow's gradient computes shapes on the host, for which a GPU would wait.
        def gradient(dy: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(dy, axis=0, keepdims=True)

        once = [1] * (len(x.shape) - 1)  # along the other axes
        return tf.tile(x, [batch, *once]), gradient

    return tiled(x)


def split_heads(x: tf.Tensor, heads: int) -> tf.Tensor:
    """[B,T,N*H] -> [B,N,T,H]."""
    batch, length, width = shape_of(x)
    x = tf.reshape(x, [batch, length, heads, width // heads])
    return tf.transpose(x, [0, 2, 1, 3])


def merge_heads(x: tf.Tensor) -> tf.Tensor:
    """[B,N,T,H] -> [B,T,N*H]."""
    batch, heads, length, width = shape_of(x)
    x = tf.transpose(x, [0, 2, 1, 3])
    return tf.reshape(x, [batch, length, heads * width])


# ---- a function computed again in the backward pass, or built once for all calls ----


def optimization_barrier(*tensors: tf.Tensor) -> list[tf.Tensor]:
    """The same tensors, as outputs of XLA's optimization barrier.

    TensorFlow and XLA compute beforehand what follows from constants, and compute once what is
    written twice. They do neither across a barrier.
    """
    from tensorflow.compiler.tf2xla.python import xla  # a part that others do not need

    return list(xla.optimization_barrier(*tensors))


def recomputed(function: Callable[..., Any], is_compiled: bool, *inputs: Any) -> Any:
    """Gradient checkpointing: `function(*inputs)` without keeping its intermediate tensors.

    The backward pass runs `function` again, so it must depend on its inputs alone: it reads no
    variables, and its dropout masks come from a seed among the inputs.

    Args:
      function: returns a nest of tensors and None.
      is_compiled: whether XLA compiles the graph.
      inputs: nests of tensors and other values.
    """
    # `tf.custom_gradient` takes and returns tensors alone. So nests are taken apart before it and
    # put together within `call`; those of the outputs the other way round.
    leaves = tf.nest.flatten(inputs)
    input_tensors = [leaf for leaf in leaves if tf.is_tensor(leaf)]
    nests = []  # the outputs as `function` nests them, of each call

    def call(tensors: Any) -> list[tf.Tensor]:
        """The outputs that are tensors, for these tensors in the place of `input_tensors`."""
        next_tensor = iter(tensors)
        replaced = []
        for leaf in leaves:
            replaced.append(next(next_tensor) if tf.is_tensor(leaf) else leaf)
        outputs = function(*tf.nest.pack_sequence_as(inputs, replaced))
        nests.append(outputs)
        return [output for output in tf.nest.flatten(outputs) if output is not None]

    @tf.custom_gradient
    def forward(*tensors: tf.Tensor) -> Any:
        """The outputs that are tensors; and `gradient`, for `tf.custom_gradient`."""

        def gradient(*dys: tf.Tensor) -> Any:
            """The gradients of `tensors`, from those of the outputs, by a second run."""
            # The inputs are copied in such a way that the second run does not start before the
            # gradients `dys` are there, and is not merged with the first run.
            if is_compiled:
                copies = optimization_barrier(*tensors, *dys)
                tensors_again = copies[: len(tensors)]
                output_gradients = copies[len(tensors) :]
            else:
                with tf.control_dependencies(dys):
                    tensors_again = [tf.identity(x) for x in tensors]
                output_gradients = list(dys)
            # The scope is in the names of the operations, for profiles.
            with tf.name_scope("recomputed"):
                return gradients(call(tensors_again), tensors_again, output_gradients)

        return call(tensors), gradient

    # The outputs in the nest of the first call, that of the forward pass.
    computed = iter(forward(*input_tensors))
    return tf.nest.map_structure(
        lambda output: None if output is None else next(computed), nests[0]
    )


def traced_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as a function of TensorFlow, which is traced once, together with its gradient, for
    all calls with tensors of the same shapes and dtypes and the same other inputs: so a network
    whose layers call it is built faster.

    `function` must depend on its inputs alone, nests of tensors and other values; not variables:
    under a strategy all calls would read those of the first. Each call is one operation of the
    graph, which the session inlines: see `devices.Devices.session_config`.
    """
    # The lambda takes any inputs by position, as `function` may be a partial one.
    return tf2.function(lambda *inputs: function(*inputs), autograph=False)
