"""The vocabulary and the cleaning of text in a folder of Hugging Face's library.

Read is `spiece.model`. Written is `tokenizer.json`, too: made of `spiece.model` alone, that
library's tokenizer (5.24) gives other ids to a third of English lines with the released vocabulary,
as it takes user-defined pieces such as "(" for tokens that are added to the text.
"""

from __future__ import annotations

import base64
import json
import os
from typing import Any

from sentencepiece.sentencepiece_model_pb2 import ModelProto

from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer, ends_in_digit_comma
from xlnet.support import files
from xlnet.support.errors import wrong

CONFIG_NAME = "tokenizer_config.json"
_LENGTH = 512  # of a text, where it is not known [tokens]
_PIECES = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "<sep>",
    "pad_token": "<pad>",
    "cls_token": "<cls>",
    "mask_token": "<mask>",
}
_MORE_PIECES = ("<eop>", "<eod>")


def read(folder: str, spiece_model_file: str | None) -> tuple[Tokenizer, int]:
    """The `Tokenizer` of a folder, or of `spiece_model_file`, with the cleaning of the folder; and
    the length of its longest text [tokens], 512 if it is not known."""
    config, stored = os.path.join(folder, CONFIG_NAME), {}
    if os.path.exists(config):
        stored = files.read_json(config, "tokenizer config")
    if stored.get("remove_space", True) is not True:
        where = f"{CONFIG_NAME} of {folder}: remove_space"
        raise wrong(where, stored["remove_space"], "true")
    path = spiece_model_file or os.path.join(folder, SPIECE_NAME)
    files.require_file(path, "spiece_model_file")
    uncased = stored.get("do_lower_case", False)
    tokenizer = Tokenizer(path, uncased, stored.get("keep_accents", False))
    length = stored.get("model_max_length")
    # That library writes 10 ** 30 if it is not known.
    if isinstance(length, (int, float)) and 0 < length < 10**6:
        return tokenizer, int(length)
    return tokenizer, _LENGTH


def write(
    folder: str, tokenizer: Tokenizer, max_seq_length: int | None
) -> dict[str, int | None]:
    """Writes `spiece.model`, for slow tokenizers, and the files for fast ones; returns the entries
    of `config.json` that are ids of the vocabulary, None for a token that it lacks."""
    known = {tokenizer.id_to_piece(id): id for id in range(tokenizer.vocab_size)}
    # Special tokens that the vocabulary lacks are left out: that library would give them ids beyond
    # the embedding table. Without <pad> it is padded with <unk>, as padding is masked.
    unknown = tokenizer.id_to_piece(tokenizer.unk_id)
    special = {"unk_token": unknown, "pad_token": unknown}
    for name, piece in _PIECES.items():
        if piece in known:
            special[name] = piece
    more = [piece for piece in _MORE_PIECES if piece in known]
    # The general class, as XLNet's own one, from version 5 on, builds the tokenizer by other rules.
    values = {
        **special,
        "additional_special_tokens": more,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "remove_space": True,
        "padding_side": "left",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "do_lower_case": tokenizer.uncased,
        "keep_accents": tokenizer.keep_accents,
        "model_max_length": max_seq_length or _LENGTH,
    }
    files.copy(tokenizer.path, os.path.join(folder, SPIECE_NAME))
    files.write_json(os.path.join(folder, CONFIG_NAME), values)
    write_fast_tokenizer(os.path.join(folder, JSON_NAME), tokenizer)
    ids = {}
    for name in ("bos_token", "eos_token", "pad_token"):
        ids[name + "_id"] = known.get(special.get(name, ""))
    return ids


JSON_NAME = "tokenizer.json"
_Piece = ModelProto.SentencePiece

# That library subtracts this from the scores of pieces such as "2010,", so that they are not used:
# here they are split again (`tokenization`).
_PENALTY = 100.0
# Of the file, all but the vocabulary and the normalizer. Its texts are A <sep> <cls>, or
# A <sep> B <sep> <cls>, with segments 0, 1 and 2.
_TEMPLATE = """
{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [],
  "normalizer": {"type": "Sequence", "normalizers": []},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "WhitespaceSplit"},
    {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true}
  ]},
  "post_processor": {
    "type": "TemplateProcessing",
    "single": [
      {"Sequence": {"id": "A", "type_id": 0}},
      {"SpecialToken": {"id": "<sep>", "type_id": 0}},
      {"SpecialToken": {"id": "<cls>", "type_id": 2}}
    ],
    "pair": [
      {"Sequence": {"id": "A", "type_id": 0}},
      {"SpecialToken": {"id": "<sep>", "type_id": 0}},
      {"Sequence": {"id": "B", "type_id": 1}},
      {"SpecialToken": {"id": "<sep>", "type_id": 1}},
      {"SpecialToken": {"id": "<cls>", "type_id": 2}}
    ],
    "special_tokens": {}
  },
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "ByteFallback"},
    {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true}
  ]},
  "model": {"type": "Unigram"}
}
"""


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


def write_fast_tokenizer(path: str, tokenizer: Tokenizer) -> None:
    """Writes the file of a vocabulary, so that text is cut there as it is here, as far as it can.

    User-defined pieces are ordinary ones with the best score, not added tokens, as no other piece
    has their characters. Special tokens are found in text there, not here.
    """
    model = ModelProto.FromString(tokenizer.model_bytes)
    vocabulary, added = [], []
    for id, piece in enumerate(model.pieces):
        score = 0.0 if piece.type == _Piece.USER_DEFINED else piece.score
        if ends_in_digit_comma(piece.piece):
            score -= _PENALTY
        vocabulary.append([piece.piece, score])
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
    values = json.loads(_TEMPLATE)
    values["added_tokens"] = added
    table = model.normalizer_spec.precompiled_charsmap
    steps = _normalizers(tokenizer.uncased, tokenizer.keep_accents, table)
    values["normalizer"]["normalizers"] = steps
    special = values["post_processor"]["special_tokens"]
    for text, id in (("<sep>", tokenizer.sep_id), ("<cls>", tokenizer.cls_id)):
        special[text] = {"id": text, "ids": [id], "tokens": [text]}
    values["model"].update(
        unk_id=tokenizer.unk_id,
        byte_fallback=bool(tokenizer.byte_ids),
        vocab=vocabulary,
    )
    files.write_text(path, json.dumps(values, ensure_ascii=False))
