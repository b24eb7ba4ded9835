"""The vocabulary and the cleaning of text in a folder of Hugging Face's library."""

from __future__ import annotations

import logging
import os
from typing import Any, Optional

from xlnet import files
from xlnet.convert import tokenizer_json
from xlnet.errors import UserError
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer

_log = logging.getLogger(__name__)

CONFIG_NAME = "tokenizer_config.json"
_SPECIAL_NAME = "special_tokens_map.json"
_CLEANING = {"uncased": "do_lower_case", "keep_accents": "keep_accents"}  # ours -> theirs
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

    `scratch` is a directory for a SentencePiece model that is made of `tokenizer.json`, if the
    folder has nothing else. uncased, keep_accents: as of `Tokenizer`; None: those of the folder.
    """
    given = {"uncased": uncased, "keep_accents": keep_accents}
    config = os.path.join(folder, CONFIG_NAME)
    path = spiece_model_file or os.path.join(folder, SPIECE_NAME)
    if spiece_model_file or os.path.exists(path):
        return Tokenizer(path, **_read_cleaning(config, given, False))
    source = os.path.join(folder, tokenizer_json.NAME)
    if not os.path.exists(source):
        return None
    # A SentencePiece model of the pieces in tokenizer.json, whose normalizer says what is cleaned.
    found = tokenizer_json.read(source)
    for name, value in _read_cleaning(config, given, None).items():
        if value not in (None, getattr(found, name)):
            raise UserError(
                f"{source}: {name} is {value} by {CONFIG_NAME} or the setting, but the "
                f"normalizer of {tokenizer_json.NAME} says {getattr(found, name)}"
            )
    path = os.path.join(scratch, SPIECE_NAME)
    with open(path, "wb") as f:
        f.write(found.model)
    if found.cut_apart:
        _log.warning(
            "note: %s has %s as added tokens, behind each of which a word begins there, "
            "and here not: text with them gets other ids",
            source,
            " ".join(found.cut_apart),
        )
    _log.info(
        "vocabulary: a SentencePiece model of the %d pieces of %s%s",
        found.size,
        source,
        "" if found.cut_apart else ", which cuts text as it does",
    )
    return Tokenizer(path, uncased=found.uncased, keep_accents=found.keep_accents)


def _read_cleaning(
    path: str, given: dict[str, Optional[bool]], unsaid: Optional[bool]
) -> dict[str, Any]:
    """The cleaning by the file and the flags; `unsaid`: the default of the file."""
    if not os.path.exists(path):
        return given
    stored = files.read_json(path, "tokenizer config")
    if stored.get("remove_space", True) is not True:
        raise UserError(
            "{}: remove_space is {!r}, but here runs of spaces are always joined".format(
                path, stored["remove_space"]
            )
        )
    cleaning = {}
    for ours, theirs in _CLEANING.items():
        value = stored.get(theirs, unsaid)
        if value is None:
            cleaning[ours] = given[ours]
            continue
        # The folder decides; a setting that says otherwise is an error.
        if type(value) is not bool:
            raise UserError(f"{path}: {theirs} is {value!r}, expected true or false")
        if given[ours] not in (None, value):
            raise UserError(f"{ours}: the setting says {given[ours]}, {path} says {value}")
        cleaning[ours] = value
    return cleaning


def max_length(folder: str) -> Optional[int]:
    """`model_max_length` of a folder, the length of its longest text [tokens]; None: not known."""
    path = os.path.join(folder, CONFIG_NAME)
    found = (
        files.read_json(path, "tokenizer config").get("model_max_length")
        if os.path.exists(path)
        else None
    )
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
    special: dict[str, Any] = {
        name: piece if piece in known else None for name, piece in _PIECES.items()
    }
    special["unk_token"] = tokenizer.id_to_piece(tokenizer.unk_id)
    special["pad_token"] = special["pad_token"] or special["unk_token"]
    special["additional_special_tokens"] = [piece for piece in _MORE_PIECES if piece in known]
    files.copy(tokenizer.path, os.path.join(folder, SPIECE_NAME))
    files.write_json(
        os.path.join(folder, _SPECIAL_NAME),
        {name: value for name, value in special.items() if value},
    )
    tokenizer_json.write(os.path.join(folder, tokenizer_json.NAME), tokenizer)
    # The general class, as XLNet's own one, from version 5 on, builds the tokenizer by other rules.
    files.write_json(
        os.path.join(folder, CONFIG_NAME),
        {
            **special,
            "tokenizer_class": "PreTrainedTokenizerFast",
            "remove_space": True,
            "padding_side": "left",
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
            **({"model_max_length": max_seq_length} if max_seq_length else {}),
            **{theirs: getattr(tokenizer, ours) for ours, theirs in _CLEANING.items()},
        },
    )
    return {
        f"{name}_id": known.get(special[name]) for name in ("bos_token", "eos_token", "pad_token")
    }
