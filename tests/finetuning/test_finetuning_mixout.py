"""Mixout: its mean, its gradient, the same mask everywhere, runs that go on, what is refused."""

import shutil

import numpy as np
import pytest
from helpers.finetuning import make_workspace, weights
from helpers.paths import RELEASED

from xlnet.finetuning import mixout

RATE = 0.7


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_workspace(tmp_path_factory.mktemp("mixout"))


def arguments(place, name, **changes):
    return dict(dict(model_dir=place.path(name), init_checkpoint=str(RELEASED), train_steps=4,
                     mixout=RATE, learning_rate=0.01, dropout=0, dropatt=0), **changes)


@pytest.fixture(scope="module")
def whole(place):
    """A run from a released checkpoint, evaluated at its end."""
    place.succeed("--do_train=True", **arguments(place, "whole", eval_steps=4))
    return weights(place.path("whole"))


@pytest.fixture(scope="module")
def plain(place):
    """The same run without mixout."""
    place.succeed("--do_train=True", **arguments(place, "plain", mixout=0.))
    return weights(place.path("plain"))


def differences(one, other):
    assert set(one) == set(other)
    return max(np.abs(one[name] - other[name]).max() for name in one)


def test_pretrained_kernels_stay_beside_the_weights(place, whole):
    released = weights(RELEASED / "xlnet_model.ckpt")
    kept = {name for name in whole if name.endswith("/pretrained")}
    assert kept == {name + "/pretrained" for name in released if name.endswith("/kernel")}
    for name in kept:
        kernel = name[:-len("/pretrained")]
        assert np.array_equal(whole[name], released[kernel])
        assert not np.array_equal(whole[kernel], released[kernel])
    best = weights(place.path("whole", "best"))
    assert set(best) == {name for name in whole if "Adam" not in name} - kept


def test_a_run_goes_on_without_its_start(place, whole):
    """Bit for bit as if never stopped, though the checkpoint it came from is gone."""
    shutil.copytree(RELEASED, place.path("start"))
    flags = arguments(place, "stopped", init_checkpoint=place.path("start"))
    place.succeed("--do_train=True", **dict(flags, train_steps=2))
    shutil.rmtree(place.path("start"))
    out = place.succeed("--do_train=True", **flags)
    assert "stopped, step 2" in out and differences(weights(place.path("stopped")), whole) == 0


def test_without_mixout_there_is_no_trace_of_it(plain, whole):
    assert set(plain) == {name for name in whole if not name.endswith("/pretrained")}
    assert differences(plain, {name: whole[name] for name in plain}) > 1e-3


def test_replicas_and_micro_batches_have_the_same_mask(place, whole):
    place.succeed("--do_train=True", **arguments(
        place, "parts", num_core_per_host=2, grad_accum_steps=2))
    assert differences(weights(place.path("parts")), whole) < 1e-4     # sums in another order


@pytest.mark.parametrize("changes, message", [
    (dict(init_checkpoint=None), "mixout needs --init_checkpoint"),
    (dict(mixout=1.), "mixout is 1.0, expected 0 <= mixout < 1"),
    (dict(model_dir="plain", train_steps=9), "mixout: the run in plain was begun without it"),
])
def test_what_is_refused(place, plain, monkeypatch, changes, message):
    monkeypatch.chdir(place.directory)
    done = place.run("--do_train=True", **dict(arguments(place, "no"), **changes))
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done
    assert message in done.stderr and not (place.directory / "no").exists()


# ---- without a run

def test_mean_and_gradient(graph):
    """The mean is the weight; a gradient reaches, in full, the weights that stayed."""
    import tensorflow.compat.v1 as tf
    random = np.random.RandomState(0)
    value, fallback = random.randn(2, 40, 25).astype(np.float32)
    seed = tf.placeholder(tf.int32, [2])
    getter = mixout.mixing({"a/kernel", "c/kernel"}, RATE, seed)
    with tf.variable_scope("", custom_getter=getter, use_resource=True):
        mixed, others = tf.get_variable("a/kernel", value.shape), [
            tf.get_variable("b/kernel", value.shape), tf.get_variable("a/bias", [25]),
            tf.get_variable("c/kernel", value.shape, trainable=False)]
    assert [v.op.name for v in tf.global_variables()] == [
        "a/kernel", "a/kernel/pretrained", "b/kernel", "a/bias", "c/kernel"]
    assert all(other in tf.global_variables() for other in others)
    weight, pretrained = tf.global_variables()[:2]
    assert pretrained not in tf.trainable_variables()
    gradient, = tf.gradients(tf.reduce_sum(mixed), [weight])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        weight.load(value, session)
        pretrained.load(fallback, session)
        drawn, slopes = zip(*(session.run([mixed, gradient], {seed: [7, step]})
                              for step in range(400)))
    fell_back = np.array(drawn) == fallback
    assert abs(fell_back.mean() - RATE) < 0.002        # 400,000 draws: a standard error of 0.0007
    np.testing.assert_allclose(slopes, np.where(fell_back, 0, 1 / (1 - RATE)), rtol=1e-4)
    stayed = np.where(fell_back, 0, drawn - fallback - (value - fallback) / (1 - RATE))
    assert np.abs(stayed).max() < 1e-3
    error = (np.mean(drawn, axis=0) - value) / np.abs(value - fallback)
    assert np.abs(error).mean() < 0.1 and abs(np.mean(error)) < 0.01
    assert not np.array_equal(fell_back[0], fell_back[1])
