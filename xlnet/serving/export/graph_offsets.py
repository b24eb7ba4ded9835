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

import numpy as np
import tensorflow.compat.v1 as tf
from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from xlnet.serving.export.graph_tokenizer import GraphTokenizer, decode, each_replaced, encode
from xlnet.tokenization.offsets import piece_shape, piece_shapes
from xlnet.tokenization.tokenizer import WORD_START, space_class

# Ragged, [N, (pieces)]: ids int32; where each piece begins and ends, in characters, int64.
GraphAligned = collections.namedtuple("GraphAligned", "ids starts ends")


def align(tokenizer: GraphTokenizer, texts: tf.Tensor) -> GraphAligned:
    """The pieces of texts: string [N] -> `GraphAligned`; ids are those of `GraphTokenizer.ids`."""
    texts = encode(decode(texts))               # replaces invalid characters
    cleaned = tokenizer.clean(texts)
    begins, ends, characters = _source(tokenizer, texts, cleaned)
    ids, shapes = _split_commas(tokenizer.plain, *tokenizer.pieces(cleaned))
    size, before, after = (shapes[:, i] for i in range(3))                              # [P]
    begin = tf.gather(begins.row_starts(), ids.value_rowids())         # of the text of each piece
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


def _source(tokenizer, texts, cleaned):
    """Sources of what SentencePiece cuts, indices in R: (the first characters, ragged [N, (S)], the
    characters behind the last ones [S], where each text begins [N+1])."""
    codes = decode(texts)
    rows = codes.row_splits + tf.range(tf.size(codes.row_splits, out_type=tf.int64))
    with_ends = tf.concat([codes, tf.fill([codes.nrows(), 1], 0)], axis=1)
    is_end = tf.scatter_nd(rows[1:, None] - 1, tf.ones_like(rows[1:]), rows[-1:]) > 0       # [R]
    size, is_free = _cleaned_sizes(tokenizer, with_ends, is_end)
    reached = tf.cumsum(size)                        # bytes of the cleaned texts up to there, [R]
    base = tf.gather(tf.concat([[0], reached], 0), rows)                              # [N+1]
    as_expected = tf.debugging.assert_equal(
        base[1:] - base[:-1], tf.cast(tf.strings.length(cleaned), tf.int64),
        message="cleaning and its offsets differ")
    with tf.control_dependencies([as_expected]):
        made = _characters(tokenizer, cleaned)
    places = made.flat_values + tf.gather(base, made.value_rowids())
    begins = tf.searchsorted(reached, places, side="right", out_type=tf.int64)           # [S]
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


def _characters(tokenizer, cleaned):
    """Where the S characters begin, in bytes of their cleaned text; the end of a text has the end
    of its last one: ragged int64 [N, (S)]."""
    model = tokenizer.sentencepiece(_character_model(tokenizer.plain), tf.int32)
    units, starts, limits = model.tokenize_with_offsets(cleaned)
    places = _character_places(tokenizer.plain)
    inner = each_replaced(units, tf.ragged.constant(places, tf.int64, row_splits_dtype=tf.int64))
    count = tf.gather(tf.constant(list(map(len, places)), tf.int64), units.flat_values)
    begins = inner.with_flat_values(
        inner.flat_values + tf.repeat(tf.cast(starts.flat_values, tf.int64), count))
    stop = tf.maximum(tf.reduce_max(limits, axis=1), 0)                   # without units: 0
    return tf.concat([begins, tf.cast(stop, tf.int64)[:, None]], axis=1)


def _no_earlier_than_before(starts, ends, is_empty):
    """Ends that never decrease, as those of empty pieces could. A space inside of a character, such
    as in the decomposition of ﷺ, is part of it."""
    kept = tf.concat([[0], tf.boolean_mask(ends, ~is_empty)], 0)
    before = tf.gather(kept, tf.cumsum(tf.cast(~is_empty, tf.int64)))
    return tf.where_v2(is_empty, tf.maximum(starts, before), ends)


def _cleaned_sizes(tokenizer, codes, is_end):
    """The bytes that cleaning makes of each character: characters and ends, ragged int32
    [N, (characters)], bool [R] -> int64 [R], 0 of ends; and bool [R]: whether it has bytes, or is a
    space or an end."""
    characters = tf.strings.unicode_encode(codes.flat_values[:, None], "UTF-8")
    is_space = tf.strings.regex_full_match(characters, "[%s]" % space_class()) & ~is_end
    # Of spaces the first one between two words is kept.
    is_word = ~is_space & ~is_end
    after_word = tf.concat([[False], is_word[:-1]], 0)
    words = tf.cumsum(tf.cast(is_word, tf.int64))
    of_text = tf.gather(words, codes.row_limits() - 1)              # with those before it
    is_kept = is_space & after_word & (words < tf.gather(of_text, codes.value_rowids()))
    is_removed = is_end | is_space & ~is_kept
    for mark in "`'":                                               # two of which become one
        is_removed |= _second_of_two(tf.equal(codes.flat_values, ord(mark)))
    size = tf.where_v2(is_space, 1, tf.strings.length(tokenizer.clean_characters(characters)))
    size = tf.cast(tf.where_v2(is_removed, 0, size), tf.int64)
    return size, (size > 0) | is_space | is_end


def _second_of_two(is_mark):
    """The second, fourth, ... of adjacent marks: bool [R] -> [R]."""
    place = tf.range(tf.size(is_mark, out_type=tf.int64))
    others = tf.concat([[-1], tf.boolean_mask(place, ~is_mark)], 0)
    before = tf.gather(others, tf.cumsum(tf.cast(~is_mark, tf.int64)))    # the last other one
    return is_mark & tf.equal((place - before) % 2, 0)


def _split_commas(tokenizer, ids, pieces):
    """The rule for commas after digits: ids and pieces, ragged [N, (pieces)] -> ids with commas
    split off, ragged int32 [N, (P)], and the shape of each (`offsets.piece_shape`), int64 [P,3]."""
    shapes = piece_shapes(tokenizer)
    made = []
    for id, shape in enumerate(shapes.tolist()):
        of_id = tokenizer.split_ids.get(id, [id])
        names = tokenizer.split_pieces.get(tokenizer.id_to_piece(id), [None])
        made.append([(part, *(piece_shape(name) if part == tokenizer.unk_id and name
                              else shape if part == id else shapes[part].tolist()))
                     for part, name in zip(of_id, names)])
    table = tf.RaggedTensor.from_row_splits(                                    # [V, (parts), 4]
        np.array([part for parts in made for part in parts], np.int64),
        np.cumsum([0, *map(len, made)]))
    parts = tf.gather(table, ids.flat_values)
    found, source = parts.flat_values, parts.value_rowids()                     # [P,4], [P]
    shapes = tf.where_v2(
        tf.gather(tf.equal(ids.flat_values, tokenizer.unk_id), source)[:, None],
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
