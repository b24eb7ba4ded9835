"""Golden parity of the network, its heads and its documented API; laws of its parts."""

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf
from helpers.golden import assert_close, constants, load, pretraining_losses
from helpers.matmuls import function_graphs
from helpers.paths import GOLDEN
from helpers.pretraining import TINY, features, losses_of_steps, run_of

import xlnet
from xlnet.engine.devices import Devices
from xlnet.model import heads, kernels_tuned, modeling, ops
from xlnet.support.errors import UserError
from xlnet.tasks.contract import LossOptions
from xlnet.tasks.fields import Columns
from xlnet.tasks.known import TASK_TYPES, TASKS

CONFIGS = ("untied_gelu", "tied_relu")
RUN = dict(
    is_training=False, use_tpu=False, use_bfloat16=False, dropout=0.0, dropatt=0.0
)


def files(kind, quick):
    """Names of golden files; those that do not end as `quick` are slow."""
    cases = []
    for path in sorted(GOLDEN.glob(f"*.{kind}.*.npz")):
        marks = () if path.stem.endswith(quick) else pytest.mark.slow
        cases.append(pytest.param(path.stem, marks=marks))
    return cases


def check(case, fetches, loss, rtol=1e-5):
    """Compares `fetches` with out/ and the gradients of `loss`, to `rtol`, with out/grad/; all with
    the golden weights, which are exactly the variables of the graph."""
    weights, wanted = case.group("var/"), case.group("out/grad/")
    variables = {v.op.name: v for v in tf.global_variables()}
    shapes = {name: weight.shape for name, weight in weights.items()}
    assert {n: tuple(v.shape.as_list()) for n, v in variables.items()} == shapes
    gradients = []
    if wanted:
        gradients = tf.gradients(loss, [variables[name] for name in wanted])
        gradients = list(map(tf.convert_to_tensor, gradients))
    with tf.Session() as session:
        load(session, {variable: weights[name] for name, variable in variables.items()})
        values, gradients = session.run([fetches, gradients])
    for name, value in values.items():
        assert_close(value, case["out/" + name], name)
    for name, value in zip(wanted, gradients):
        assert_close(value, wanted[name], "gradient of " + name, rtol)


@pytest.fixture(
    params=(
        "training",
        "plain",
        pytest.param("inference", marks=pytest.mark.slow),
        pytest.param("training in loops", marks=pytest.mark.slow),
    )
)
def is_training(request, monkeypatch):
    """The forms in which the network is computed; RUN has no dropout."""
    if request.param == "training in loops":
        monkeypatch.setattr(kernels_tuned, "LOOPS_FROM", 0)
    if request.param == "plain":
        monkeypatch.setattr(ops, "device_here", lambda: "plain")
    return request.param != "inference"


@pytest.mark.parametrize("name", files("finetune", "clamp5"))
def test_finetuning_forward_and_summaries(graph, golden, name, is_training):
    case = golden(name)
    config = xlnet.XLNetConfig(**case.settings["config"])
    run = xlnet.RunConfig(
        clamp_len=case.settings["clamp_len"], **dict(RUN, is_training=is_training)
    )
    inputs = constants(case.group("in/"))
    model = xlnet.XLNetModel(config, run, **inputs)
    sequence = model.get_sequence_output()
    fetches = {"sequence_output": sequence}
    by_example = config, run, tf.transpose(sequence, [1, 0, 2])
    for kind in ("last", "first", "mean", "attn"):
        name = "summary_" + kind
        how = dict(summary_type=kind, scope=name)
        if kind == "attn":
            how["padding"] = tf.transpose(inputs["input_mask"])
        with tf.variable_scope("model"):
            fetches[name] = heads.summarize(*by_example, **how)
    loss = 0.01 * tf.reduce_sum(sequence**2) + tf.reduce_sum(fetches["summary_last"])
    check(case, fetches, loss)


@pytest.mark.parametrize("name", files("pretrain", ("bi_mems_clamp", "no_mapping")))
def test_pretraining_two_streams(graph, golden, name, is_training):
    case = golden(name)
    inputs = constants(case.group("in/"))
    settings, tensors = case.settings, dict(inputs)
    run = xlnet.RunConfig(
        mem_len=settings["mem_len"],
        reuse_len=settings["reuse_len"],
        bi_data=settings["bi_data"],
        clamp_len=settings.get("clamp_len", -1),
        traced_once=is_training,
        **dict(RUN, is_training=is_training),
    )
    if "mems" in tensors:
        tensors["mems"] = tf.unstack(tensors["mems"])
    for name in ("target", "target_mask"):
        tensors.pop(name, None)
    config = xlnet.XLNetConfig(**settings["config"])
    model = xlnet.XLNetModel(config, run, input_mask=None, **tensors)
    losses, total = pretraining_losses(model, inputs)
    fetches = {
        "sequence_output": model.get_sequence_output(),
        "lm_loss": losses,
        "total_loss": total,
    }
    if settings["mem_len"]:
        fetches["new_mems"] = tf.stack(model.get_new_memory())
    check(case, fetches, total)


@pytest.mark.parametrize("name", files("causal", ""))
def test_causal_transformer_xl(graph, golden, name):
    case = golden(name)
    settings = case.settings
    lengths = {name: settings[name] for name in ("mem_len", "same_length")}
    with tf.variable_scope("model"):
        outputs = modeling.transformer_xl(
            xlnet.XLNetConfig(**settings["config"]),
            xlnet.RunConfig(**lengths, **RUN),
            attn_type=settings["attn_type"],
            input_ids=tf.constant(case["in/input_ids"].T),
            mems=tf.unstack(tf.constant(case["in/mems"].transpose(0, 2, 1, 3))),
        )
    fetches = {
        "sequence_output": tf.transpose(outputs.sequence, [1, 0, 2]),
        "new_mems": tf.transpose(tf.stack(outputs.new_mems), [0, 2, 1, 3]),
    }
    check(case, fetches, 0.01 * tf.reduce_sum(outputs.sequence**2))


@pytest.mark.parametrize(
    "kind_name", ("classification", "regression", "multiple_choice")
)
@pytest.mark.parametrize("config_name", CONFIGS)
def test_heads(graph, golden, config_name, kind_name):
    case = golden(f"{config_name}.head.{kind_name}")
    config = xlnet.XLNetConfig(**case.settings["config"])
    run = xlnet.RunConfig(**dict(RUN, is_training=True))
    inputs = constants(case.group("in/"))
    choices = case["out/logits"].shape[1] if kind_name == "multiple_choice" else 1
    length = case["in/input_ids"].shape[1] // choices
    keys = "input_ids", "segment_ids", "input_mask"
    ids, segments, padding = (tf.reshape(inputs[key], [-1, length]) for key in keys)
    with tf.variable_scope("model"):
        sequence = modeling.transformer_xl(
            config, run, input_ids=ids, seg_ids=segments, mask=padding[:, None] > 0
        ).sequence
    kinds = {"classification": tuple("abcd"), "regression": ()}
    labels = kinds.get(kind_name, tuple(range(choices)))
    columns = Columns(("a",), (), ("label",))
    task = TASK_TYPES[kind_name]("golden", columns, labels, ())
    nn = heads.HeadBuilder(config, run, task.scope(), sequence, padding)
    with tf.variable_scope("model"):
        logits = task.logits(nn, inputs, is_training=True)
        loss = task.loss(nn, logits, inputs, LossOptions())
    total = tf.reduce_mean(loss)
    # Gradients of choices cancel, the more the more alike the choices are, and what is left has
    # more rounding than elsewhere: 7e-6 with TensorFlow 2.18, up to 1.25e-5 with 2.21.
    rtol = 2e-5 if kind_name == "multiple_choice" else 1e-5
    fetches = {"logits": logits, "per_example_loss": loss, "total_loss": total}
    check(case, fetches, total, rtol)


@pytest.mark.parametrize("mode", ("train", "predict"))
@pytest.mark.parametrize("config_name", CONFIGS)
def test_heads_of_spans(graph, golden, config_name, mode):
    case = golden(f"{config_name}.head.qa_{mode}")
    run = xlnet.RunConfig(**RUN)
    inputs = constants(case.group("in/"))
    with tf.variable_scope("model"):
        sequence = modeling.transformer_xl(
            xlnet.XLNetConfig(**case.settings["config"]),
            run,
            input_ids=inputs["input_ids"],
            seg_ids=inputs["segment_ids"],
            mask=inputs["input_mask"][:, None] > 0,
        ).sequence
    head = TASKS["squad2"].with_options(start_n_top=3, end_n_top=4)
    nn = heads.HeadBuilder(None, run, "", sequence, inputs["input_mask"])
    is_training = mode == "train"
    count = None if is_training else 3
    starts = inputs.get("start_positions", tf.zeros([3], tf.int32))
    outputs = head.span_scores(nn, inputs["p_mask"], inputs["cls_index"], count, starts)
    fetches, total = {"cls_logits": outputs["cls_logits"]}, None
    if is_training:
        total = tf.reduce_mean(head.loss(nn, outputs, inputs, LossOptions()))
        fetches["total_loss"] = total
    for end in ("start", "end"):
        kinds = ("log_probs",) if is_training else ("top_log_probs", "top_index")
        for kind in kinds:
            found = outputs[f"{end}_{kind}"]
            fetches[f"{end}_{kind}"] = tf.reshape(found, [3, -1])
    check(case, fetches, total)


# ---- laws of the parts ----


def tiny():
    return xlnet.XLNetConfig(**TINY, n_token=50)


def test_no_gradient_reaches_an_earlier_window(graph):
    ids = tf.constant(np.random.RandomState(0).randint(0, 50, [2, 6]), tf.int32)

    def outputs(scope, mems):
        with tf.variable_scope(scope):
            run = xlnet.RunConfig(mem_len=6, **RUN)
            return modeling.transformer_xl(
                tiny(), run, input_ids=ids, mems=mems, attn_type="uni"
            )

    first = outputs("first", None)
    second = outputs("second", first.new_mems)
    loss = tf.reduce_sum(second.sequence**2)
    of_first, of_second = tf.gradients(
        loss, [first.embedding_table, second.embedding_table]
    )
    assert of_first is None and of_second is not None


@pytest.mark.parametrize("kind", ("last", "first", "mean"))
def test_a_pooled_output_has_a_projection_unless_it_is_left_out(graph, kind):
    ids = tf.constant(np.random.RandomState(0).randint(0, 50, [6, 2]), tf.int32)
    run = xlnet.RunConfig(init_std=0.5, **RUN)
    model = xlnet.XLNetModel(tiny(), run, ids, ids % 2, None)
    bare = model.get_pooled_out(kind, use_summ_proj=False)
    assert not [v for v in tf.global_variables() if "summary" in v.op.name]
    projected = model.get_pooled_out(kind)
    kernel, bias = [v for v in tf.global_variables() if "summary" in v.op.name]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        bias.load(np.arange(8.0), session)
        bare, projected, sequence, kernel, bias = session.run(
            [bare, projected, model.get_sequence_output(), kernel, bias]
        )
    expected = {"last": sequence[-1], "first": sequence[0], "mean": sequence.mean(0)}
    assert_close(bare, expected[kind])
    assert_close(projected, np.tanh(bare @ kernel + bias))


@pytest.mark.parametrize("init", ("normal", "uniform"))
def test_weights_begin_as_the_run_config_says(graph, init):
    run = xlnet.RunConfig(init=init, init_std=0.5, init_range=0.25, **RUN)
    ids = tf.zeros([6, 2], tf.int32)
    model = xlnet.XLNetModel(tiny(), run, ids, ids, None)
    others = model.get_initializer()([50, 8], tf.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for values in session.run([model.get_embedding_table(), others]):
            if init == "normal":
                assert abs(values.std() - 0.5) < 0.1 and abs(values).max() > 1
            else:
                assert 0.2 < abs(values).max() <= 0.25 and abs(values.mean()) < 0.1


@pytest.mark.parametrize("kind", ("first", "mean", "attn"))
def test_summaries_leave_padding_out(graph, kind):
    """With `padding`, left-padded text has the summary of the bare text. An example of padding
    alone, as of fewer choices than others have, has finite gradients."""
    sequence = np.random.RandomState(0).randn(1, 5, 8).astype(np.float32)
    padded = np.full([2, 8, 8], 7, np.float32)
    padded[0, 3:] = sequence
    padded = tf.constant(padded)
    padding = tf.constant([[1.0] * 3 + [0.0] * 5, [1.0] * 8])
    run = xlnet.RunConfig(**RUN)
    bare = heads.summarize(tiny(), run, tf.constant(sequence), summary_type=kind)
    full = heads.summarize(tiny(), run, padded, summary_type=kind, padding=padding)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert_close(*session.run([full[:1], bare]))
        assert np.isfinite(session.run(tf.gradients(full**2, padded)[0])).all()


def training_step(n_layer=2, **network):
    """Builds a step of both streams, with memory."""
    model = run_of(dict(n_layer=n_layer), network, dict(mem_len=8))
    tf.train.get_or_create_global_step()
    model.model_fn(features())


@pytest.mark.parametrize("is_training", (False, True))
@pytest.mark.parametrize("has_slots", (False, True))
@pytest.mark.slow
def test_sizes_that_are_not_known_before(graph, has_slots, is_training):
    random = np.random.RandomState(0)
    mapping = np.zeros([3, 6, 2], np.float32)
    mapping[[0, 1, 2, 0, 1, 2], [1, 4, 5, 0, 2, 3], [0, 0, 0, 1, 1, 1]] = 1.0
    values = dict(
        input_ids=random.randint(0, 50, [6, 2]).astype(np.int32),
        seg_ids=random.randint(0, 2, [6, 2]).astype(np.int32),
        input_mask=np.zeros([6, 2], np.float32),
        inp_q=np.ones([6, 2], np.float32),
        perm_mask=random.randint(0, 2, [6, 6, 2]).astype(np.float32),
        **dict(target_mapping=mapping) if has_slots else {},
    )
    run = xlnet.RunConfig(**dict(RUN, is_training=is_training, init_std=0.5))
    fed, feed, fetches = {}, {}, []
    for name, value in values.items():
        fed[name] = tf.placeholder(value.dtype, [None] * value.ndim)
        feed[fed[name]] = value
    for inputs in (fed, constants(values)):
        sequence = xlnet.XLNetModel(tiny(), run, **inputs).get_sequence_output()
        fetches.append([sequence])
        if is_training:
            fetches[-1] += tf.gradients(sequence**2, tf.trainable_variables())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for mine, other in zip(*session.run(fetches, feed)):
            assert_close(mine, other, rtol=1e-5)


@pytest.mark.parametrize("recompute", (False, True))
@pytest.mark.slow
def test_layers_are_traced_once_for_training(monkeypatch, recompute):
    monkeypatch.setattr(kernels_tuned, "LOOPS_FROM", 0)

    def nodes(n_layer):
        """In functions; in the graph."""
        with tf.Graph().as_default() as graph:
            training_step(n_layer, recompute=recompute)
            functions = graph.as_graph_def().library.function
            in_functions = sum(len(function.node_def) for function in functions)
            return in_functions, len(graph.get_operations())

    (few_in_functions, few), (many_in_functions, many) = nodes(3), nodes(6)
    assert many_in_functions == few_in_functions
    assert many - few < few_in_functions


def test_precision_is_named(graph):
    assert xlnet.RunConfig(**dict(RUN, use_bfloat16=True)).precision == "bf16"
    assert xlnet.RunConfig(precision="bf16", **RUN).use_bfloat16
    with pytest.raises(UserError, match="precision: found 'half'"):
        xlnet.RunConfig(precision="half", **RUN)
    with pytest.raises(UserError, match="precision: found fp32.*use_bfloat16"):
        xlnet.RunConfig(**dict(RUN, use_bfloat16=True, precision="fp32"))


def test_bi_data_needs_an_even_batch(graph):
    ids = tf.zeros([4, 3], tf.int32)
    with pytest.raises(ValueError, match="even batch size"):
        xlnet.XLNetModel(tiny(), xlnet.RunConfig(bi_data=True, **RUN), ids, ids, None)


def test_layers_take_the_kernels_of_the_device(graph, monkeypatch):
    """Also within functions, where TensorFlow forgets the scope."""
    chosen = []
    form_of = kernels_tuned.form_of

    def noted(device, *rest):
        chosen.append(device)
        return form_of(device, *rest)

    monkeypatch.setattr(kernels_tuned, "form_of", noted)
    config = kernels_tuned.tf2.config
    monkeypatch.setattr(config, "get_visible_devices", lambda kind: ["gpu:0"])
    with tf.device("/cpu:0"):
        training_step()
    assert len(chosen) > 2 and set(chosen) == {"cpu"}
    with pytest.raises(UserError, match="device: found 'CPU'"):
        xlnet.RunConfig(device="CPU", **RUN)


# ---- layers computed again in the backward pass


def with_dropout(objective, recompute=True, **how):
    network = dict(dropout=0.4, dropatt=0.4, recompute=recompute, init_std=0.3)
    return run_of({}, network, dict(mem_len=8, objective=objective), **how)


@pytest.mark.parametrize(
    "objective",
    (
        "permutation",
        pytest.param("masked", marks=pytest.mark.slow),
        pytest.param("causal", marks=pytest.mark.slow),
    ),
)
def test_layers_computed_again_have_their_numbers(objective):
    """With the dropout masks of each layer, in losses and in gradients, by which later ones go."""
    plain = losses_of_steps(with_dropout(objective, recompute=False))
    again = losses_of_steps(with_dropout(objective))
    np.testing.assert_allclose(again, plain, rtol=1e-6)
    assert len(set(plain)) == 3


@pytest.mark.slow
def test_a_layer_is_computed_again_behind_a_barrier(graph, monkeypatch):
    """Else XLA merges both runs of a layer, and keeps what the first one made."""
    function = tf2.function
    monkeypatch.setattr(
        tf2, "function", lambda step, **how: function(step, autograph=False)
    )
    tf.train.get_or_create_global_step()
    devices = Devices(None, xla=True)
    with_dropout("permutation", devices=devices).model_fn(features())
    types = []
    for each in (graph, *function_graphs(graph).values()):
        types += [op.type for op in each.get_operations()]
    assert types.count("XlaOptimizationBarrier") == TINY["n_layer"]
