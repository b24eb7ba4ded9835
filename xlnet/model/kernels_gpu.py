"""Fused relative attention in TensorFlow's graph: the programs of `fused_attention`, for XLA on an
NVIDIA GPU.

Triton compiles a program to PTX, NVIDIA's portable machine code, when the graph is built, and XLA
launches that as a custom call: its target `__gpu$xla.gpu.ptx` belongs to XLA, so neither a library
of one's own nor a compiler on the target machine is needed. TensorFlow 2.21 has it. What the
programs do not cover (a mask that is no factorization order, a network without segments, dynamic
shapes) takes the tuned form; `kernels_gpu_check` compares them with the plain form before a run.
`modeling.relative_attention` is the specification.

Shape letters: B batch, Q positions of the sequence, P target positions, T query positions of a
stream (Q or P), K keys, R relative distances, N heads, H d_head.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf
from tensorflow.compiler.tf2xla.python import xla

from xlnet.model.kernels import Dropout, Stream, Weights
from xlnet.model.ops import repeated, shape_of
from xlnet.model.stateless_random import in_32_bits, keys_of_rows, mixed
from xlnet.support.errors import wrong

BLOCK = 64  # queries and keys of a block
ALIGNED_ROWS = 8  # the number of target positions is rounded up to a multiple
# Of a head: for dropout each query has a number, head x MOST_QUERIES + position.
MOST_QUERIES = 65536
PRECISIONS = ("bf16", "fp16")
HEAD_SIZES = (16, 32, 64, 128)  # Triton's blocks are powers of two
_TRITON_TYPES = {
    tf.bfloat16: "*bf16",
    tf.float16: "*fp16",
    tf.float32: "*fp32",
    tf.int32: "*i32",
}
_BELOW_ALL_RANKS = -(2**31)  # a query of this rank sees no key


def relative_attention(
    compute_capability: tuple[int, int],
    q: tf.Tensor,
    k: tf.Tensor,
    v: tf.Tensor,
    k_r: tf.Tensor,
    weights: Weights,
    stream: Stream,
    drops: Dropout,
) -> tf.Tensor:
    """Attention with relative positions and segments, [B,N,T,H], as `modeling.relative_attention`
    specifies it, in one program of the GPU.

    Args:
      compute_capability: of the GPU, such as (9, 0) for an H100.
      q: queries [B,N,T,H].
      k: keys [B,N,K,H].
      v: values [B,N,K,H].
      k_r: keys of the relative distances, [B or 1,N,R,H].
      weights: r_w, r_r, r_s and seg_embed of the layer are read.
      stream: its mask is a `Mask` by ranks, and it has segments.
      drops: the dropout of the probabilities.
    """
    # Without `first_distance_index` the queries are the complete sequence, otherwise target
    # positions. The number of these is rounded up, so that rows fill vectors of 16 bytes: cuBLAS
    # would otherwise copy the tensors.
    is_sequence = stream.first_distance_index is None
    unpadded_queries = shape_of(q)[2]
    num_added = 0 if is_sequence else -unpadded_queries % ALIGNED_ROWS
    q = tf.pad(q, [[0, 0], [0, 0], [0, num_added], [0, 0]])
    query_padding = [[0, 0], [0, num_added]]  # of [B,T]

    batch, heads, num_queries, head_size = shape_of(q)
    num_keys = shape_of(k)[2]
    k_r = repeated(k_r, batch)
    scale = 1.0 / math.sqrt(head_size)
    q_w = (q + weights.r_w) * scale  # [B,N,T,H]
    q_r = (q + weights.r_r) * scale

    # The segment term. A softmax does not change if a constant is added to all scores of a query.
    # So only the difference between "same segment" and "another segment" is added, at keys of the
    # same segment.
    same, other = tf.unstack(weights.seg_embed)  # [N,1,H]
    terms = tf.cast((q + weights.r_s) * (same - other), tf.float32)
    segment_score = tf.reduce_sum(terms, axis=-1) * scale  # [B,N,T]

    # The position term. That of the complete sequence is computed by the programs from the keys of
    # a band of distances; for target positions the scores are computed here and read from memory.
    # The programs do not read the arrays [1].
    if is_sequence:
        by_distance = tf.zeros([1], q.dtype)
        first_distance_index = tf.zeros([1], tf.int32)
    else:
        by_distance = tf.matmul(q_r, k_r, transpose_b=True)  # [B,N,P,R]
        first_distance_index = tf.cast(stream.first_distance_index, tf.int32)
        first_distance_index = tf.pad(first_distance_index, query_padding)

    # Two random numbers of each example, functions of the seed and of its index: uint32, passed on
    # bit by bit as int32. Zeros without dropout, where they make no difference.
    dropout_keys = tf.zeros([batch, 2], tf.int32)
    if drops.rate:
        keys = keys_of_rows(batch, drops.seed, drops.first_index)
        dropout_keys = tf.bitcast(tf.stack(keys, axis=1), tf.int32)

    def of_examples(x: tf.Tensor | None, length: int) -> tf.Tensor:
        """x [B or 1,length] as int32 [B,length]."""
        return tf.broadcast_to(tf.cast(x, tf.int32), [batch, length])

    # The integers, int32, in the order of the programs: [B,T] or one unused, [B,T], [B,K], [B,T],
    # [B,K], [B,2]. A query that was added sees nothing.
    mask = stream.mask
    query_rank = of_examples(mask.query_rank, unpadded_queries)
    integers = [
        first_distance_index,
        tf.pad(of_examples(stream.segments, unpadded_queries), query_padding),
        of_examples(stream.key_segments, num_keys),
        tf.pad(query_rank, query_padding, constant_values=_BELOW_ALL_RANKS),
        of_examples(mask.key_rank, num_keys),
        dropout_keys,
    ]
    sizes = _Sizes(
        T=num_queries,
        K=num_keys,
        R=shape_of(k_r)[2],
        N=heads,
        H=head_size,
        DROPPED=drops.dropped_of_65536,
        SEES_ITSELF=mask.own_key is not None,
        HAS_BAND=is_sequence,
    )
    # The programs have the heads inside: [B,T,N,H].
    vectors = [_swapped_heads(x) for x in (q_w, q_r, k, v, k_r)]
    floats = [*vectors, by_distance, segment_score]
    output = _attend(sizes, compute_capability, floats, integers)
    return _swapped_heads(output[:, :unpadded_queries])


def _swapped_heads(x: tf.Tensor) -> tf.Tensor:
    """[B,N,T,H] -> [B,T,N,H], and back."""
    return tf.transpose(x, [0, 2, 1, 3])


# ---- dropout ----


def kept(shape: Sequence[int], drops: Dropout) -> tf.Tensor:
    """The dropout mask of the programs: bool [B,N,T,K], True where a probability is kept.

    Each probability has 32 random bits of its own: a hash of its query and one of its key, combined
    and mixed by two multiplications, so that both passes can afford to compute them. The programs
    do it in registers; this is the specification.
    """
    batch, heads, num_queries, num_keys = shape
    # Two random words of each example, of the seed and the example's index.
    first_word, second_word = keys_of_rows(batch, drops.seed, drops.first_index)  # [B]
    first_word = tf.reshape(first_word, [batch, 1, 1, 1])
    second_word = tf.reshape(second_word, [batch, 1, 1, 1])

    # A hash of the query, whose number counts on through the heads, and a hash of the key.
    head = in_32_bits(tf.range(heads))[:, None, None]  # [N,1,1]
    position = in_32_bits(tf.range(num_queries))[:, None]  # [T,1]
    query = head * in_32_bits(MOST_QUERIES) + position  # [N,T,1]
    key = in_32_bits(tf.range(num_keys))  # [K]
    query_hash = mixed(mixed(query + first_word) + second_word)  # [B,N,T,1]
    key_hash = mixed(key + second_word)  # [B,1,1,K]

    # The constants are those of MurmurHash3's finalizer, as in `stateless_random`.
    bits = (query_hash ^ key_hash) * in_32_bits(0x85EBCA6B)  # [B,N,T,K]
    bits = bits ^ tf.bitwise.right_shift(bits, in_32_bits(15))
    bits = bits * in_32_bits(0xC2B2AE35)

    # A threshold in 32 bits: the fraction dropped_of_65536 / 65536 of all bit patterns is below.
    return bits >= in_32_bits(drops.dropped_of_65536 << 16)


# ---- the operation and its gradient ----


class _Sizes(NamedTuple):
    """The constants of the programs, by their names in `fused_attention`."""

    T: int  # padded
    K: int
    R: int
    N: int
    H: int
    DROPPED: int  # `Dropout.dropped_of_65536`
    SEES_ITSELF: bool  # whether a query also sees its own key
    HAS_BAND: bool  # whether the queries are the complete sequence


def _attend(
    sizes: _Sizes,
    compute_capability: tuple[int, int],
    floats: Sequence[tf.Tensor],
    integers: Sequence[tf.Tensor],
) -> tf.Tensor:
    """The output of attention, [B,T,N,H], with its gradient, by the programs.

    Args:
      sizes: the constants of the programs.
      compute_capability: of the GPU.
      floats: the inputs of `fused_attention.forward` that have a gradient, in its order: q_w and
        q_r [B,T,N,H], k and v [B,K,N,H], k_r [B,R,N,H], by_distance [B,N,T,R] or [1],
        segment_score [B,N,T].
      integers: its other inputs, in its order.
    """
    batch, dtype = floats[0].shape[0], floats[0].dtype
    # The outputs of the programs.
    of_queries = tf.TensorSpec([batch, sizes.T, sizes.N, sizes.H], dtype)
    of_distances = tf.TensorSpec([batch, sizes.R, sizes.N, sizes.H], dtype)
    of_rows = tf.TensorSpec([batch, sizes.N, sizes.T], tf.float32)
    of_scores = tf.TensorSpec([batch, sizes.N, sizes.T, sizes.K], dtype)

    def run(name: str, inputs: Sequence[tf.Tensor], *outputs: tf.TensorSpec) -> Any:
        """The outputs of a program, a list."""
        return run_program(name, sizes, compute_capability, inputs, outputs)

    @tf.custom_gradient
    def attend(*inputs: tf.Tensor) -> Any:
        """The output for these `floats`; and `gradient`, for `tf.custom_gradient`."""
        q_w, q_r, k, v, k_r, by_distance, _ = inputs
        all_inputs = [*inputs, *integers]
        output, log_sum = run("forward", all_inputs, of_queries, of_rows)

        def gradient(d_output: tf.Tensor) -> Any:
            """The gradients of `floats`, in their order, from that of the output; None where the
            programs do not read the input."""
            of_distance_scores = tf.TensorSpec(by_distance.shape, dtype)
            d_q_w, d_segment_score, probabilities, d_scores, d_by_distance = run(
                "backward",
                [*all_inputs, output, log_sum, d_output],
                of_queries,
                of_rows,
                of_scores,
                of_scores,
                of_distance_scores,
            )
            # Those of values and keys are sums over the queries: matmuls.
            d_v = tf.einsum("bntk,btnh->bknh", probabilities, d_output)
            d_k = tf.einsum("bntk,btnh->bknh", d_scores, q_w)
            # For the complete sequence the programs read q_r and k_r, for target positions
            # `by_distance`.
            d_q_r = d_k_r = None
            if sizes.HAS_BAND:
                d_by_distance = None
                (d_q_r,) = run("distance_query_gradient", [d_scores, k_r], of_queries)
                (d_k_r,) = run("distance_key_gradient", [d_scores, q_r], of_distances)
            return [d_q_w, d_q_r, d_k, d_v, d_k_r, d_by_distance, d_segment_score]

        return output, gradient

    return attend(*floats)


def run_program(
    name: str,
    sizes: _Sizes,
    compute_capability: tuple[int, int],
    inputs: Sequence[tf.Tensor],
    outputs: Sequence[tf.TensorSpec],
) -> list[tf.Tensor]:
    """Runs a program of `fused_attention` in XLA: once for each block of rows of its first output
    [B,rows,N,H], each head and each example.

    Args:
      name: of the program.
      sizes: its constants.
      compute_capability: of the GPU.
      inputs: in the program's order.
      outputs: shape and dtype of each output, in the program's order, after the inputs.

    Returns:
      The outputs.
    """
    types = tuple(_TRITON_TYPES[x.dtype] for x in [*inputs, *outputs])
    program, num_parameters = compiled(name, types, sizes, compute_capability)
    # Triton's programs have further pointers at the end that they do not use; each gets a buffer of
    # its own. They have different sizes, as equal tensors would be merged to one.
    num_unused = num_parameters - len(types)
    unused = [tf.zeros([1 + i], tf.int32) for i in range(num_unused)]
    first_output = len(inputs)
    batch, num_rows, heads, _ = outputs[0].shape.as_list()
    config = {
        **program,
        "grid_x": math.ceil(num_rows / BLOCK),
        "grid_y": heads,
        "grid_z": batch,
        "output_indices": list(range(first_output, first_output + len(outputs))),
    }
    # As MLIR writes attributes: JSON with names unquoted.
    pairs = [f"{key} = {json.dumps(value)}" for key, value in config.items()]
    attributes = "{" + ", ".join(pairs) + "}"
    target, operands = "__gpu$xla.gpu.ptx", [*inputs, *unused]
    return list(xla.custom_call_v2(target, operands, list(outputs), attributes))


# ---- compiling ----


@functools.cache
def compiled(
    name: str,
    types: tuple[str, ...],
    sizes: _Sizes,
    compute_capability: tuple[int, int],
) -> tuple[dict[str, Any], int]:
    """Compiles a program of `fused_attention`, in a process of its own: Triton and TensorFlow each
    bring an LLVM, and these do not go together in one process.

    Args:
      name: of the program.
      types: Triton's types of its pointers, inputs then outputs.
      sizes: its constants, of which it may read only some.
      compute_capability: of the GPU.

    Returns:
      (program, number of pointers that it takes: those of `types`, and some that Triton adds). The
      program is a part of the attributes of XLA's custom call: its code and the size of a block of
      threads.

    Raises:
      UserError: Triton is not installed, or does not compile the program.
    """
    if importlib.util.find_spec("triton") is None:
        raise wrong("fused_attention", "no triton", "Triton", "pip install triton")
    major, minor = compute_capability
    request = {
        "name": name,
        "types": types,
        "sizes": dict(sizes._asdict(), BLOCK=BLOCK),
        "capability": 10 * major + minor,  # as Triton writes it, such as 90
    }
    process = subprocess.run(
        [sys.executable, "-m", "xlnet.model.fused_attention"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        # It finds the modules that this process finds.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if process.returncode:
        # The last line of a traceback is its exception.
        reason = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise wrong(f"fused_attention: {name}", reason, "a program that compiles")
    program, num_parameters = json.loads(process.stdout)
    return program, num_parameters
