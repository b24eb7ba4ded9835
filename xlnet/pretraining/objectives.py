"""What pretraining predicts, and from what: three objectives on one network, and a fourth beside.

permutation: the tokens at `positions`, each from those before it in the factorization order
  (XLNet, section 2.3).
masked: the same tokens, from a text in which they are masked (BERT,
  https://arxiv.org/abs/1810.04805, section 3.1).
causal: each token from those on its left (Transformer-XL, https://arxiv.org/abs/1901.02860).

Shape letters as in `modeling`; P predicted slots.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Optional

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.network import heads, modeling
from xlnet.network.noise import fold_in, seed_of, uniform
from xlnet.network.ops import gather_rows
from xlnet.network.parameters import get_weight
from xlnet.settings.network import RunConfig, XLNetConfig

_MASK_SHARE, _RANDOM_SHARE = 0.8, 0.1   # of the masked tokens; the rest stays as it is

# losses: float32 [B,P] in nats. guesses: int32 [P], the likeliest tokens of row 0. new_mems: list
# over layers of [B,M,D], or None. segment_logits: [B,2], or None.
Predictions = collections.namedtuple("Predictions", "losses guesses new_mems segment_logits")

# The random bits of one step: seed uint64 [1], see `network.noise`; first_row, the number of row 0
# in the global batch.
Noise = collections.namedtuple("Noise", "seed first_row")
# Of an evaluation: no dropout, and what is masked of a sequence depends on the sequence alone.
NO_NOISE = Noise(None, None)


def targets(objective: str, features: Mapping[str, tf.Tensor],
            special_ids: Sequence[int]) -> dict[str, tf.Tensor]:
    """What is predicted: positions, ids int [B,P], weights float32 [B,P] (0: does not count).

    The causal objective leaves out `special_ids`, which depend on how windows are cut.
    """
    input_ids, positions = features["input_ids"], features["positions"]
    if objective == "causal":
        positions = tf.ones_like(input_ids[:, 1:]) * tf.range(
            1, input_ids.shape[1], dtype=input_ids.dtype)
        ids = input_ids[:, 1:]
        special = tf.constant(special_ids, ids.dtype)
        is_special = tf.reduce_any(tf.equal(ids[:, :, None], special), axis=2)
        return dict(positions=positions, ids=ids, weights=1. - tf.cast(is_special, tf.float32))
    ids = tf.gather(input_ids, positions, batch_dims=1)
    return dict(positions=positions, ids=ids,
                weights=features.get("weights", tf.ones(ids.shape, tf.float32)))


def predict(objective: str, config: XLNetConfig, run: RunConfig, features: Mapping[str, tf.Tensor],
            mems: Optional[Sequence[tf.Tensor]], *, ids: tf.Tensor, noise: Noise,
            mask_id: Optional[int], with_segments: bool = False) -> Predictions:
    """Runs the network on a batch.

    Args:
      config, run: `XLNetConfig`, `RunConfig`. features: dict of the pipeline's tensors [B,...].
      mems: list over layers of [B,M,D], or None. ids: int32 [B,P], as `targets` gives them.
      noise: `Noise` of dropout and masking, or `NO_NOISE`.
      mask_id: of <mask>; for the masked objective alone.
      with_segments: whether to judge, from <cls>, if segment B continues A.

    Returns:
      `Predictions`.
    """
    if objective == "masked":
        features = dict(features, input_ids=_mask(config, features, noise, mask_id))
    slots, summary, outputs = _SEQUENCES[objective](config, run, features, mems, noise,
                                                    with_segments)
    assert run.precision, "a RunConfig has a number format from its making on"
    losses = heads.lm_loss(slots, ids, outputs.embedding_table, run.precision)
    segment_logits = None
    if with_segments:
        summary = heads.summarize(config, run, summary[:, None], **noise._asdict())
        segment_logits = heads.classification(run, summary, features["label"], num_classes=2,
                                              scope="classification_next_segment").logits
    return Predictions(losses, _guesses(slots[0], outputs.embedding_table), outputs.new_mems,
                       segment_logits)


def _guesses(slots, table):
    """The likeliest token of each slot: [P,D], [V,D] -> int32 [P]."""
    with tf.variable_scope("lm_loss", reuse=True):
        bias = get_weight("bias", [table.shape[0]], None)
    return tf.argmax(tf.matmul(slots, table, transpose_b=True) + bias, axis=1,
                     output_type=tf.int32)


# Each gives the slots' vectors [B,P,D], that of <cls> [B,D], and the network's outputs.

def _permutation(config, run, features, mems, noise, with_segments):
    input_ids, positions = features["input_ids"], features["positions"]
    length = input_ids.shape[1]
    queried = positions
    if with_segments:   # <cls>, at the end, gets a query of its own: the content stream ends early
        last = tf.fill([positions.shape[0], 1], tf.constant(length - 1, positions.dtype))
        queried = tf.concat([positions, last], axis=1)
    outputs = modeling.transformer_xl(
        config, run, input_ids=input_ids, seg_ids=features["seg_ids"], mems=mems,
        direction=features["direction"], query=modeling.Query(positions=queried),
        mask=modeling.permutation_mask(features["rank"], is_target(positions, length)),
        **noise._asdict())
    return outputs.sequence[:, :positions.shape[1]], outputs.sequence[:, -1], outputs


def _masked(config, run, features, mems, noise, with_segments):
    positions = features["positions"]
    outputs = modeling.transformer_xl(
        config, run, input_ids=features["input_ids"], seg_ids=features["seg_ids"], mems=mems,
        direction=features["direction"], **noise._asdict())
    return gather_rows(outputs.sequence, positions), outputs.sequence[:, -1], outputs


def _mask(config, features, noise, mask_id):
    """The window with its targets replaced by <mask>, a random token or themselves: [B,Q].

    Each token of the window has its own draw, as slots may share a position.
    """
    input_ids = features["input_ids"]
    batch, length = input_ids.shape.as_list()
    if noise.seed is None:
        factors = np.random.RandomState(0).randint(2 ** 31, size=length) * 2 + 1    # of a hash
        numbers = tf.map_fn(
            lambda ids: uniform([1, length, 2], seed_of(0, tf.reduce_sum(ids * factors)), 0)[0],
            tf.cast(input_ids, tf.int64), tf.float32)
    else:
        seed = fold_in(noise.seed, -1)   # layer 0's, whose dropouts are one `fold_in` further
        numbers = uniform([batch, length, 2], seed, noise.first_row)
    choice, other = tf.unstack(numbers, axis=2)
    random = tf.cast(other * config.n_token, input_ids.dtype)
    shown = tf.where_v2(choice < _MASK_SHARE, tf.constant(mask_id, input_ids.dtype), random)
    is_changed = is_target(features["positions"], length) & (
        choice < _MASK_SHARE + _RANDOM_SHARE)
    return tf.where_v2(is_changed, shown, input_ids)


def is_target(positions: tf.Tensor, length: int) -> tf.Tensor:
    """Which tokens of the window are predicted: positions int [B,P] -> bool [B,Q]."""
    return tf.reduce_any(tf.one_hot(positions, length, True, False, dtype=tf.bool), axis=1)


def _causal(config, run, features, mems, noise, with_segments):
    outputs = modeling.transformer_xl(
        config, run, input_ids=features["input_ids"], seg_ids=features["seg_ids"], mems=mems,
        direction=features["direction"], attn_type="uni", **noise._asdict())
    return outputs.sequence[:, :-1], outputs.sequence[:, -1], outputs


_SEQUENCES = {"permutation": _permutation, "masked": _masked, "causal": _causal}
