"""Golden parity of the network, its heads and its documented API; laws of its parts."""

import contextlib
import dataclasses
import glob
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.golden import assert_close, constants, load, pretraining_losses
from helpers.paths import GOLDEN
from tensorflow.python.compiler.xla import xla

import xlnet
from xlnet.errors import UserError
from xlnet.network import attention, heads, modeling, ops, relative_shift
from xlnet.tasks.kind import LossOptions
from xlnet.tasks.registry import KINDS
from xlnet.tasks.spans import Spans
from xlnet.tasks.task import Task

CONFIGS = ("untied_gelu", "tied_relu")
RUN = dict(is_training=False, use_tpu=False, use_bfloat16=False, dropout=0., dropatt=0.)


def files(kind):
    return sorted(os.path.basename(path)[:-4] for config in CONFIGS
                  for path in glob.glob(str(GOLDEN / ("%s.%s.*.npz" % (config, kind)))))


def load_and_run(case, fetches):
    """Runs `fetches` with the golden weights; checks that exactly these variables exist."""
    weights = case.group("var/")
    variables = {v.op.name: v for v in tf.global_variables()}
    assert {n: tuple(v.shape.as_list()) for n, v in variables.items()} == {
        n: w.shape for n, w in weights.items()}
    with tf.Session() as session:
        load(session, {variable: weights[name] for name, variable in variables.items()})
        return session.run(fetches)


def gradients_of(loss, names):
    by_name = {v.op.name: v for v in tf.trainable_variables()}
    gradients = tf.gradients(loss, [by_name[name] for name in names])
    assert all(g is not None for g in gradients), [
        n for n, g in zip(names, gradients) if g is None]
    return {name: tf.convert_to_tensor(g) for name, g in zip(names, gradients)}


def check(case, fetches, loss, rtol=1e-5):
    """Compares `fetches` with out/ and the gradients of `loss`, to `rtol`, with out/grad/."""
    wanted = case.group("out/grad/")
    gradients = gradients_of(loss, wanted) if wanted else {}
    values, gradients = load_and_run(case, (fetches, gradients))
    for name, value in values.items():
        assert_close(value, case["out/" + name], name)
    for name, value in gradients.items():
        assert_close(value, wanted[name], "gradient of " + name, rtol)


@pytest.fixture(params=("inference", "training", "training in loops"))
def is_training(request, monkeypatch):
    """The forms in which the network is computed; RUN has no dropout."""
    if request.param == "training in loops":
        monkeypatch.setattr(modeling, "LOOPS_FROM", 0)
    return request.param != "inference"


@pytest.mark.parametrize("name", files("finetune"))
def test_finetuning_forward_and_summaries(graph, golden, name, is_training):
    case = golden(name)
    config = xlnet.XLNetConfig(**case.settings["config"])
    run = xlnet.RunConfig(clamp_len=case.settings["clamp_len"],
                          **dict(RUN, is_training=is_training))
    inputs = constants(case.group("in/"))
    model = xlnet.XLNetModel(config, run, **inputs)
    fetches = {"sequence_output": model.get_sequence_output()}
    with tf.variable_scope("model"):
        for kind in ("last", "first", "mean", "attn"):
            fetches["summary_" + kind] = modeling.summarize(
                config, run, tf.transpose(model.get_sequence_output(), [1, 0, 2]),
                summary_type=kind, scope="summary_" + kind,
                padding=tf.transpose(inputs["input_mask"]) if kind == "attn" else None)
    loss = 0.01 * tf.reduce_sum(fetches["sequence_output"] ** 2) + tf.reduce_sum(
        fetches["summary_last"])
    check(case, fetches, loss)


def time_major_model(case, inputs, is_training=False):
    settings = case.settings
    run = xlnet.RunConfig(mem_len=settings["mem_len"], reuse_len=settings["reuse_len"],
                          bi_data=settings["bi_data"], clamp_len=settings.get("clamp_len", -1),
                          built_once=is_training, **dict(RUN, is_training=is_training))
    tensors = dict(inputs)
    mems = tensors.pop("mems", None)
    model_inputs = {k: v for k, v in tensors.items() if k not in ("target", "target_mask")}
    return xlnet.XLNetModel(xlnet.XLNetConfig(**settings["config"]), run, input_mask=None,
                            mems=None if mems is None else tf.unstack(mems), **model_inputs)


@pytest.mark.parametrize("name", files("pretrain"))
def test_pretraining_two_streams(graph, golden, name, is_training):
    case = golden(name)
    inputs = constants(case.group("in/"))
    model = time_major_model(case, inputs, is_training)
    losses, total = pretraining_losses(model, inputs)
    fetches = {"sequence_output": model.get_sequence_output(), "lm_loss": losses,
               "total_loss": total}
    if case.settings["mem_len"]:
        fetches["new_mems"] = tf.stack(model.get_new_memory())
    check(case, fetches, total)


@pytest.mark.parametrize("name", files("causal"))
def test_causal_transformer_xl(graph, golden, name):
    case = golden(name)
    settings = case.settings
    run = xlnet.RunConfig(mem_len=settings["mem_len"], same_length=settings["same_length"], **RUN)
    with tf.variable_scope("model"):
        outputs = modeling.transformer_xl(
            xlnet.XLNetConfig(**settings["config"]), run, attn_type=settings["attn_type"],
            input_ids=tf.constant(case["in/input_ids"].T),
            mems=tf.unstack(tf.constant(case["in/mems"].transpose(0, 2, 1, 3))))
    check(case, {"sequence_output": tf.transpose(outputs.sequence, [1, 0, 2]),
                 "new_mems": tf.transpose(tf.stack(outputs.new_mems), [0, 2, 1, 3])},
          0.01 * tf.reduce_sum(outputs.sequence ** 2))


@pytest.mark.parametrize("kind_name", ("classification", "regression", "multiple_choice"))
@pytest.mark.parametrize("config_name", CONFIGS)
def test_heads(graph, golden, config_name, kind_name):
    case = golden("%s.head.%s" % (config_name, kind_name))
    config = xlnet.XLNetConfig(**case.settings["config"])
    run = xlnet.RunConfig(**dict(RUN, is_training=True))
    inputs = constants(case.group("in/"))
    choices = case["out/logits"].shape[1] if kind_name == "multiple_choice" else 1
    length = case["in/input_ids"].shape[1] // choices
    ids, segments, padding = (tf.reshape(inputs[key], [-1, length]) for key in
                              ("input_ids", "segment_ids", "input_mask"))
    with tf.variable_scope("model"):
        sequence = modeling.transformer_xl(config, run, input_ids=ids, seg_ids=segments,
                                           hidden=padding[:, None] > 0).sequence
        summary = modeling.summarize(config, run, sequence)
    labels = {"classification": tuple("abcd"), "regression": None}.get(
        kind_name, tuple(range(choices)))
    kind = KINDS[kind_name]
    task = Task("golden", ("a",), (), ("label",), labels, (), kind)
    nn = heads.Layers(run, task.head, sequence, padding, lambda: summary)
    with contextlib.ExitStack() as scope:
        if kind_name != "multiple_choice":      # the reference's stands beside the network
            scope.enter_context(tf.variable_scope("model"))
        logits = kind.logits(nn, task, inputs, is_training=True)
        loss = kind.loss(nn, task, logits, inputs, LossOptions())
    total = tf.reduce_mean(loss)
    # Gradients of choices cancel, the more the more alike the choices are, and what is left has
    # more rounding than elsewhere: 7e-6 with TensorFlow 2.18, up to 1.25e-5 with 2.21.
    check(case, {"logits": logits, "per_example_loss": loss, "total_loss": total}, total,
          rtol=2e-5 if kind_name == "multiple_choice" else 1e-5)


@pytest.mark.parametrize("mode", ("train", "predict"))
@pytest.mark.parametrize("config_name", CONFIGS)
def test_heads_of_spans(graph, golden, config_name, mode):
    case = golden("%s.head.qa_%s" % (config_name, mode))
    run = xlnet.RunConfig(**RUN)
    inputs = constants(case.group("in/"))
    with tf.variable_scope("model"):
        sequence = modeling.transformer_xl(
            xlnet.XLNetConfig(**case.settings["config"]), run, input_ids=inputs["input_ids"],
            seg_ids=inputs["segment_ids"], hidden=inputs["input_mask"][:, None] > 0).sequence
    kind = Spans(start_n_top=3, end_n_top=4)
    nn = heads.Layers(run, "", sequence, inputs["input_mask"], None)
    is_training = mode == "train"
    outputs = kind.head(nn, inputs["p_mask"], inputs["cls_index"], None if is_training else 3,
                        inputs.get("start_positions", tf.zeros([3], tf.int32)))
    if is_training:
        loss = kind.loss(nn, None, outputs, inputs, LossOptions())
        total = tf.reduce_mean(loss)
        names = ("start_log_probs", "end_log_probs", "cls_logits")
        check(case, dict({name: outputs[name] for name in names}, total_loss=total), total)
        return
    names = ("start_top_log_probs", "start_top_index", "end_top_log_probs", "end_top_index")
    check(case, dict({name: tf.reshape(outputs[name], [3, -1]) for name in names},
                     cls_logits=outputs["cls_logits"]), None)


# ---- laws of the parts ----

def test_relative_shift_reads_the_cell_of_the_distance(graph):
    length, memory = 3, 2
    keys = length + memory
    x = np.random.RandomState(0).randn(2, 2, length, keys + length).astype(np.float32)
    expected = np.stack([x[:, :, i, length - i:length - i + keys] for i in range(length)], axis=2)
    positions = np.array([[2, 0], [1, 1]], np.int32)
    rows = np.take_along_axis(x, positions[:, None, :, None], axis=2)
    whole = tf.constant(x)
    some = tf.constant(rows)
    y = relative_shift.relative_shift(whole, keys)
    z = relative_shift.relative_shift_at(some, keys, tf.constant(length - positions))
    with tf.Session() as session:
        y, z = session.run([y, z])
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(
        z, np.take_along_axis(expected, positions[:, None, :, None], axis=2))


IN_LOOPS = pytest.mark.parametrize("in_loops", (False, True))


def plain_attention(q, q_r, k, v, k_r, bias, first_distance):
    """`attention.attend` as the formula reads."""
    first = first_distance[:, None, :, None]
    index = tf.broadcast_to(first + tf.range(k.shape[2]),
                            [q.shape[0], q.shape[1], q.shape[2], k.shape[2]])
    by_distance = tf.gather(tf.matmul(q_r, k_r, transpose_b=True), index, batch_dims=3)
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + by_distance + bias), v)


@pytest.mark.parametrize("slots, shared, recompute, on_accelerator, in_loops, softmaxes", (
    (False, True, False, False, False, 3), (False, False, True, False, True, 3),
    (True, False, False, False, True, 1), (False, True, False, True, False, 2)))
def test_attention_and_its_gradients(graph, monkeypatch, slots, shared, recompute, on_accelerator,
                                     in_loops, softmaxes):
    """Blocks of rows give the values and the gradients that TensorFlow derives of the formula."""
    monkeypatch.setattr(attention, "BLOCK", 2)
    monkeypatch.setattr(attention, "MOST_CELLS", 3 * 5 * 8 - 1)
    batch, heads_, length, keys, width = 2, 3, 5, 8, 4
    random = np.random.RandomState(0)
    q, q_r = (tf.constant(random.randn(batch, heads_, length, width)) for _ in range(2))
    k, v = (tf.constant(random.randn(batch, heads_, keys, width)) for _ in range(2))
    k_r = tf.constant(random.randn(1 if shared else batch, heads_, keys + length, width))
    inputs = [tf.cast(x, tf.float32) for x in (q, q_r, k, v, k_r)]
    bias = tf.constant(np.where(random.rand(batch, 1, length, keys) < .3, -1e30, 0.), tf.float32)
    rows = tf.constant([[4, 0, 2, 2, 1], [1, 2, 3, 4, 0]] if slots else [[0, 1, 2, 3, 4]] * batch)
    weight = tf.constant(random.randn(batch, heads_, length, width), tf.float32)
    ours = attention.attend(*inputs, bias, first_distance=length - rows if slots else None,
                            recompute=recompute, on_accelerator=on_accelerator,
                            in_loops=in_loops)
    assert len([op for op in graph.get_operations() if op.type == "Softmax"]) == softmaxes
    plain = plain_attention(*inputs, bias, length - rows)
    with tf.Session() as session:
        ours, plain = session.run([(y, tf.gradients(y * weight, inputs)) for y in (ours, plain)])
    assert_close(ours[0], plain[0])
    for name, mine, wanted in zip(("q", "q_r", "k", "v", "k_r"), ours[1], plain[1]):
        assert_close(mine, wanted, name)


@pytest.mark.parametrize("shared, recompute, rate, in_loops", (
    (True, True, 0., True), (False, False, 0., False), (True, True, .4, False),
    (False, False, .4, False), (True, True, .4, True), (False, False, .4, True)))
def test_attention_of_long_rows_is_a_loop(graph, monkeypatch, shared, recompute, rate, in_loops):
    """It gives what blocks of their own give; with dropout, forward and backward pass have the same
    noise, which is read off values that tell the keys apart."""
    monkeypatch.setattr(attention, "BLOCK", 8)
    batch, heads_, length, keys, width = 2, 3, 37, 40, 40
    random = np.random.RandomState(0)
    q, q_r = (tf.constant(random.randn(batch, heads_, length, 4), tf.float32) for _ in range(2))
    k = tf.constant(random.randn(batch, heads_, keys, 4), tf.float32)
    k_r = tf.constant(random.randn(1 if shared else batch, heads_, keys + length - 2, 4),
                      tf.float32)
    v = tf.tile(tf.eye(keys, width)[None, None], [batch, heads_, 1, 1])
    bias = tf.constant(np.where(random.rand(batch, 1, length, keys) < .3, -1e30, 0.), tf.float32)
    weight = tf.constant(random.randn(batch, heads_, length, width), tf.float32)
    inputs = [q, q_r, k, v, k_r]

    def attend(most_blocks, rate):
        monkeypatch.setattr(attention, "MOST_BLOCKS", most_blocks)
        return attention.attend(*inputs, bias, drops=ops.Dropout(rate, tf.constant([1, 2])),
                                recompute=recompute, in_loops=in_loops)
    ours, plain = attend(2, rate), attend(16, 0.)
    assert any(op.type.endswith("While") for op in graph.get_operations())
    keep = tf.stop_gradient(tf.cast((ours > 0) | (plain < 1e-9), tf.float32))
    scale = 1 / (1 - round(rate * 2 ** 16) / 2 ** 16)
    results = [[y] + tf.gradients(y * weight, [q, q_r, k, k_r])
               for y in (ours, plain * keep * scale if rate else plain)]
    with tf.Session() as session:
        (ours, plain), kept = session.run([results, keep])
    assert kept.min() == (0 if rate else 1) and kept[0, 0].mean() != kept[1, 2].mean() or not rate
    for name, mine, wanted in zip(("y", "q", "q_r", "k", "k_r"), ours, plain):
        assert_close(mine, wanted, name)


def test_a_loop_over_long_rows_under_xla(graph, monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 8)
    monkeypatch.setattr(attention, "MOST_BLOCKS", 1)
    random = np.random.RandomState(0)
    inputs = [tf.constant(random.randn(*shape), tf.float32) for shape in (
        *[(2, 3, 20, 4)] * 2, *[(2, 3, 24, 4)] * 2, (1, 3, 44, 4))]

    def step(*inputs):
        y = attention.attend(*inputs, drops=ops.Dropout(.3, tf.constant([1, 2])), recompute=True)
        return [y] + tf.gradients(y * y, list(inputs))
    with tf.Session() as session:
        plain, compiled = session.run([step(*inputs), xla.compile(step, inputs)])
    for mine, wanted in zip(compiled, plain):
        assert_close(mine, wanted)


@IN_LOOPS
def test_noise_of_long_rows_is_that_of_the_example(graph, monkeypatch, in_loops):
    """The second of two examples has the same one alone, as the second of the batch."""
    monkeypatch.setattr(attention, "BLOCK", 8)
    monkeypatch.setattr(attention, "MOST_BLOCKS", 1)
    random = np.random.RandomState(0)
    q, k, v = (tf.constant(random.randn(2, 2, 20, 4), tf.float32) for _ in range(3))
    k_r = tf.constant(random.randn(1, 2, 40, 4), tf.float32)
    both, second = (
        attention.attend(q[first:], q[first:], k[first:], v[first:], k_r, drops=ops.Dropout(
            .5, tf.constant([1, 2]), tf.constant(first + 7)), in_loops=in_loops)
        for first in (0, 1))
    with tf.Session() as session:
        both, second = session.run([both, second])
    np.testing.assert_array_equal(both[1], second[0])


@pytest.mark.parametrize("rows, keys, on_accelerator, size", (
    (512, 896, False, 128), (512, 896, True, 512), (100, 100, True, 100),
    (2048, 2048, True, 683), (8192, 8192, True, 512)))
def test_blocks_are_those_of_the_device(rows, keys, on_accelerator, size):
    """Of XLNet-Base, 12 heads."""
    assert attention._block_rows(rows, 12 * keys, on_accelerator) == size
    blocks = attention._blocks(rows, keys, size)
    assert blocks[0].stop == min(size, rows) and blocks[-1].stop == rows


@IN_LOOPS
def test_dropped_probabilities_have_the_gradient_of_their_noise(graph, in_loops):
    """With values that tell the keys apart, dropout is read off the output and held fixed."""
    random = np.random.RandomState(0)
    q, q_r = (tf.constant(random.randn(1, 1, 3, 4), tf.float32) for _ in range(2))
    k, k_r = (tf.constant(random.randn(1, 1, n, 4), tf.float32) for n in (6, 9))
    v = tf.eye(6)[None, None]
    weight = tf.constant(random.randn(1, 1, 3, 6), tf.float32)
    ours = attention.attend(q, q_r, k, v, k_r, drops=ops.Dropout(.5, tf.constant([1, 2])),
                            in_loops=in_loops)
    keep = tf.stop_gradient(tf.cast(ours > 0, tf.float32))
    plain = plain_attention(q, q_r, k, v, k_r, 0., 3 - tf.range(3)[None]) * keep * 2.
    with tf.Session() as session:
        kept = session.run(keep)
        ours, plain = session.run([[y] + tf.gradients(y * weight, [q, q_r, k, k_r])
                                   for y in (ours, plain)])
    assert 0 < kept.mean() < 1
    for mine, wanted in zip(ours, plain):
        assert_close(mine, wanted)


KERNEL = np.random.RandomState(2).randn(6, 6).astype(np.float32)


def activated_dense(activation):
    return lambda x: ops.activated_dense(x, tf.constant(KERNEL), tf.fill([6], 0.5), activation)


@IN_LOOPS
def test_dropped_activations_have_the_gradient_of_their_noise(graph, in_loops):
    """With one unit a row of the kernel, dropout is read off the output and held fixed."""
    x = tf.constant(np.random.RandomState(0).rand(2, 100, 6) + 1., tf.float32)
    kernel, bias = tf.constant(np.diag(np.arange(1., 7.)), tf.float32), tf.zeros([6])
    weight = tf.constant(np.random.RandomState(1).randn(2, 100, 6), tf.float32)
    ours = ops.activated_dense(x, kernel, bias, ops.gelu,
                               ops.Dropout(.5, tf.constant([1, 2])), in_loops)
    keep = tf.stop_gradient(tf.cast(ours > 0, tf.float32))
    plain = tf.tensordot(ops.gelu(x)[0] * keep * 2., kernel, 1) + bias
    with tf.Session() as session:
        kept = session.run(keep)
        ours, plain = session.run([[y] + tf.gradients(y * weight, [x, kernel, bias])
                                   for y in (ours, plain)])
    assert 0.4 < kept.mean() < 0.6
    for mine, wanted in zip(ours, plain):
        assert_close(mine, wanted)


@pytest.mark.parametrize("remembered", (None, 3))
@pytest.mark.parametrize("slots", (None, 2))
def test_dense_after_memory(graph, remembered, slots):
    random = np.random.RandomState(0)
    x, *kernels = (tf.constant(random.randn(*shape), tf.float32)
                   for shape in ([2, 6, 4], [4, 5], [4, 5]))
    memory = None if remembered is None else tf.get_variable(
        "memory", initializer=random.randn(2, remembered, 4).astype(np.float32),
        use_resource=True).read_value()
    keys = x[:, :4] if slots else x
    keys = keys if memory is None else tf.concat([memory, keys], axis=1)
    weight = tf.constant(random.randn(2, keys.shape[1], 5), tf.float32)
    plain = [tf.tensordot(keys, kernel, 1) for kernel in kernels]
    ours = ops.dense_after_memory(memory, x, slots, kernels)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        ours, plain = session.run([ys + tf.gradients(ys[0] * weight + ys[1], [x, *kernels])
                                   for ys in (ours, plain)])
    for mine, wanted in zip(ours, plain):
        assert_close(mine, wanted)


def joined(fetch, feed):
    """What TensorFlow does within the products that `fetch` needs."""
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(fetch, feed, tf.RunOptions(output_partition_graphs=True), metadata)
    return [list(node.attr["fused_ops"].list.s) for part in metadata.partition_graphs
            for node in part.node if "fused_ops" in node.attr]


@pytest.mark.parametrize("shape", ((2, 8), (None, None)))
def test_inference_computes_the_activation_within_the_product(graph, shape):
    kernel, ids = tf.get_variable("kernel", [8, 8]), tf.placeholder(tf.int64, shape)
    feed = {ids: np.ones([2, 8])}
    bias = tf.get_variable("bias", [8])
    product = tf.nn.bias_add(tf.matmul(tf.cast(tf.reshape(ids, [2, 8]), tf.float32), kernel), bias)
    together = [b"BiasAdd", b"GeluApproximate"]
    if together not in joined(tf.matmul(ops.ACTIVATIONS["gelu"][0](product), kernel), feed):
        pytest.skip("TensorFlow uses oneDNN's kernels on processors with AVX512 VNNI alone")
    config = xlnet.XLNetConfig(n_layer=2, d_model=8, n_head=2, d_head=4, d_inner=16,
                               ff_activation="gelu", untie_r=True, n_token=9)
    outputs = modeling.transformer_xl(config, xlnet.RunConfig(**RUN), input_ids=ids,
                                      hidden=(ids < 0)[:, None])
    assert joined(outputs.sequence, feed).count(together) == config.n_layer


@pytest.mark.parametrize("kernel, plain", (
    (activated_dense(ops.gelu), lambda x: tf.tensordot(0.5 * x * (1. + tf.tanh(
        np.sqrt(2. / np.pi) * (x + 0.044715 * x ** 3))), KERNEL, 1) + 0.5),
    (activated_dense(ops.gelu_erf), lambda x: tf.tensordot(
        0.5 * x * (1. + tf.erf(x / np.sqrt(2.))), KERNEL, 1) + 0.5),
    (activated_dense(ops.relu), lambda x: tf.tensordot(tf.nn.relu(x), KERNEL, 1) + 0.5),
    (lambda x: ops.layer_norm(x, tf.linspace(1., 2., 6), tf.linspace(0., 1., 6)),
     lambda x: tf.nn.batch_normalization(x, *tf.nn.moments(x, [-1], keepdims=True),
                                         tf.linspace(0., 1., 6), tf.linspace(1., 2., 6), 1e-12))))
def test_kernels_have_the_gradient_of_their_formula(graph, kernel, plain):
    x = tf.constant(np.random.RandomState(0).randn(4, 5, 6), tf.float32)
    weight = tf.constant(np.random.RandomState(1).randn(4, 5, 6), tf.float32)
    with tf.Session() as session:
        ours, wanted = session.run([(y, tf.gradients(y * weight, x)[0])
                                    for y in (kernel(x), plain(x))])
    assert_close(ours[0], wanted[0])
    assert_close(ours[1], wanted[1])


@pytest.mark.parametrize("ours, plain, shapes", (
    (ops.plus_head_bias, lambda q, bias: q + bias, ([2, 3, 5, 4], [3, 1, 4])),
    (ops.along_head_vector, lambda x, vector: tf.reduce_sum(x * vector, axis=-1, keepdims=True),
     ([2, 3, 5, 4], [3, 1, 4]))))
def test_biases_of_heads_have_the_gradient_of_their_formula(graph, ours, plain, shapes):
    random = np.random.RandomState(0)
    inputs = [tf.constant(random.randn(*shape), tf.float32) for shape in shapes]
    weight = tf.constant(random.randn(*plain(*inputs).shape), tf.float32)
    with tf.Session() as session:
        found, wanted = session.run([[y] + tf.gradients(y * weight, inputs)
                                     for y in (ours(*inputs), plain(*inputs))])
    for mine, other in zip(found, wanted):
        assert_close(mine, other)


def tiny(**changes):
    return xlnet.XLNetConfig(**dict(dict(n_layer=2, d_model=8, n_head=2, d_head=4, d_inner=16,
                                         ff_activation="gelu", untie_r=True, n_token=50),
                                    **changes))


def test_direction_is_per_example(graph):
    """Any mix of directions gives each example what a batch of its own direction gives."""
    ids = tf.constant(np.random.RandomState(0).randint(0, 50, [4, 6]), tf.int32)

    def sequence(direction):
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            return modeling.transformer_xl(tiny(), xlnet.RunConfig(**dict(RUN, init_std=0.5)),
                                           input_ids=ids, direction=direction).sequence
    mixed, forward, backward, default = (sequence(d) for d in (
        tf.constant([0, 1, 1, 0]), tf.zeros([4], tf.int32), tf.ones([4], tf.int32), None))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        m, f, b, d = session.run([mixed, forward, backward, default])
    assert_close(f, d)
    assert np.abs(f - b).max() > 1e-2
    assert_close(m, np.stack([f[0], b[1], b[2], f[3]]))


def test_permutation_mask_hides_what_comes_later(graph):
    """Changing a token changes exactly the predictions that may see it (paper, equation 3)."""
    rank = np.array([[3, -1, 0, 2, 1, -1]], np.int32)
    target = rank >= 0
    ids = np.array([[5, 6, 7, 8, 9, 10]], np.int32)

    def predictions(ids):
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            return modeling.transformer_xl(
                tiny(), xlnet.RunConfig(**dict(RUN, init_std=0.5)), input_ids=tf.constant(ids),
                hidden=modeling.permutation_mask(tf.constant(rank), tf.constant(target)),
                query=modeling.Query(positions=tf.constant([[0, 2, 3, 4]]))).sequence
    changed = []
    for j in range(6):
        other = ids.copy()
        other[0, j] = 20
        changed.append(predictions(other))
    with tf.Session() as session, graph.as_default():
        session_outputs = [predictions(ids)] + changed
        session.run(tf.global_variables_initializer())
        base, *changed = session.run(session_outputs)
    for j, output in enumerate(changed):
        moved = np.abs(output - base).max(axis=-1)[0] > 1e-6
        expected = [rank[0, j] < rank[0, i] for i in (0, 2, 3, 4)]
        assert moved.tolist() == expected, j


def test_memory_equals_one_long_window(graph):
    """Two causal windows with memory compute what one long window computes."""
    ids = np.random.RandomState(0).randint(0, 50, [2, 12]).astype(np.int32)

    def outputs(part, mems):
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            run = xlnet.RunConfig(mem_len=6, **dict(RUN, init_std=0.5))
            return modeling.transformer_xl(tiny(), run, input_ids=tf.constant(part), mems=mems,
                                           attn_type="uni")
    first = outputs(ids[:, :6], None)
    second = outputs(ids[:, 6:], first.new_mems)
    whole = outputs(ids, None)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        parts, whole = session.run([tf.concat([first.sequence, second.sequence], 1),
                                    whole.sequence])
    assert_close(parts, whole)


@pytest.mark.parametrize("kind", ("first", "mean", "attn"))
def test_summaries_leave_padding_out(graph, kind):
    """With `padding`, left-padded text has the summary of the bare text."""
    sequence = np.random.RandomState(0).randn(1, 5, 8).astype(np.float32)
    padded = np.concatenate([np.full([1, 3, 8], 7, np.float32), sequence], axis=1)
    padding = np.array([[1, 1, 1, 0, 0, 0, 0, 0]], np.float32)
    run = xlnet.RunConfig(**RUN)
    bare = modeling.summarize(tiny(), run, tf.constant(sequence), summary_type=kind)
    full = modeling.summarize(tiny(), run, tf.constant(padded), summary_type=kind,
                              padding=tf.constant(padding))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert_close(*session.run([full, bare]))


@IN_LOOPS
def test_dropout_is_a_function_of_its_seed(graph, in_loops):
    x = tf.ones([200, 100])
    outputs = [ops.dropout(x, ops.Dropout(.1, tf.constant([3, step])), in_loops)
               for step in (1, 1, 2)]
    with tf.Session() as session:
        first, again, other = session.run(outputs)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert abs(np.mean(first == 0) - 0.1) < 0.01      # 4.7 standard deviations
    assert abs(first.mean() - 1) < 0.01


@pytest.mark.parametrize("name, count", (("base", 116718336), ("large", 360268800)))
def test_parameter_counts_of_the_released_models(graph, name, count):
    """All of `model/transformer`; the LM bias (one per token) is counted apart."""
    config = xlnet.XLNetConfig(json_path="configs/model/%s.json" % name)
    with tf.variable_scope("model"):
        modeling.transformer_xl(
            config, xlnet.RunConfig(**RUN), input_ids=tf.zeros([1, 4], tf.int32),
            seg_ids=tf.zeros([1, 4], tf.int32), query=modeling.Query(masked=tf.zeros([1, 4])))
    assert sum(v.shape.num_elements() for v in tf.trainable_variables()) == count


def pretraining_step(run, n_layer=2):
    """Loss and gradients of two windows with memory, direction, both streams; by variable name."""
    random = np.random.RandomState(0)
    ids = tf.constant(random.randint(0, 50, [2, 6]), tf.int32)
    positions = tf.constant([[0, 2, 3], [1, 4, 5]])
    hidden = modeling.permutation_mask(
        tf.constant([[1, -1, 0, 2, -1, -1], [-1, 2, -1, -1, 1, 0]]),
        tf.reduce_any(tf.one_hot(positions, 6, True, False, dtype=tf.bool), axis=1))
    mems = [tf.constant(random.randn(2, 4, 8), tf.float32) for _ in range(n_layer)]
    with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
        outputs = modeling.transformer_xl(
            tiny(n_layer=n_layer), run, input_ids=ids, seg_ids=ids % 2,
            direction=tf.constant([0, 1]), mems=mems, hidden=hidden,
            query=modeling.Query(positions=positions), seed=tf.constant([3, 4]))
        loss = tf.reduce_mean(heads.lm_loss(
            outputs.sequence, tf.gather(ids, positions, batch_dims=1), outputs.embedding_table,
            run.precision))
    names = sorted(v.op.name for v in tf.trainable_variables())
    return dict(gradients_of(loss, names), loss=loss)


def train_run(**changes):
    return xlnet.RunConfig(**dict(RUN, is_training=True, dropout=0.2, dropatt=0.2, init_std=0.3,
                                  mem_len=4, built_once=True, **changes))


@pytest.mark.parametrize("recompute", (False, True))
def test_gradients_of_a_model_that_a_session_has_run(graph, recompute):
    """In whatever order code written for the reference does it; the numbers of `built_once`."""
    random = np.random.RandomState(0)
    ids = tf.constant(random.randint(0, 50, [6, 2]), tf.int32)

    def loss(built_once):
        run = xlnet.RunConfig(**dict(RUN, is_training=True, recompute=recompute, init_std=0.5,
                                     built_once=built_once))
        return tf.reduce_sum(xlnet.XLNetModel(
            tiny(), run, ids, ids % 2, None).get_pooled_out("last") ** 2)
    plain, once = loss(False), loss(True)
    wanted = tf.gradients(once, tf.trainable_variables())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(plain)
        for _ in range(2):
            found = tf.gradients(plain, tf.trainable_variables())
            for mine, other in zip(*session.run([found, wanted])):
                assert_close(mine, other, rtol=1e-5)


@pytest.mark.parametrize("is_training", (False, True))
@pytest.mark.parametrize("has_slots", (False, True))
def test_sizes_that_are_not_known_before(graph, has_slots, is_training):
    random = np.random.RandomState(0)
    mapping = np.zeros([3, 6, 2], np.float32)
    mapping[[0, 1, 2, 0, 1, 2], [1, 4, 5, 0, 2, 3], [0, 0, 0, 1, 1, 1]] = 1.
    values = dict(input_ids=random.randint(0, 50, [6, 2]).astype(np.int32),
                  seg_ids=random.randint(0, 2, [6, 2]).astype(np.int32),
                  input_mask=np.zeros([6, 2], np.float32), inp_q=np.ones([6, 2], np.float32),
                  perm_mask=random.randint(0, 2, [6, 6, 2]).astype(np.float32),
                  **dict(target_mapping=mapping) if has_slots else {})
    run = xlnet.RunConfig(**dict(RUN, is_training=is_training, init_std=0.5))
    fed = {name: tf.placeholder(value.dtype, [None] * value.ndim) for name, value in values.items()}
    sequences = [xlnet.XLNetModel(tiny(), run, **inputs).get_sequence_output()
                 for inputs in (fed, {name: tf.constant(x) for name, x in values.items()})]
    fetches = [[x] + (tf.gradients(x ** 2, tf.trainable_variables()) if is_training else [])
               for x in sequences]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for mine, other in zip(*session.run(fetches, {fed[name]: values[name] for name in fed})):
            assert_close(mine, other, rtol=1e-5)


def test_slots_of_a_causal_network(graph):
    """They have what a query at every position has at theirs."""
    ids = tf.constant(np.random.RandomState(0).randint(0, 50, [2, 6]), tf.int32)
    positions = tf.constant([[0, 2, 5], [5, 4, 1]])

    def queried(**query):
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            return modeling.transformer_xl(
                tiny(), xlnet.RunConfig(**dict(RUN, init_std=0.5)), input_ids=ids, attn_type="uni",
                query=modeling.Query(**query)).sequence
    slots = queried(positions=positions)
    everywhere = tf.gather(queried(masked=tf.ones([2, 6])), positions, batch_dims=1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        mine, other = session.run([slots, everywhere])
    assert_close(mine, other, rtol=1e-5)


@pytest.mark.parametrize("recompute", (False, True))
def test_loops_have_the_numbers_of_operations(graph, monkeypatch, recompute):
    run = train_run(recompute=recompute)
    pretraining_step(run)
    assert not hasattr(graph, "loops")
    monkeypatch.setattr(modeling, "LOOPS_FROM", 0)
    in_loops = pretraining_step(run)
    # Forward and backward of activations and probabilities; dropout, whose backward is the same.
    assert len(graph.loops) == 5
    for module in (ops, attention):
        monkeypatch.setattr(module, "loop", lambda function: function)
    plain = pretraining_step(run)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        plain, in_loops = session.run([plain, in_loops])
    for name, value in plain.items():
        assert_close(in_loops[name], value, name, rtol=2e-6)


def test_a_loop_rounds_once(graph):
    rounded = tf.constant(np.random.RandomState(0).randn(20000), tf.bfloat16)

    def value(x):
        return ops.gelu(x)[0]
    with tf.Session() as session:
        x, plain, in_loop = session.run([tf.cast(y, tf.float32) for y in (
            rounded, value(rounded), ops.loop(value)(rounded))])
    exact = 0.5 * x * (1. + np.tanh(np.sqrt(2. / np.pi) * (x + 0.044715 * x ** 3)))
    error, plain_error = (np.abs(y / exact - 1.).max() for y in (in_loop, plain))
    assert error < 2. ** -8 < plain_error


def test_a_loop_is_for_training_of_wide_layers_on_a_processor(graph):
    wide = dict(vars(tiny()), d_inner=modeling.LOOPS_FROM)

    def in_loops(config, **changes):
        run = dataclasses.replace(train_run(), **changes)
        return modeling.Network(config, run, None).in_loops
    assert in_loops(xlnet.XLNetConfig(**wide)) and not in_loops(tiny())
    for changes in (dict(is_training=False), dict(on_accelerator=True)):
        assert not in_loops(xlnet.XLNetConfig(**wide), **changes)


def nodes_of_functions(graph):
    return [node for function in graph.as_graph_def().library.function
            for node in function.node_def]


def test_recompute_changes_memory_not_gradients(graph):
    kept, again = (pretraining_step(train_run(recompute=flag)) for flag in (False, True))
    again_nodes = sum("recomputed" in node.name for node in nodes_of_functions(graph))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kept, again = session.run([kept, again])
    assert again_nodes > 0
    for name, value in kept.items():
        np.testing.assert_allclose(again[name], value, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("recompute", (False, True))
def test_layers_are_built_once_for_training(monkeypatch, recompute):
    monkeypatch.setattr(modeling, "LOOPS_FROM", 0)

    def nodes(n_layer):
        """In functions; in the graph."""
        with tf.Graph().as_default() as graph:
            pretraining_step(train_run(recompute=recompute), n_layer)
            return len(nodes_of_functions(graph)), len(graph.get_operations())
    (few_in_functions, few), (many_in_functions, many) = nodes(3), nodes(6)
    assert many_in_functions == few_in_functions
    assert many - few < few_in_functions


@pytest.mark.parametrize("loops_from", (0, modeling.LOOPS_FROM))
def test_xla_gives_the_same_step_and_noise(graph, monkeypatch, loops_from):
    monkeypatch.setattr(modeling, "LOOPS_FROM", loops_from)
    plain = pretraining_step(train_run())
    names = sorted(plain)

    def step():
        gradients = pretraining_step(train_run())
        return [gradients[name] for name in names]
    compiled = xla.compile(step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        plain, compiled = session.run([plain, compiled])
    for name, value in zip(names, compiled):
        np.testing.assert_allclose(value, plain[name], rtol=1e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("loops_from", (0, modeling.LOOPS_FROM))
@pytest.mark.parametrize("precision, tolerance", (("bf16", 0.08), ("fp16", 0.01)))
def test_half_precision_is_close_to_float32(graph, monkeypatch, precision, tolerance, loops_from):
    """Weights, loss and gradients stay float32; the gradient keeps its direction."""
    monkeypatch.setattr(modeling, "LOOPS_FROM", loops_from)
    tf.set_random_seed(0)
    exact, rounded = (pretraining_step(train_run(precision=p)) for p in ("fp32", precision))
    assert all(x.dtype == tf.float32 for x in rounded.values())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        exact, rounded = session.run([exact, rounded])
    assert 0 < abs(exact["loss"] - rounded["loss"]) < 0.02 * exact["loss"]
    for name, value in exact.items():
        error = np.linalg.norm(rounded[name] - value) / np.linalg.norm(value)
        assert error < tolerance, name


def test_precision_is_named(graph):
    assert xlnet.RunConfig(**dict(RUN, use_bfloat16=True)).precision == "bf16"
    assert xlnet.RunConfig(precision="bf16", **RUN).use_bfloat16
    with pytest.raises(UserError, match="precision is 'half', expected one of fp32, bf16, fp16"):
        xlnet.RunConfig(precision="half", **RUN)
    with pytest.raises(UserError, match="use_bfloat16 is True and precision is fp32"):
        xlnet.RunConfig(**dict(RUN, use_bfloat16=True, precision="fp32"))


def test_bi_data_needs_an_even_batch(graph):
    run = xlnet.RunConfig(**dict(RUN, bi_data=True))
    with pytest.raises(ValueError, match="even batch size, found 3"):
        xlnet.XLNetModel(tiny(), run, tf.zeros([4, 3], tf.int32), tf.zeros([4, 3], tf.int32), None)
