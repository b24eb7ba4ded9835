"""Text to pieces and ids: cleaning, SentencePiece, and the rule for commas after digits.

Shape letters: V vocabulary.
"""

import unicodedata

import numpy as np
import sentencepiece

from xlnet import files
from xlnet.errors import UserError

WORD_START = "\u2581"  # the mark that SentencePiece puts before a piece that begins a word

_REQUIRED = ("<cls>", "<sep>", "<eod>")
_OPTIONAL = ("<pad>", "<mask>", "<eop>")


def clean_text(text, lower=False, remove_space=True, keep_accents=False):
    """Returns `text` as the released models saw it in training.

    Args:
      text: str.
      lower: lower-case the text (for models trained without case).
      remove_space: join runs of blanks, drop those at the ends.
      keep_accents: leave out the compatibility decomposition (NFKD) and with it the removal of
        combining characters, which damages Korean, Japanese and German.
    """
    if remove_space:
        text = " ".join(text.split())
    text = text.replace("``", '"').replace("''", '"')
    if not keep_accents and not text.isascii():
        text = _without_accents(text)
    return text.lower() if lower else text


def _without_accents(text):
    text = unicodedata.normalize("NFKD", text)
    return "".join([c for c in text if not unicodedata.combining(c)])


class Tokenizer:
    """A SentencePiece model with XLNet's cleaning and special ids.

    Attributes:
      path, sha256: the model file and its checksum.
      uncased: whether text is lower-cased.
      vocab_size: V.
      unk_id, cls_id, sep_id, eod_id: ids of the special pieces, found by name.
      pad_id, mask_id, eop_id: the same, None where the model has no such piece.
      is_word_start: bool [V], pieces that begin a word; special pieces count as words.

    Raises:
      UserError: no such file, not a SentencePiece model, or <cls>, <sep> or <eod> is missing.
    """

    def __init__(self, path, uncased=False):
        self._model = _load(path)
        self.path = path
        self.sha256 = files.sha256(path)
        self.uncased = uncased
        self.vocab_size = self._model.vocab_size()
        self._pieces = self._model.id_to_piece(list(range(self.vocab_size)))
        self._read_special_ids()
        self.is_word_start = self._find_word_starts()
        self._split_pieces = {piece: self._split_digit_comma(piece)
                              for piece in self._pieces if _is_digit_comma(piece)}
        to_id = self._model.piece_to_id
        self._split_ids = {to_id(piece): to_id(parts)
                           for piece, parts in self._split_pieces.items()}

    def pieces(self, text):
        """Returns the pieces of `text`, a list of str; unknown characters stand as they are."""
        pieces = self._model.encode(self.clean(text), out_type=str)
        return _replace(pieces, self._split_pieces)

    def ids(self, text):
        """Returns the ids of `text`, a list of int."""
        return self.encode_lines([text])[0]

    def encode_lines(self, lines):
        """Returns the ids of each text: a list of str to a list of lists of int."""
        encoded = self._model.encode([self.clean(line) for line in lines], num_threads=1)
        return [_replace(ids, self._split_ids) for ids in encoded]

    def clean(self, text):
        """Returns `text` as `pieces`, `ids` and `encode_lines` see it."""
        return clean_text(text, lower=self.uncased)

    def id_to_piece(self, id):
        """Returns the piece, a str, of an id in [0, V)."""
        return self._pieces[id]

    def decode(self, ids):
        """Returns the text of a sequence of ids; control pieces leave no trace in it."""
        return self._model.decode([int(id) for id in ids])

    def _read_special_ids(self):
        known = {name: id for id, name in enumerate(self._pieces)}
        missing = [name for name in _REQUIRED if name not in known]
        if missing:
            raise UserError("SentencePiece model %s: missing %s; train it with --control_symbols=%s"
                            % (self.path, ", ".join(missing), ",".join(_REQUIRED + _OPTIONAL[:2])))
        self.unk_id = self._model.unk_id()
        self.cls_id, self.sep_id, self.eod_id = [known[name] for name in _REQUIRED]
        self.pad_id, self.mask_id, self.eop_id = [known.get(name) for name in _OPTIONAL]

    def _find_word_starts(self):
        special = {self.unk_id, self.cls_id, self.sep_id, self.eod_id,
                   self.pad_id, self.mask_id, self.eop_id}
        return np.array([piece.startswith(WORD_START) or id in special
                         or self._model.is_control(id)
                         for id, piece in enumerate(self._pieces)], dtype=bool)

    def _split_digit_comma(self, piece):
        """Returns the pieces of the digits, then the comma: "▁2010," to ["▁2010", ","].

        What stands before the comma is encoded as if it were a text of its own, so it comes back
        with a word start; that is taken off again where the whole piece had none.
        """
        pieces = self._model.encode(piece[:-1].replace(WORD_START, ""), out_type=str)
        if not piece.startswith(WORD_START) and pieces and pieces[0].startswith(WORD_START):
            pieces[:1] = [pieces[0][1:]] if len(pieces[0]) > 1 else []
        return pieces + [","]


def _load(path):
    files.require_file(path, "SentencePiece model")
    try:
        return sentencepiece.SentencePieceProcessor(model_file=path)
    except (RuntimeError, OSError):
        raise UserError("SentencePiece model %s: not a SentencePiece model" % path) from None


def _is_digit_comma(piece):
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def _replace(sequence, replacements):
    """Returns `sequence` with each item that is a key of `replacements` replaced by its list."""
    if replacements.keys().isdisjoint(sequence):
        return sequence
    return [part for item in sequence for part in replacements.get(item, (item,))]
