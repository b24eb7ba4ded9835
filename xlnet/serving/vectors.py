"""The hidden states of each layer for a text, as one vector or as one of each token.

Shape letters: B batch, T tokens, D d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.errors import UserError
from xlnet.network import heads, modeling
from xlnet.serving.session import IDS, Tensors
from xlnet.serving.settings import POOLINGS
from xlnet.settings.network import NetworkSettings, XLNetConfig

_ALL = 1 << 30  # a memory of so many positions is of all of them


def build(config: XLNetConfig, network: NetworkSettings) -> tuple[Tensors, Tensors]:
    """The inputs, `session.IDS` [B,T], and the outputs by the names of `wanted`: float32 [B,D], or
    [B,T,D] with "none"."""
    inputs = {
        name: tf.placeholder(dtype, [None, None], "texts/" + name)
        for name, dtype in zip(IDS, (tf.int32, tf.float32, tf.int32))
    }
    ids, padding, segments = (inputs[name] for name in IDS)
    run = network.run_config(False, mem_len=_ALL)
    with train_step.model_scope(kept_in=run.precision):
        # The memory of a layer is what enters it: the embeddings, then the layers but the last one.
        found = modeling.transformer_xl(
            config, run, input_ids=ids, seg_ids=segments, mask=padding[:, None] > 0
        )
    # All of them are in the graph; a session computes those that are asked for.
    outputs = {}
    for layer, sequence in enumerate([*found.new_mems, found.sequence]):
        sequence = tf.cast(sequence, tf.float32)  # [B,T,D]
        for pooling in POOLINGS:
            outputs[_name(layer, pooling)] = (
                sequence
                if pooling == "none"
                else heads.summarize(
                    config, run, sequence, summary_type=pooling, padding=padding, use_proj=False
                )
            )
    return inputs, outputs


def wanted(layers: Union[int, Sequence[int]], pooling: str, n_layer: int) -> list[str]:
    """The names of outputs: of layers 0 to `n_layer`, or from -1 down, counted from the last."""
    try:
        listed: list = np.atleast_1d(layers).tolist() if np.ndim(layers) < 2 else [layers]
    except ValueError:  # lists of different lengths
        listed = [layers]
    for layer in listed:
        if type(layer) is not int or not -n_layer - 1 <= layer <= n_layer:
            raise UserError(
                f"layers: {layer}, expected 0 (embeddings) to {n_layer}, or -1 (the last one) down "
                f"to {-n_layer - 1}"
            )
    if not listed:
        raise UserError("layers: expected one or more")
    return [_name(layer % (n_layer + 1), pooling) for layer in listed]


def _name(layer, pooling):
    return f"{layer}/{pooling}"
