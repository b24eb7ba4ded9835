"""What we write loads in Hugging Face's library and computes there what it computes here.

Runs in this Python, in that of `scripts/setup_benchmark.sh` and in those that the environment
variable TRANSFORMERS_PYTHONS names (with : between), each of which has torch and transformers;
skipped without them. Tried with transformers 4.57.1 and 5.24.0.
"""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.finetuning import make_vocabulary
from helpers.paths import ROOT

import xlnet
from xlnet.convert import conversion, weights
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import checkpoint
from xlnet.model import heads, modeling, parameters
from xlnet.runs import run_document

pytestmark = pytest.mark.slow

# Loads the folder as its config.json says and keeps its outputs for [B,T] ids; nothing may be
# missing, left over or of another shape. Then the ids of some text by the folder's tokenizer, which
# is saved in that library's own form.
SCRIPT = """
import json, sys
import numpy as np, torch, transformers
folder, inputs, outputs, text = sys.argv[1:]
name, = json.load(open(folder + "/config.json"))["architectures"]
model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
assert not any(info.values()), info
with np.load(inputs) as arrays, torch.no_grad():
    logits = model.eval()(**{key: torch.tensor(arrays[key]) for key in arrays}).logits
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
encoded = tokenizer(text)
tokenizer.save_pretrained(folder + "_saved")
np.savez(outputs, logits=logits.numpy(), ids=encoded["input_ids"],
         segments=encoded["token_type_ids"], length=tokenizer.model_max_length,
         labels=list(model.config.id2label.values()))
"""
SIZES = dict(
    n_layer=2, d_model=8, n_head=2, d_head=4, d_inner=16, untie_r=False, n_token=37
)
LABELS = ["rain", "snow", "sun"]
TEXT = "Kamat  kÄmat, (x) - 1,234. rokmi"


def pythons_with_transformers():
    has_both = all(map(importlib.util.find_spec, ("torch", "transformers")))
    here = [sys.executable] * has_both
    other = ROOT / ".venv-benchmark" / "bin" / "python"
    named = os.environ.get("TRANSFORMERS_PYTHONS", "").split(":")
    return here + [str(other)] * other.exists() + list(filter(None, named))


@pytest.fixture(scope="module", params=pythons_with_transformers() or [None])
def run_there(request):
    """Function that runs a program, with arguments, in a Python that has that library."""
    if not request.param:
        pytest.skip(
            "no torch and transformers here, no .venv-benchmark, no TRANSFORMERS_PYTHONS"
        )

    def run(program, *arguments):
        done = subprocess.run(
            [request.param, "-c", program, *map(str, arguments)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    return run


def random_weights(config, rng):
    """A checkpoint's arrays of a fine-tuned classifier: no mask embedding, no LM bias."""
    entries = {
        "architectures": [weights.SEQUENCE],
        "summary_use_proj": True,
        "problem_type": None,
        "id2label": LABELS,
    }
    made = {}
    for pair in weights.pairs(entries, config, {"head": "classification_custom"}):
        if pair.ours != weights.MASK_EMBEDDING:
            made[pair.ours] = rng.normal(0, 0.4, pair.shape).astype(np.float32)
    return made


@pytest.mark.parametrize("activation", ("relu", "gelu", "gelu_erf"))
def test_our_classifier_answers_there_as_here(graph, run_there, tmp_path, activation):
    rng = np.random.RandomState(0)
    source = tmp_path / "ours"
    config = xlnet.XLNetConfig(**SIZES, ff_activation=activation)
    source.mkdir()
    stored = random_weights(config, rng)
    checkpoint.write_arrays(str(source / "xlnet_model.ckpt"), stored)
    make_vocabulary(tmp_path / "sp.model", 37)
    tokenizer = Tokenizer(str(tmp_path / "sp.model"), uncased=True)
    task = dict(
        kind="classification",
        labels=LABELS,
        head="classification_custom",
        summary_type="last",
        use_summ_proj=True,
        kind_options={},
    )
    document = run_document.RunDocument("", None, {"max_seq_length": 96}, task=task)
    run_document.write(str(source), document, config, tokenizer)
    conversion.to_huggingface(str(source), str(tmp_path / "theirs"))

    ids = rng.randint(7, 37, [3, 12])
    padding = (np.arange(12) < np.array([[0], [3], [7]])).astype(np.float32)
    segments = rng.randint(0, 3, [3, 12])
    inputs = dict(input_ids=ids, token_type_ids=segments, attention_mask=1 - padding)
    np.savez(tmp_path / "inputs.npz", **inputs)
    paths = [tmp_path / name for name in ("theirs", "inputs.npz", "outputs.npz")]
    run_there(SCRIPT, *paths, TEXT)
    theirs = np.load(tmp_path / "outputs.npz")

    run = xlnet.RunConfig(False, False, False, 0.0, 0.0)
    with parameters.model_scope():
        sequence = modeling.transformer_xl(
            config,
            run,
            input_ids=tf.constant(ids, tf.int32),
            seg_ids=tf.constant(segments, tf.int32),
            mask=tf.constant(padding)[:, None] > 0,
        ).sequence
        summary = heads.summarize(config, run, sequence)
        logits = heads.dense_layer(run, summary, 3, "classification_custom/logit")
    with tf.Session() as session:
        for variable in tf.global_variables():
            variable.load(stored[variable.op.name], session)
        ours = session.run(logits)
    np.testing.assert_allclose(
        theirs["logits"], ours, rtol=0, atol=1e-5 * np.abs(ours).max()
    )
    assert theirs["labels"].tolist() == LABELS
    assert theirs["length"] == 96
    end = [tokenizer.sep_id, tokenizer.cls_id]
    assert theirs["ids"].tolist() == tokenizer.ids(TEXT) + end
    assert theirs["segments"].tolist() == [0] * (len(theirs["ids"]) - 1) + [2]


# Makes folders of each class with each switch of the text's vector, or loads those that came back:
# the outputs for the same ids.
SWITCHES = """
import itertools, json, os, sys
import numpy, torch, transformers
step, root = sys.argv[1:3]
for name, kind, has_projection in itertools.product(
        json.loads(sys.argv[3]), ("last", "first", "mean"), (True, False)):
    folder = os.path.join(root, "%s-%s-%s" % (name, kind, has_projection))
    made = getattr(transformers, name)
    if step == "make":
        torch.manual_seed(0)
        model = made(transformers.XLNetConfig(
            vocab_size=37, d_model=8, n_layer=2, n_head=2, d_inner=16, initializer_range=0.4,
            num_labels=3, summary_type=kind,
            summary_use_proj=has_projection,
            summary_activation="tanh" if has_projection else ""))
        model.save_pretrained(folder)
    else:
        model, info = made.from_pretrained(folder + "-back", output_loading_info=True)
        assert not any(info.values()), (folder, info)
    shape = (2, 3, 9) if "Choice" in name else (2, 9)
    ids = 7 + torch.arange(int(numpy.prod(shape))).reshape(shape) % 30
    with torch.no_grad():
        found = model.eval()(input_ids=ids)
    numpy.savez(folder + "-" + step, *[each.numpy() for each in found.to_tuple()
                                       if torch.is_tensor(each)])
"""


def test_every_class_with_every_switch_goes_there_and_back(run_there, tmp_path):
    """The library refused `summary_activation` null, which we wrote without a projection."""
    names = list(weights.OUTPUT_LAYERS)
    run_there(SWITCHES, "make", tmp_path, json.dumps(names))
    folders = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(folders) == len(names) * 3 * 2
    vocabulary = str(tmp_path / "sp.model")
    make_vocabulary(vocabulary, 37)
    for path in folders:
        choices = dict(choice_columns="a,b,c") if "Choice" in path.name else {}
        conversion.from_huggingface(
            str(path), str(path) + "-ours", choices, spiece_model_file=vocabulary
        )
        conversion.to_huggingface(str(path) + "-ours", str(path) + "-back")
    run_there(SWITCHES, "load", tmp_path, json.dumps(names))
    for path in folders:
        before, after = (np.load(f"{path}-{step}.npz") for step in ("make", "load"))
        assert list(before) == list(after) != []
        for name in before:
            assert np.array_equal(before[name], after[name]), path.name
