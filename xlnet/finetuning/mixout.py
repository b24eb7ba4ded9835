"""Mixout: weights that fall back to their pretrained values (https://arxiv.org/abs/1909.11299).

In each training step each weight w of a dense kernel is with probability p its pretrained value u,
by a mask m, and corrected so that its mean is w:

    (m u + (1 - m) w - p u) / (1 - p)  =  u + dropout(w - u)

Dropout that falls back to u in the place of zero; a gradient reaches the weights that stayed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint, distribution
from xlnet.errors import UserError
from xlnet.network.kernels import Dropout, dropout
from xlnet.network.noise import fold_in

_SLOT = "/" + checkpoint.PRETRAINED


def kernels(init_checkpoint: Optional[str], model_dir: str) -> frozenset[str]:
    """Names of the kernels that have pretrained values: a frozenset.

    A run that has begun has them in its checkpoints, as `<kernel>/pretrained`, so that it goes on
    whatever became of `init_checkpoint`.

    Raises:
      UserError: there is no pretrained network.
    """
    newest = checkpoint.newest(model_dir)
    if newest:
        found = [name[:-len(_SLOT)] for name in checkpoint.names(newest) if name.endswith(_SLOT)]
        if not found:
            raise UserError("mixout: the run in %s was begun without it; use another model_dir"
                            % model_dir)
    elif init_checkpoint:
        found = [name for name in checkpoint.names(checkpoint.resolve(init_checkpoint))
                 if name.endswith("/kernel")]
    else:
        raise UserError("mixout needs --init_checkpoint: weights fall back to their pretrained "
                        "values")
    return frozenset(found)


def mixing(names: frozenset[str], rate: float, seed: tf.Tensor) -> Callable[..., Any]:
    """A variable scope's getter that mixes the kernels `names` with their pretrained values.

    Frozen kernels, which are their pretrained values, are left alone.

    Args:
      rate: p. seed: int32 [2] of the step; each kernel has a mask of its own, the same on all
        replicas and in all micro-batches.
    """
    def get(getter, name, *args, **kwargs):
        weight = getter(name, *args, **kwargs)
        if name not in names or not weight.trainable:
            return weight
        pretrained = getter(name + _SLOT, *args, **dict(
            kwargs, initializer=distribution.zeros, trainable=False))
        noise = fold_in(seed, zlib.crc32(name.encode()) >> 1)
        return pretrained + dropout(weight - pretrained, Dropout(rate, noise))
    return get
