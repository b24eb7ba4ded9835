"""Whether fused attention computes on this GPU what the plain form does: asked before a run."""

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

_BATCH, _HEADS, _LENGTH, _MEMORY, _TARGETS = 2, 2, 96, 64, 24
MOST_DIFFERENCE = 0.03  # of the norm of a result; bfloat16 alone makes 0.005 to 0.01


class _SameDropout(Dropout):
    """Dropout with the mask of the fused form."""

    def kept(self, shape: Any) -> tf.Tensor:
        return kernels_gpu.kept(shape, self)


def check(
    compute_capability: tuple[int, int],
    precision: str,
    head_size: int,
    config: tf.ConfigProto,
) -> None:
    """Compares outputs and gradients of both streams with the plain form, on random numbers.

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
    for targets in (0, _TARGETS):
        try:
            found = difference(
                compute_capability, precision, head_size, targets, config
            )
        except tf.errors.OpError as error:  # of XLA, or of the GPU's driver
            reason = str(error.message).splitlines()[0]
            raise wrong(where, reason, "a GPU that runs its programs") from error
        if not found <= MOST_DIFFERENCE:  # NaN too
            differ = (
                f"results on this GPU that differ by {found:.1%} from the plain form"
            )
            raise wrong(where, differ, f"at most {MOST_DIFFERENCE:.0%}")


def difference(
    compute_capability: tuple[int, int],
    precision: str,
    head_size: int,
    targets: int,
    config: tf.ConfigProto,
) -> float:
    """How far a result of the fused form, the output or a gradient, is at most from the plain one,
    as a fraction of its norm.

    Args:
      compute_capability: of the GPU.
      precision: of the matmuls; the plain form computes in float32.
      head_size: H.
      targets: P, for the query stream; 0: the content stream.
      config: of the session.
    """
    rng = np.random.RandomState(0)
    num_keys, queries = _MEMORY + _LENGTH, targets or _LENGTH
    rank = np.stack([rng.permutation(_LENGTH) for _ in range(_BATCH)])
    # Of the content stream each position is a query.
    drawn = [rng.permutation(_LENGTH)[:queries] for _ in range(_BATCH)]
    positions = np.sort(drawn, axis=1)
    of_memory = np.full((_BATCH, _MEMORY), modeling.RANK_OF_MEMORY)

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
            own_key=None if targets else tf.constant(_MEMORY + positions[:1]),
        )
        stream = Stream(
            mask,
            tf.constant(rng.randint(0, 2, (_BATCH, queries))),
            tf.constant(rng.randint(0, 2, (_BATCH, num_keys))),
            tf.constant(_LENGTH - positions) if targets else None,
        )
        drops = _SameDropout(0.1, tf.constant([7], tf.uint64), 0)

        def results(
            attention: Callable[..., tf.Tensor], stream: Stream, *given: tf.Tensor
        ) -> list[tf.Tensor]:
            """The output, and the gradients of the inputs. given: these and the gradient of the
            output."""
            q, k, v, k_r, r_w, r_r, r_s, seg_embed, d_output = given
            read: dict[str, Any] = dict.fromkeys(Weights._fields)  # the others are not
            read.update(r_w=r_w, r_r=r_r, r_s=r_s, seg_embed=seg_embed)
            weights = Weights(**read)
            output = attention(q, k, v, k_r, weights, stream, drops)
            return [output, *tf.gradients(output, given[:-1], d_output)]

        programs = functools.partial(kernels_gpu.relative_attention, compute_capability)
        fused = functools.partial(results, programs, stream)
        found = tf2.function(fused, jit_compile=True, autograph=False)(*inputs)
        plain_stream = stream._replace(mask=additive_mask(mask))
        wide = [tf.cast(x, tf.float32) for x in inputs]
        wanted = results(modeling.relative_attention, plain_stream, *wide)
        differences = []
        for value, exact in zip(found, wanted):
            distance = tf.norm(tf.cast(value, tf.float32) - exact)
            differences.append(distance / tf.norm(exact))
        return float(np.max(session.run(differences)))  # NaN too
