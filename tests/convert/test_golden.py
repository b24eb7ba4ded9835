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
from xlnet.tasks.fields import Columns
from xlnet.tasks.known import TASK_TYPES, TASKS

RUN = dict(
    is_training=False, use_tpu=False, use_bfloat16=False, dropout=0.0, dropatt=0.0
)
ALL = [path.name for path in sorted((GOLDEN / "hf").iterdir())]
KEPT = ("log_probs", "index")  # of the best starts and ends


def stored(folder):
    return json.loads((folder / "config.json").read_text())


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
        ids, segments, read = (
            self["in/" + name].reshape(-1, self["in/input_ids"].shape[-1])
            for name in ("input_ids", "token_type_ids", "attention_mask")
        )
        return (
            tf.constant(ids, tf.int32),
            tf.constant(segments, tf.int32),
            tf.constant(1 - read, tf.float32),
        )

    def layers(self, scope):
        """The `heads.HeadBuilder` of fine-tuning; to be called in `parameters.model_scope`."""
        run = xlnet.RunConfig(**RUN)
        ids, segments, padding = self.texts()
        sequence = modeling.transformer_xl(
            self.config, run, input_ids=ids, seg_ids=segments, mask=padding[:, None] > 0
        ).sequence
        return heads.HeadBuilder(self.config, run, scope, sequence, padding)

    def logits(self, kind, labels, choices=()):
        """Those of a task with these labels."""
        columns = Columns(
            text_a=("text",), text_b=(), label=("label",), choices=choices
        )
        task = TASK_TYPES[kind]("custom", columns, metrics=(), labels=labels)
        padding = 1 - self["in/attention_mask"].reshape(len(self["in/input_ids"]), -1)
        # What is not needed for the logits is None.
        features = collections.defaultdict(type(None))
        features["input_mask"] = tf.constant(padding, tf.float32)
        with parameters.model_scope():
            logits = task.logits(self.layers(task.scope()), features, False)
        return self.run(logits)[0]


@pytest.fixture
def converted(tmp_path, vocabulary):
    return lambda name: Converted(GOLDEN / "hf" / name, tmp_path / name, vocabulary)


def test_language_model(graph, converted):
    """Two streams, a permutation mask, target slots and memories, logits and new memories."""
    model = converted("lm")
    theirs = stored(model.source)
    lengths = {name: theirs[name] for name in ("mem_len", "reuse_len")}
    run = xlnet.RunConfig(**RUN, **lengths)
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
    table = network.get_embedding_table()
    logits = tf.einsum("pbd,vd->bpv", network.get_sequence_output(), table) + bias
    logits, *mems = model.run(logits, *network.get_new_memory())
    assert_close(logits, model["out/logits"])
    assert_close(np.stack(mems), model["out/new_mems"])


@pytest.mark.parametrize(
    "name, kind, labels, choices",
    (
        ("sequence_classification", "classification", tuple("ABCD"), ()),
        ("multiple_choice", "multiple_choice", tuple("ABC"), ("a", "b", "c")),
        ("token_classification", "tagging", ("O", "B-A", "I-A", "B-B", "I-B"), ()),
    ),
)
def test_tasks(graph, converted, name, kind, labels, choices):
    model = converted(name)
    assert_close(model.logits(kind, labels, choices), model["out/logits"])


def test_spans_with_beams(graph, converted):
    """Starts, for each of them ends, and whether there is an answer."""
    model = converted("question_answering")
    task = TASKS["squad2"].with_options(start_n_top=3, end_n_top=4)
    with parameters.model_scope():
        outputs = task.span_scores(
            model.layers("start_logits"),
            tf.constant(model["in/p_mask"]),
            tf.constant(model["in/cls_index"], tf.int32),
            3,
            tf.zeros([3], tf.int32),
        )
    names = [f"{end}_top_{what}" for end in ("start", "end") for what in KEPT]
    names.append("cls_logits")
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
    folders = (model.source, tmp_path / "back")
    before, after = ((path / "model.safetensors").read_bytes() for path in folders)
    assert before == after
    before, after = (stored(path) for path in folders)
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
    assert_close(model.logits("classification", tuple("ABCD")), model[expected])
    conversion.to_huggingface(str(model.directory), str(tmp_path / "back"))
    assert stored(tmp_path / "back")["ff_activation"] == theirs
