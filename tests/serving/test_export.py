"""Exported models answer as `--do_predict` does, to ids and to raw text."""

import functools
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.models import make_model

from xlnet.config import NetworkSettings
from xlnet.models import layout
from xlnet.serving import export, loaded, session
from xlnet.tasks.task import Row

try:
    import tensorflow_text
except ImportError:
    tensorflow_text = None
has_text = pytest.mark.skipif(tensorflow_text is None, reason="raw text needs tensorflow-text")

TEXTS = ["kamat telok", "solkat mitel dakar, nokla laskit 2010, 3,5 mitel dakar nokla laskit rokmi",
         "Ünsolkat  \t mi\u0301tel", "ka"]
OTHERS = ["mitel", "telok rokmi kamat solkat dakar nokla laskit", "rokmi mitel solkat", "ok"]

# Changed settings of `helpers.models` by kind: cuts of long texts that the graph has.
KINDS = {
    "classification": dict(max_seq_length=16, long_document="head_tail"),
    "multi_label": dict(max_seq_length=16),
    "regression": dict(max_seq_length=16, long_document="truncate"),
    "multiple_choice": dict(max_seq_length=16),
    "ranking": dict(max_seq_length=16),
}
HAS_PAIRS = ("classification", "ranking")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Function from a key of KINDS to the directory of such a model."""
    directory = tmp_path_factory.mktemp("models")
    return functools.cache(lambda kind: make_model(directory / kind, kind, **KINDS[kind]))


def quick_session():
    """A session that runs its graph as it was built: see the fixture `quick_start`."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(config=config)


def expected(directory, rows, precision="fp32"):
    """The `Answers.values` to rows, and the arrays of their records, as --do_predict has them."""
    model = loaded.read(directory, network=NetworkSettings(precision=precision))
    task, tuned = model.tuned.task, model.tuned
    arrays, windows = task.kind.encode(task.kind.examples(task, rows), model.tokenizer,
                                       layout.of_records(tuned.settings, task))
    with tf.Graph().as_default(), quick_session() as run:
        inputs = session.placeholders(tuned)
        answers = model.task_model().predictions(inputs)
        session.restore(run, model.prefix, tf.global_variables())
        outputs = run.run(answers, {inputs[name]: arrays[name] for name in inputs})
    outputs["loss"] = np.zeros(len(arrays["input_ids"]))
    return task.kind.join(task, outputs, windows).values, arrays, task


def ask(saved, *requests):
    """Loads a SavedModel and asks it: (signature, dict of arrays) each, dicts of arrays back."""
    with tf.Graph().as_default(), quick_session() as run:
        signatures = tf.saved_model.load(run, ["serve"], saved).signature_def
        return [run.run(
            {name: info.name for name, info in signatures[name].outputs.items()},
            {info.name: inputs[key] for key, info in signatures[name].inputs.items()})
            for name, inputs in requests]


def in_bytes(texts):
    return np.array([[each.encode() for each in text] if isinstance(text, list) else text.encode()
                     for text in texts], object)


def rows_of(kind):
    """(rows as a file has them, the inputs of the signature `text`)."""
    if kind == "multiple_choice":
        questions = ["which _ is", "what", "___ or _", "a_b\\1"]
        pairs = [tuple((text, re.sub("_+", lambda gap, one=one: one, question) if "_" in question
                        else "%s %s" % (question, one)) for one in (other, "dakar", "sol"))
                 for text, other, question in zip(TEXTS, OTHERS, questions)]
        return ([Row(str(i), pair, None) for i, pair in enumerate(pairs)],
                dict(text_a=TEXTS, text_b=questions,
                     choices=[[one, "dakar", "sol"] for one in OTHERS]))
    second = OTHERS if kind in HAS_PAIRS else [None] * len(TEXTS)
    rows = [Row(str(i), (pair,), None) for i, pair in enumerate(zip(TEXTS, second))]
    return rows, dict(text_a=TEXTS, **(dict(text_b=OTHERS) if kind in HAS_PAIRS else {}))


@has_text
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_predictions(quick_start, models, tmp_path, kind):
    saved = export.export(models(kind), str(tmp_path / "served"))
    assert saved == str(tmp_path / "served" / "1")
    rows, texts = rows_of(kind)
    values, arrays, task = expected(models(kind), rows)
    texts = {name: in_bytes(value) for name, value in texts.items()}
    by_text, by_ids, one = ask(saved, ("text", texts), ("ids", arrays), (
        "serving_default", {name: value[:1] for name, value in texts.items()}))
    main = "score" if task.labels is None else "probabilities"
    for found in (by_text, by_ids):
        np.testing.assert_allclose(found[main], values, rtol=1e-6, atol=1e-6)
    assert np.ptp(values, axis=0).max() > 0.01          # it does depend on the text
    if kind == "multi_label":
        assert (by_text["is_label"] == (values >= 0.5)).all()
    elif main == "probabilities":
        labels = [task.labels[i].encode() for i in values.argmax(axis=1)]
        assert by_text["label"].tolist() == labels
    np.testing.assert_allclose(one[main], values[:1], rtol=1e-6, atol=1e-6)
