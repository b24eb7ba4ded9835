"""Pretraining objectives: three on one network, and next-segment prediction in addition.

permutation: the tokens at `positions`, each from those before it in the factorization order
  (XLNet, section 2.3).
masked: the same tokens, masked in the input (BERT, https://arxiv.org/abs/1810.04805, section 3.1).
causal: each token from those on its left (Transformer-XL, https://arxiv.org/abs/1901.02860).

Shape letters as in `modeling`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.network import heads, modeling
from xlnet.network.ops import gather_rows
from xlnet.network.stateless_random import fold_in, seed_of, uniform
from xlnet.settings.network import RunConfig, XLNetConfig

_MASK_RATE, _RANDOM_RATE = 0.8, 0.1  # of the masked tokens; the others are not changed


class Predictions(NamedTuple):
    """losses: float32 [B,P] in nats. new_mems: list over layers of [B,M,D], or None.
    segment_logits: [B,2], or None."""

    losses: tf.Tensor
    new_mems: Optional[Sequence[tf.Tensor]]
    segment_logits: Optional[tf.Tensor]


class RandomBits(NamedTuple):
    """The random bits of one step. seed: uint64 [1], see `network.stateless_random`. first_row:
    the index of batch element 0 in the global batch."""

    seed: Optional[tf.Tensor]
    first_row: Any


# For evaluation: no dropout, and the masked tokens depend on the sequence alone.
NO_RANDOM_BITS = RandomBits(None, None)


def targets(
    objective: str, features: Mapping[str, tf.Tensor], special_ids: Sequence[int]
) -> dict[str, tf.Tensor]:
    """The targets: positions, ids int [B,P], weights float32 [B,P] (0: does not count).

    The causal objective gives `special_ids` the weight 0: where they are depends on how the text is
    cut into sequences.
    """
    input_ids, positions = features["input_ids"], features["positions"]
    # All tokens but the first, whatever the records' targets are.
    if objective == "causal":
        positions = tf.ones_like(input_ids[:, 1:]) * tf.range(
            1, input_ids.shape[1], dtype=input_ids.dtype
        )
        ids = input_ids[:, 1:]
        special = tf.constant(special_ids, ids.dtype)
        is_special = tf.reduce_any(tf.equal(ids[:, :, None], special), axis=2)
        return dict(positions=positions, ids=ids, weights=1.0 - tf.cast(is_special, tf.float32))
    ids = tf.gather(input_ids, positions, batch_dims=1)
    return dict(
        positions=positions,
        ids=ids,
        weights=features.get("weights", tf.ones(ids.shape, tf.float32)),
    )


def forward(
    objective: str,
    config: XLNetConfig,
    run: RunConfig,
    features: Mapping[str, tf.Tensor],
    mems: Optional[Sequence[tf.Tensor]],
    *,
    ids: tf.Tensor,
    bits: RandomBits,
    mask_id: Optional[int],
    with_segments: bool = False,
) -> Predictions:
    """Runs the network on a batch: features of the input pipeline [B,...], and mems as for
    `transformer_xl`.

    Args:
      ids: int [B,P], as returned by `targets`.
      bits: of dropout and masking, or `NO_RANDOM_BITS`.
      mask_id: of <mask>, for the masked objective.
      with_segments: whether to predict from <cls> if segment B continues A.
    """
    positions, input_ids = features["positions"], features["input_ids"]
    length = input_ids.shape[1]
    inputs = dict(
        seg_ids=features["seg_ids"], direction=features["direction"], mems=mems, **bits._asdict()
    )

    # The network, and of its output the vectors of the targets, [B,P,D]. What each objective
    # predicts of the tokens a b c d, where b and d are the targets, d before b in the order:
    #
    #     permutation   reads a b c d    d from a c, b from a c d: by queries at their positions
    #     masked        reads a _ c _    b and d from a c and both masks, at the masks
    #     causal        reads a b c d    b from a, c from a b, d from a b c, each one place before
    if objective == "permutation":
        queried = positions  # by queries, which do not see their own token
        if with_segments:  # and <cls>, the last token: the content stream ends a layer early
            last = tf.fill([positions.shape[0], 1], tf.constant(length - 1, positions.dtype))
            queried = tf.concat([positions, last], axis=1)
        outputs = modeling.transformer_xl(
            config,
            run,
            input_ids=input_ids,
            query=modeling.Query(positions=queried),
            mask=modeling.permutation_mask(features["rank"], is_target(positions, length)),
            **inputs,
        )
        at_targets = outputs.sequence[:, : positions.shape[1]]
    elif objective == "masked":
        outputs = modeling.transformer_xl(
            config, run, input_ids=_mask(config, features, bits, mask_id), **inputs
        )
        at_targets = gather_rows(outputs.sequence, positions)
    else:  # causal: position i predicts token i + 1
        outputs = modeling.transformer_xl(
            config, run, input_ids=input_ids, attn_type="uni", **inputs
        )
        at_targets = outputs.sequence[:, :-1]

    # The losses: of the targets, and of the segments, from <cls>, which is the last token; with
    # queries it has one of its own, the last.
    assert run.precision, "a RunConfig always has a precision"
    losses = heads.lm_loss(at_targets, ids, outputs.embedding_table, run.precision)
    segment_logits = None
    if with_segments:
        summary = heads.summarize(config, run, outputs.sequence[:, -1:], **bits._asdict())
        segment_logits = heads.classification(
            run, summary, features["label"], num_classes=2, scope="classification_next_segment"
        ).logits
    return Predictions(losses, outputs.new_mems, segment_logits)


def _mask(
    config: XLNetConfig,
    features: Mapping[str, tf.Tensor],
    bits: RandomBits,
    mask_id: Optional[int],
) -> tf.Tensor:
    """The sequence with each target replaced by <mask>, by a random token or not at all: [B,Q].

    Random numbers belong to the tokens, not to the targets, as two targets may have one position.
    """
    input_ids = features["input_ids"]
    batch, length = input_ids.shape.as_list()
    if bits.seed is None:
        factors = np.random.RandomState(0).randint(2**31, size=length) * 2 + 1  # of a hash
        numbers = tf.map_fn(
            lambda ids: uniform([1, length, 2], seed_of(0, tf.reduce_sum(ids * factors)), 0)[0],
            tf.cast(input_ids, tf.int64),
            tf.float32,
        )
    else:
        seed = fold_in(bits.seed, -1)  # that of layer 0, whose dropouts fold in a further number
        numbers = uniform([batch, length, 2], seed, bits.first_row)
    choice, other = tf.unstack(numbers, axis=2)
    random = tf.cast(other * config.n_token, input_ids.dtype)
    # 80 % <mask>, 10 % any token, 10 % the token itself, as in BERT.
    shown = tf.where_v2(choice < _MASK_RATE, tf.constant(mask_id, input_ids.dtype), random)
    is_changed = is_target(features["positions"], length) & (choice < _MASK_RATE + _RANDOM_RATE)
    return tf.where_v2(is_changed, shown, input_ids)


def is_target(positions: tf.Tensor, length: int) -> tf.Tensor:
    """Marks the targets in the sequence: positions int [B,P] -> bool [B,Q]."""
    return tf.reduce_any(tf.one_hot(positions, length, True, False, dtype=tf.bool), axis=1)
