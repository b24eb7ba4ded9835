"""The vocabulary and the cleaning of text in a folder of Hugging Face's library.

Of the vocabulary `spiece.model` is read. `tokenizer.json` is written, too: made of `spiece.model`
alone, that library's tokenizer (5.24) gives other ids to a third of English lines with the released
vocabulary, as it takes user-defined pieces such as "(" for tokens that are added to the text.
"There" means that library, "here" this one.
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
_LENGTH = 512  # of the longest text, where it is not known [tokens]
# That library's names of special tokens, and their pieces; and pieces that have no name there.
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
    """Reads the tokenizer of a folder.

    Args:
      folder: of theirs; its cleaning of text is read.
      spiece_model_file: the vocabulary; None: that of the folder.

    Returns:
      the tokenizer; the length of its longest text [tokens], 512 if it is not known.
    """
    path, config = os.path.join(folder, CONFIG_NAME), {}
    if os.path.exists(path):
        config = files.read_json(path, "tokenizer config")
    # `Tokenizer` always joins spaces.
    if config.get("remove_space", True) is not True:
        where = f"{CONFIG_NAME} of {folder}: remove_space"
        raise wrong(where, config["remove_space"], "true")
    vocabulary = spiece_model_file or os.path.join(folder, SPIECE_NAME)
    files.require_file(vocabulary, "spiece_model_file")
    uncased = config.get("do_lower_case", False)
    tokenizer = Tokenizer(vocabulary, uncased, config.get("keep_accents", False))
    length = config.get("model_max_length")
    # That library writes 10 ** 30 if it is not known.
    if isinstance(length, (int, float)) and 0 < length < 10**6:
        return tokenizer, int(length)
    return tokenizer, _LENGTH


def write(
    folder: str, tokenizer: Tokenizer, max_seq_length: int | None
) -> dict[str, int | None]:
    """Writes the files of a tokenizer: `spiece.model` for that library's slow tokenizers, and
    `tokenizer_config.json` and `tokenizer.json` for its fast ones.

    Args:
      folder: to write to.
      tokenizer: the vocabulary and the cleaning of text.
      max_seq_length: of the longest text [tokens]; None: not known.

    Returns:
      the entries of `config.json` that are ids of special tokens, such as `bos_token_id`; None for
      a token that the vocabulary lacks.
    """
    id_of = {tokenizer.id_to_piece(id): id for id in range(tokenizer.vocab_size)}
    # Special tokens that the vocabulary lacks are left out: that library would give them ids beyond
    # the embedding table. Without <pad>, texts are padded with <unk>, as padding is masked.
    unknown = tokenizer.id_to_piece(tokenizer.unk_id)
    special = {"unk_token": unknown, "pad_token": unknown}
    for name, piece in _PIECES.items():
        if piece in id_of:
            special[name] = piece
    more = [piece for piece in _MORE_PIECES if piece in id_of]
    # The general class, as XLNet's own one, from version 5 on, builds the tokenizer by other rules.
    config = {
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
    files.write_json(os.path.join(folder, CONFIG_NAME), config)
    write_fast_tokenizer(os.path.join(folder, JSON_NAME), tokenizer)
    ids = {}
    for name in ("bos_token", "eos_token", "pad_token"):
        ids[name + "_id"] = id_of.get(special.get(name, ""))
    return ids


JSON_NAME = "tokenizer.json"
_Piece = ModelProto.SentencePiece

# Subtracted from the scores of pieces such as "2010,", as by that library, so that they are not
# used: here they are split again (`corpus.tokenizer`).
_PENALTY = 100.0
# `tokenizer.json` without the vocabulary, the normalizer and the ids of special tokens. Its texts
# are A <sep> <cls>, or A <sep> B <sep> <cls>, with segments 0, 1 and 2.
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
    """The steps of a normalizer that cleans text as `Tokenizer` does.

    Args:
      uncased: whether text is put into lower case.
      keep_accents: whether letters keep their accents.
      table: SentencePiece's compiled table of replacements for characters; empty: none.
    """
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
    """Writes the `tokenizer.json` of a vocabulary, with which that library's fast tokenizers cut
    text into the pieces of `tokenizer`, with the exceptions in docs/how_to/convert.md, and but for
    special tokens: these are found in text there, and not here.

    User-defined pieces are ordinary ones with the best score, not added tokens, as no other piece
    has their characters.
    """
    model = ModelProto.FromString(tokenizer.model_bytes)
    vocabulary, added = [], []
    for id, piece in enumerate(model.pieces):
        # Scores are logarithms of probabilities, and so 0 is the best one.
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
                    # As in that library, <mask> takes the spaces before it.
                    "lstrip": piece.piece == "<mask>",
                    "rstrip": False,
                    "normalized": False,
                }
            )
    document = json.loads(_TEMPLATE)
    document["added_tokens"] = added
    table = model.normalizer_spec.precompiled_charsmap
    steps = _normalizers(tokenizer.uncased, tokenizer.keep_accents, table)
    document["normalizer"]["normalizers"] = steps
    special = document["post_processor"]["special_tokens"]
    for text, id in (("<sep>", tokenizer.sep_id), ("<cls>", tokenizer.cls_id)):
        special[text] = {"id": text, "ids": [id], "tokens": [text]}
    document["model"].update(
        unk_id=tokenizer.unk_id,
        byte_fallback=bool(tokenizer.byte_ids),
        vocab=vocabulary,
    )
    files.write_text(path, json.dumps(document, ensure_ascii=False))
