"""Models as Hugging Face's library saves them compute here what they compute there."""

import collections
import json
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.golden import assert_close
from helpers.paths import GOLDEN

import xlnet
from xlnet.convert import config_json, conversion
from xlnet.engine import checkpoint
from xlnet.model import heads, modeling, parameters
from xlnet.tasks.known import TASK_TYPES, TASKS
from xlnet.tasks.task import Columns

RUN = dict(use_tpu=False, use_bfloat16=False, dropout=0.0, dropatt=0.0)
ALL = (
    "lm",
    "sequence_classification",
    "multiple_choice",
    "question_answering",
    "token_classification",
    "exact_gelu",
)


class Converted:
    """One golden folder as a checkpoint of ours, with its inputs and outputs."""

    def __init__(self, source, directory, vocabulary):
        self.source = source
        columns = dict(choice_columns="a,b,c") if "choice" in source.name else {}
        conversion.from_huggingface(
            str(source), str(directory), columns, spiece_model_file=vocabulary
        )
        self.prefix = checkpoint.resolve(str(directory))
        self.directory = directory
        self.config = xlnet.XLNetConfig(json_path=str(directory / "xlnet_config.json"))
        with np.load(self.source / "expected.npz") as arrays:
            self.arrays = dict(arrays)

    def __getitem__(self, name):
        return self.arrays[name]

    def run(self, *tensors):
        """The tensors with the checkpoint's numbers in all variables."""
        stored = checkpoint.read_weights(self.prefix)
        with tf.Session() as session:
            for variable in tf.global_variables():
                variable.load(stored[variable.op.name], session)
            return session.run(tensors)

    def texts(self):
        """What one network reads: ids, segments, padding [B,T], choices one below the other."""
        flat = [
            self["in/" + name].reshape(-1, self["in/input_ids"].shape[-1])
            for name in ("input_ids", "token_type_ids", "attention_mask")
        ]
        return [
            tf.constant(x, dtype)
            for x, dtype in zip(
                (flat[0], flat[1], 1 - flat[2]), (tf.int32, tf.int32, tf.float32)
            )
        ]

    def layers(self, scope):
        """The `heads.HeadBuilder` of fine-tuning; to be called in `parameters.model_scope`."""
        run = xlnet.RunConfig(False, **RUN)
        ids, segments, padding = self.texts()
        sequence = modeling.transformer_xl(
            self.config, run, input_ids=ids, seg_ids=segments, mask=padding[:, None] > 0
        ).sequence
        return heads.HeadBuilder(
            run,
            scope,
            sequence,
            padding,
            lambda: heads.summarize(self.config, run, sequence, padding=padding),
        )


@pytest.fixture
def converted(tmp_path, vocabulary):
    return lambda name: Converted(GOLDEN / "hf" / name, tmp_path / name, vocabulary)


def test_language_model(graph, converted):
    """Two streams, a permutation mask, target slots and memories, logits and new memories."""
    model = converted("lm")
    with open(model.source / "config.json", encoding="utf-8") as f:
        theirs = json.load(f)
    run = xlnet.RunConfig(
        False, **RUN, mem_len=theirs["mem_len"], reuse_len=theirs["reuse_len"]
    )
    ids, segments, padding = (tf.transpose(x) for x in model.texts())
    mems = [tf.constant(mem) for mem in model["in/mems"]]  # [M,B,D] each
    network = xlnet.XLNetModel(
        model.config,
        run,
        ids,
        segments,
        padding,
        mems=mems,
        inp_q=tf.zeros_like(padding),
        perm_mask=tf.transpose(tf.constant(model["in/perm_mask"]), [1, 2, 0]),
        target_mapping=tf.transpose(tf.constant(model["in/target_mapping"]), [1, 2, 0]),
    )
    with tf.variable_scope("model/lm_loss"):
        bias = tf.get_variable("bias", [model.config.n_token])
    logits = (
        tf.einsum(
            "pbd,vd->bpv", network.get_sequence_output(), network.get_embedding_table()
        )
        + bias
    )
    logits, *mems = model.run(logits, *network.get_new_memory())
    assert_close(logits, model["out/logits"])
    assert_close(np.stack(mems), model["out/new_mems"])


@pytest.mark.parametrize(
    "name, kind, columns",
    (
        ("sequence_classification", "classification", {}),
        ("multiple_choice", "multiple_choice", {"choices": ("a", "b", "c")}),
    ),
)
def test_tasks(graph, converted, name, kind, columns):
    model, kind = converted(name), TASK_TYPES[kind]
    task = kind(
        "custom",
        Columns(text_a=("text",), text_b=(), label=("label",), **columns),
        metrics=(),
        labels=tuple("ABCD"[: model["out/logits"].shape[-1]]),
    )
    with parameters.model_scope():
        padding = 1 - model["in/attention_mask"]
        logits = task.logits(
            model.layers(task.scope()),
            {"input_mask": tf.constant(padding.reshape(len(padding), -1), tf.float32)},
            False,
        )
    assert_close(model.run(logits)[0], model["out/logits"])


def test_tags(graph, converted):
    model, kind = converted("token_classification"), TASK_TYPES["tagging"]
    task = kind(
        "custom",
        Columns(text_a=("1",), text_b=(), label=()),
        metrics=(),
        labels=("O", "B-A", "I-A", "B-B", "I-B"),
    )
    unread = collections.defaultdict(type(None))  # what is not needed for the logits
    with parameters.model_scope():
        logits = task.logits(model.layers(task.scope()), unread, False)
    assert_close(model.run(logits)[0], model["out/logits"])


def test_spans_with_beams(graph, converted):
    """Starts, for each of them ends, and whether there is an answer."""
    model = converted("question_answering")
    with parameters.model_scope():
        nn = model.layers("start_logits")
        outputs = (
            TASKS["squad2"]
            .with_options(start_n_top=3, end_n_top=4)
            .beams(
                nn,
                tf.constant(model["in/p_mask"]),
                tf.constant(model["in/cls_index"], tf.int32),
                3,
                tf.zeros([3], tf.int32),
            )
        )
    names = (
        "start_top_log_probs",
        "start_top_index",
        "end_top_log_probs",
        "end_top_index",
        "cls_logits",
    )
    found = dict(zip(names, model.run(*(outputs[name] for name in names))))
    for name in ("end_top_log_probs", "end_top_index"):  # there [B,E*S], here [B,S,E]
        found[name] = found[name].transpose([0, 2, 1]).reshape(3, 12)
    for name in ("start_top_log_probs", "end_top_log_probs"):  # no logarithms there
        found[name] = np.exp(found[name])
    for name in names:
        assert_close(found[name], model["out/" + name], name)


@pytest.mark.parametrize("name", ALL)
def test_there_and_back_is_the_same_file(converted, tmp_path, name):
    model = converted(name)
    conversion.to_huggingface(str(model.directory), str(tmp_path / "back"))
    weights = [
        (folder / "model.safetensors").read_bytes()
        for folder in (model.source, tmp_path / "back")
    ]
    assert weights[0] == weights[1]
    before, after = (
        json.loads((folder / "config.json").read_text())
        for folder in (model.source, tmp_path / "back")
    )
    of_training = {"mem_len"}  # here a setting of the run
    for name in set(config_json.DEFAULTS) - of_training & set(before):
        assert before[name] == after[name], name


@pytest.mark.parametrize(
    "theirs, ours, expected",
    (("gelu", "gelu_erf", "out/logits"), ("gelu_new", "gelu", "out/logits_gelu_new")),
)
def test_each_gelu_is_computed_as_it_is(
    graph, tmp_path, vocabulary, theirs, ours, expected
):
    """The same weights under two names of GELU: outputs that differ by 3e-4 there, and here."""
    source = tmp_path / "source"
    shutil.copytree(GOLDEN / "hf" / "exact_gelu", source)
    text = (source / "config.json").read_text()
    (source / "config.json").write_text(text.replace('"gelu"', f'"{theirs}"'))
    model = Converted(source, tmp_path / "converted", vocabulary)
    assert model.config.ff_activation == ours
    kind = TASK_TYPES["classification"]
    task = kind(
        "custom",
        Columns(text_a=("text",), text_b=(), label=("label",)),
        metrics=(),
        labels=tuple("ABCD"),
    )
    with parameters.model_scope():
        logits = task.logits(model.layers(task.scope()), {}, False)
    assert_close(model.run(logits)[0], model[expected])
    conversion.to_huggingface(str(model.directory), str(tmp_path / "back"))
    assert (
        json.loads((tmp_path / "back" / "config.json").read_text())["ff_activation"]
        == theirs
    )
