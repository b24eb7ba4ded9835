"""Exported models answer as `--do_predict` does, to ids and to raw text."""

import json
import os
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.finetuning import make_vocabulary
from helpers.serving import expected, make_model, quick_session

from xlnet.config import ClassifierSettings
from xlnet.serving import export
from xlnet.tasks.task import Row

try:
    import tensorflow_text
except ImportError:
    tensorflow_text = None
has_text = pytest.mark.skipif(tensorflow_text is None, reason="raw text needs tensorflow-text")

TEXTS = ["kamat telok", "solkat mitel dakar, nokla laskit 2010, 3,5 mitel dakar nokla laskit rokmi",
         "Ünsolkat  \t mi\u0301tel", "ka"]
OTHERS = ["mitel", "telok rokmi kamat solkat dakar nokla laskit", "rokmi mitel solkat", "ok"]

# Settings of own files by kind, and the labels of the task.
KINDS = {
    "classification": (dict(long_document="head_tail"), ["no", "yes", "so so"]),
    "pairs": (dict(text_b_column="second"), ["no", "yes"]),
    "multi_label": (dict(multi_label=True), ["a", "b", "c"]),
    "regression": (dict(is_regression=True, text_b_column="second"), None),
    "multiple_choice": (dict(choice_columns="c,d", text_b_column="second"), ["c", "d"]),
    "ranking": (dict(query_id_column="q", text_b_column="second"), None),
}


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "sp.model"
    make_vocabulary(path, 37)
    return str(path)


@pytest.fixture(scope="module")
def models(tmp_path_factory, vocabulary):
    """Function from a key of KINDS to the directory of such a model."""
    made, directory = {}, tmp_path_factory.mktemp("models")

    def get(kind):
        if kind not in made:
            settings, labels = KINDS[kind]
            made[kind] = make_model(directory / kind, vocabulary, ClassifierSettings(
                model_dir="",
                text_a_column="first", max_seq_length=16, **settings), labels)
        return made[kind]
    return get


def ask(saved, *requests):
    """Loads a SavedModel and asks it: (signature, dict of arrays) each, dicts of arrays back."""
    with tf.Graph().as_default(), quick_session() as session:
        signatures = tf.saved_model.load(session, ["serve"], saved).signature_def
        return [session.run(
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
                        else "%s %s" % (question, one)) for one in (other, "dakar"))
                 for text, other, question in zip(TEXTS, OTHERS, questions)]
        return ([Row(str(i), pair, None) for i, pair in enumerate(pairs)],
                dict(text_a=TEXTS, text_b=questions, choices=[[one, "dakar"] for one in OTHERS]))
    second = OTHERS if "text_b_column" in KINDS[kind][0] else [None] * len(TEXTS)
    rows = [Row(str(i), (pair,), None) for i, pair in enumerate(zip(TEXTS, second))]
    return rows, dict(text_a=TEXTS, **({} if second[0] is None else dict(text_b=OTHERS)))


@has_text
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_predictions(quick_start, models, tmp_path, kind):
    saved = export.export(str(models(kind)), str(tmp_path / "served"))
    assert saved == str(tmp_path / "served" / "1")
    rows, texts = rows_of(kind)
    values, arrays = expected(models(kind), rows)
    texts = {name: in_bytes(value) for name, value in texts.items()}
    by_text, by_ids, one = ask(saved, ("text", texts), ("ids", arrays), (
        "serving_default", {name: value[:1] for name, value in texts.items()}))
    main = "score" if KINDS[kind][1] is None else "probabilities"
    for found in (by_text, by_ids):
        np.testing.assert_allclose(found[main], values, rtol=1e-6, atol=1e-6)
    assert np.ptp(values, axis=0).max() > 0.01          # it does depend on the text
    if kind == "multi_label":
        assert (by_text["is_label"] == (values >= 0.5)).all()
    elif main == "probabilities":
        labels = KINDS[kind][1]
        assert by_text["label"].tolist() == [labels[i].encode() for i in values.argmax(axis=1)]
        assert json.load(open(os.path.join(saved, "assets.extra", "labels.json"))) == labels
    np.testing.assert_allclose(one[main], values[:1], rtol=1e-6, atol=1e-6)
