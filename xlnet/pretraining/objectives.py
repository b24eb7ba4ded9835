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
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

import tensorflow.compat.v1 as tf

from xlnet.model import heads, modeling
from xlnet.model.ops import Tensors, gather_rows
from xlnet.model.stateless_random import fold_in, seed_of, uniform
from xlnet.settings.network import RunConfig, XLNetConfig
from xlnet.support.errors import wrong

# Fractions of the masked tokens; all others are left unchanged.
_MASK_RATE, _RANDOM_RATE = 0.8, 0.1


class Batch(NamedTuple):
    """The input of an objective: a batch on one device, and the network.

    Attributes:
      config: the architecture.
      run_config: how the network is run.
      features: those of `input_pipeline.pretraining_batches` by name, int [B,Q]: input_ids,
        seg_ids, rank (the place in the factorization order); int [B]: direction; also the targets,
        as of `Objective.targets`.
      mems: memory of earlier sequences, a tensor [B,M,D] for each layer; None: without.
      seed: of dropout and masking in this step, uint64 [1], see `model.stateless_random`. None: in
        evaluation there is no dropout, and what is masked depends on the targets alone.
      first_row: the index of batch element 0 in the global batch; None without a seed.
      mask_id: of <mask>; None: the vocabulary has none.
      with_segments: whether <cls>, the last token, needs a vector for next-segment prediction.
    """

    config: XLNetConfig
    run_config: RunConfig
    features: Tensors
    mems: Sequence[tf.Tensor] | None
    seed: tf.Tensor | None = None
    first_row: Any = None
    mask_id: int | None = None
    with_segments: bool = False

    @property
    def length(self) -> int:
        """Q, the number of tokens of a sequence."""
        return self.features["input_ids"].shape[1]

    def run_network(self, **arguments: Any) -> modeling.Outputs:
        """`transformer_xl` on `arguments` (input_ids, mask, query, ...), with the segments,
        directions, memories and dropout of the batch."""
        return modeling.transformer_xl(
            self.config,
            self.run_config,
            seg_ids=self.features["seg_ids"],
            direction=self.features["direction"],
            mems=self.mems,
            seed=self.seed,
            first_row=self.first_row,
            **arguments,
        )


# What an objective's `predict` returns. outputs: of `Batch.run_network`; with `with_segments` the
# last of its vectors is that of <cls>. at_targets: [B,P,D], the vectors that predict the targets.
Predicted = collections.namedtuple("Predicted", "outputs at_targets")


def sampled_targets(features: Tensors, special_ids: Sequence[int]) -> Tensors:
    """The targets that the input pipeline sampled: a dict of their ids, int [B,P]. Their positions
    and weights are among the features.

    `special_ids` are not used: objectives that choose their targets themselves need them.
    """
    ids = tf.gather(features["input_ids"], features["positions"], batch_dims=1)
    return dict(ids=ids)


@dataclasses.dataclass(frozen=True)
class Objective:
    """A pretraining objective.

    Attributes:
      name: the value of --objective.
      predict: function of a `Batch` to `Predicted`: runs the network and picks the vectors that
        predict the targets.
      targets: function of the features of a batch and the ids of <sep> and <cls> to the targets: a
        dict of ids, int [B,P], and, where they are not those of the features, positions, int [B,P],
        and weights, float32 [B,P] (0: has no part in the loss).
      samples_targets: whether the targets are those of the input pipeline, so that num_predict and
        factorization_order hold.
      needs_mask_id: whether the vocabulary must have <mask>.
    """

    name: str
    predict: Callable[[Batch], Predicted]
    targets: Callable[[Tensors, Sequence[int]], Tensors] = sampled_targets
    samples_targets: bool = True
    needs_mask_id: bool = False


# ---- the three objectives. What each predicts of the tokens a b c d, where b and d are the
# targets, d before b in the order:
#
#     permutation   reads a b c d    d from a c, b from a c d: by queries at their positions
#     masked        reads a _ c _    b and d from a c and both masks, at the masks
#     causal        reads a b c d    b from a, c from a b, d from a b c, each one place before


def _permutation(batch: Batch) -> Predicted:
    """Predicts each target by a query at its position, from what is before it in the order."""
    positions = batch.features["positions"]
    # The queries predict: they do not see the token at their own position. In the last layer only
    # they are computed, so for next-segment prediction <cls>, the last token, is one of them.
    queried = positions
    if batch.with_segments:
        last = tf.zeros_like(positions[:, :1]) + (batch.length - 1)  # [B,1]
        queried = tf.concat([positions, last], axis=1)
    outputs = batch.run_network(
        input_ids=batch.features["input_ids"],
        query=modeling.Query(positions=queried),
        mask=modeling.permutation_mask(
            batch.features["rank"], is_target(positions, batch.length)
        ),
    )
    num_targets = positions.shape[1]
    return Predicted(outputs, outputs.sequence[:, :num_targets])


def _masked(batch: Batch) -> Predicted:
    """Predicts the targets by the vectors at their positions, where the input is masked."""
    shown = _mask(batch)
    outputs = batch.run_network(input_ids=shown)
    return Predicted(
        outputs, gather_rows(outputs.sequence, batch.features["positions"])
    )


def _causal(batch: Batch) -> Predicted:
    """Predicts the targets of `_all_tokens`, each by the vector one place before."""
    # Each position sees itself and those on its left, and position i predicts token i + 1.
    outputs = batch.run_network(input_ids=batch.features["input_ids"], attn_type="uni")
    return Predicted(outputs, outputs.sequence[:, :-1])


def _all_tokens(features: Tensors, special_ids: Sequence[int]) -> Tensors:
    """All tokens but the first are targets, in the form of `sampled_targets`: P = Q - 1.
    `special_ids` have the weight 0: where they are depends on how the text is cut into sequences.
    """
    input_ids = features["input_ids"]
    ids = input_ids[:, 1:]  # [B,P]
    # 1 to Q - 1 in each batch element: [P] and zeros [B,P] are added.
    positions = tf.range(1, input_ids.shape[1], dtype=ids.dtype) + tf.zeros_like(ids)
    special = tf.constant(special_ids, ids.dtype)
    is_special = tf.reduce_any(tf.equal(ids[:, :, None], special), axis=2)
    return dict(
        positions=positions, ids=ids, weights=1.0 - tf.cast(is_special, tf.float32)
    )


# ---- objectives by name

_OURS = (
    Objective("permutation", _permutation),
    Objective("causal", _causal, _all_tokens, samples_targets=False),
    Objective("masked", _masked, needs_mask_id=True),
)
OBJECTIVES = {objective.name: objective for objective in _OURS}


def register(objective: Objective) -> Objective:
    """Makes an objective available by its name; returns it."""
    if OBJECTIVES.get(objective.name) in _OURS:
        found = f"found the name '{objective.name}' of the library's objective"
        raise ValueError(f"{found}, expected another")
    OBJECTIVES[objective.name] = objective
    return objective


def find(name: str) -> Objective:
    """The objective of a name; a UserError if nothing registered it."""
    if name not in OBJECTIVES:
        known = "one of {}".format(", ".join(OBJECTIVES))
        raise wrong("objective", f"'{name}'", known, "--own_module registers others")
    return OBJECTIVES[name]


# ---- next segments, and masked tokens


def segment_logits(batch: Batch, outputs: modeling.Outputs) -> tf.Tensor:
    """The logits of next-segment prediction, from the vector of <cls>: float32 [B,2], of "segment B
    does not continue A" and of "it does"."""
    # <cls> is the last token; with a query stream the last query is that of <cls>.
    summary = heads.summarize(
        batch.config,
        batch.run_config,
        outputs.sequence[:, -1:],
        seed=batch.seed,
        first_row=batch.first_row,
    )
    name = "classification_next_segment/logit"
    return heads.dense_layer(batch.run_config, summary, 2, name)


def _mask(batch: Batch) -> tf.Tensor:
    """The ids of the sequence with each target replaced by <mask>, by a random token or not at all:
    int [B,Q]."""
    input_ids = batch.features["input_ids"]
    rows, length = input_ids.shape.as_list()  # B, Q
    # Two random numbers of [0, 1) for each token: which of the three, and which random token. They
    # belong to the tokens, not to the targets, as two targets may have one position.
    if batch.seed is None:
        # In evaluation always the same ones, for each sequence wherever it is in a batch: of the
        # seed 0 and batch element 0. [1,Q,2]
        numbers = uniform([1, length, 2], seed_of(0, tf.constant(0, tf.int64)), 0)
    else:
        # Layer 0 has the same seed, but its dropouts fold in a further number.
        seed = fold_in(batch.seed, -1)
        numbers = uniform([rows, length, 2], seed, batch.first_row)
    choice, which_token = tf.unstack(numbers, axis=2)  # [B,Q] each, or [1,Q]
    random = tf.cast(which_token * batch.config.n_token, input_ids.dtype)
    # As in BERT, 80 % of the masked tokens become <mask>, 10 % a random token, and 10 % stay.
    mask = tf.constant(batch.mask_id, input_ids.dtype)
    shown = tf.where_v2(choice < _MASK_RATE, mask, random)
    targets = is_target(batch.features["positions"], length)
    is_changed = targets & (choice < _MASK_RATE + _RANDOM_RATE)
    return tf.where_v2(is_changed, shown, input_ids)


def is_target(positions: tf.Tensor, length: int) -> tf.Tensor:
    """Which tokens of the sequence are targets: bool [B,Q], true at `positions`, int [B,P].
    length: Q."""
    return tf.reduce_any(
        tf.one_hot(positions, length, True, False, dtype=tf.bool), axis=1
    )
