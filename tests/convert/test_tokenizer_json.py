"""Vocabularies that a folder of Hugging Face's library has as `tokenizer.json` alone."""

import base64
import json
import shutil

import numpy as np
import pytest
from helpers.paths import GOLDEN, SPIECE
from helpers.vocabulary import train_tiny_model
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from xlnet.convert import config_json, conversion, tokenizer_files
from xlnet.convert.weights import read_file, write_file
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.runs import run_document
from xlnet.support.errors import UserError

TEXTS = (
    "The cat  sat, `` on '' a mat in 2010, and 13,000",
    "Ünïcödé ﬁ <eop> ｆｕｌｌ 3, <cls>",
    "",
    " ",
    "unknown 字 x",
)
UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4


def contents(model):
    """Of a SentencePiece model as bytes: (text, score, type) of each piece, the normalizer's
    table."""
    found = ModelProto.FromString(model)
    return (
        [(piece.piece, piece.score, piece.type) for piece in found.pieces],
        found.normalizer_spec.precompiled_charsmap,
    )


def as_that_library_writes(path, uncased=False, keep_accents=False, is_older=False):
    """`tokenizer.json` of a SentencePiece model, as transformers' XLNetConverter makes it; older
    ones say of no piece but the special ones that it was defined by users."""
    with open(path, "rb") as f:
        pieces, table = contents(f.read())
    steps = [
        {"type": "Replace", "pattern": {"String": quotes}, "content": '"'}
        for quotes in ("``", "''")
    ]
    steps += [] if keep_accents else [{"type": "NFKD"}, {"type": "StripAccents"}]
    steps += [{"type": "Lowercase"}] * uncased
    steps += [
        {
            "type": "Precompiled",
            "precompiled_charsmap": base64.b64encode(table).decode(),
        }
    ] * bool(table)
    steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    added = [
        {"id": id, "content": text, "special": kind != USER_DEFINED or is_older}
        for id, (text, _, kind) in enumerate(pieces)
        if kind in (UNKNOWN, CONTROL)
        or kind == USER_DEFINED
        and (not is_older or text == "<eop>")
    ]
    words = {"type": "Metaspace", "replacement": "\u2581"}
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                dict(words, add_prefix_space=True),
            ],
        }
        if is_older
        else dict(words, prepend_scheme="always", split=True),
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [
                [text, score - 100 * (text[-1] == "," and text[-2:-1].isdigit())]
                for text, score, _ in pieces
            ],
        },
    }


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return train_tiny_model(tmp_path_factory.mktemp("vocabulary") / "spiece.model")


def write(folder, values):
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(values))
    return folder / "tokenizer.json"


@pytest.mark.parametrize(
    "options", ({}, dict(uncased=True), dict(keep_accents=True), dict(is_older=True))
)
def test_text_is_cut_as_by_the_model_that_it_was_made_of(vocabulary, tmp_path, options):
    path = write(tmp_path / "theirs", as_that_library_writes(vocabulary, **options))
    with open(vocabulary, "rb") as f:
        assert contents(tokenizer_files.read_json(str(path))[0]) == contents(f.read())
    tokenizer = tokenizer_files.read(str(tmp_path / "theirs"), str(tmp_path))
    original = Tokenizer(
        vocabulary,
        **{name: value for name, value in options.items() if name != "is_older"},
    )
    assert tokenizer.encode_lines(TEXTS) == original.encode_lines(TEXTS)
    assert (tokenizer.uncased, tokenizer.keep_accents) == (
        original.uncased,
        original.keep_accents,
    )


@pytest.mark.skipif(not SPIECE.exists(), reason=f"needs {SPIECE}")
@pytest.mark.parametrize("is_older", (False, True))
def test_the_released_vocabulary_comes_back_whole(tmp_path, is_older):
    path = write(tmp_path, as_that_library_writes(SPIECE, is_older=is_older))
    assert contents(tokenizer_files.read_json(str(path))[0]) == contents(
        SPIECE.read_bytes()
    )
    tokenizer = tokenizer_files.read(str(tmp_path), str(tmp_path))
    assert tokenizer.encode_lines(TEXTS) == Tokenizer(str(SPIECE)).encode_lines(TEXTS)


@pytest.mark.parametrize(
    "change, message",
    (
        (lambda v: v["model"].update(type="BPE"), "the model is BPE"),
        (
            lambda v: v["model"].update(byte_fallback=True),
            "expected Unigram without byte_fallback",
        ),
        (
            lambda v: v["normalizer"]["normalizers"].insert(2, {"type": "NFC"}),
            "normalizer .*NFC",
        ),
        (
            lambda v: v["normalizer"]["normalizers"].pop(2),
            "the normalizer is .*expected that of",
        ),
        (
            lambda v: v["pre_tokenizer"].update(prepend_scheme="never"),
            "pre_tokenizer is Metaspace",
        ),
        (
            lambda v: v["added_tokens"].append(
                {"id": 10**6, "content": "<new>", "special": True}
            ),
            "token '<new>' was added as 1000000",
        ),
        (lambda v: v["model"]["vocab"].append(["x", float("nan")]), "the score nan"),
        (lambda v: v.pop("model"), "KeyError: 'model'"),
    ),
)
def test_what_cannot_be_done_here_is_refused_with_the_flag(
    vocabulary, tmp_path, change, message
):
    values = as_that_library_writes(vocabulary)
    change(values)
    with pytest.raises(UserError, match=message) as e:
        tokenizer_files.read_json(str(write(tmp_path, values)))
    assert str(e.value).endswith("; --spiece_model_file") and "\n" not in str(e.value)


def test_it_goes_with_the_converted_model(vocabulary, tmp_path):
    """Theirs without `spiece.model`, ours with it."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    shutil.copytree(GOLDEN / "hf" / "sequence_classification", theirs)
    write(theirs, as_that_library_writes(vocabulary, uncased=True))
    config = json.loads((theirs / "config.json").read_text())
    with pytest.raises(UserError, match="found 51 pieces, expected 41"):
        conversion.from_huggingface(str(theirs), str(ours), config_json.Columns())
    (theirs / "config.json").write_text(json.dumps(dict(config, vocab_size=51)))
    tensors = read_file(str(theirs / "model.safetensors"))
    tensors["transformer.word_embedding.weight"] = np.zeros([51, 24], np.float32)
    write_file(str(theirs / "model.safetensors"), tensors)
    conversion.from_huggingface(str(theirs), str(ours), config_json.Columns())
    assert run_document.read(str(ours)).task  # ready to predict
    tokenizer = Tokenizer(str(ours / "spiece.model"))
    assert tokenizer.encode_lines(TEXTS) == Tokenizer(vocabulary, True).encode_lines(
        TEXTS
    )
