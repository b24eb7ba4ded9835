"""In half precision the gradient of every weight is that of float32 within 3 %, of many tokens."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.networks import sizes

import xlnet
from xlnet.model import heads
from xlnet.pretraining import objectives
from xlnet.settings.network import NetworkSettings

pytestmark = pytest.mark.slow

BATCH, LENGTH, TARGETS, MEMORY, VOCABULARY = 16, 512, 85, 32, 50
CONFIG = xlnet.XLNetConfig(
    **sizes(layers=1, width=32, heads=2, inner=64), n_token=VOCABULARY
)
NETWORK = dict(dropout=0.0, dropatt=0.0, init_std=0.1)


def check(loss):
    """loss: function of a precision that builds the network and returns a scalar."""
    gradients = []
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(0)
        # As float16 training does: small gradients would be zero.
        for precision, scale in (("fp32", 1.0), ("bf16", 1.0), ("fp16", 2.0**10)):
            scaled = loss(precision) * scale
            variables = tf.trainable_variables()
            gradients.append([g / scale for g in tf.gradients(scaled, variables)])
        session.run(tf.global_variables_initializer())
        exact, *rounded = session.run(gradients)
    total = np.sqrt(sum(np.sum(np.square(wanted)) for wanted in exact))
    for precision, found in zip(("bf16", "fp16"), rounded):
        for variable, mine, wanted in zip(variables, found, exact):
            error = np.linalg.norm(mine - wanted)
            # Of a sum that cancels to a millionth of the gradient, rounding is what is left.
            bound = 0.03 * np.linalg.norm(wanted) + 1e-6 * total
            assert error < bound, (precision, variable.op.name)


@pytest.mark.parametrize("objective", ("permutation", "masked", "causal"))
def test_objectives(objective):
    random = np.random.RandomState(0)
    shape = [BATCH, LENGTH]
    order = np.stack([random.permutation(LENGTH)[:TARGETS] for _ in range(BATCH)])
    positions = np.sort(order, axis=1)
    ranks = np.stack([random.permutation(TARGETS) for _ in range(BATCH)])
    rank = np.full(shape, -1)
    np.put_along_axis(rank, positions, ranks, axis=1)
    features = {
        "input_ids": random.randint(10, VOCABULARY, shape),
        "positions": positions,
        "rank": rank,
        "seg_ids": np.broadcast_to(np.arange(LENGTH) >= 300, shape),
        "direction": np.arange(BATCH) % 2,
        "label": np.arange(BATCH) % 2,
    }
    memory = random.randn(BATCH, MEMORY, CONFIG.d_model)

    def loss(precision):
        network = NetworkSettings(precision=precision, **NETWORK)
        run = network.run_config(True, mem_len=MEMORY, device="cpu")
        batch = {name: tf.constant(x, tf.int32) for name, x in features.items()}
        batch["weights"] = tf.ones([BATCH, TARGETS])
        chosen = objectives.find(objective)
        batch.update(chosen.targets(batch, [3, 4]))
        seed, mems = tf.constant([1, 2]), [tf.constant(memory, tf.float32)]
        read = objectives.Batch(CONFIG, run, batch, mems, seed, 0, 6, True)
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            outputs, vectors = chosen.predict(read)
            table = outputs.embedding_table
            losses = heads.lm_loss(vectors, batch["ids"], table, precision)
            logits = objectives.segment_logits(read, outputs)
        of_segments = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["label"], logits=logits
        )
        # A sum of targets and of the segment's loss that neither hides in the other.
        of_targets = tf.reduce_mean(losses * batch["weights"])
        return of_targets + tf.reduce_mean(of_segments)

    check(loss)
