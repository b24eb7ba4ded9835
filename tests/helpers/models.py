"""Model directories with random weights, for tests of inference."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from helpers.finetuning import make_vocabulary
from helpers.networks import sizes
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import checkpoint, devices
from xlnet.finetuning.model import TaskModel, placeholders
from xlnet.runs import run_document, task_settings
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.tasks import known

CONFIG = XLNetConfig(**sizes(layers=1, width=16, heads=2, inner=24), n_token=37)

# The settings of a model of each task type, and what its document says of its files.
KINDS = {
    "classification": (
        ClassifierSettings,
        dict(
            text_a_column="first",
            text_b_column="second",
            max_seq_length=24,
        ),
        dict(labels=["animal", "plant", "stone"]),
    ),
    "multi_label": (
        ClassifierSettings,
        dict(multi_label=True, predict_threshold=0.98),
        dict(labels=["animal", "plant", "stone"]),
    ),
    "imdb": (ClassifierSettings, dict(task_name="imdb"), {}),
    "regression": (ClassifierSettings, dict(is_regression=True), {}),
    "multiple_choice": (
        ClassifierSettings,
        dict(text_b_column="question", choice_columns="a,b,c"),
        dict(labels=["a", "b", "c"]),
    ),
    "ranking": (
        ClassifierSettings,
        dict(query_id_column="query", text_b_column="document", id_column="name"),
        {},
    ),
    "tagging": (
        TaggerSettings,
        dict(max_seq_length=24),
        dict(
            labels=["O", "B-PER", "I-PER"],
            columns=dict(label=["2"]),
            kind_options=dict(scheme="bio2", is_spaced=True, knows_spaces=True),
        ),
    ),
    "spans": (SpanSettings, dict(max_query_length=12, doc_stride=8), {}),
}


def make_model(directory, kind, labels=None, **changes):
    """Makes a model directory of a task type; returns its path as text. labels: instead of those
    in `KINDS`; changes: of the settings."""
    directory.mkdir(parents=True, exist_ok=True)
    make_vocabulary(directory / "made.model", CONFIG.n_token)
    tokenizer = Tokenizer(str(directory / "made.model"))
    group, values, stored = KINDS[kind]
    stored = dict(stored, labels=labels) if labels else stored
    values = {"max_seq_length": 32, "task_name": "custom", **values, **changes}
    values.update(model_dir=str(directory), do_predict=True, predict_file="-")
    settings = group(**values)
    if settings.task_name == "custom":
        task = known.resolve_task(settings, stored)
    else:
        task = known.find_task(settings.task_name)
    document = task_settings.document_of(settings, NetworkSettings(), task, tokenizer)
    run_document.write(str(directory), document, CONFIG, tokenizer)
    (directory / "made.model").unlink()
    tuned = FineTunedTask(task, settings)
    random, weights = np.random.default_rng(0), {}
    with tf.Graph().as_default():
        TaskModel(CONFIG, tuned, NetworkSettings()).outputs(placeholders(tuned))
        for variable in tf.global_variables():
            mean, shape = variable.op.name.endswith("gamma"), variable.shape.as_list()
            value = random.normal(mean, 0.8, shape).astype(np.float32)
            weights[devices.base_name(variable)] = value
    checkpoint.write_arrays(str(directory / "model.ckpt-1"), weights)
    checkpoint.write_state_file(str(directory))
    return str(directory)


def assert_alike(found, expected, rel=1e-5):
    """Results of models, or their JSON, are equal, numbers up to rounding."""
    found, expected = _plain(found), _plain(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_alike(found[name], value, rel)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=rel, abs=rel / 10)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected):
            assert_alike(ours, theirs, rel)
    else:
        assert found == expected


def _plain(value):
    for name in ("named", "_asdict", "tolist"):
        if hasattr(value, name):
            value = getattr(value, name)()
    return value
