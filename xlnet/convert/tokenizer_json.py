"""Converts `tokenizer.json` to a SentencePiece model, and back.

The file has everything that decides how text is cut: the pieces with their scores and types, and
the table of the normalizer. So a model made of it cuts every text as the SentencePiece model that
the file was made of. Files for which that is impossible are refused, with one exception: that
library first splits a text at added tokens, and a word begins behind each of them. If it adds
user-defined pieces such as "(", then "(x" is ( ▁x there and ▁ ( x in SentencePiece.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from xlnet import files
from xlnet.errors import UserError
from xlnet.tokenization.tokenizer import WORD_START, Tokenizer, ends_in_digit_comma

_log = logging.getLogger(__name__)

NAME = "tokenizer.json"
_Piece = ModelProto.SentencePiece

_CUT_BY_HAND = "<eop>"  # occurs in texts, and is found there
# That library subtracts this from the scores of pieces such as "2010,", so that they are not used:
# here they are split again (`tokenization`).
_PENALTY = 100.0

_QUOTES = ("Replace ``", "Replace ''")
_SPACES = "Replace  {2,}"
_WAY_OUT = "; give --spiece_model_file"


class Rebuilt(NamedTuple):
    """A SentencePiece model as bytes, its cleaning as of `Tokenizer`, and its number of pieces."""

    model: bytes
    uncased: bool
    keep_accents: bool
    size: int
    cut_apart: tuple[str, ...]  # added tokens at which that library splits a text


def read(path: str) -> Rebuilt:
    """The vocabulary of a file; refuses what a SentencePiece model or our cleaning cannot do."""
    values = files.read_json(path, "tokenizer")
    try:
        steps, table = _normalizer(values["normalizer"])
        _check_words(values["pre_tokenizer"])
        pieces = _pieces(values["model"], values.get("added_tokens") or [])
    except _Unfit as e:
        raise UserError(f"{path}: {e}{_WAY_OUT}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
        raise UserError(
            f"{path}: not as that library writes it ({type(e).__name__}: {e}){_WAY_OUT}"
        ) from None
    model = ModelProto(
        pieces=pieces,
        normalizer_spec={"precompiled_charsmap": table},
        trainer_spec={"model_type": TrainerSpec.UNIGRAM, "vocab_size": len(pieces)},
    )
    return Rebuilt(
        model.SerializeToString(),
        "Lowercase" in steps,
        "NFKD" not in steps,
        len(pieces),
        tuple(
            token["content"]
            for token in values.get("added_tokens") or ()
            if not token["special"] and token["content"] != _CUT_BY_HAND
        ),
    )


class _Unfit(Exception):
    """Something that a SentencePiece model, or our cleaning, cannot do."""


def _normalizer(values: Mapping[str, Any]) -> tuple[list[str], bytes]:
    """The names of its steps, and the table of SentencePiece; b"": none."""
    parts = values["normalizers"] if values["type"] == "Sequence" else [values]
    steps, table = [_step(part) for part in parts], b""
    for part in parts:
        if part["type"] == "Precompiled":
            try:
                table = base64.b64decode(part["precompiled_charsmap"], validate=True)
            except binascii.Error:
                raise _Unfit("precompiled_charsmap is not base64") from None
    # Steps that may be left out, in the only order that is ours.
    accents, lower, map, spaces = (
        [name for name in names if name in steps]
        for names in (("NFKD", "StripAccents"), ("Lowercase",), ("Precompiled",), (_SPACES,))
    )
    # Accents are stripped by both steps or by none.
    if steps != [*_QUOTES, *accents, *lower, *map, *spaces] or len(accents) == 1:
        raise _Unfit(
            "the normalizer is {}, expected that of XLNet's tokenizer: {}".format(
                ", ".join(steps),
                ", ".join(
                    (*_QUOTES, "[NFKD, StripAccents]", "[Lowercase]", "[Precompiled]", _SPACES)
                ),
            )
        )
    return steps, table


def _step(part: Mapping[str, Any]) -> str:
    """The name of a step. That of a replacement has its pattern, and its text if it is not ours."""
    if part["type"] != "Replace":
        return part["type"]
    pattern = part["pattern"].get("String") or part["pattern"].get("Regex")
    name = f"Replace {pattern}"
    by = {_QUOTES[0]: '"', _QUOTES[1]: '"', _SPACES: " "}
    return name if by.get(name) == part["content"] else "{} by {}".format(name, part["content"])


def _check_words(values: Any) -> None:
    """Refuses other rules than: a space before a word marks it, the first one included."""
    # Older files split at white space first; Metaspace then does the same.
    parts = values["pretokenizers"] if values["type"] == "Sequence" else [values]
    names = [part["type"] for part in parts]
    last = parts[-1]
    if (
        names not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"])
        or last["replacement"] != "\u2581"
        or last.get("prepend_scheme", "always") != "always"
        or last.get("add_prefix_space", True) is not True
    ):
        raise _Unfit(
            "the pre_tokenizer is {}, expected Metaspace, as SentencePiece has it".format(
                ", ".join(names)
            )
        )


def _pieces(
    model: Mapping[str, Any], added: Iterable[Mapping[str, Any]]
) -> list[ModelProto.SentencePiece]:
    if model["type"] != "Unigram" or model.get("byte_fallback"):
        raise _Unfit(
            "the model is {}, expected Unigram{}".format(
                model["type"], " without byte_fallback" if model.get("byte_fallback") else ""
            )
        )
    # Added tokens must be pieces of the vocabulary.
    vocabulary = model["vocab"]
    is_special = {}
    for token in added:
        if token["id"] >= len(vocabulary) or vocabulary[token["id"]][0] != token["content"]:
            raise _Unfit(
                "token '{}' was added to the vocabulary as {}, which has no place here".format(
                    token["content"], token["id"]
                )
            )
        is_special[token["id"]] = token["special"]
    pieces = []
    for id, (text, score) in enumerate(vocabulary):
        if not math.isfinite(score):
            raise _Unfit(f"piece '{text}' has the score {score}, expected a finite number")
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


def write(path: str, tokenizer: Tokenizer) -> None:
    """Writes the file of a vocabulary, so that text is cut there as it is here, as far as it can.

    User-defined pieces are ordinary ones with the best score, not added tokens, as no other piece
    has their characters. Special tokens are found in text there, not here.
    """
    model, pieces = ModelProto.FromString(tokenizer.model_bytes()), []
    # What the file cannot say. Any rule cuts a text into the same single characters.
    kind = TrainerSpec.ModelType.Name(model.trainer_spec.model_type)
    unlike = [] if kind in ("UNIGRAM", "CHAR") else [f"model_type {kind}"]
    if not model.normalizer_spec.add_dummy_prefix:
        unlike.append("no space before a text")
    if any(WORD_START in piece.piece[1:] for piece in model.pieces):
        unlike.append("pieces across a space")
    if unlike:
        _log.warning(
            "note: %s cuts text otherwise than the SentencePiece model, which has %s",
            NAME,
            " and ".join(unlike),
        )
    for piece in model.pieces:
        score = 0.0 if piece.type == _Piece.USER_DEFINED else piece.score
        penalty = _PENALTY * ends_in_digit_comma(piece.piece)
        pieces.append((piece.piece, score - penalty, piece.type))
    table = model.normalizer_spec.precompiled_charsmap
    # Cleaning, as `Tokenizer` does it, as steps of a normalizer.
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": quotes}, "content": '"'}
        for quotes in ("``", "''")
    ]
    steps += [] if tokenizer.keep_accents else [{"type": "NFKD"}, {"type": "StripAccents"}]
    steps += [{"type": "Lowercase"}] if tokenizer.uncased else []
    if table:
        steps.append(
            {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}
        )
    steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    words = {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": "always",
        "split": True,
    }
    # A <sep> <cls>, or A <sep> B <sep> <cls>, with segments 0, 1 and 2.
    sep, cls = (tokenizer.id_to_piece(id) for id in (tokenizer.sep_id, tokenizer.cls_id))
    a, b = ({"Sequence": {"id": name, "type_id": id}} for id, name in enumerate("AB"))
    ends = [[{"SpecialToken": {"id": sep, "type_id": id}}] for id in (0, 1)]
    last = [{"SpecialToken": {"id": cls, "type_id": 2}}]
    files.write_lines(
        path,
        [
            json.dumps(
                {
                    "version": "1.0",
                    "truncation": None,
                    "padding": None,
                    "added_tokens": [
                        {
                            "id": id,
                            "content": text,
                            "special": True,
                            "single_word": False,
                            "lstrip": text == "<mask>",
                            "rstrip": False,
                            "normalized": False,
                        }
                        for id, (text, _, kind) in enumerate(pieces)
                        if kind in (_Piece.UNKNOWN, _Piece.CONTROL)
                    ],
                    "normalizer": {"type": "Sequence", "normalizers": steps},
                    "pre_tokenizer": {
                        "type": "Sequence",
                        "pretokenizers": [{"type": "WhitespaceSplit"}, words],
                    },
                    "post_processor": {
                        "type": "TemplateProcessing",
                        "single": [a, *ends[0], *last],
                        "pair": [a, *ends[0], b, *ends[1], *last],
                        "special_tokens": {
                            text: {"id": text, "ids": [id], "tokens": [text]}
                            for text, id in ((sep, tokenizer.sep_id), (cls, tokenizer.cls_id))
                        },
                    },
                    "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, words]}
                    if tokenizer.byte_ids
                    else words,
                    "model": {
                        "type": "Unigram",
                        "unk_id": tokenizer.unk_id,
                        "byte_fallback": bool(tokenizer.byte_ids),
                        "vocab": [[text, score] for text, score, _ in pieces],
                    },
                },
                ensure_ascii=False,
            )
        ],
    )
