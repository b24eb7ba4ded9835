"""The vocabulary and the cleaning of text in a folder of Hugging Face's library."""

from __future__ import annotations

import os
from typing import Any, Optional

from xlnet.convert import tokenizer_json
from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer
from xlnet.support import files
from xlnet.support.errors import wrong

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
    source = os.path.join(folder, tokenizer_json.NAME)
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
        model, is_lower, has_accents = tokenizer_json.read(source)
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
    special["additional_special_tokens"] = [
        piece for piece in _MORE_PIECES if piece in known
    ]
    files.copy(tokenizer.path, os.path.join(folder, SPIECE_NAME))
    present = {name: value for name, value in special.items() if value}
    files.write_json(os.path.join(folder, "special_tokens_map.json"), present)
    tokenizer_json.write(os.path.join(folder, tokenizer_json.NAME), tokenizer)
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
