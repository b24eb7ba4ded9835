"""A step that XLA does not compile: without it where nobody asked for it, else an error."""

import dataclasses

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.pretraining import curve, train

from xlnet.engine import devices as engine_devices
from xlnet.network import modeling


@pytest.fixture
def not_compiled(monkeypatch):
    """XLA is on by default, as on a GPU, and a layer has an operation that it lacks."""
    connect, real = engine_devices.connect, modeling.update_memory

    def on_by_default(settings, compiles_on_gpus=False):
        found = connect(settings, compiles_on_gpus)
        is_on = settings.xla is not False
        return dataclasses.replace(found, xla=is_on, xla_gives_way=settings.xla is None)

    def update_memory(h, *arguments):
        characters = tf.strings.length(tf.as_string(tf.reduce_sum(h)))
        return real(h + 0 * tf.cast(characters, h.dtype), *arguments)

    monkeypatch.setattr(engine_devices, "connect", on_by_default)
    monkeypatch.setattr(modeling, "update_memory", update_memory)
    return monkeypatch


def test_a_step_that_xla_does_not_compile_runs_without_it(place, not_compiled):
    done = train(place, "gives_way_of_xla")
    assert done.returncode == 0, done.stderr
    assert "note: XLA, which is on by default, did not compile or run the first step" in (
        done.stdout + done.stderr
    )
    assert train(place, "without_xla", xla=False).returncode == 0
    np.testing.assert_array_equal(curve(place, "gives_way_of_xla"), curve(place, "without_xla"))


def test_xla_that_was_asked_for_is_not_given_up(place, not_compiled):
    with pytest.raises(tf.errors.InvalidArgumentError, match="AsString"):
        train(place, "asked_for_xla", xla=True)
