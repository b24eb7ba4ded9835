"""Schedules and optimizer against the reference's numbers, and the rules that differ from it."""

import dataclasses
import re
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.golden import assert_close, load, pretraining_losses
from helpers.paths import GOLDEN

import xlnet
from xlnet.engine import checkpoint, optimizer
from xlnet.settings.training import OptimizationSettings

NAMES = (
    "model/transformer/layer_0/rel_attn/q/kernel",
    "model/transformer/layer_1/ff/layer_1/bias",
    "model/transformer/layer_1/ff/LayerNorm/gamma",
)


def settings_of(reference):
    """`OptimizationSettings` with the reference's rules, from a golden file's settings."""
    names = {field.name for field in dataclasses.fields(OptimizationSettings)}
    return OptimizationSettings(
        legacy_optimizer=True,
        **{name: value for name, value in reference.items() if name in names},
    )


def constant_rate(rate, **others):
    return OptimizationSettings(
        learning_rate=rate, train_steps=10, decay_method="constant", **others
    )


def variables_of(values):
    return {
        name: tf.get_variable(name, initializer=tf.constant(value), use_resource=True)
        for name, value in values.items()
    }


@pytest.mark.parametrize("kind", ("poly", "cos", "wd", "layer"))
def test_golden_trajectories(graph, golden, kind):
    case = golden("any.optimizer")
    step = tf.train.get_or_create_global_step()
    variables = variables_of({name: case["in/init/" + name] for name in NAMES})
    gradients = [tf.placeholder(tf.float32, variables[name].shape) for name in NAMES]
    settings = settings_of(case.settings[kind])
    train_op, scalars = optimizer.update_weights(settings, gradients, 2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        if kind == "wd":
            # The reference raises the step beside its weight-decay update, not after: in the run
            # that made these values the first update had the rate of step 1.
            session.run(step.assign(1))
        for i in range(6):
            feed = dict(zip(gradients, [case["in/grad/" + n][i] for n in NAMES]))
            values = session.run(scalars, feed)
            session.run(train_op, feed)
            assert_close(values["learning_rate"], case[f"out/{kind}/{i}/lr"], "rate")
            assert_close(values["gradient_norm"], case[f"out/{kind}/{i}/gnorm"], "norm")
            for name, value in session.run(variables).items():
                assert_close(value, case[f"out/{kind}/{i}/var/{name}"], name)


@pytest.mark.parametrize("config_name", ("untied_gelu", "tied_relu"))
def test_golden_pretraining_trajectory(graph, golden, config_name):
    """Twelve steps with memory carried from one to the next, half of the batch backward."""
    case = golden(config_name + ".trajectory")
    reference = case.settings
    feeds = {}
    for name, value in case.group("in/0/").items():
        feeds[name] = tf.placeholder(value.dtype, value.shape)
    config = xlnet.XLNetConfig(**reference["config"])
    recurrence = {name: reference[name] for name in ("mem_len", "reuse_len", "bi_data")}
    run = xlnet.RunConfig(False, False, False, 0.0, 0.0, **recurrence)
    mems = [
        tf.placeholder(tf.float32, [reference["mem_len"], 4, config.d_model])
        for _ in range(config.n_layer)
    ]
    names = ("input_ids", "seg_ids", "perm_mask", "inp_q", "target_mapping")
    given = {name: feeds[name] for name in names}
    model = xlnet.XLNetModel(config, run, input_mask=None, mems=mems, **given)
    _, loss = pretraining_losses(model, feeds)
    tf.train.get_or_create_global_step()
    settings, gradients = (
        settings_of(reference["optimizer"]),
        optimizer.gradients_of(loss),
    )
    train_op, scalars = optimizer.update_weights(settings, gradients, config.n_layer)
    weights = {v.op.name: v for v in tf.trainable_variables()}
    step = dict(scalars, loss=loss, memory=model.get_new_memory(), update=train_op)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        load(session, {v: case["var/" + name] for name, v in weights.items()})
        memory = [np.zeros(mem.shape.as_list(), np.float32) for mem in mems]
        for i in range(12):
            given = case.group(f"in/{i}/")
            feed = {feeds[name]: value for name, value in given.items()}
            feed.update(zip(mems, memory))
            values = session.run(step, feed)
            memory = values["memory"]
            theirs = dict(loss="loss", gradient_norm="gnorm", learning_rate="lr")
            for ours, name in theirs.items():
                assert_close(values[ours], case[f"out/{i}/{name}"], f"{ours} {i}")
        for name, value in session.run(weights).items():
            assert_close(value, case["out/final/" + name], name, rtol=1e-4)


def run_steps(settings, values, gradients, n_layer, steps=3):
    """Final values after `steps` updates with constant gradients, of slots too."""
    variables_of(values)
    tf.train.get_or_create_global_step()
    constants = [tf.constant(gradients[name]) for name in values]
    train_op, _ = optimizer.update_weights(settings, constants, n_layer)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(steps):
            session.run(train_op)
        return session.run({v.op.name: v for v in tf.global_variables()})


# One has a layer norm of its own.
OF_OUTPUT_LAYERS = (
    "model/sequnece_summary/summary/kernel model/sequnece_summary/summary/bias "
    "model/sequnece_summary/summary_bias model/bias_of_news/logit/kernel "
    "model/bias_of_news/logit/bias end_logits/LayerNorm/gamma end_logits/LayerNorm/beta "
    "model/own/norm/gamma model/own/norm/beta model/own/LayerNorm/kernel"
).split()
# What the original decays, with the names of layer norms and the places of biases left open: its
# r_w_bias, r_r_bias and r_s_bias are on a list that is looked at first.
DECAYS = re.compile("(kernel|lookup_table|mask_emb|seg_embed|r_[wrs]_bias)$")


@pytest.mark.parametrize("legacy", (False, True))
def test_all_variables_of_a_checkpoint_move_as_the_rules_say(graph, legacy):
    """Weight decay, layer decay, clipping and the EMA, in NumPy; of a released model and of output
    layers."""
    random = np.random.RandomState(0)
    table = GOLDEN / "untied_gelu_checkpoint" / "variables.tsv"
    names = [line.split("\t")[0] for line in table.read_text("utf-8").splitlines()]
    names += OF_OUTPUT_LAYERS
    values = {name: random.randn(3).astype(np.float32) for name in names}
    gradients = {name: random.randn(3).astype(np.float32) for name in names}
    settings = constant_rate(
        0.01,
        weight_decay=0.1,
        clip=5.0,
        adam_epsilon=1e-6,
        lr_layer_decay_rate=0.5,
        ema_decay=0.9,
        legacy_optimizer=legacy,
    )
    final = run_steps(settings, values, gradients, 2)

    scaled = {}
    for name, gradient in gradients.items():
        layer = re.search(r"layer_(\d)/(rel_attn|ff)", name)
        share = 1.0 if not layer else 0.5 ** (1 - int(layer[1]))
        if re.search("word_embedding|mask_emb", name) and not legacy:
            share = 0.25
        of_gradient, of_rate = (share, 1.0) if legacy else (1.0, share)
        scaled[name] = gradient.astype(np.float64) * of_gradient, of_rate
    norm = np.sqrt(sum((gradient**2).sum() for gradient, _ in scaled.values()))
    for name, (gradient, share) in scaled.items():
        gradient, weight = gradient * 5 / norm, values[name].astype("f8")
        m = v = mean = 0.0
        for t in range(1, 4):
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
            of_m, of_v = (1, 1) if legacy else (1 - 0.9**t, 1 - 0.999**t)
            step = m / of_m / (np.sqrt(v / of_v) + 1e-6 / np.sqrt(of_v))
            decay = 0.1 * weight * bool(DECAYS.search(name))
            weight = weight - 0.01 * share * (step + decay)
            mean = 0.9 * mean + 0.1 * weight
        # 1 - 0.999 has an error of 5e-5 in float32; one decay more or less is 1e-3.
        assert_close(final[name], weight, name, rtol=1e-4)
        assert_close(final[name + "/average"], mean / (1 - 0.9**3), name, rtol=1e-4)


def test_a_weight_decays_after_it_was_read(graph):
    """However late in a step that is: the loss is that of the weights the step began with."""
    weight = tf.get_variable("kernel", initializer=tf.ones([2]), use_resource=True)
    with tf.control_dependencies([tf.numpy_function(lambda: time.sleep(0.5), [], [])]):
        loss = tf.reduce_sum(tf.square(weight.read_value()))
    tf.train.get_or_create_global_step()
    settings = constant_rate(1.0, weight_decay=0.5)
    train_op, _ = optimizer.update_weights(settings, optimizer.gradients_of(loss), 1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([loss, train_op])[0] == 2
        # 1 - 0.5 - Adam's 1
        assert_close(session.run(weight), [-0.5, -0.5], "weight", rtol=1e-5)


def test_layers_that_are_frozen_count(graph):
    """They are no variables that are trained; the shares of the others stay what they are."""
    names = [f"model/transformer/layer_{layer}/ff/kernel" for layer in (3, 4, 5)]
    values = dict.fromkeys(names, np.zeros(2, np.float32))
    gradients = dict.fromkeys(names, np.ones(2, np.float32))
    settings = constant_rate(0.01, lr_layer_decay_rate=0.5, clip=100.0)
    final = run_steps(settings, values, gradients, 6, steps=1)
    changes = [-final[name][0] / 0.01 for name in names]
    assert_close(changes, [0.25, 0.5, 1.0], rtol=1e-4)


def test_steps_that_overflow_change_nothing_and_are_not_counted(graph):
    """The update after three of them is a run's first: of a full step, and it is the average."""
    tf.train.get_or_create_global_step()
    scale = optimizer.LossScale()
    variables_of({"kernel": np.ones(2, np.float32)})
    gradient = tf.placeholder(tf.float32, [2])
    settings = constant_rate(0.1, weight_decay=0.1, ema_decay=0.9)
    train_op, _ = optimizer.update_weights(settings, [gradient], 1, scale)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())

        def found_after(value):
            session.run(train_op, {gradient: [value, -value]})
            return {v.op.name: session.run(v) for v in tf.global_variables()}

        for value in [np.inf] * 3 + [1e4]:
            found = found_after(value)
        assert (found["global_step"], found[checkpoint.UPDATES]) == (4, 1)
        assert_close(found["kernel"], [0.89, 1.09], rtol=1e-5)
        np.testing.assert_array_equal(found["kernel/average"], found["kernel"])
        before, after = found_after(1e4), found_after(np.inf)
        for name in ("kernel", "kernel/Adam", "kernel/Adam_1", "kernel/average"):
            np.testing.assert_array_equal(after[name], before[name], name)


def test_variables_without_gradient_are_named(graph):
    used = tf.get_variable("used", [2], use_resource=True)
    for name in ("forgotten", "missed"):
        tf.get_variable(name, [2], use_resource=True)
    with pytest.raises(ValueError, match="no gradient reaches forgotten, missed"):
        optimizer.gradients_of(tf.reduce_sum(used))


def test_micro_batches_have_the_gradients_of_the_whole_batch(graph):
    x = tf.constant(np.random.RandomState(0).randn(6, 3), tf.float32)

    def micro_batch_loss(part, first_row):
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            w = tf.get_variable("w", [3], use_resource=True)
        losses = tf.reduce_sum(part["x"] * w, axis=1) ** 2
        row = first_row + tf.range(losses.shape.as_list()[0])
        return tf.reduce_mean(losses), dict(losses=losses, row=row)

    found = []
    for count in (1, 2, 3):
        found.append(
            optimizer.loss_and_gradients(micro_batch_loss, {"x": x}, 10, count)
        )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        whole, *parts = session.run(found)
    for loss, gradients, kept in parts:
        np.testing.assert_allclose(loss, whole[0], rtol=1e-5)
        np.testing.assert_allclose(gradients, whole[1], rtol=1e-5)
        np.testing.assert_allclose(kept["losses"], whole[2]["losses"], rtol=1e-5)
        assert kept["row"].tolist() == list(range(10, 16))
