"""The characters of a text that belong to each of its pieces, computed in a TensorFlow graph as
`offsets.Aligner` computes them.

The texts of a batch are concatenated, as are their cleaned texts, byte by byte, and what
SentencePiece cuts, character by character. Cleaning keeps the order, so counting gives the source
of each character. An end follows each text; it has no source.

Shape letters: N texts, R characters of all texts and their ends, S of all that SentencePiece cuts
and their ends, P pieces of all texts.
"""

from __future__ import annotations

import collections
import functools

import numpy as np
import tensorflow.compat.v1 as tf
from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from xlnet.serving.export.graph_tokenizer import (
    GraphTokenizer,
    character_table,
    decode,
    each_replaced,
    encode,
)
from xlnet.tokenization.character_classes import space_codes
from xlnet.tokenization.offsets import piece_shape, piece_shapes
from xlnet.tokenization.tokenizer import WORD_START, Tokenizer, clean_text

# Ragged, [N, (pieces)]: ids int32; where each piece begins and ends, in characters, int64.
GraphAligned = collections.namedtuple("GraphAligned", "ids starts ends")


class GraphAligner:
    """Cuts texts into pieces with their offsets in the text."""

    def __init__(self, tokenizer: GraphTokenizer):
        self._tokenizer = tokenizer
        plain = tokenizer.plain
        self._characters = tokenizer.sentencepiece(_character_model(plain), tf.int32)
        self._places = _character_places(plain)
        self._parts = _Parts(plain)
        self._cleaned_sizes = _CleanedSizes(plain)

    def encode(self, texts: tf.Tensor) -> GraphAligned:
        """The pieces of texts: string [N] -> `GraphAligned`; ids are those of
        `GraphTokenizer.ids`."""
        texts = encode(decode(texts))               # replaces invalid characters
        cleaned = self._tokenizer.clean(texts)
        begins, ends, characters = self._source(texts, cleaned)
        ids, shapes = self._parts.of(*self._tokenizer.pieces(cleaned))
        size, before, after = (shapes[:, i] for i in range(3))                          # [P]
        begin = tf.gather(begins.row_starts(), ids.value_rowids())     # of the text of each piece
        end = tf.gather(begins.row_limits(), ids.value_rowids()) - 1
        last = tf.cumsum(size)
        last += begin - tf.gather(tf.concat([[0], last], 0), tf.gather(
            ids.row_splits, ids.value_rowids()))
        first = tf.minimum(last - size + before, end)
        last -= after
        # A piece without a character, such as a later byte, belongs to that of the piece before.
        first = tf.where_v2(tf.equal(size, 0), last - 1, first)
        is_empty = first >= last
        starts = tf.gather(begins.flat_values, first)
        stops = tf.where_v2(is_empty, starts, tf.gather(ends, tf.maximum(last - 1, 0)))
        stops = _no_earlier_than_before(starts, stops, is_empty)
        base = tf.gather(characters, ids.value_rowids())
        return GraphAligned(ids, ids.with_flat_values(starts - base),
                            ids.with_flat_values(stops - base))

    def _source(self, texts, cleaned):
        """Sources of what SentencePiece cuts, indices in R: (the first characters, ragged [N, (S)],
        the characters behind the last ones [S], where each text begins [N+1])."""
        codes = decode(texts)
        rows = codes.row_splits + tf.range(tf.size(codes.row_splits, out_type=tf.int64))
        with_ends = tf.concat([codes, tf.fill([codes.nrows(), 1], 0)], axis=1)
        is_end = tf.scatter_nd(rows[1:, None] - 1, tf.ones_like(rows[1:]), rows[-1:]) > 0   # [R]
        size, is_free = self._cleaned_sizes.of(with_ends, is_end)
        reached = tf.cumsum(size)                    # bytes of the cleaned texts up to there, [R]
        base = tf.gather(tf.concat([[0], reached], 0), rows)                          # [N+1]
        as_expected = tf.debugging.assert_equal(
            base[1:] - base[:-1], tf.cast(tf.strings.length(cleaned), tf.int64),
            message="cleaning and its offsets differ")
        with tf.control_dependencies([as_expected]):
            made = self._cut(cleaned)
        places = made.flat_values + tf.gather(base, made.value_rowids())
        begins = tf.searchsorted(reached, places, side="right", out_type=tf.int64)       # [S]
        begins = tf.tensor_scatter_nd_update(begins, made.row_splits[1:, None] - 1, rows[1:] - 1)
        # Several characters of one source, such as …, all end where the next source begins.
        behind = tf.searchsorted(places, places, side="right", out_type=tf.int64)
        behind = tf.gather(places, tf.minimum(behind, tf.size(places, out_type=tf.int64) - 1))
        holder = tf.searchsorted(reached, behind - 1, side="right", out_type=tf.int64)
        # A character that cleaning removes, such as a combining accent, belongs to the one before.
        free = tf.where(is_free)[:, 0]
        found = tf.searchsorted(free, holder, side="right", out_type=tf.int64)
        ends = tf.gather(free, tf.minimum(found, tf.size(free, out_type=tf.int64) - 1))
        ends = tf.tensor_scatter_nd_update(ends, made.row_splits[1:, None] - 1, rows[1:] - 1)
        return made.with_flat_values(begins), ends, rows

    def _cut(self, cleaned):
        """Where the S characters begin, in bytes of their cleaned text; the end of a text has the
        end of its last one: ragged int64 [N, (S)]."""
        units, starts, limits = self._characters.tokenize_with_offsets(cleaned)
        inner = each_replaced(units, tf.ragged.constant(
            self._places, tf.int64, row_splits_dtype=tf.int64))
        count = tf.gather(tf.constant(list(map(len, self._places)), tf.int64), units.flat_values)
        begins = inner.with_flat_values(
            inner.flat_values + tf.repeat(tf.cast(starts.flat_values, tf.int64), count))
        stop = tf.maximum(tf.reduce_max(limits, axis=1), 0)               # without units: 0
        return tf.concat([begins, tf.cast(stop, tf.int64)[:, None]], axis=1)


def _no_earlier_than_before(starts, ends, is_empty):
    """Ends that never decrease, as those of empty pieces could. A space inside of a character, such
    as in the decomposition of ﷺ, is part of it."""
    kept = tf.concat([[0], tf.boolean_mask(ends, ~is_empty)], 0)
    before = tf.gather(kept, tf.cumsum(tf.cast(~is_empty, tf.int64)))
    return tf.where_v2(is_empty, tf.maximum(starts, before), ends)


class _CleanedSizes:
    """The number of bytes that cleaning makes of each character."""

    def __init__(self, tokenizer: Tokenizer):
        self._rows, begins, values = character_table(
            _cleaner(tokenizer.uncased, tokenizer.keep_accents))
        made = np.append(0, np.cumsum([len(chr(code).encode()) for code in values.tolist()]))
        self._sizes = np.diff(made[begins]).astype(np.int64)
        codes = space_codes()
        self._is_space = np.zeros(max(codes) + 2, bool)
        self._is_space[list(codes)] = True

    def of(self, codes, is_end):
        """Characters and ends, ragged int32 [N, (characters)], bool [R] -> bytes, int64 [R], 0 of
        ends; and bool [R]: whether it has bytes, or is a space or an end."""
        flat = codes.flat_values
        is_space = tf.gather(tf.constant(self._is_space),
                             tf.minimum(flat, len(self._is_space) - 1)) & ~is_end
        size = 1 + sum(tf.cast(flat >= first, tf.int64) for first in (0x80, 0x800, 0x10000))
        rows = tf.gather(tf.constant(self._rows), tf.minimum(flat, len(self._rows) - 1))
        size = tf.where_v2(rows < 0, size, tf.gather(
            tf.constant(np.append(self._sizes, 0)), tf.maximum(rows, 0)))
        size = tf.where_v2(is_space, tf.cast(self._keeps(codes, is_space, is_end), tf.int64), size)
        is_second = tf.zeros_like(is_end)
        for mark in "`'":                               # two of which become one
            is_second |= _second_of_two(tf.equal(flat, ord(mark)))
        size = tf.where_v2(is_end | is_second, tf.constant(0, tf.int64), size)
        return size, (size > 0) | is_space | is_end

    @staticmethod
    def _keeps(codes, is_space, is_end):
        """Whether it is the first space between two words: bool [R]."""
        is_word = ~is_space & ~is_end
        after_word = tf.concat([[False], is_word[:-1]], 0)
        words = tf.cumsum(tf.cast(is_word, tf.int64))
        of_text = tf.gather(words, codes.row_limits() - 1)          # with those before it
        return is_space & after_word & (words < tf.gather(of_text, codes.value_rowids()))


@functools.cache      # the same function again, so that its table is made once
def _cleaner(uncased, keep_accents):
    return functools.partial(clean_text, lower=uncased, remove_space=False,
                             keep_accents=keep_accents)


def _second_of_two(is_mark):
    """The second, fourth, ... of adjacent marks: bool [R] -> [R]."""
    place = tf.range(tf.size(is_mark, out_type=tf.int64))
    others = tf.concat([[-1], tf.boolean_mask(place, ~is_mark)], 0)
    before = tf.gather(others, tf.cumsum(tf.cast(~is_mark, tf.int64)))    # the last other one
    return is_mark & tf.equal((place - before) % 2, 0)


class _Parts:
    """The rule for commas after digits, with the shapes of pieces (`offsets.piece_shape`)."""

    def __init__(self, tokenizer: Tokenizer):
        shapes = piece_shapes(tokenizer)
        made = []
        for id, shape in enumerate(shapes.tolist()):
            ids = tokenizer.split_ids.get(id, [id])
            pieces = tokenizer.split_pieces.get(tokenizer.id_to_piece(id), [None])
            made.append([(part, *(piece_shape(piece) if part == tokenizer.unk_id and piece
                                  else shape if part == id else shapes[part].tolist()))
                         for part, piece in zip(ids, pieces)])
        self._unk_id = tokenizer.unk_id
        self._table = np.array([part for parts in made for part in parts], np.int64)    # [parts,4]
        self._splits = np.cumsum([0, *map(len, made)])

    def of(self, ids, pieces):
        """Ids and pieces, ragged [N, (pieces)] -> ids with commas split off, ragged int32 [N, (P)],
        and the shape of each, int64 [P,3]."""
        flat = ids.flat_values
        parts = tf.gather(tf.RaggedTensor.from_row_splits(self._table, self._splits), flat)
        found, source = parts.flat_values, parts.value_rowids()                         # [P,4], [P]
        shapes = tf.where_v2(
            tf.gather(tf.equal(flat, self._unk_id), source)[:, None],
            tf.gather(_shapes_of(pieces.flat_values), source), found[:, 1:])
        return tf.RaggedTensor.from_row_splits(
            tf.cast(found[:, 0], tf.int32), tf.gather(parts.row_splits, ids.row_splits),
            validate=False), shapes


def _shapes_of(pieces):
    """`offsets.piece_shape` in the graph: string [P] -> int64 [P,3]."""
    def count(texts):
        return tf.cast(tf.strings.length(texts, unit="UTF8_CHAR"), tf.int64)
    size = count(pieces)
    before, after = (size - count(tf.strings.regex_replace(pieces, pattern % WORD_START, ""))
                     for pattern in ("^%s+", "%s+$"))
    return tf.stack([size, before, tf.where_v2(before < size, after, 0)], axis=1)


# ---- a SentencePiece model that cuts texts into characters ----

def _character_model(tokenizer):
    """A SentencePiece model that normalizes like that of the tokenizer and cuts normalized text to
    bytes, except user-defined pieces. So its offsets are those of each character.

    It only knows bytes, as it would join adjacent unknown characters.
    """
    whole, piece = ModelProto.FromString(tokenizer.model_bytes()), ModelProto.SentencePiece
    pieces = [piece(piece="<unk>", type=piece.UNKNOWN)]
    pieces += [piece(piece=text, type=piece.USER_DEFINED) for text in _user_defined(tokenizer)]
    pieces += [piece(piece="<0x%02X>" % byte, type=piece.BYTE) for byte in range(256)]
    model = ModelProto(pieces=pieces, trainer_spec=whole.trainer_spec,
                       normalizer_spec=whole.normalizer_spec)
    model.trainer_spec.model_type = TrainerSpec.CHAR
    model.trainer_spec.byte_fallback = True
    return model.SerializeToString()


def _character_places(tokenizer):
    """Where the characters of each piece of that model begin in it, in bytes; none do in a later
    byte. User-defined pieces are not normalized."""
    places = [[0]]
    for piece in _user_defined(tokenizer):
        text = piece.replace(WORD_START, " ")
        places.append([len(text[:place].encode()) for place in range(len(text))])
    return places + [[] if byte & 0xC0 == 0x80 else [0] for byte in range(256)]


def _user_defined(tokenizer):
    return [piece.piece for piece in ModelProto.FromString(tokenizer.model_bytes()).pieces
            if piece.type == ModelProto.SentencePiece.USER_DEFINED]
