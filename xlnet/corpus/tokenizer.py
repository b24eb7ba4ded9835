"""Text to pieces (subword tokens) and ids: cleaning, SentencePiece, and the rule for commas.

How text is cleaned belongs to a vocabulary: the description `<model>.json` of a SentencePiece model
says it, is copied with the model, and is obeyed by whatever reads the model.

Shape letters: V vocabulary.
"""

from __future__ import annotations

import itertools
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import sentencepiece
from google.protobuf.message import DecodeError
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from xlnet.support import files
from xlnet.support.errors import wrong

# The mark that SentencePiece puts before a piece that begins a word.
WORD_START = "\u2581"

_REQUIRED = ("<cls>", "<sep>", "<eod>")
_OPTIONAL = ("<pad>", "<mask>", "<eop>")
_CONTROL_SYMBOLS = (*_REQUIRED, "<pad>", "<mask>")
SPIECE_NAME = "spiece.model"  # the model's name in the directory of a checkpoint
_CLEANING = ("uncased", "keep_accents")  # neither for the released models

# (ids, lengths): the ids of N texts, text after text, int32 [T], and how many each has, int64 [N].
Encoded = tuple[np.ndarray, np.ndarray]


def preprocess_text(
    inputs: str,
    lower: bool = False,
    remove_space: bool = True,
    keep_accents: bool = False,
) -> str:
    """Returns a text as the released models saw it in training; with the name and the arguments of
    the original implementation.

    Args:
      inputs: the text.
      lower: lower-case the text (for models trained without case).
      remove_space: join runs of spaces, drop those at the ends.
      keep_accents: skip the compatibility decomposition (NFKD) and the removal of combining
        characters, which makes が か, für fur, and removes tone marks from Thai. The SentencePiece
        model then folds full-width letters and the like by its own rule.
    """
    text = inputs
    if remove_space:
        text = " ".join(text.split())
    text = text.replace("``", '"').replace("''", '"')
    if not keep_accents and not text.isascii():
        # Combining characters are also removed before the decomposition, which would sort a long
        # run of them in quadratic time.
        text = _without_combining(text)
        decomposed = unicodedata.normalize("NFKD", text)
        if decomposed != text:
            text = _without_combining(decomposed)
    return text.lower() if lower else text


# Characters made of combining ones: of Tibetan and of Katakana.
_MADE_OF_COMBINING = "\u0f73\u0f75\u0f81\uff9e\uff9f"


def _without_combining(text: str) -> str:
    """Removes the combining characters, and those made of them."""
    # Each is replaced in all of the text, as a text has few different characters.
    for character in set(text):
        if unicodedata.combining(character) or character in _MADE_OF_COMBINING:
            text = text.replace(character, "")
    return text


# Bytes of a protocol buffer: field 3 of a SentencePiece model, its normalizer_spec, has 2 bytes,
# which set field 3 of the spec, add_dummy_prefix.
_DUMMY_PREFIX = {True: b"\x1a\x02\x18\x01", False: b"\x1a\x02\x18\x00"}


class Tokenizer:
    """A SentencePiece model with XLNet's cleaning and special ids.

    Args:
      path: the model file.
      uncased, keep_accents: how text is cleaned, as in `preprocess_text`; None: as the description
        says, or, without one, as for the released models.

    Attributes:
      path, model_bytes, sha256: the model file, its content and its checksum.
      uncased, keep_accents: how text is cleaned.
      marks_first_word: whether the first word of a text has the mark of a space, as others have.
      vocab_size: V.
      unk_id, cls_id, sep_id, eod_id: ids of the special pieces, found by name.
      mask_id, eop_id: the same, None where the model has no such piece.
      byte_ids: ids of the pieces that are a byte of a character that has no piece of its own.
      is_special: bool [V], pieces that are not text: <unk>, <cls>, <sep>, <eod>, ...
      is_word_start: bool [V], pieces that begin a word (`begins_word`), and special pieces.
      stands_alone: bool [V], words by themselves: punctuation, <cls>, <sep>, <eod>, <eop>.
      is_legacy_word_start: bool [V], pieces that begin a word in the original implementation.
      split_ids: the rule for commas after digits: the id of a piece such as "▁2010," is replaced by
        those of the pieces "▁2010" and ",".
      ids_without_mark: int32 [V], of the pieces without the mark of a word; -1 for the mark alone,
        the same id if there is no mark or no such piece.

    Raises:
      UserError: no such file, not a SentencePiece model, <cls>, <sep> or <eod> is missing, or the
        description is of another model or contradicts the arguments.
    """

    def __init__(
        self,
        path: str,
        uncased: bool | None = None,
        keep_accents: bool | None = None,
    ) -> None:
        files.require_file(path, "SentencePiece model")
        self.path, self.sha256 = path, files.sha256(path)
        self.model_bytes, self._model, self.marks_first_word = _read_model(path)
        self._models = {self.marks_first_word: self._model}  # see `_processor_with`
        # How text is cleaned: the description decides; without one the arguments do, or False. The
        # names in _CLEANING are those of the arguments.
        cleaning = _read_cleaning(path, self.sha256)
        for name, argument in zip(_CLEANING, (uncased, keep_accents)):
            described = cleaning.setdefault(name, argument or False)
            if argument not in (None, described):
                expected = f"{described}, as {description_path(path)} says"
                raise wrong(name, argument, expected)
        self.uncased, self.keep_accents = cleaning["uncased"], cleaning["keep_accents"]

        # Special pieces, by name.
        self.vocab_size = self._model.vocab_size()
        every_id = range(self.vocab_size)
        self._pieces = self._model.id_to_piece(list(every_id))  # by id
        ids = {piece: id for id, piece in enumerate(self._pieces)}
        missing = [name for name in _REQUIRED if name not in ids]
        if missing:
            found, symbols = "no " + ", ".join(missing), ",".join(_CONTROL_SYMBOLS)
            expected = f"a model trained with --control_symbols={symbols}"
            raise wrong(f"SentencePiece model {path}", found, expected)
        self.unk_id = self._model.unk_id()
        # In the order of _REQUIRED.
        self.cls_id, self.sep_id, self.eod_id = [ids[name] for name in _REQUIRED]
        self.mask_id, self.eop_id = ids.get("<mask>"), ids.get("<eop>")
        self.byte_ids = tuple(filter(self._model.is_byte, every_id))
        self.is_special = np.array(list(map(self._model.is_control, every_id)))
        self.stands_alone = np.array(list(map(is_punctuation, self._pieces)))
        self.is_special[self.unk_id] = True
        for name in _REQUIRED + _OPTIONAL:
            if name in ids:
                self.is_special[ids[name]] = True
                if name not in ("<pad>", "<mask>"):
                    self.stands_alone[ids[name]] = True

        # Properties of all pieces, and what the rule for commas makes of them.
        self.is_word_start = self.is_special.copy()
        self.is_legacy_word_start = np.zeros(self.vocab_size, bool)
        self.ids_without_mark = np.full(self.vocab_size, -1, np.int32)
        self.split_ids = {}
        for id, piece in enumerate(self._pieces):
            self.is_word_start[id] |= begins_word(piece)
            # A piece after a space, a name in angle brackets, or one mark of ASCII punctuation.
            is_first = piece.startswith((WORD_START, "<"))
            self.is_legacy_word_start[id] = is_first or piece in _LEGACY_PUNCTUATION
            if piece != WORD_START:
                unmarked = piece.removeprefix(WORD_START)
                self.ids_without_mark[id] = ids.get(unmarked, id)
            if ends_in_digit_comma(piece):
                # By the model that marks the first word, as for the released vocabulary.
                parts = _split_digit_comma(self._processor_with(True), piece)
                self.split_ids[id] = self._model.piece_to_id(parts)
        self._is_split = np.isin(every_id, list(self.split_ids))  # bool [V]

    def ids(self, text: str) -> list[int]:
        """Returns the ids of `text`."""
        return self.encode_to_array([text])[0].tolist()

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns a list of ids for each text."""
        return _as_lists(*self.encode_to_array(lines))

    def encode_to_array(
        self, lines: Sequence[str], has_prefix: bool | None = None
    ) -> Encoded:
        """Returns the ids of N texts, text after text, int32 [T], and how many each has, int64 [N].

        has_prefix: whether a space is put before each text; None: as the model does.
        """
        if has_prefix is None:
            has_prefix = self.marks_first_word
        texts = [self.clean(line) for line in lines]
        _check_text(texts)
        encoded = self._processor_with(has_prefix).encode(texts, num_threads=1)
        lengths = np.array(list(map(len, encoded)), np.int64)
        every_id = itertools.chain.from_iterable(encoded)
        ids = np.fromiter(every_id, np.int32, lengths.sum())
        return self._split_commas(ids, lengths)

    def encode_words(
        self, words: Sequence[str], after_space: Sequence[bool]
    ) -> list[list[int]]:
        """Returns the ids, one or more, of each of some words, encoded by itself.

        A word that follows a space (`after_space`, of each word) is encoded with the mark of one,
        any other word without; a word that cleaning removes is <unk>.
        """
        # The ids of words between spaces are those of the text, as no piece of a released
        # vocabulary crosses a space.
        word_ids = [[self.unk_id]] * len(words)
        for has_prefix in (True, False):
            indices = np.flatnonzero(np.equal(after_space, has_prefix)).tolist()
            some = [words[index] for index in indices]
            encoded = _as_lists(*self.encode_to_array(some, has_prefix))
            for index, ids in zip(indices, encoded):
                if ids:
                    word_ids[index] = ids
        return word_ids

    def _processor_with(self, has_prefix: bool) -> sentencepiece.SentencePieceProcessor:
        """The vocabulary as an encoder that puts a space before each text, or, without
        `has_prefix`, none: words are encoded with both. Made when it is first needed, as it takes
        memory."""
        if has_prefix not in self._models:
            # Protocol buffers merge concatenated messages, so a few bytes behind the model change
            # one field: normalizer_spec.add_dummy_prefix.
            self._models[has_prefix] = sentencepiece.SentencePieceProcessor(
                model_proto=self.model_bytes + _DUMMY_PREFIX[has_prefix]
            )
        return self._models[has_prefix]

    def clean(self, text: str) -> str:
        """Returns `text` as `ids` and `encode_lines` see it."""
        return preprocess_text(text, lower=self.uncased, keep_accents=self.keep_accents)

    def spans(self, cleaned: str) -> Iterator[tuple[int, int, int]]:
        """Yields (id, begin, end) of each piece of a text that `clean` has returned: the piece is
        `cleaned[begin:end]`, with the spaces around it. Of several pieces of one character the last
        one has it, and the others are empty."""
        _check_text([cleaned])
        for piece in self._model.encode(cleaned, out_type="immutable_proto").pieces:
            parts = self.split_ids.get(piece.id)
            if parts is None:
                yield piece.id, piece.begin, piece.end
                continue
            # The rule for commas: the comma is the last character; the other parts have the
            # characters before it, each as many as it has letters, and a space for its mark.
            begin = piece.begin
            for id in parts[:-1]:
                part = self._pieces[id]
                end = begin + len(part.lstrip(WORD_START))
                if part.startswith(WORD_START) and cleaned[begin : begin + 1] == " ":
                    end += 1
                # Normalization may have made more letters than the text has characters.
                end = min(end, piece.end - 1)
                yield id, begin, end
                begin = end
            yield parts[-1], piece.end - 1, piece.end

    def save(self, path: str) -> None:
        """Copies the model file to `path`, and writes its description next to it."""
        write_description(path, self.sha256, self.uncased, self.keep_accents)
        files.copy(self.path, path)

    def id_to_piece(self, id: int) -> str:
        """Returns the piece of an id in [0, V)."""
        return self._pieces[id]

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids, without control pieces."""
        return self._model.decode([int(id) for id in ids])

    def _split_commas(self, ids: np.ndarray, lengths: np.ndarray) -> Encoded:
        """Applies the rule for commas after digits to the ids of N texts, int32 [T], which it
        changes, and the number of each text's ids, int64 [N]; returns both."""
        # Example: in the ids 5 8 6 8 7, 8 is the piece "▁2010,", which becomes the two pieces 3 4.
        # The first part replaces it, which gives 5 3 6 3 7, and the others are put behind it: 5 3 4
        # 6 3 4 7. Their text gets longer by the number of parts less one.
        indices = np.flatnonzero(self._is_split[ids])
        # The text of each: the first that ends behind the index.
        texts = np.searchsorted(np.cumsum(lengths), indices, "right")
        places: list[int] = []  # where the others are inserted
        others: list[int] = []
        for index, text in zip(indices.tolist(), texts.tolist()):
            first, *rest = self.split_ids[int(ids[index])]
            ids[index] = first
            places += [index + 1] * len(rest)
            others += rest
            lengths[text] += len(rest)
        if others:
            ids = np.insert(ids, places, others)
        return ids, lengths


def _as_lists(ids: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    """The ids of each of N texts, from those of all of them, int [T], and the number of each text's
    ids, int [N]."""
    every_id, ends = ids.tolist(), np.cumsum(lengths).tolist()
    begins = [0, *ends]
    return [every_id[begin:end] for begin, end in zip(begins, ends)]


def _read_model(path: str) -> tuple[bytes, sentencepiece.SentencePieceProcessor, bool]:
    """A SentencePiece model as bytes and loaded, and whether it puts a space before each text.

    Raises:
      UserError: not a SentencePiece model, or one that has the mark of a space behind words.
    """
    where = f"SentencePiece model {path}"
    with open(path, "rb") as f:
        content = f.read()
    try:
        proto = ModelProto.FromString(content)
        if not proto.pieces:  # an empty file is a valid message
            raise RuntimeError
        model = sentencepiece.SentencePieceProcessor(model_proto=content)
    except (DecodeError, RuntimeError):
        raise wrong(where, "no SentencePiece model", "one") from None
    # The mark before a piece tells where words begin, for masks, tags and answers.
    if proto.trainer_spec.treat_whitespace_as_suffix:
        found = "marks at the ends of words (treat_whitespace_as_suffix)"
        raise wrong(where, found, "a model that marks where words begin")
    return content, model, proto.normalizer_spec.add_dummy_prefix


def ends_in_digit_comma(piece: str) -> bool:
    """Whether the rule for commas after digits splits a piece."""
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def _split_digit_comma(
    model: sentencepiece.SentencePieceProcessor, piece: str
) -> list[str]:
    """The pieces of the digits, then the comma: "▁2010," to ["▁2010", ","]."""
    # The digits are encoded as a text, and so get the mark of a word; it is removed again if the
    # piece had none, and with it a piece that has nothing else.
    digits = piece[:-1].replace(WORD_START, "")
    pieces = model.encode(digits, out_type=str)
    if pieces and not piece.startswith(WORD_START):
        without_mark = pieces[0].removeprefix(WORD_START)
        pieces[:1] = [without_mark] if without_mark else []
    return pieces + [","]


def encode_ids(
    sp_model: sentencepiece.SentencePieceProcessor, text: str, sample: bool = False
) -> list[int]:
    """Returns the ids of a text that `preprocess_text` has cleaned, with commas after digits
    separate; as in the original implementation.

    Args:
      sp_model: a loaded SentencePiece model.
      text: the cleaned text.
      sample: take one of the 64 best segmentations, at random (subword regularization).
    """
    if sample:
        # 0.1: the inverse temperature, the smaller the more random.
        pieces = sp_model.sample_encode_as_pieces(text, 64, 0.1)
    else:
        pieces = sp_model.encode(text, out_type=str)
    parts = []
    for piece in pieces:
        if ends_in_digit_comma(piece):
            parts += _split_digit_comma(sp_model, piece)
        else:
            parts.append(piece)
    return sp_model.piece_to_id(parts)


# Letters of scripts without spaces between words, if they can begin a syllable: without small kana,
# length and repetition marks (ー 々), tone marks, and vowels written behind their consonant. Korean
# has spaces, so Hangul is not among them.
UNSPACED = re.compile(
    "[\u0e01-\u0e2e\u0e40-\u0e44"  # Thai: consonants, vowels written in front
    "\u0e81-\u0eae\u0ec0-\u0ec4\u0edc-\u0edf"  # Lao: the same
    "\u1000-\u102a\u103f\u1050-\u1055\u1780-\u17b3"  # Burmese, Khmer: and independent vowels
    "\u3041-\u3096\u30a1-\u30fa\uff66-\uff9d"  # Hiragana, Katakana, the half-width one
    "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # Han
    "(?<![ぁぃぅぇぉっゃゅょゎゕゖァィゥェォッャュョヮヵヶｧ-ｰ])"
)


def is_unspaced(text: str) -> bool:
    """Whether a text begins with a letter of a script without spaces between words."""
    return bool(UNSPACED.match(text))


def begins_word(piece: str) -> bool:
    """Whether a piece of text begins a word, as far as the piece shows."""
    # With spaces between words, the mark decides. Without them a clause would be a single word, too
    # long for any n-gram of words, so each piece is a word: SentencePiece has it because it is
    # frequent, mostly a word or a part of one. Digits and other letters in such text belong to the
    # word before them.
    return piece.startswith(WORD_START) or is_unspaced(piece) or is_punctuation(piece)


_APOSTROPHES = "'\u2019"


def is_punctuation(piece: str) -> bool:
    """Whether a piece has only punctuation and symbols (categories P and S of Unicode)."""
    # Such a piece is a word by itself, so that a full stop is not always predicted together with
    # the word before it. Apostrophes are not, as they are parts of words (don't, l'eau).
    text = piece.removeprefix(WORD_START)
    if all(c in _APOSTROPHES for c in text):  # also of no characters
        return False
    return all(unicodedata.category(c)[0] in "PS" for c in text)


# The list of the original data_utils.py, for its rule: without ' < = >.
_LEGACY_PUNCTUATION = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~')


def description_path(path: str) -> str:
    """The file that says how text is cleaned for the SentencePiece model at `path`."""
    return path + ".json"


def write_description(
    path: str, sha256: str, uncased: bool, keep_accents: bool
) -> None:
    """Writes the file that says how text is cleaned for the SentencePiece model at `path`, which
    has the checksum `sha256` and is to be written afterwards: without a description it would pass
    for a released one."""
    files.write_json(
        description_path(path),
        {"sha256": sha256, "uncased": uncased, "keep_accents": keep_accents},
    )


def _read_cleaning(path: str, sha256: str) -> dict[str, Any]:
    """How the description of the model at `path` says that text is cleaned: {"uncased": bool,
    "keep_accents": bool}, or {} without a description.

    Raises:
      UserError: it does not say both, or is of another model than that of the checksum `sha256`.
    """
    file = description_path(path)
    if not os.path.exists(file):
        return {}
    stored = files.read_json(file, "vocabulary description")
    if stored.get("sha256") != sha256:
        raise wrong(file, "the description of another SentencePiece model", path)
    cleaning = {name: stored.get(name) for name in _CLEANING}
    if not all(value in (True, False) for value in cleaning.values()):
        raise wrong(file, cleaning, "true or false for " + ", ".join(cleaning))
    return cleaning


def _check_text(texts: Iterable[str]) -> None:
    """Raises UserError for a text with half a surrogate pair, which is not a character."""
    for text in texts:
        if not is_text(text):
            raise wrong("the text", f"{text!r:.80}", "no half of a character")


def is_text(text: str) -> bool:
    """Whether `text` can be written as UTF-8: not with half a surrogate pair, which comes from a
    byte that could not be decoded or from an escape in JSON."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


# Classes of characters for RE2, TensorFlow's regular expressions. They list the characters, from
# Python's Unicode data: a graph does not depend on the Unicode version of what serves it.

# Characters of which `str.isspace` is true.
SPACES = (
    r"\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}"
    r"\x{3000}"
)


def character_class(codes: Iterable[int]) -> str:
    r"""What is between the brackets of an RE2 class of the characters of these code points: 97, 98
    and 100 give `\x{61}-\x{62}\x{64}-\x{64}`."""
    spans: list[list[int]] = []  # [first, last] of code points in a row
    for code in sorted(codes):
        if spans and spans[-1][1] == code - 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in spans)
