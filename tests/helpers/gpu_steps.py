"""Training steps for `gpu_graph` to look at: small networks over windows of real size."""

import unittest.mock

import tensorflow.compat.v1 as tf

from helpers.networks import sizes
from helpers.pretraining import run_of
from xlnet.corpus import record_files
from xlnet.engine.devices import Devices
from xlnet.finetuning.model import TaskModel
from xlnet.finetuning.run import FineTuningRun
from xlnet.model import ops
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.training import OptimizationSettings
from xlnet.tasks.fields import Columns
from xlnet.tasks.known import TASK_TYPES

ROWS, LENGTH, REUSED, MEMORY, SLOTS = 32, 512, 256, 384, 85
CONFIG = XLNetConfig(**sizes(layers=2, width=8, heads=2, inner=16), n_token=50)
OPTIMIZATION = OptimizationSettings(
    train_steps=100,
    warmup_steps=10,
    weight_decay=0.01,
    ema_decay=0.9,
    lr_layer_decay_rate=0.75,
)

_TASK = dict(model_dir="", task_name="custom", do_train=True, train_batch_size=ROWS)


def pretraining(network, settings):
    """What a step of pretraining fetches, in the default graph; both dicts of settings."""
    return _fetches(*pretraining_model_and_batch(network, settings))


def pretraining_model_and_batch(network, settings):
    """The model of `pretraining`, and placeholders of a batch."""
    tf.train.get_or_create_global_step()
    shapes = dict.fromkeys(("input_ids", "seg_ids", "rank"), [ROWS, LENGTH])
    shapes.update(dict.fromkeys(("direction", "starts_stream", "label"), [ROWS]))
    features = {name: tf.placeholder(tf.int32, shape) for name, shape in shapes.items()}
    features["positions"] = tf.placeholder(tf.int32, [ROWS, SLOTS])
    features["weights"] = tf.placeholder(tf.float32, [ROWS, SLOTS])
    settings = {"mem_len": MEMORY, **settings}
    return run_of(CONFIG, network, settings, OPTIMIZATION, REUSED), features


def finetuning(kind, group, network, settings):
    """The same of fine-tuning on a task of a type, by its name; group: the class of `settings`."""
    tf.train.get_or_create_global_step()
    settings = group(**_TASK, max_seq_length=LENGTH, **settings)
    labels = ("O", "B-PER", "I-PER") if kind == "tagging" else ("a", "b", "c", "d")
    columns = Columns(("text",), (), ("label",))
    task = TASK_TYPES[kind]("custom", columns, labels, ())
    tuned = FineTunedTask(task.with_options(**vars(settings)), settings)
    model = TaskModel(CONFIG, tuned, NetworkSettings(**network))
    no_data = dict(data=None, rows=(), records=None, document=None, weights=None)
    run = FineTuningRun(
        settings=tuned.settings,
        optimization=OPTIMIZATION,
        config=CONFIG,
        network=model.network,
        model=model,
        class_weights=None,
        devices=Devices(None),
        **no_data,
    )
    return _fetches(run, _batch(tuned))


def _batch(tuned):
    """Placeholders: the number of tokens is that of the longest example of a batch."""
    task, batch = tuned.task, {"index": tf.placeholder(tf.int64, [ROWS])}
    by_token = ("input_ids", "input_mask", "segment_ids", *task.padding.token_features)
    dtypes = {"int": tf.int32, "float": tf.float32}
    for feature in record_files.finetuning_features(
        LENGTH, task.features(LENGTH), task.num_choices(True)
    ):
        shape = [None] if feature.name in by_token else feature.shape
        tensor = tf.placeholder(dtypes[feature.dtype], [ROWS, *shape])
        batch[feature.name] = tensor
    return batch


def _fetches(model, features):
    with unittest.mock.patch.object(ops, "device_here", lambda: "gpu"):
        spec = model.model_fn(features)
    return [spec.train_op, spec.loss, *spec.scalars.values()]


# ---- which settings


# One step for each thing that makes a graph of another kind; together they take half a minute.
# name: (function, arguments).
QUICK = {
    "pretraining, bf16, recomputed, accumulated, next segment": (
        pretraining,
        dict(precision="bf16", recompute=True),
        dict(grad_accum_steps=2, next_segment_loss=1.0),
    ),
    "pretraining, causal, fp16": (
        pretraining,
        dict(precision="fp16", clamp_len=100),
        dict(objective="causal", same_length=True),
    ),
    "pretraining, masked": (pretraining, {}, dict(objective="masked")),
    "fine-tuning, spans, accumulated": (
        finetuning,
        "spans",
        SpanSettings,
        {},
        dict(grad_accum_steps=2),
    ),
    "fine-tuning, tagging, smoothed": (
        finetuning,
        "tagging",
        TaggerSettings,
        {},
        dict(label_smoothing=0.1),
    ),
    "fine-tuning, classification, attention over the text": (
        finetuning,
        "classification",
        ClassifierSettings,
        dict(precision="bf16"),
        dict(summary_type="attn", freeze_layers=1),
    ),
}
