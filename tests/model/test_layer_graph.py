"""Layers computed again in the backward pass have the numbers of plain ones."""

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers.golden import assert_close
from helpers.matmuls import function_graphs

from xlnet.engine import train_step
from xlnet.model import heads, modeling
from xlnet.settings.network import RunConfig, XLNetConfig

BATCH, LENGTH, MEMORY, TARGETS, VOCABULARY = 4, 7, 5, 3, 11


def step(
    device="xla",
    recompute=True,
    n_layer=3,
    untie_r=True,
    memory=MEMORY,
    targets=TARGETS,
    has_segments=True,
    attn_type="bi",
    dropout=0.4,
    micro_batches=1,
    compiled=True,
    **settings,
):
    """Loss, gradients, and new memory, of a training step.

    targets: of the query stream; 0: none; "all": a query at every position.
    """
    config = XLNetConfig(
        n_layer=n_layer,
        d_model=6,
        n_head=3,
        d_head=2,
        d_inner=5,
        ff_activation="gelu",
        untie_r=untie_r,
        n_token=VOCABULARY,
    )
    run = RunConfig(
        is_training=True,
        use_tpu=False,
        use_bfloat16=False,
        dropout=dropout,
        dropatt=dropout,
        init_std=0.5,
        mem_len=memory + 2 if memory else None,
        reuse_len=4,
        recompute=recompute,
        device=device,
        **settings,
    )

    def compute(inputs, first_row):
        query = None
        if targets == "all":
            query = modeling.Query(masked=tf.cast(inputs["ids"] % 2, tf.float32))
        elif targets:
            query = modeling.Query(
                positions=inputs["positions"], weights=inputs["weights"]
            )
        seed = (
            tf.constant([5, 6], tf.uint32)
            if device == "tpu"
            else tf.constant([5], tf.uint64)
        )
        with train_step.model_scope():
            outputs = modeling.transformer_xl(
                config,
                run,
                input_ids=inputs["ids"],
                seg_ids=inputs["ids"] % 3 if has_segments else None,
                direction=inputs["direction"] if attn_type == "bi" else None,
                mask=inputs["hidden"] if attn_type == "bi" else None,
                mems=tf.unstack(inputs["memory"], axis=1) if memory else None,
                query=query,
                attn_type=attn_type,
                seed=seed,
                first_row=first_row,
            )
            sequence = outputs.sequence
            ids = inputs["ids"][:, : sequence.shape[1]]
            loss = heads.lm_loss(sequence, ids, outputs.embedding_table, run.precision)
        new = outputs.new_mems
        return tf.reduce_mean(loss), {"memory": tf.stack(new, axis=1)} if new else {}

    random = np.random.RandomState(0)
    hidden = random.rand(BATCH, LENGTH, LENGTH) < 0.5
    inputs = {
        "ids": random.randint(0, VOCABULARY, [BATCH, LENGTH]),
        "direction": np.array([0, 1, 1, 0]),
        "hidden": hidden & ~np.eye(LENGTH, dtype=bool),
        "memory": random.randn(BATCH, n_layer, memory, 6).astype(np.float32),
        "positions": random.randint(0, LENGTH, [BATCH, TARGETS]),
        "weights": random.randint(0, 2, [BATCH, TARGETS]).astype(np.float32),
    }
    inputs = {
        name: tf.constant(
            value, tf.int32 if device == "tpu" and value.dtype == int else None
        )
        for name, value in inputs.items()
    }
    if compiled:
        return train_step.loss_and_gradients(compute, inputs, micro_batches, xla=True)
    compute(inputs, 0)  # makes the variables
    return tf2.function(
        lambda inputs: train_step.loss_and_gradients(compute, inputs, micro_batches),
        autograph=False,
    )(inputs)


CASES = (
    {"n_layer": 2, "memory": 0, "targets": 0},
    {"targets": "all", "untie_r": False, "clamp_len": 3},
    {
        "targets": 0,
        "has_segments": False,
        "attn_type": "uni",
        "same_length": True,
        "micro_batches": 2,
    },
    {"device": "tpu"},
)


@pytest.mark.parametrize(
    "case",
    (CASES[0], *(pytest.param(case, marks=pytest.mark.slow) for case in CASES[1:])),
    ids=str,
)
def test_layers_computed_again_have_their_numbers_compiled(graph, case):
    """With the dropout masks of each layer."""
    tf.set_random_seed(0)
    again, plain = (step(recompute=recompute, **case) for recompute in (True, False))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        (loss, gradients, kept), wanted = session.run([again, plain])
    np.testing.assert_allclose(loss, wanted[0], rtol=1e-6)
    for variable, mine, other in zip(tf.trainable_variables(), gradients, wanted[1]):
        # XLA fuses, and so rounds, the operations in another way.
        assert_close(mine, other, variable.name, rtol=1e-5)
    assert sorted(kept) == sorted(wanted[2])
    for name, value in kept.items():
        assert_close(value, wanted[2][name], name, rtol=1e-6)


def barriers_of(graph):
    found = 0
    for each in (graph, *function_graphs(graph).values()):
        for op in each.get_operations():
            found += op.type == "XlaOptimizationBarrier"
    return found


def test_a_layer_is_computed_again_behind_a_barrier(graph):
    """Else XLA merges both runs of a layer, and keeps what the first one made."""
    step(n_layer=2, compiled=False)
    assert barriers_of(graph) == 2
