"""Fine-tuning in float16: learns as float32 does, passes over steps whose gradients overflow."""

import re

import numpy as np
import pytest
from helpers.finetuning import make_workspace, weights

from xlnet.engine import optimizer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_workspace(tmp_path_factory.mktemp("precision"))


def train(place, name, **changes):
    """The losses that a run prints, means since the line before."""
    flags = {"model_dir": place.path(name), "save_steps": 1000, **changes}
    out = place.succeed("--do_train=True", "--do_eval=True", **flags)
    losses = re.findall(r"^step .* loss +(\S+)", out, re.MULTILINE)
    held_out = re.search(r"^eval custom dev  step .* loss (\S+)", out, re.MULTILINE)
    return [float(loss) for loss in losses], float(held_out.group(1))


def test_float16_learns_as_float32(place):
    # Later on a spike of the loss may part two runs that differ in the last digits.
    run = dict(train_steps=60, log_steps=20, learning_rate=4e-3, decay_method="poly")
    plain, held_out = train(place, "fp32", precision="fp32", **run)
    half, half_held_out = train(place, "fp16", precision="fp16", **run)
    assert plain[-1] < 0.8 * plain[0]  # there was something to learn
    np.testing.assert_allclose(half, plain, rtol=0.005)
    assert abs(half_held_out / held_out - 1) < 0.005
    stored = weights(place.path("fp16"))
    assert stored["loss_scale/scale"] >= 1 and stored["loss_scale/good_steps"] > 50
    slots = [value for name, value in stored.items() if "Adam" in name]
    assert {slot.dtype for slot in slots} == {np.dtype(np.float32)}

    flags = dict(precision="fp16", train_steps=61, allow_changes=True)
    done = place.run("--do_train=True", model_dir=place.path("fp32"), **flags)
    (line,) = done.errors
    assert "fp32 has no loss_scale/good_steps: its run has other" in line


def test_steps_that_overflow_are_passed_over(place, monkeypatch):
    """A scale that no gradient survives: halved in each step, weights and slots as they were."""
    monkeypatch.setattr(optimizer, "FIRST_SCALE", 2.0**100)
    run = dict(
        train_steps=3, precision="fp16", learning_rate=0.1, eval_steps=3, save_steps=1
    )
    train(place, "overflow", **run)
    first, last = (
        weights(place.path("overflow", f"model.ckpt-{step}")) for step in (1, 3)
    )
    assert last["global_step"] == 3 and last["loss_scale/good_steps"] == 0
    assert last["loss_scale/scale"] == 2.0**97
    changed = {name for name in first if not np.array_equal(first[name], last[name])}
    assert changed == {"global_step", "loss_scale/scale"}
    best = weights(place.path("overflow", "best"))
    assert set(best) == {
        name for name in last if not re.search("Adam|loss_scale", name)
    }
