"""Folders of Hugging Face's library: what they hold beside weights, and what is refused."""

import json
import logging
import re
import shutil

import ml_dtypes
import numpy as np
import pytest
from helpers.models import make_model
from helpers.paths import GOLDEN, RELEASED
from safetensors.numpy import load_file, save_file
from sentencepiece.sentencepiece_model_pb2 import ModelProto

import xlnet
from xlnet.convert import conversion
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import checkpoint
from xlnet.support.errors import UserError

HF = GOLDEN / "hf"
MANY_LABELS = "multi_label_classification"
LABELS = {"0": "world", "1": "sports", "2": "business", "3": "science"}


def stored(path, name):
    return json.loads((path / name).read_text())


class Folder:
    """A copy of a golden folder with a vocabulary, to be changed."""

    def __init__(self, path, vocabulary, name):
        shutil.copytree(HF / name, path)
        shutil.copy(vocabulary, path / "spiece.model")
        self.path = path

    def edit(self, **changes):
        """Entries of config.json; None is null."""
        values = dict(stored(self.path, "config.json"), **changes)
        (self.path / "config.json").write_text(json.dumps(values))
        return self

    def edit_tokenizer(self, **values):
        (self.path / "tokenizer_config.json").write_text(json.dumps(values))
        return self

    @property
    def tensors(self):
        return load_file(self.path / "model.safetensors")

    def write(self, tensors):
        save_file(tensors, self.path / "model.safetensors")
        return self

    def convert(self, target, **columns):
        conversion.from_huggingface(str(self.path), str(target), columns)
        return checkpoint.read_weights(checkpoint.resolve(str(target)))

    def assert_comes_back(self, target, back):
        """Converts back what was converted to `target`; returns the config.json."""
        conversion.to_huggingface(str(target), str(back))
        same(load_file(back / "model.safetensors"), self.tensors)
        return stored(back, "config.json")


@pytest.fixture
def folder(tmp_path, vocabulary):
    def copied(name="sequence_classification"):
        return Folder(tmp_path / name, vocabulary, name)

    return copied


def same(ours, others):
    assert set(ours) == set(others)
    for name, value in ours.items():
        np.testing.assert_array_equal(value, others[name], err_msg=name)


# ---- weights


def test_a_pickle_is_refused(folder, tmp_path):
    """It is not even opened: this one is not a pickle."""
    pickled = folder()
    (pickled.path / "model.safetensors").rename(pickled.path / "pytorch_model.bin")
    with pytest.raises(UserError, match="no such file: .*model.safetensors"):
        pickled.convert(tmp_path / "out")


def test_damaged_weights_are_refused(folder, tmp_path):
    model = folder()
    tensors = model.tensors
    tensors["transformer.layer.1.ff.layer_1.weight"][2, 3] = np.inf
    with pytest.raises(UserError, match="layer.1.ff.layer_1.weight: found NaN or inf"):
        model.write(tensors).convert(tmp_path / "out")
    path = model.path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=f"^{path}: found a damaged file: ") as error:
        model.convert(tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("dtype", (np.float16, ml_dtypes.bfloat16))
def test_half_precision_is_read(folder, tmp_path, dtype):
    model = folder()
    narrow = {name: value.astype(dtype) for name, value in model.tensors.items()}
    model.write(narrow).convert(tmp_path / "ours")
    model.assert_comes_back(tmp_path / "ours", tmp_path / "back")


def test_an_output_embedding_of_its_own_has_no_place(folder, tmp_path, caplog):
    model = folder("lm")
    tensors = model.tensors
    embedding = tensors["transformer.word_embedding.weight"]
    tensors["lm_loss.weight"] = embedding
    with caplog.at_level(logging.WARNING):
        model.write({**tensors, "extra": embedding}).convert(tmp_path / "tied")
    assert "1 weights are not used: extra" in caplog.text
    tensors["lm_loss.weight"] = embedding + 1
    with pytest.raises(UserError, match="lm_loss.weight: found an output embedding of"):
        model.write(tensors).convert(tmp_path / "out")


def test_tied_biases_are_those_of_every_layer(folder, tmp_path):
    """untie_r False: one [N,H] here, the same numbers in each layer there."""
    model = folder("lm").edit(untie_r=False)
    tensors = model.tensors
    biases = [name for name in tensors if re.search(r"layer\.1.*r_._bias", name)]
    with pytest.raises(UserError, match="r_w_bias: found another one in each layer"):
        model.convert(tmp_path / "out")
    for name in biases:
        tensors[name] = tensors[name.replace("layer.1", "layer.0")]
    weights = model.write(tensors).convert(tmp_path / "ours")
    assert len(biases) == 3 and weights["model/transformer/r_w_bias"].ndim == 2
    model.assert_comes_back(tmp_path / "ours", tmp_path / "back")


# ---- architecture


@pytest.mark.parametrize(
    "changes, message",
    (
        (dict(model_type="bert"), "model_type: found 'bert'"),
        (dict(architectures=["BertModel"]), r"architectures: found \['BertModel'\]"),
        (dict(layer_norm_eps=1e-5), "layer_norm_eps: found 1e-05"),
        (dict(attn_type="uni"), "attn_type: found 'uni'"),
        (dict(summary_type="attn"), "summary_type: found 'attn'"),
        (dict(summary_activation="relu"), "summary_activation: found 'relu'"),
        (dict(problem_type="other"), "problem_type: found 'other'"),
        (dict(id2label={"0": "a", "1": "b"}), r"found shape \[4, 24\], expected \[2,"),
        (dict(id2label={"0": "a", "2": "b"}), "id2label: found .* a name of its own"),
        (dict(id2label=[]), "id2label: found .* a name of its own"),
        (dict(id2label={"0": 0, "1": 1}), "id2label: found .* a name of its own"),
        (dict(n_layer=3), "found no weights transformer.layer.2.rel_attn.r_w_bias"),
        (dict(n_layer="2"), "n_layer: found '2'"),
        (dict(n_head=0), "config.json: "),
        (dict(vocab_size=42), "found 41 pieces, expected 42"),
    ),
)
def test_a_model_that_cannot_be_computed_here_is_refused(
    folder, tmp_path, changes, message
):
    with pytest.raises(UserError, match=message):
        folder().edit(**changes).convert(tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_a_head_width_that_is_not_there_is_refused(tmp_path, vocabulary):
    released = shutil.copytree(RELEASED, tmp_path / "released")
    config = stored(released, "xlnet_config.json")
    (released / "xlnet_config.json").write_text(json.dumps(dict(config, n_token=41)))
    with pytest.raises(UserError, match="d_head: found 12, expected d_model / n_head"):
        conversion.to_huggingface(str(released), str(tmp_path / "out"), vocabulary)
    assert not (tmp_path / "out").exists()


# ---- vocabulary and cleaning


@pytest.mark.parametrize("uncased, keep_accents", ((False, False), (True, True)))
def test_the_tokenizer_goes_with_the_model(
    folder, tmp_path, vocabulary, uncased, keep_accents
):
    cleaning = dict(do_lower_case=uncased, keep_accents=keep_accents)
    model = folder("lm").edit_tokenizer(**cleaning)
    model.convert(tmp_path / "ours")
    ours = Tokenizer(str(tmp_path / "ours" / "spiece.model"))
    assert (ours.uncased, ours.keep_accents) == (uncased, keep_accents)
    back = tmp_path / "back"
    config = model.assert_comes_back(tmp_path / "ours", back)
    assert ours.id_to_piece(config["pad_token_id"]) == "<pad>"
    kept = stored(back, "tokenizer_config.json")
    assert {name: kept[name] for name in cleaning} == cleaning
    assert kept["pad_token"] == "<pad>" and kept["mask_token"] == "<mask>"
    assert kept["additional_special_tokens"] == ["<eop>", "<eod>"]
    for path in (tmp_path / "ours", back):
        assert (path / "spiece.model").read_bytes() == open(vocabulary, "rb").read()
    written = stored(back, "tokenizer.json")
    assert written["model"]["type"] == "Unigram"
    assert written["model"]["vocab"] == penalized_pieces(vocabulary)
    steps = written["normalizer"]["normalizers"]
    assert ({"type": "NFKD"} in steps) == (not keep_accents)
    assert ({"type": "Lowercase"} in steps) == uncased
    added = {token["content"] for token in written["added_tokens"]}
    assert {"<unk>", "<sep>", "<cls>", "<pad>"} <= added


def penalized_pieces(vocabulary):
    """[text, score] of each piece; one that ends in a digit and a comma is never chosen there."""
    found = []
    with open(vocabulary, "rb") as f:
        for piece in ModelProto.FromString(f.read()).pieces:
            score = 0.0 if piece.type == piece.USER_DEFINED else piece.score
            penalty = 100 if re.search(r"\d,$", piece.piece) else 0
            found.append([piece.piece, score - penalty])
    return found


def test_another_cleaning_is_refused(folder, tmp_path):
    with pytest.raises(UserError, match="remove_space: found False"):
        folder().edit_tokenizer(remove_space=False).convert(tmp_path / "out")


# ---- tasks


@pytest.mark.parametrize(
    "changes, kind, problem",
    (
        ({}, "classification", "single_label_classification"),
        (dict(problem_type=MANY_LABELS), "multi_label", MANY_LABELS),
        (dict(id2label={"0": "LABEL_0"}), "regression", "regression"),
    ),
)
def test_labels_and_type_of_task_go_with_the_model(
    folder, tmp_path, changes, kind, problem
):
    model = folder().edit(**{"id2label": LABELS, **changes})
    labels = list(LABELS.values())
    if kind == "regression":
        labels, tensors = None, model.tensors
        for name in ("logits_proj.weight", "logits_proj.bias"):
            tensors[name] = tensors[name][:1]
        model.write(tensors)
    model.edit_tokenizer(model_max_length=77)
    model.convert(tmp_path / "ours", text_b_column="other")
    document = stored(tmp_path / "ours", "run.json")
    assert (document["task"]["kind"], document["task"]["labels"]) == (kind, labels)
    assert document["task"]["columns"]["text_b"] == ["other"]
    assert document["resolved"]["max_seq_length"] == 77
    config = model.assert_comes_back(tmp_path / "ours", tmp_path / "back")
    assert config["id2label"] == stored(model.path, "config.json")["id2label"]
    assert config["problem_type"] == problem


def test_columns_of_answers(folder, tmp_path):
    model = folder("multiple_choice")
    with pytest.raises(UserError, match="choice_columns: found nothing"):
        model.convert(tmp_path / "ours")
    model.convert(tmp_path / "ours", choice_columns="a,b,c")
    kept = stored(tmp_path / "ours", "run.json")["task"]
    assert kept["kind"] == "multiple_choice" and kept["labels"] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "tags, scheme",
    (
        ("I-PER O B-PER I-LOC B-LOC", "bio2"),
        ("O B-PER I-PER E-PER S-PER", "bioes"),
        ("O B-PER M-PER E-PER S-PER", "bmes"),
        ("verb noun O B-PER other", "plain"),
    ),
)
def test_tags_say_their_scheme(folder, tmp_path, tags, scheme):
    """Tags stay in the order of the outputs, whatever it is."""
    labels = {str(id): tag for id, tag in enumerate(tags.split())}
    model = folder("token_classification").edit(id2label=labels, problem_type="any")
    model.convert(tmp_path / "ours")
    kept = stored(tmp_path / "ours", "run.json")["task"]
    assert kept["kind"] == "tagging" and kept["head"] == "tagging_custom"
    assert kept["labels"] == tags.split() and kept["kind_options"]["scheme"] == scheme
    config = model.assert_comes_back(tmp_path / "ours", tmp_path / "back")
    assert config["id2label"] == labels


def test_a_text_vector_without_a_projection(folder, tmp_path):
    """That library takes no null; before version 5 it wrote it."""
    model = folder().edit(summary_use_proj=False, summary_activation=None)
    tensors = model.tensors
    for name in ("weight", "bias"):
        del tensors[f"sequence_summary.summary.{name}"]
    model.write(tensors).convert(tmp_path / "ours")
    assert stored(tmp_path / "ours", "run.json")["task"]["use_summ_proj"] is False
    config = model.assert_comes_back(tmp_path / "ours", tmp_path / "back")
    assert config["summary_activation"] == "" and config["summary_use_proj"] is False


@pytest.mark.slow
def test_a_causal_model_comes_back_as_one(causal, tmp_path):
    conversion.to_huggingface(str(causal.folder), str(tmp_path / "theirs"))
    assert stored(tmp_path / "theirs", "config.json")["attn_type"] == "uni"
    conversion.from_huggingface(str(tmp_path / "theirs"), str(tmp_path / "back"), {})
    asked = dict(temperature=0, max_tokens=8)
    with xlnet.load(causal.folder) as ours, xlnet.load(tmp_path / "back") as back:
        assert back.generate("the cat", **asked) == ours.generate("the cat", **asked)
        np.testing.assert_array_equal(back.vectors("the cat"), ours.vectors("the cat"))


def test_a_model_of_masked_tokens_is_refused(permuted, tmp_path):
    """There it would fill in by a query stream that was not trained."""
    ours = shutil.copytree(permuted.folder, tmp_path / "ours")
    document = dict(stored(ours, "run.json"), resolved={"objective": "masked"})
    (ours / "run.json").write_text(json.dumps(document))
    with pytest.raises(
        UserError, match="objective: found masked, expected permutation"
    ):
        conversion.to_huggingface(str(ours), str(tmp_path / "theirs"))
    assert not (tmp_path / "theirs").exists()


def test_a_model_for_questions_of_short_texts_comes_back_and_answers(tmp_path):
    """Our default lengths of questions and strides do not fit into 32 tokens."""
    short = dict(max_seq_length=32, max_query_length=8, doc_stride=8)
    ours = make_model(tmp_path / "ours", "spans", **short)
    conversion.to_huggingface(ours, str(tmp_path / "theirs"))
    conversion.from_huggingface(str(tmp_path / "theirs"), str(tmp_path / "back"), {})
    with xlnet.load(tmp_path / "back", device="cpu") as back:
        assert back.answer("sol?", "kamat sol").best


def test_settings_of_training_go_there(permuted, tmp_path):
    ours = shutil.copytree(permuted.folder, tmp_path / "ours")
    resolved = {"objective": "causal", "clamp_len": 7, "mem_len": 5}
    document = dict(stored(ours, "run.json"), resolved=dict(resolved, same_length=True))
    (ours / "run.json").write_text(json.dumps(document))
    conversion.to_huggingface(str(ours), str(tmp_path / "theirs"))
    config = stored(tmp_path / "theirs", "config.json")
    found = [config[name] for name in ("clamp_len", "mem_len", "same_length")]
    assert found == [7, 5, True] and config["attn_type"] == "uni"
