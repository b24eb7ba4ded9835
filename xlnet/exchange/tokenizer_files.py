"""The vocabulary in a folder of Hugging Face's library: `spiece.model` and how text is cleaned."""

from __future__ import annotations

import os
from typing import Any, Optional

from xlnet import files
from xlnet.errors import UserError
from xlnet.tokenization import SPIECE_NAME, Tokenizer

CONFIG_NAME = "tokenizer_config.json"
_SPECIAL_NAME = "special_tokens_map.json"
_CLEANING = {"uncased": "do_lower_case", "keep_accents": "keep_accents"}    # ours -> theirs
_PIECES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "<sep>",
           "pad_token": "<pad>", "cls_token": "<cls>", "mask_token": "<mask>"}
_MORE_PIECES = ("<eop>", "<eod>")


def read(folder: str, spiece_model_file: Optional[str] = None, uncased: Optional[bool] = None,
         keep_accents: Optional[bool] = None) -> Optional[Tokenizer]:
    """The `Tokenizer` of a folder; None where it has no SentencePiece model and none is given.

    Args:
      spiece_model_file: in place of the folder's. uncased, keep_accents: as in `Tokenizer`; None:
        as the folder says.

    Raises:
      UserError: the folder says that text is cleaned in a way that there is not here, or in another
        one than the arguments.
    """
    given = {"uncased": uncased, "keep_accents": keep_accents}
    cleaning = _read_cleaning(os.path.join(folder, CONFIG_NAME), given)
    path = spiece_model_file or os.path.join(folder, SPIECE_NAME)
    if not spiece_model_file and not os.path.exists(path):
        return None
    return Tokenizer(path, **cleaning)


def _read_cleaning(path, given):
    """What the file and the flags say of cleaning; what neither says is that library's default."""
    if not os.path.exists(path):
        return given
    stored = files.read_json(path, "tokenizer config")
    if stored.get("remove_space", True) is not True:
        raise UserError("%s: remove_space is %r, but here runs of spaces are always joined"
                        % (path, stored["remove_space"]))
    cleaning = {}
    for ours, theirs in _CLEANING.items():
        value = stored.get(theirs, False)
        if type(value) is not bool:
            raise UserError("%s: %s is %r, expected true or false" % (path, theirs, value))
        if given[ours] not in (None, value):
            raise UserError("%s: the setting says %s, %s says %s"
                            % (ours, given[ours], path, value))
        cleaning[ours] = value
    return cleaning


def write(folder: str, tokenizer: Tokenizer) -> dict[str, int]:
    """Writes `spiece.model` and the files that the library reads beside it.

    A vocabulary without <pad> is padded with <unk>: a padded position is seen by no other one. What
    else it lacks is no token there either, rather than one beyond the embedding's last row.

    Returns:
      The entries of `config.json` that are ids of the vocabulary.
    """
    known = {tokenizer.id_to_piece(id): id for id in range(tokenizer.vocab_size)}
    special: dict[str, Any] = {name: piece if piece in known else None
                               for name, piece in _PIECES.items()}
    special["unk_token"] = tokenizer.id_to_piece(tokenizer.unk_id)
    special["pad_token"] = special["pad_token"] or special["unk_token"]
    special["additional_special_tokens"] = [piece for piece in _MORE_PIECES if piece in known]
    files.copy(tokenizer.path, os.path.join(folder, SPIECE_NAME))
    files.write_json(os.path.join(folder, _SPECIAL_NAME),
                     {name: value for name, value in special.items() if value})
    files.write_json(os.path.join(folder, CONFIG_NAME), {
        **special, "tokenizer_class": "XLNetTokenizer", "remove_space": True,
        **{theirs: getattr(tokenizer, ours) for ours, theirs in _CLEANING.items()}})
    return {"%s_id" % name: known[special[name]] for name in
            ("bos_token", "eos_token", "pad_token") if special[name]}
