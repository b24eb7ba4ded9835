"""Loss and gradients compiled by XLA: static shapes everywhere, the plain graph's numbers."""

import re

import numpy as np
import pytest
from helpers.pretraining import complete, curve, losses_of_steps, run_of

from xlnet.engine.devices import Devices

pytestmark = pytest.mark.slow


def losses(network, settings, xla=True):
    """The losses of some steps."""
    settings = dict(mem_len=8, **settings)
    run = run_of({}, network, settings, devices=Devices(None, xla=xla))
    return np.array(losses_of_steps(run, steps=4))


@pytest.mark.parametrize(
    "objective,changes",
    (("permutation", dict(grad_accum_steps=2)), ("masked", {}), ("causal", {})),
)
def test_the_step_compiles_to_the_same_numbers(objective, changes):
    """Dropout off."""
    given = dict(dropout=0.0, dropatt=0.0), dict(objective=objective, **changes)
    plain = losses(*given, xla=False)
    assert plain[-1] < plain[0] - 0.05
    np.testing.assert_allclose(losses(*given), plain, rtol=1e-5)


def test_dropout_masks_belong_to_batch_elements():
    """Half of everything is dropped, so that other masks would be seen: micro-batches have the same
    masks, another seed has others, and recomputed layers have those of the forward pass."""

    def compiled(recompute=False, **settings):
        network = dict(dropout=0.5, dropatt=0.5, recompute=recompute, init_std=0.1)
        return losses(network, dict(next_segment_loss=1.0, **settings))

    whole, other = compiled(), compiled(seed=1)
    np.testing.assert_allclose(compiled(grad_accum_steps=2), whole, rtol=2e-5)
    np.testing.assert_allclose(compiled(recompute=True), whole, rtol=2e-5)
    assert np.abs(other / whole - 1).max() > 1e-3


def test_the_flag_changes_no_number(place):
    """Dropout off: compiled, its masks are others."""
    run = dict(train_steps=6, log_steps=1, next_segment_loss=1.0, dropout=0, dropatt=0)
    for name, xla in (("plain", False), ("compiled", True)):
        done = complete(place, name, xla=xla, **run)
    speeds = list(map(int, re.findall(r"(\d+) tokens/s", done.stdout)))
    assert speeds[-1] > 10 * speeds[0], f"every step is compiled again: {done.stdout}"
    compiled, plain = curve(place, "compiled"), curve(place, "plain")
    np.testing.assert_allclose(compiled, plain, rtol=1e-5)
    assert (compiled != plain).any(), "it was not compiled"
