"""Layers computed again in the backward pass have the numbers of plain ones."""

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers.matmuls import function_graphs
from helpers.pretraining import TINY, features, losses_of_steps, run_of

from xlnet.engine.devices import Devices


def model(objective="permutation", recompute=True, xla=False):
    return run_of(
        {},
        dict(dropout=0.4, dropatt=0.4, recompute=recompute, init_std=0.3),
        dict(mem_len=8, objective=objective),
        devices=Devices(None, xla=xla),
    )


@pytest.mark.parametrize("objective", ("permutation", "masked", "causal"))
def test_layers_computed_again_have_their_numbers(objective):
    """With the dropout masks of each layer, in losses and in gradients, by which later ones go."""
    plain = losses_of_steps(model(objective, recompute=False))
    again = losses_of_steps(model(objective))
    np.testing.assert_allclose(again, plain, rtol=1e-6)
    assert len(set(plain)) == 3


def test_a_layer_is_computed_again_behind_a_barrier(graph, monkeypatch):
    """Else XLA merges both runs of a layer, and keeps what the first one made."""
    function = tf2.function
    monkeypatch.setattr(
        tf2, "function", lambda step, **how: function(step, autograph=False)
    )
    tf.train.get_or_create_global_step()
    model(xla=True).model_fn(features())
    barriers = 0
    for each in (graph, *function_graphs(graph).values()):
        for op in each.get_operations():
            barriers += op.type == "XlaOptimizationBarrier"
    assert barriers == TINY["n_layer"]
