"""Exported models answer as `--do_predict` does, to ids and to raw text."""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers import command
from helpers.models import make_model

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import checkpoint
from xlnet.finetuning.model import TaskModel, placeholders
from xlnet.inference import exporter
from xlnet.runs import model_files
from xlnet.settings.network import NetworkSettings
from xlnet.support.errors import UserError
from xlnet.tasks.fields import InlineExample, Row

pytestmark = pytest.mark.slow

try:
    import tensorflow_text
except ImportError:
    tensorflow_text = None
has_text = pytest.mark.skipif(
    tensorflow_text is None, reason="raw text needs tensorflow-text"
)

TEXTS = [
    "kamat telok",
    "solkat mitel dakar, nokla laskit 2010, 3,5 mitel dakar nokla laskit rokmi",
    "Ünsolkat  \t mi\u0301tel",
    "ka",
]
OTHERS = [
    "mitel",
    "telok rokmi kamat solkat dakar nokla laskit",
    "rokmi mitel solkat",
    "ok",
]

# Texts are padded to other lengths in the graph than in records: a score, which is no probability,
# is rounded otherwise.
ROUNDED = dict(rtol=5e-6, atol=5e-6)

# Changed settings of `helpers.models` by kind.
KINDS = {
    "classification": dict(max_seq_length=16),
    "multi_label": dict(max_seq_length=16),
    "ranking": dict(max_seq_length=16),
    "tagging": dict(max_seq_length=24),
    "spans": dict(predict_threshold=0.9),
}
HAS_PAIRS = ("classification", "ranking")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Function from a key of KINDS to the directory of such a model."""
    directory = tmp_path_factory.mktemp("models")
    return functools.cache(
        lambda kind: make_model(directory / kind, kind, **KINDS[kind])
    )


def quick_session():
    """A session that runs its graph as it was built: see the fixture `quick_start`."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(config=config)


def expected(directory, rows, precision="fp32"):
    """The `Answers.values` to rows, and the arrays of their records, as --do_predict has them."""
    model = model_files.read(directory, network=NetworkSettings(precision=precision))
    task, tuned = model.tuned.task, model.tuned
    arrays, windows, _ = task.encode(rows, model.tokenizer, tuned.layout)
    with tf.Graph().as_default(), quick_session() as run:
        inputs = placeholders(tuned)
        answers = TaskModel(model.config, tuned, model.network).outputs(inputs)
        checkpoint.restore(run, model.prefix, tf.global_variables())
        outputs = run.run(answers, {inputs[name]: arrays[name] for name in inputs})
    return task.join(outputs, windows), arrays, task


def ask(saved, *requests):
    """Loads a SavedModel and asks it: (signature, dict of arrays) each, dicts of arrays back."""
    with tf.Graph().as_default(), quick_session() as run:
        signatures = tf.saved_model.load(run, ["serve"], saved).signature_def
        found = []
        for name, inputs in requests:
            given, made = signatures[name].inputs, signatures[name].outputs
            feeds = {info.name: inputs[key] for key, info in given.items()}
            found.append(run.run({key: info.name for key, info in made.items()}, feeds))
    return found


def in_bytes(texts):
    return np.array([text.encode() for text in texts], object)


def rows_of(kind):
    """(rows as a file has them, the inputs of the signature `text`)."""
    texts = {"text_a": in_bytes(TEXTS)}
    second = [None] * len(TEXTS)
    if kind in HAS_PAIRS:
        texts["text_b"], second = in_bytes(OTHERS), OTHERS
    rows = [Row(str(i), (pair,), None) for i, pair in enumerate(zip(TEXTS, second))]
    return rows, texts


@has_text
@pytest.mark.parametrize("kind", ("classification", "multi_label", "ranking"))
def test_answers_are_those_of_predictions(quick_start, models, tmp_path, kind):
    saved = exporter.export(model_files.read(models(kind)), str(tmp_path / "served"))
    assert saved == str(tmp_path / "served" / "1")
    rows, texts = rows_of(kind)
    values, arrays, task = expected(models(kind), rows)
    by_text, one, by_ids = ask(
        saved,
        ("text", texts),
        ("serving_default", {name: value[:1] for name, value in texts.items()}),
        ("ids", arrays),
    )
    main = "score" if not task.labels else "probabilities"
    for found in (by_text, by_ids):
        np.testing.assert_allclose(found[main], values, **ROUNDED)
    np.testing.assert_allclose(one[main], values[:1], **ROUNDED)
    assert np.ptp(values, axis=0).max() > 0.01  # it does depend on the text
    if kind == "multi_label":
        assert (by_text["is_label"] == (values >= 0.98)).all()
        # the model's own threshold
        assert (by_text["is_label"] != (values >= 0.5)).any()
    elif main == "probabilities":
        labels = [task.labels[i].encode() for i in values.argmax(axis=1)]
        assert by_text["label"].tolist() == labels


@pytest.mark.parametrize("kind", ("tagging", "spans"))
def test_entities_and_questions_are_exported_for_ids(
    quick_start, models, tmp_path, caplog, kind
):
    """With the outputs of each record; raw text is refused, with the way to serve it."""
    saved = exporter.export(model_files.read(models(kind)), str(tmp_path / "served"))
    refusal = (
        f"texts of task type {kind} cannot be encoded in the graph; serve the model directory "
        "(xlnet serve), or the signature ids of an export"
    )
    assert "note: no signature text: " + refusal in caplog.text
    rows = [Row(str(i), (("kamat telok " * 9, "who  rokmi"),), None) for i in range(2)]
    if kind == "tagging":
        reader = model_files.read(models(kind)).tuned.task
        rows = [reader.row(InlineExample(text)) for text in ("kamat, ka", "sol")]
    values, arrays, task = expected(models(kind), rows)
    (found,) = ask(saved, ("ids", arrays))
    if kind == "tagging":
        wanted = [[task.labels[id].encode() for id in tags.ids] for tags in values]
        assert [[tag for tag in tags if tag] for tags in found["tags"]] == wanted
    else:
        windows = len(arrays["input_ids"])
        assert len(found["null_score"]) == windows > len(rows)
        joined = task.join(found, np.full(len(rows), windows // len(rows)))
        nulls = ([one.null_probability for one in all] for all in (joined, values))
        np.testing.assert_allclose(*nulls, **ROUNDED)


# ---- what is written

_PLAIN = """
import json, sys
import tensorflow as tf
inputs = {name: tf.constant(value, dtype)
          for name, (value, dtype) in json.loads(sys.argv[1]).items()}
for saved in sys.argv[2:]:
    answer = tf.saved_model.load(saved).signatures["ids"](**inputs)
    print(answer["probabilities"].numpy().tolist())
assert not {"xlnet", "tensorflow_text"} & set(sys.modules)
"""


def run_elsewhere(program, directory, asked, *saved):
    """What a program prints in another process: JSON, a line for each SavedModel."""
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(asked), *saved],
        cwd=directory,
        env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return list(map(json.loads, done.stdout.splitlines()))


def test_a_process_with_tensorflow_alone_gives_the_same_answers(
    quick_start, models, tmp_path, monkeypatch
):
    """In bfloat16 too, to the rounding of its products, with half of the matrices' bytes. What is
    exported without tensorflow-text has `ids` alone, and needs no more where it is served."""
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    directory, (rows, _) = models("classification"), rows_of("classification")
    values, arrays, _ = expected(directory, rows)
    full, short = (
        exporter.export(
            model_files.read(directory, network=NetworkSettings(precision=precision)),
            str(tmp_path / "served"),
        )
        for precision in ("fp32", "bf16")
    )
    assert (full[-2:], short[-2:]) == ("/1", "/2")
    asked = {}
    for name in ("input_ids", "input_mask", "segment_ids"):
        asked[name] = (arrays[name].tolist(), str(arrays[name].dtype))
    by_full, by_short = run_elsewhere(_PLAIN, tmp_path, asked, full, short)
    np.testing.assert_allclose(by_full, values, rtol=1e-6, atol=1e-6)
    half = expected(directory, rows, "bf16")[0]
    np.testing.assert_allclose(by_short, half, atol=1e-2)
    assert 1e-6 < np.abs(half - values).max() < 0.1
    stored = [
        tf.train.load_checkpoint(path + "/variables/variables")
        for path in (full, short)
    ]
    kept, narrowed = (each.get_variable_to_dtype_map() for each in stored)
    assert set(kept.values()) == {tf.float32}
    ends = ("/kernel", "/lookup_table")
    matrices = {n for n in kept if n.endswith(ends) and "/transformer/" in n}
    assert {n for n, dtype in narrowed.items() if dtype == tf.bfloat16} == matrices


_RAW = """
import json, sys
import tensorflow as tf
import tensorflow_text
first, second = map(tf.constant, json.loads(sys.argv[1]))
model = tf.saved_model.load(sys.argv[2])
none = tf.zeros([0], tf.string)
assert not len(model.signatures["text"](text_a=none, text_b=none)["probabilities"])
answer = model.signatures["text"](text_a=first, text_b=second)
print(json.dumps(answer["probabilities"].numpy().tolist()))
assert "xlnet" not in sys.modules
"""


@has_text
def test_a_process_without_this_library_answers_to_raw_text(
    quick_start, models, tmp_path
):
    saved = exporter.export(
        model_files.read(models("classification")), str(tmp_path / "served")
    )
    (found,) = run_elsewhere(_RAW, tmp_path, [TEXTS, OTHERS], saved)
    values, _, _ = expected(models("classification"), rows_of("classification")[0])
    np.testing.assert_allclose(found, values, **ROUNDED)


def test_what_is_beside_the_graph(quick_start, models, tmp_path):
    done = command.succeed(
        "xlnet export",
        "--model_dir=" + models("multi_label"),
        "--output=%s" % (tmp_path / "served"),
    )
    said = r"exported \S+model.ckpt-1 to (\S+/1): signatures ids(, text)?, float32$"
    saved = re.search(said, done.stdout, re.MULTILINE)[1]
    extra = pathlib.Path(saved, "assets.extra")
    document = json.loads((extra / "run.json").read_text())
    assert document["resolved"]["max_seq_length"] == 16
    assert document["task"]["labels"] == ["animal", "plant", "stone"]
    vocabularies = [extra / "spiece.model", models("multi_label") + "/spiece.model"]
    assert len({Tokenizer(str(path)).sha256 for path in vocabularies}) == 1


def test_what_cannot_be_exported(quick_start, models, permuted, tmp_path):
    target = tmp_path / "served"
    (tmp_path / "file").write_text("")
    for model, place, said in (
        (models("multi_label"), tmp_path / "file", "which cannot be written to"),
        (str(permuted.folder), target, "found a pretrained model"),
    ):
        with pytest.raises(UserError, match=said):
            exporter.export(model_files.read(model), str(place))
    assert not target.exists()
