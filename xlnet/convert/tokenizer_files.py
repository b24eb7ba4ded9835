"""The vocabulary and the cleaning of text in a folder of Hugging Face's library.

The second part converts `tokenizer.json` to a SentencePiece model, and back.

The file has everything that decides how text is cut: the pieces with their scores and types, and
the table of the normalizer. So a model made of it cuts every text as the SentencePiece model that
the file was made of. Files for which that is impossible are refused, with one exception: that
library first splits a text at added tokens, and a word begins behind each of them. If it adds
user-defined pieces such as "(", then "(x" is ( ▁x there and ▁ ( x in SentencePiece.
"""

from __future__ import annotations

import base64
import json
import math
import os
from typing import Any, Optional

from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer, ends_in_digit_comma
from xlnet.support import files
from xlnet.support.errors import UserError, wrong

CONFIG_NAME = "tokenizer_config.json"
_PIECES = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "<sep>",
    "pad_token": "<pad>",
    "cls_token": "<cls>",
    "mask_token": "<mask>",
}
_MORE_PIECES = ("<eop>", "<eod>")


def read(
    folder: str,
    scratch: str,
    spiece_model_file: Optional[str] = None,
    uncased: Optional[bool] = None,
    keep_accents: Optional[bool] = None,
) -> Optional[Tokenizer]:
    """The `Tokenizer` of a folder, or of `spiece_model_file`; None: there is no vocabulary.

    Args:
      folder: of that library.
      scratch: a directory for a SentencePiece model that is made of `tokenizer.json`, if the folder
        has nothing else.
      spiece_model_file: in place of that of the folder.
      uncased: as of `Tokenizer`; None: that of the folder.
      keep_accents: the same.
    """
    path = spiece_model_file or os.path.join(folder, SPIECE_NAME)
    source = os.path.join(folder, JSON_NAME)
    stored = _config(folder)
    if stored.get("remove_space", True) is not True:
        raise wrong(
            f"{CONFIG_NAME} of {folder}: remove_space", stored["remove_space"], "true"
        )
    is_lower, has_accents = (
        stored.get("do_lower_case", False),
        stored.get("keep_accents", False),
    )
    if not spiece_model_file and not os.path.exists(path):
        if not os.path.exists(source):
            return None
        # A SentencePiece model of the pieces in tokenizer.json, whose normalizer says what is
        # cleaned.
        model, is_lower, has_accents = read_json(source)
        path = os.path.join(scratch, SPIECE_NAME)
        with open(path, "wb") as f:
            f.write(model)
    return Tokenizer(
        path,
        is_lower if uncased is None else uncased,
        has_accents if keep_accents is None else keep_accents,
    )


def _config(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, CONFIG_NAME)
    return files.read_json(path, "tokenizer config") if os.path.exists(path) else {}


def max_length(folder: str) -> Optional[int]:
    """`model_max_length` of a folder, the length of its longest text [tokens]; None: not known."""
    found = _config(folder).get("model_max_length")
    # That library writes 10 ** 30 if it is not known.
    return int(found) if isinstance(found, (int, float)) and 0 < found < 10**6 else None


def write(
    folder: str, tokenizer: Tokenizer, max_seq_length: Optional[int]
) -> dict[str, Optional[int]]:
    """Writes `spiece.model`, for slow tokenizers, and the files for fast ones; returns the entries
    of `config.json` that are ids of the vocabulary, None for a token that it lacks."""
    known = {tokenizer.id_to_piece(id): id for id in range(tokenizer.vocab_size)}
    # A vocabulary without <pad> is padded with <unk>, as padding is masked. Other special tokens
    # that it lacks are left out: that library would give them ids beyond the embedding table.
    special: dict[str, Any] = {}
    for name, piece in _PIECES.items():
        special[name] = piece if piece in known else None
    special["unk_token"] = tokenizer.id_to_piece(tokenizer.unk_id)
    special["pad_token"] = special["pad_token"] or special["unk_token"]
    more = [piece for piece in _MORE_PIECES if piece in known]
    special["additional_special_tokens"] = more
    files.copy(tokenizer.path, os.path.join(folder, SPIECE_NAME))
    present = {name: value for name, value in special.items() if value}
    files.write_json(os.path.join(folder, "special_tokens_map.json"), present)
    write_json(os.path.join(folder, JSON_NAME), tokenizer)
    # The general class, as XLNet's own one, from version 5 on, builds the tokenizer by other rules.
    values = {
        **special,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "remove_space": True,
        "padding_side": "left",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "do_lower_case": tokenizer.uncased,
        "keep_accents": tokenizer.keep_accents,
    }
    if max_seq_length:
        values["model_max_length"] = max_seq_length
    files.write_json(os.path.join(folder, CONFIG_NAME), values)
    ids = {}
    for name in ("bos_token", "eos_token", "pad_token"):
        ids[name + "_id"] = known.get(special[name])
    return ids


JSON_NAME = "tokenizer.json"
_Piece = ModelProto.SentencePiece

_CUT_BY_HAND = "<eop>"  # occurs in texts, and is found there
# That library subtracts this from the scores of pieces such as "2010,", so that they are not used:
# here they are split again (`tokenization`).
_PENALTY = 100.0
_WORDS = {
    "type": "Metaspace",
    "replacement": "\u2581",
    "prepend_scheme": "always",
    "split": True,
}


def read_json(path: str) -> tuple[bytes, bool, bool]:
    """(a SentencePiece model, its cleaning `uncased` and `keep_accents`) of a file; refuses what
    such a model or our cleaning cannot do."""
    values = files.read_json(path, "tokenizer")
    try:
        normalizer, words = values["normalizer"], values["pre_tokenizer"]
        steps = (
            normalizer["normalizers"]
            if normalizer["type"] == "Sequence"
            else [normalizer]
        )
        table = b""
        for step in steps:
            if step["type"] == "Precompiled":
                table = base64.b64decode(step["precompiled_charsmap"], validate=True)
        uncased, keep_accents = (
            {"type": "Lowercase"} in steps,
            {"type": "NFKD"} not in steps,
        )
        if steps != _normalizers(uncased, keep_accents, table):
            types = ", ".join(step["type"] for step in steps)
            raise ValueError(
                f"the normalizer is {types}, expected that of XLNet's tokenizer"
            )
        # A space before a word marks it, the first one included. Older files split at white space
        # first; Metaspace then does the same.
        words = words["pretokenizers"][-1] if words["type"] == "Sequence" else words
        plain = {**_WORDS, **words}
        if plain.pop("add_prefix_space", True) is not True or plain != _WORDS:
            raise ValueError(
                f"the pre_tokenizer is {words['type']}, expected SentencePiece's"
            )
        pieces = _pieces(values["model"], values.get("added_tokens") or [])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
        reason = e if type(e) is ValueError else f"{type(e).__name__}: {e}"
        raise UserError(f"{path}: {reason}; --spiece_model_file") from None
    model = ModelProto(
        pieces=pieces,
        normalizer_spec={"precompiled_charsmap": table},
        trainer_spec={"model_type": TrainerSpec.UNIGRAM, "vocab_size": len(pieces)},
    )
    return model.SerializeToString(), uncased, keep_accents


def _normalizers(
    uncased: bool, keep_accents: bool, table: bytes
) -> list[dict[str, Any]]:
    """Cleaning, as `Tokenizer` does it, as steps of a normalizer; table: SentencePiece's."""
    steps: list[dict[str, Any]] = []
    for quotes in ("``", "''"):
        steps.append({"type": "Replace", "pattern": {"String": quotes}, "content": '"'})
    if not keep_accents:
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if uncased:
        steps.append({"type": "Lowercase"})
    if table:
        encoded = base64.b64encode(table).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": encoded})
    steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    return steps


def _pieces(
    model: dict[str, Any], added: list[dict[str, Any]]
) -> list[ModelProto.SentencePiece]:
    if model["type"] != "Unigram" or model.get("byte_fallback"):
        raise ValueError(
            f"the model is {model['type']}, expected Unigram without byte_fallback"
        )
    vocabulary, is_special = model["vocab"], {}
    for token in added:
        id, text = token["id"], token["content"]
        if id >= len(vocabulary) or vocabulary[id][0] != text:
            raise ValueError(
                f"token '{text}' was added as {id}, expected it in the vocabulary"
            )
        is_special[id] = token["special"]
    pieces = []
    for id, (text, score) in enumerate(vocabulary):
        if not math.isfinite(score):
            raise ValueError(
                f"piece '{text}' has the score {score}, expected a finite number"
            )
        if ends_in_digit_comma(text) and score <= -_PENALTY:
            score += _PENALTY
        if id == model["unk_id"]:
            kind = _Piece.UNKNOWN
        elif text == _CUT_BY_HAND:
            kind = _Piece.USER_DEFINED
        elif id in is_special:
            kind = _Piece.CONTROL if is_special[id] else _Piece.USER_DEFINED
        else:
            # Older files mark user-defined pieces by the score 0 alone; those of trained pieces
            # are logarithms of probabilities.
            kind = _Piece.USER_DEFINED if score == 0 else _Piece.NORMAL
        pieces.append(_Piece(piece=text, score=score, type=kind))
    return pieces


def write_json(path: str, tokenizer: Tokenizer) -> None:
    """Writes the file of a vocabulary, so that text is cut there as it is here, as far as it can.

    User-defined pieces are ordinary ones with the best score, not added tokens, as no other piece
    has their characters. Special tokens are found in text there, not here.
    """
    model = ModelProto.FromString(tokenizer.model_bytes())
    vocabulary, added = [], []
    for id, piece in enumerate(model.pieces):
        score = 0.0 if piece.type == _Piece.USER_DEFINED else piece.score
        vocabulary.append(
            [piece.piece, score - _PENALTY * ends_in_digit_comma(piece.piece)]
        )
        if piece.type in (_Piece.UNKNOWN, _Piece.CONTROL):
            added.append(
                {
                    "id": id,
                    "content": piece.piece,
                    "special": True,
                    "single_word": False,
                    "lstrip": piece.piece == "<mask>",
                    "rstrip": False,
                    "normalized": False,
                }
            )
    # A <sep> <cls>, or A <sep> B <sep> <cls>, with segments 0, 1 and 2.
    sep = tokenizer.id_to_piece(tokenizer.sep_id)
    cls = tokenizer.id_to_piece(tokenizer.cls_id)
    single: list[dict[str, Any]] = [
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": sep, "type_id": 0}},
    ]
    second = [
        {"Sequence": {"id": "B", "type_id": 1}},
        {"SpecialToken": {"id": sep, "type_id": 1}},
    ]
    last = {"SpecialToken": {"id": cls, "type_id": 2}}
    special = {}
    for text, id in ((sep, tokenizer.sep_id), (cls, tokenizer.cls_id)):
        special[text] = {"id": text, "ids": [id], "tokens": [text]}
    has_bytes = bool(tokenizer.byte_ids)
    decoders = [{"type": "ByteFallback"}, _WORDS]
    table = model.normalizer_spec.precompiled_charsmap
    steps = _normalizers(tokenizer.uncased, tokenizer.keep_accents, table)
    values = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, _WORDS],
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [*single, last],
            "pair": [*single, *second, last],
            "special_tokens": special,
        },
        "decoder": {"type": "Sequence", "decoders": decoders} if has_bytes else _WORDS,
        "model": {
            "type": "Unigram",
            "unk_id": tokenizer.unk_id,
            "byte_fallback": has_bytes,
            "vocab": vocabulary,
        },
    }
    files.write_text(path, json.dumps(values, ensure_ascii=False))
