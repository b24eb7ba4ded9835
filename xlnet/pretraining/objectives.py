"""Pretraining objectives: three on one network, and next-segment prediction in addition.

permutation: the tokens at `positions`, each from those before it in the factorization order
  (XLNet, section 2.3).
masked: the same tokens, masked in the input (BERT, https://arxiv.org/abs/1810.04805, section 3.1).
causal: each token from those on its left (Transformer-XL, https://arxiv.org/abs/1901.02860).

An objective is an `Objective`, two functions with a name; `register` adds one of your own
(docs/how_to/extend.md). Shape letters as in `modeling`.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.model import heads, modeling
from xlnet.model.ops import gather_rows
from xlnet.model.stateless_random import fold_in, seed_of, uniform
from xlnet.settings.network import RunConfig, XLNetConfig
from xlnet.support.errors import UserError, did_you_mean

_MASK_RATE, _RANDOM_RATE = (
    0.8,
    0.1,
)  # fractions of the masked tokens; all others are left unchanged


class ForwardOutputs(NamedTuple):
    """What `forward` returns. losses: float32 [B,P] in nats. new_mems: list over layers of [B,M,D],
    or None. segment_logits: [B,2], or None."""

    losses: tf.Tensor
    new_mems: Optional[Sequence[tf.Tensor]]
    segment_logits: Optional[tf.Tensor]


class RandomBits(NamedTuple):
    """The random bits of one step. seed: uint64 [1], see `network.stateless_random`. first_row:
    the index of batch element 0 in the global batch."""

    seed: Optional[tf.Tensor]
    first_row: Any


# In evaluation there is no dropout, and the masked tokens depend on the sequence alone.
NO_RANDOM_BITS = RandomBits(None, None)


class Batch(NamedTuple):
    """The input of an objective: a batch on one device, and the network."""

    config: XLNetConfig
    run: RunConfig
    # Of the input pipeline, [B,...]: input_ids, seg_ids, direction, rank, positions, weights, ...
    features: Mapping[str, tf.Tensor]
    mems: Optional[
        Sequence[tf.Tensor]
    ]  # memory of earlier sequences, as for `transformer_xl`
    bits: RandomBits
    mask_id: Optional[int]  # of <mask>
    with_segments: bool  # whether <cls>, the last token, needs a vector for next-segment prediction

    @property
    def length(self) -> int:
        """Q, the tokens of a sequence."""
        return self.features["input_ids"].shape[1]

    def run_network(self, **arguments: Any) -> modeling.Outputs:
        """`transformer_xl` on `arguments` (input_ids, mask, query, ...), with the segments,
        directions, memories and dropout of the batch."""
        return modeling.transformer_xl(
            self.config,
            self.run,
            seg_ids=self.features["seg_ids"],
            direction=self.features["direction"],
            mems=self.mems,
            **self.bits._asdict(),
            **arguments,
        )


# What an objective's `predict` returns. outputs: of `Batch.run_network`; of its vectors the last
# one is that of <cls>. at_targets: [B,P,D], the vectors that predict the targets.
Predicted = collections.namedtuple("Predicted", "outputs at_targets")


def sampled_targets(
    features: Mapping[str, tf.Tensor], special_ids: Sequence[int]
) -> dict[str, tf.Tensor]:
    """The targets that the input pipeline sampled; see `targets`."""
    ids = tf.gather(features["input_ids"], features["positions"], batch_dims=1)
    return dict(
        positions=features["positions"],
        ids=ids,
        weights=features.get("weights", tf.ones(ids.shape, tf.float32)),
    )


@dataclasses.dataclass(frozen=True)
class Objective:
    """A pretraining objective.

    Attributes:
      name: the value of --objective.
      predict: function of a `Batch` to `Predicted`: runs the network and picks the vectors that
        predict the targets.
      targets: function of (features, special_ids) to the targets, as `objectives.targets`.
      samples_targets: whether the targets are those of the input pipeline, so that num_predict and
        factorization_order hold.
      needs_mask_id: whether the vocabulary must have <mask>.
    """

    name: str
    predict: Callable[[Batch], Predicted]
    targets: Callable[
        [Mapping[str, tf.Tensor], Sequence[int]], dict[str, tf.Tensor]
    ] = sampled_targets
    samples_targets: bool = True
    needs_mask_id: bool = False


_OURS = ("permutation", "causal", "masked")
OBJECTIVES: dict[str, Objective] = {}


def register(objective: Objective) -> Objective:
    """Makes an objective available by its name; returns it.

    Raises:
      ValueError: the name is that of one of the library's.
    """
    if objective.name in _OURS and objective.name in OBJECTIVES:
        raise ValueError(
            f"objective '{objective.name}' is the library's, expected another name"
        )
    OBJECTIVES[objective.name] = objective
    return objective


def find(name: str) -> Objective:
    """The objective of a name; a UserError if nothing registered it."""
    if name not in OBJECTIVES:
        raise UserError(
            "objective is '{}', expected one of {}{}; --own_module registers others".format(
                name, ", ".join(OBJECTIVES), did_you_mean(name, OBJECTIVES)
            )
        )
    return OBJECTIVES[name]


# ---- the three objectives. What each predicts of the tokens a b c d, where b and d are the
# targets, d before b in the order:
#
#     permutation   reads a b c d    d from a c, b from a c d: by queries at their positions
#     masked        reads a _ c _    b and d from a c and both masks, at the masks
#     causal        reads a b c d    b from a, c from a b, d from a b c, each one place before


def _permutation(batch: Batch) -> Predicted:
    positions = batch.features["positions"]
    queried = positions  # the queries predict, which do not see their own token
    # and <cls>, the last token: the content stream ends a layer early
    if batch.with_segments:
        last = tf.fill(
            [positions.shape[0], 1], tf.constant(batch.length - 1, positions.dtype)
        )
        queried = tf.concat([positions, last], axis=1)
    outputs = batch.run_network(
        input_ids=batch.features["input_ids"],
        query=modeling.Query(positions=queried),
        mask=modeling.permutation_mask(
            batch.features["rank"], is_target(positions, batch.length)
        ),
    )
    return Predicted(outputs, outputs.sequence[:, : positions.shape[1]])


def _masked(batch: Batch) -> Predicted:
    shown = _mask(batch.config, batch.features, batch.bits, batch.mask_id)
    outputs = batch.run_network(input_ids=shown)
    return Predicted(
        outputs, gather_rows(outputs.sequence, batch.features["positions"])
    )


def _causal(batch: Batch) -> Predicted:
    # Position i predicts token i + 1.
    outputs = batch.run_network(input_ids=batch.features["input_ids"], attn_type="uni")
    return Predicted(outputs, outputs.sequence[:, :-1])


def _all_tokens(
    features: Mapping[str, tf.Tensor], special_ids: Sequence[int]
) -> dict[str, tf.Tensor]:
    """All tokens but the first are targets. `special_ids` have the weight 0: where they are depends
    on how the text is cut into sequences."""
    input_ids = features["input_ids"]
    positions = tf.ones_like(input_ids[:, 1:]) * tf.range(
        1, input_ids.shape[1], dtype=input_ids.dtype
    )
    ids = input_ids[:, 1:]
    special = tf.constant(special_ids, ids.dtype)
    is_special = tf.reduce_any(tf.equal(ids[:, :, None], special), axis=2)
    return dict(
        positions=positions, ids=ids, weights=1.0 - tf.cast(is_special, tf.float32)
    )


register(Objective("permutation", _permutation))
register(Objective("causal", _causal, _all_tokens, samples_targets=False))
register(Objective("masked", _masked, needs_mask_id=True))


# ---- what a training step calls


def targets(
    objective: str, features: Mapping[str, tf.Tensor], special_ids: Sequence[int]
) -> dict[str, tf.Tensor]:
    """The targets: positions, ids int [B,P], weights float32 [B,P] (0: does not count)."""
    return find(objective).targets(features, special_ids)


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
) -> ForwardOutputs:
    """Runs the network on a batch: features of the input pipeline [B,...], and mems as for
    `transformer_xl`.

    Args:
      ids: int [B,P], as returned by `targets`.
      bits: of dropout and masking, or `NO_RANDOM_BITS`.
      mask_id: of <mask>, for the masked objective.
      with_segments: whether to predict from <cls> if segment B continues A.
    """
    batch = Batch(config, run, features, mems, bits, mask_id, with_segments)
    outputs, at_targets = find(objective).predict(batch)

    # The losses are those of the targets and, from the vector of <cls>, of the segments. <cls> is
    # the last token; with a query stream the last query is that of <cls>.
    assert run.precision, "a RunConfig always has a precision"
    losses = heads.lm_loss(at_targets, ids, outputs.embedding_table, run.precision)
    segment_logits = None
    if with_segments:
        summary = heads.summarize(
            config, run, outputs.sequence[:, -1:], **bits._asdict()
        )
        segment_logits = heads.classification(
            run,
            summary,
            features["label"],
            num_classes=2,
            scope="classification_next_segment",
        ).logits
    return ForwardOutputs(losses, outputs.new_mems, segment_logits)


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
        # Without a seed a sequence's numbers are a function of its tokens: their hash is the sum of
        # the ids, each times an odd factor of its place.
        factors = np.random.RandomState(0).randint(2**31, size=length) * 2 + 1
        numbers = tf.map_fn(
            lambda ids: uniform(
                [1, length, 2], seed_of(0, tf.reduce_sum(ids * factors)), 0
            )[0],
            tf.cast(input_ids, tf.int64),
            tf.float32,
        )
    else:
        # Layer 0 has the same seed, but its dropouts fold in a further number.
        seed = fold_in(bits.seed, -1)
        numbers = uniform([batch, length, 2], seed, bits.first_row)
    choice, other = tf.unstack(numbers, axis=2)
    random = tf.cast(other * config.n_token, input_ids.dtype)
    # As in BERT, 80 % of the masked tokens become <mask>, 10 % a random token, and 10 % stay.
    shown = tf.where_v2(
        choice < _MASK_RATE, tf.constant(mask_id, input_ids.dtype), random
    )
    is_changed = is_target(features["positions"], length) & (
        choice < _MASK_RATE + _RANDOM_RATE
    )
    return tf.where_v2(is_changed, shown, input_ids)


def is_target(positions: tf.Tensor, length: int) -> tf.Tensor:
    """Marks the targets in the sequence: positions int [B,P] -> bool [B,Q]."""
    return tf.reduce_any(
        tf.one_hot(positions, length, True, False, dtype=tf.bool), axis=1
    )
