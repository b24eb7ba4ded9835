"""Compares fused attention on this GPU with the plain form, before a run.

Shape letters: B batch, Q positions of the sequence, M remembered positions, K = M + Q keys, P
target positions, T query positions (Q or P), R = K + Q relative distances, N heads, H d_head.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.model import kernels_gpu, modeling
from xlnet.model.kernels import Dropout, Mask, Stream, Weights, additive_mask
from xlnet.settings.network import DTYPES
from xlnet.support.errors import wrong

# B, N, Q, M, P: several blocks (`kernels_gpu.BLOCK`) of positions and of keys, the last incomplete,
# and one of targets.
_BATCH, _HEADS, _LENGTH, _MEMORY, _TARGETS = 2, 2, 96, 64, 24
MOST_DIFFERENCE = 0.03  # of the norm of a result; bfloat16 alone makes 0.005 to 0.01


class _SameDropout(Dropout):
    """Dropout with the mask of the fused form, so that the plain form drops the same."""

    def kept(self, shape: Any) -> tf.Tensor:
        return kernels_gpu.kept(shape, self)


def check(
    compute_capability: tuple[int, int],
    precision: str,
    head_size: int,
    config: tf.ConfigProto,
) -> None:
    """Raises where fused attention is wrong on this GPU: compares outputs and gradients of both
    streams with the plain form, on random numbers.

    Args:
      compute_capability: of the GPU.
      precision: "bf16" or "fp16".
      head_size: H.
      config: of the session.

    Raises:
      UserError: the programs do not cover this head size or precision, do not run here, or a
        result differs by more than rounding does.
    """
    where = "fused_attention"
    if (
        precision not in kernels_gpu.PRECISIONS
        or head_size not in kernels_gpu.HEAD_SIZES
    ):
        given = f"precision {precision} and d_head {head_size}"
        raise wrong(where, given, f"bf16 or fp16, and one of {kernels_gpu.HEAD_SIZES}")
    for targets in (0, _TARGETS):  # the content stream, the query stream
        try:
            largest = difference(
                compute_capability, precision, head_size, targets, config
            )
        except tf.errors.OpError as error:  # of XLA, or of the GPU's driver
            reason = str(error.message).splitlines()[0]
            raise wrong(where, reason, "a GPU that runs its programs") from error
        if not largest <= MOST_DIFFERENCE:  # also true for NaN
            differ = (
                f"results on this GPU that differ by {largest:.1%} from the plain form"
            )
            raise wrong(where, differ, f"at most {MOST_DIFFERENCE:.0%}")


def difference(
    compute_capability: tuple[int, int],
    precision: str,
    head_size: int,
    targets: int,
    config: tf.ConfigProto,
) -> float:
    """The largest difference of a result, the output or a gradient, between the fused and the plain
    form, as a fraction of the plain one's norm; NaN if one is NaN.

    Args:
      compute_capability: of the GPU.
      precision: of the matmuls; the plain form computes in float32.
      head_size: H.
      targets: P, for the query stream; 0: the content stream.
      config: of the session.
    """
    # A factorization order of the sequence, and where the queries are in it.
    rng = np.random.RandomState(0)
    num_keys, queries = _MEMORY + _LENGTH, targets or _LENGTH
    rank = np.stack([rng.permutation(_LENGTH) for _ in range(_BATCH)])  # [B,Q]
    # The positions of the queries, [B,T]: all positions for the content stream, as sorted.
    sampled = [rng.permutation(_LENGTH)[:queries] for _ in range(_BATCH)]
    positions = np.sort(sampled, axis=1)
    of_memory = np.full((_BATCH, _MEMORY), modeling.RANK_OF_MEMORY)  # ranks

    # The shapes of the random inputs.
    of_queries = [_BATCH, _HEADS, queries, head_size]
    of_keys = [_BATCH, _HEADS, num_keys, head_size]
    of_distances = [_BATCH, _HEADS, num_keys + _LENGTH, head_size]
    bias = [_HEADS, 1, head_size]
    # Of q, k, v, k_r; r_w, r_r, r_s, seg_embed; the gradient of the output.
    shapes = [of_queries, of_keys, of_keys, of_distances]
    shapes += [bias, bias, bias, [2, *bias], of_queries]

    with tf.Graph().as_default(), tf.Session(config=config) as session:
        inputs = []
        for shape in shapes:
            values = tf.constant(rng.randn(*shape))
            inputs.append(tf.cast(values, DTYPES[precision]))
        mask = Mask(
            key_rank=tf.constant(np.concatenate([of_memory, rank], axis=1)),
            query_rank=tf.constant(np.take_along_axis(rank, positions, axis=1)),
            # One row for all batch elements: each has all positions in their order.
            own_key=None if targets else tf.constant(_MEMORY + positions[:1]),
        )
        stream = Stream(
            mask,
            segments=tf.constant(rng.randint(0, 2, (_BATCH, queries))),
            key_segments=tf.constant(rng.randint(0, 2, (_BATCH, num_keys))),
            first_distance_index=tf.constant(_LENGTH - positions) if targets else None,
        )
        drops = _SameDropout(0.1, tf.constant([7], tf.uint64), 0)

        def results(
            attention: Callable[..., tf.Tensor], stream: Stream, *inputs: tf.Tensor
        ) -> list[tf.Tensor]:
            """The output, and the gradients of all inputs but the last, which is the gradient of
            the output."""
            q, k, v, k_r, r_w, r_r, r_s, seg_embed, d_output = inputs
            # Attention reads these weights alone; the others are None.
            named: dict[str, Any] = dict.fromkeys(Weights._fields)
            named.update(r_w=r_w, r_r=r_r, r_s=r_s, seg_embed=seg_embed)
            weights = Weights(**named)
            output = attention(q, k, v, k_r, weights, stream, drops)
            return [output, *tf.gradients(output, inputs[:-1], d_output)]

        # Only XLA can call the programs.
        programs = functools.partial(kernels_gpu.relative_attention, compute_capability)
        run_fused = functools.partial(results, programs, stream)
        fused = tf2.function(run_fused, jit_compile=True, autograph=False)(*inputs)
        plain_stream = stream._replace(mask=additive_mask(mask))
        wide = [tf.cast(x, tf.float32) for x in inputs]
        plain = results(modeling.relative_attention, plain_stream, *wide)
        differences = []
        for value, exact in zip(fused, plain):
            distance = tf.norm(tf.cast(value, tf.float32) - exact)
            differences.append(distance / tf.norm(exact))
        return float(np.max(session.run(differences)))  # NaN if there is one
