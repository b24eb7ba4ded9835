"""A factorization order and an objective of one's own, for --own_module=left_to_right.py.

--factorization_order=left_to_right predicts the targets in the order in which the model reads them.
--objective=all_masked shows <mask> at each target, where BERT's objective leaves 20 % of them.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet import pretraining
from xlnet.model.ops import gather_rows
from xlnet.pretraining import objectives


@pretraining.register_order
def left_to_right(random, is_permuted, perm_size):
    """Ranks int32 [B,T]: their place for targets, -1 for tokens that everyone may see."""
    places = np.arange(is_permuted.shape[1], dtype=np.int32)  # [T]
    return np.where(is_permuted, places, np.int32(-1))


def predict_masked(batch):
    """Vectors [B,P,D] that predict the targets, of a network that sees <mask> in their place."""
    input_ids, positions = batch.features["input_ids"], batch.features["positions"]
    is_target = objectives.is_target(positions, batch.length)  # bool [B,Q]
    mask = tf.constant(batch.mask_id, input_ids.dtype)
    outputs = batch.run_network(input_ids=tf.where_v2(is_target, mask, input_ids))
    return objectives.Predicted(outputs, gather_rows(outputs.sequence, positions))


ALL_MASKED = objectives.register(
    objectives.Objective("all_masked", predict_masked, needs_mask_id=True)
)
