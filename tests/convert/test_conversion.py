"""Folders of Hugging Face's library: what they hold beside weights, and what is refused."""

import json
import logging
import os
import re
import shutil
import struct

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.paths import GOLDEN, RELEASED
from helpers.vocabulary import train_tiny_model
from safetensors.numpy import load_file, save_file
from sentencepiece.sentencepiece_model_pb2 import ModelProto

import xlnet
from xlnet.convert import conversion
from xlnet.convert.weights import read_file, write_file
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.support.errors import UserError

HF = GOLDEN / "hf"


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return train_tiny_model(tmp_path_factory.mktemp("vocabulary") / "spiece.model")


def stored(path, name):
    return json.loads((path / name).read_text())


def edit_document(path, **changes):
    """Changes sections of a directory's `run.json`."""
    document = dict(stored(path, "run.json"), **changes)
    (path / "run.json").write_text(json.dumps(document))


def to_huggingface(path, name, *arguments, **options):
    """The model in path/ours as the folder path/name of that library."""
    conversion.to_huggingface(
        str(path / "ours"), str(path / name), *arguments, **options
    )


class Folder:
    """A copy of a golden folder, to be changed."""

    def __init__(self, path, name="sequence_classification"):
        shutil.copytree(HF / name, path)
        self.path = path

    def edit(self, **changes):
        """Entries of config.json; None is null."""
        (self.path / "config.json").write_text(
            json.dumps(dict(stored(self.path, "config.json"), **changes))
        )
        return self

    @property
    def tensors(self):
        return read_file(str(self.path / "model.safetensors"))

    def write(self, tensors, dtype="float32"):
        write_file(str(self.path / "model.safetensors"), tensors, dtype)
        return self

    def shard(
        self,
        names=("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"),
    ):
        """Two files and their index."""
        tensors = self.tensors
        weight_map = {name: names[i % 2] for i, name in enumerate(sorted(tensors))}
        for shard in names:
            if os.path.basename(shard) == shard:
                write_file(
                    str(self.path / shard),
                    {
                        name: tensors[name]
                        for name in tensors
                        if weight_map[name] == shard
                    },
                )
        (self.path / "model.safetensors").unlink()
        (self.path / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map})
        )
        return self

    def give_vocabulary(self, path, **tokenizer_config):
        """The vocabulary, and an embedding of as many rows."""
        shutil.copy(path, self.path / "spiece.model")
        (self.path / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
        tensors, count = self.tensors, Tokenizer(path).vocab_size
        tensors["transformer.word_embedding.weight"] = np.zeros([count, 24], np.float32)
        if "lm_loss.bias" in tensors:
            tensors["lm_loss.bias"] = np.zeros([count], np.float32)
        return self.edit(vocab_size=count).write(tensors)

    def convert(self, target, *vocabulary, length=None, **columns):
        conversion.from_huggingface(
            str(self.path), str(target), columns, length, *vocabulary
        )
        return {
            name: tf.train.load_variable(checkpoint.resolve(str(target)), name)
            for name, _ in tf.train.list_variables(checkpoint.resolve(str(target)))
        }


@pytest.fixture
def folder(tmp_path):
    return lambda name="sequence_classification": Folder(tmp_path / name, name)


def same(ours, others):
    assert set(ours) == set(others)
    for name, value in ours.items():
        np.testing.assert_array_equal(value, others[name], err_msg=name)


def test_shards_are_one_model(folder, tmp_path):
    whole = folder()
    expected = whole.convert(tmp_path / "whole")
    same(whole.shard().convert(tmp_path / "sharded"), expected)


def test_an_index_that_lies_or_leads_out_of_its_folder_is_refused(folder, tmp_path):
    (tmp_path / "other").mkdir()
    shutil.copy(HF / "lm" / "model.safetensors", tmp_path / "other")
    sharded = folder().shard()
    index = sharded.path / "model.safetensors.index.json"
    names = json.loads(index.read_text())["weight_map"]
    for weight_map, message in (
        *(
            ({"logits_proj.weight": name}, "expected a file of this folder")
            for name in (
                "../other/model.safetensors",
                "..\\model.safetensors",
                "config.json",
                None,
            )
        ),
        (
            dict(names, extra=min(names.values())),
            "no tensor extra in model-00001-of-00002.safet",
        ),
        (
            dict(names, extra="model-00003.safetensors"),
            "no such file: .*/model-00003.safetensors",
        ),
        ({}, "weight_map"),
    ):
        index.write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(UserError, match=message):
            sharded.convert(tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_a_pickle_is_refused(folder, tmp_path):
    """It is not even opened: this one is not a pickle."""
    pickled = folder()
    (pickled.path / "model.safetensors").rename(pickled.path / "pytorch_model.bin")
    with pytest.raises(
        UserError, match="expected model.safetensors or model.safetensors.index"
    ):
        pickled.convert(tmp_path / "out")


def test_weights_that_are_no_numbers_are_refused(folder, tmp_path):
    """The server reported ready, and answered 500 to everything."""
    model = folder()
    path = model.path / "model.safetensors"
    tensors = load_file(path)
    tensors["transformer.layer.1.ff.layer_1.weight"][2, 3] = np.inf
    save_file(tensors, path)
    with pytest.raises(
        UserError, match="tensor transformer.layer.1.ff.layer_1.weight: found NaN"
    ):
        model.convert(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "header, data, length",
    (
        (b"", b"", None),
        (b"{}", b"", 1 << 60),
        (b"not json", b"", None),
        ({"x": dict(dtype="F64", shape=[1], data_offsets=[0, 8])}, bytes(8), None),
        ({"x": dict(dtype="F32", shape=[2], data_offsets=[0, 4])}, bytes(4), None),
        (
            {"x": dict(dtype="F32", shape=[1 << 62], data_offsets=[0, 1 << 64])},
            bytes(4),
            None,
        ),
    ),
)
def test_a_damaged_file_is_refused(tmp_path, header, data, length):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(
        struct.pack("<Q", len(text) if length is None else length) + text + data
    )
    with pytest.raises(UserError, match="damaged|found type F.*, expected") as error:
        read_file(str(path))
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "changes, message",
    (
        (dict(model_type="bert"), "model_type: found 'bert'"),
        (
            dict(architectures=["BertModel"]),
            r"architectures: found \['BertModel'\], expected",
        ),
        (dict(layer_norm_eps=1e-5), "layer_norm_eps: found 1e-05"),
        (dict(attn_type="uni"), "attn_type: found 'uni'"),
        (dict(same_length=True), "same_length: found True"),
        (dict(summary_type="attn"), "summary_type: found 'attn'"),
        (dict(summary_activation="relu"), "summary_activation: found 'relu'"),
        (dict(problem_type="other"), "problem_type: found 'other'"),
        (dict(problem_type="regression"), "id2label: found 1 labels, expected 4"),
        (dict(id2label={"0": "a", "1": "b"}), "id2label: found 2 labels, expected 4"),
        (dict(n_layer=3), "found no weights transformer.layer.2.rel_attn.r_w_bias"),
        (dict(n_layer="2"), "n_layer: found '2'"),
        (dict(n_head=0), "config.json: "),
        (dict(d_inner=41), r"layer.0.ff.layer_1.weight: found shape \[40, 24\]"),
    ),
)
def test_a_model_that_cannot_be_computed_here_is_refused(
    folder, tmp_path, changes, message
):
    with pytest.raises(UserError, match=message):
        folder().edit(**changes).convert(tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_entries_are_carried_as_that_library_writes_them(folder, tmp_path):
    entries = dict(
        mem_len=None, reuse_len=None, bos_token_id=None, eos_token_id=[2, 3], dropout=0
    )
    folder().edit(**entries).convert(tmp_path / "ours")
    to_huggingface(tmp_path, "back")
    config = stored(tmp_path / "back", "config.json")
    assert {name: config[name] for name in entries} == entries


def test_weights_alone_keep_their_output_layer(folder, tmp_path):
    model = folder()
    model.convert(tmp_path / "converted")
    best_checkpoint.export(
        checkpoint.resolve(str(tmp_path / "converted")), str(tmp_path / "ours")
    )
    to_huggingface(tmp_path, "back")
    same(read_file(str(tmp_path / "back" / "model.safetensors")), model.tensors)


def test_the_target_is_not_written_over(folder, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").write_text("")
    with pytest.raises(UserError, match="is there already"):
        folder().convert(tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["kept"]


def test_an_output_embedding_of_its_own_has_no_place(folder, tmp_path, caplog):
    model = folder("lm")
    tensors = dict(model.tensors)
    embedding = tensors["transformer.word_embedding.weight"]
    with caplog.at_level(logging.WARNING):
        model.write(
            dict(tensors, **{"lm_loss.weight": embedding, "extra": embedding})
        ).convert(tmp_path / "tied")
    assert "1 weights are not used: extra" in caplog.text
    with pytest.raises(
        UserError, match="lm_loss.weight: found an output embedding of its own"
    ):
        model.write(dict(tensors, **{"lm_loss.weight": embedding + 1})).convert(
            tmp_path / "out"
        )


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_half_precision_there_and_back(folder, tmp_path, dtype):
    narrow = folder().write(folder("exact_gelu").tensors, dtype)
    values = narrow.convert(tmp_path / "ours")
    assert all(value.dtype == np.float32 for value in values.values())
    to_huggingface(tmp_path, "back", dtype)
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == (
        narrow.path / "model.safetensors"
    ).read_bytes()
    assert stored(tmp_path / "back", "config.json")["dtype"] == dtype


# ---- biases that all layers share ----


def test_tied_biases_are_those_of_every_layer(tmp_path):
    """untie_r False: one [N,H] here, the same numbers in each layer there."""
    source = tmp_path / "ours"
    source.mkdir()
    config = xlnet.XLNetConfig(
        json_path=str(GOLDEN / "tied_relu_checkpoint" / "xlnet_config.json")
    )
    kept = checkpoint.read_weights(
        str(GOLDEN / "tied_relu_checkpoint" / "xlnet_model.ckpt")
    )
    config = xlnet.XLNetConfig(
        **dict(config.to_dict(), d_head=4)
    )  # as that library has it
    weights = {
        name: np.ascontiguousarray(value[..., :4]) if value.shape[-1] == 6 else value
        for name, value in kept.items()
    }
    checkpoint.write_arrays(str(source / "xlnet_model.ckpt"), weights)
    config.to_json(str(source / "xlnet_config.json"))
    conversion.to_huggingface(str(source), str(tmp_path / "theirs"))
    tensors = read_file(str(tmp_path / "theirs" / "model.safetensors"))
    for layer in range(2):
        np.testing.assert_array_equal(
            tensors[f"transformer.layer.{layer}.rel_attn.r_w_bias"],
            weights["model/transformer/r_w_bias"],
        )
    theirs = Folder(tmp_path / "copy", "lm")
    shutil.rmtree(theirs.path)
    shutil.copytree(tmp_path / "theirs", theirs.path)
    same(theirs.convert(tmp_path / "back"), weights)

    tensors["transformer.layer.1.rel_attn.r_w_bias"] += 1  # fine-tuned there
    with pytest.raises(UserError, match="r_w_bias: found another one in each layer"):
        theirs.write(tensors).convert(tmp_path / "untied")


def test_a_head_width_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(
        UserError, match="d_head: found 12, expected d_model / n_head, 8"
    ):
        conversion.to_huggingface(str(RELEASED), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


# ---- vocabulary and cleaning ----


@pytest.mark.parametrize(
    "uncased, keep_accents", ((False, False), (True, False), (True, True))
)
def test_the_tokenizer_goes_with_the_model(
    folder, tmp_path, vocabulary, uncased, keep_accents
):
    model = folder("lm").give_vocabulary(
        vocabulary, do_lower_case=uncased, keep_accents=keep_accents
    )
    model.convert(tmp_path / "ours")
    ours = Tokenizer(str(tmp_path / "ours" / "spiece.model"))
    assert (ours.uncased, ours.keep_accents) == (uncased, keep_accents)
    to_huggingface(tmp_path, "back")
    kept = stored(tmp_path / "back", "tokenizer_config.json")
    assert (kept["do_lower_case"], kept["keep_accents"]) == (uncased, keep_accents)
    assert kept["remove_space"] is True and kept["padding_side"] == "left"
    assert kept["model_input_names"] == [
        "input_ids",
        "token_type_ids",
        "attention_mask",
    ]
    assert kept["pad_token"] == "<pad>" and kept["mask_token"] == "<mask>"
    assert kept["additional_special_tokens"] == ["<eop>", "<eod>"]
    special = stored(tmp_path / "back", "special_tokens_map.json")
    assert special["cls_token"] == "<cls>"
    config = stored(tmp_path / "back", "config.json")
    assert config["pad_token_id"] == ours.pad_id
    assert (tmp_path / "back" / "spiece.model").read_bytes() == open(
        vocabulary, "rb"
    ).read()
    written = stored(tmp_path / "back", "tokenizer.json")
    assert written["model"]["type"] == "Unigram"
    assert written["model"]["vocab"] == penalized_pieces(vocabulary)
    steps = written["normalizer"]["normalizers"]
    assert ({"type": "NFKD"} in steps) == (not keep_accents)
    assert ({"type": "Lowercase"} in steps) == uncased
    added = {token["content"] for token in written["added_tokens"]}
    assert {"<unk>", "<sep>", "<cls>", "<pad>"} <= added


def penalized_pieces(vocabulary):
    """[text, score] of each piece; one that ends in a digit and a comma is never chosen there."""
    with open(vocabulary, "rb") as f:
        pieces = ModelProto.FromString(f.read()).pieces
    found = []
    for piece in pieces:
        score = 0.0 if piece.type == piece.USER_DEFINED else piece.score
        if re.search(r"\d,$", piece.piece):
            score -= 100
        found.append([piece.piece, score])
    return found


def test_cleaning_and_size_of_a_vocabulary(folder, tmp_path, vocabulary):
    with pytest.raises(UserError, match="remove_space: found False"):
        folder().give_vocabulary(vocabulary, remove_space=False).convert(
            tmp_path / "out"
        )
    lower = folder("lm").give_vocabulary(vocabulary, do_lower_case=True)
    lower.convert(
        tmp_path / "cased", None, False
    )  # what is given goes before the folder
    assert not Tokenizer(str(tmp_path / "cased" / "spiece.model")).uncased
    lower.edit(vocab_size=41)
    with pytest.raises(UserError, match="found 51 pieces, expected 41"):
        lower.convert(tmp_path / "out")


# ---- tasks ----

LABELS = {"0": "world", "1": "sports", "2": "business", "3": "science"}


@pytest.mark.parametrize(
    "changes, kind, labels, head",
    (
        (
            dict(id2label=LABELS),
            "classification",
            list(LABELS.values()),
            "classification_custom",
        ),
        (
            dict(id2label=LABELS, problem_type="multi_label_classification"),
            "multi_label",
            list(LABELS.values()),
            "classification_custom",
        ),
        (dict(id2label={"0": "LABEL_0"}), "regression", None, "regression_custom"),
    ),
)
def test_labels_and_kind_of_task_go_with_the_model(
    folder, tmp_path, vocabulary, changes, kind, labels, head
):
    model = folder().give_vocabulary(vocabulary).edit(**changes)
    if labels is None:
        model.write(
            {
                name: value[:1] if name.startswith("logits_proj") else value
                for name, value in model.tensors.items()
            }
        )
    model.convert(tmp_path / "ours", text_b_column="other", length=77)
    kept = stored(tmp_path / "ours", "run.json")["task"]
    assert (kept["kind"], kept["labels"], kept["head"]) == (kind, labels, head)
    assert kept["columns"]["text_b"] == ["other"]
    assert stored(tmp_path / "ours", "run.json")["resolved"]["max_seq_length"] == 77
    to_huggingface(tmp_path, "back")
    before, after = (
        stored(path, "config.json") for path in (model.path, tmp_path / "back")
    )
    assert after["id2label"] == before["id2label"]
    expected = before.get(
        "problem_type", "single_label_classification" if labels else "regression"
    )
    assert after["problem_type"] == expected
    same(read_file(str(tmp_path / "back" / "model.safetensors")), model.tensors)


def test_columns_of_answers(folder, tmp_path, vocabulary):
    model = folder("multiple_choice").give_vocabulary(vocabulary)
    with pytest.raises(UserError, match="choice_columns: found nothing"):
        model.convert(tmp_path / "ours")
    model.convert(tmp_path / "ours", choice_columns="first,second,third")
    kept = stored(tmp_path / "ours", "run.json")["task"]
    assert kept["kind"] == "multiple_choice" and kept["labels"] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "tags, scheme",
    (
        ("O B-PER I-PER B-LOC I-LOC", "bio2"),
        ("I-PER O B-PER I-LOC B-LOC", "bio2"),
        ("O B-PER I-PER E-PER S-PER", "bioes"),
        ("O B-PER M-PER E-PER S-PER", "bmes"),
    ),
)
def test_tags_say_their_scheme(folder, tmp_path, vocabulary, tags, scheme):
    """Tags stay in the order of the outputs, whatever it is."""
    labels = {str(id): tag for id, tag in enumerate(tags.split())}
    model = (
        folder("token_classification").give_vocabulary(vocabulary).edit(id2label=labels)
    )
    model.convert(tmp_path / "ours")
    kept = stored(tmp_path / "ours", "run.json")["task"]
    assert kept["kind"] == "tagging" and kept["head"] == "tagging_custom"
    assert kept["labels"] == tags.split() and kept["kind_options"]["scheme"] == scheme
    to_huggingface(tmp_path, "back")
    same(read_file(str(tmp_path / "back" / "model.safetensors")), model.tensors)
    assert stored(tmp_path / "back", "config.json")["id2label"] == labels


def test_beams_go_with_a_model_that_answers_questions(folder, tmp_path, vocabulary):
    model = folder("question_answering").give_vocabulary(vocabulary)
    model.convert(tmp_path / "ours")
    kept = stored(tmp_path / "ours", "run.json")["task"]
    assert kept["kind"] == "spans" and kept["head"] == "start_logits"
    assert (
        kept["kind_options"]["start_n_top"] == 3
        and kept["kind_options"]["end_n_top"] == 4
    )
    edit_document(tmp_path / "ours", huggingface=None)  # as of a model of ours
    to_huggingface(tmp_path, "back")
    same(read_file(str(tmp_path / "back" / "model.safetensors")), model.tensors)
    config = stored(tmp_path / "back", "config.json")
    assert (config["start_n_top"], config["end_n_top"]) == (3, 4)
    assert config["architectures"] == ["XLNetForQuestionAnswering"]


@pytest.mark.parametrize(
    "name, entries, length, said",
    [
        ("question_answering", dict(end_n_top=0), 512, "end_n_top: found 0"),
        ("question_answering", {}, 3, "max_seq_length is 3, expected at least 4"),
        ("sequence_classification", {}, 1, "max_seq_length is 1"),
        (
            "sequence_classification",
            dict(id2label={"0": "a\ud800"}),
            512,
            "half a character",
        ),
    ],
)
def test_what_could_not_be_loaded_is_not_written(
    folder, tmp_path, vocabulary, name, entries, length, said
):
    model = (
        folder(name)
        .give_vocabulary(vocabulary, model_max_length=length)
        .edit(**entries)
    )
    with pytest.raises(UserError, match=said):
        model.convert(tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_a_text_vector_without_a_projection(folder, tmp_path, vocabulary):
    """That library takes no null; before version 5 it wrote it."""
    model = (
        folder()
        .give_vocabulary(vocabulary)
        .edit(summary_use_proj=False, summary_activation=None)
    )
    model.write(
        {
            name: value
            for name, value in model.tensors.items()
            if not name.startswith("sequence_summary")
        }
    )
    model.convert(tmp_path / "ours")
    assert stored(tmp_path / "ours", "run.json")["task"]["use_summ_proj"] is False
    to_huggingface(tmp_path, "back")
    config = stored(tmp_path / "back", "config.json")
    assert config["summary_activation"] == "" and config["summary_use_proj"] is False
    same(read_file(str(tmp_path / "back" / "model.safetensors")), model.tensors)


def test_a_causal_model_comes_back_as_one(causal, tmp_path):
    conversion.to_huggingface(str(causal.folder), str(tmp_path / "theirs"))
    assert stored(tmp_path / "theirs", "config.json")["attn_type"] == "uni"
    conversion.from_huggingface(str(tmp_path / "theirs"), str(tmp_path / "back"), {})
    asked = dict(temperature=0, max_tokens=8)
    with xlnet.load(causal.folder) as ours, xlnet.load(tmp_path / "back") as back:
        assert back.generate("the cat", **asked) == ours.generate("the cat", **asked)
        np.testing.assert_array_equal(back.vectors("the cat"), ours.vectors("the cat"))
        with pytest.raises(UserError, match="objective=causal, which generates alone"):
            back.fill("the ___")


@pytest.mark.parametrize(
    "first, then", [("causal", "permutation"), ("permutation", "causal")]
)
def test_settings_of_training_here_replace_those_that_the_weights_came_with(
    permuted, tmp_path, first, then
):
    folder = shutil.copytree(permuted.folder, tmp_path / "first")
    edit_document(folder, resolved={"objective": first, "clamp_len": 9, "mem_len": 3})
    conversion.to_huggingface(str(folder), str(tmp_path / "theirs"))
    conversion.from_huggingface(str(tmp_path / "theirs"), str(tmp_path / "ours"), {})
    edit_document(
        tmp_path / "ours",
        program="xlnet pretrain",
        resolved={"objective": then, "clamp_len": 7, "mem_len": 5, "same_length": True},
    )
    to_huggingface(tmp_path, "back")
    config = stored(tmp_path / "back", "config.json")
    assert (config["clamp_len"], config["mem_len"], config["same_length"]) == (
        7,
        5,
        True,
    )
    assert config["attn_type"] == ("uni" if then == "causal" else "bi")
