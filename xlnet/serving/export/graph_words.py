"""The words of texts inside of a TensorFlow graph, as `tagged_files.find_words` has them.

Shape letters: N texts, W words.
"""

from __future__ import annotations

import functools
import sys

import tensorflow.compat.v1 as tf

from xlnet.tasks.files.tagged_files import kind_of
from xlnet.tokenization.tokenizer import character_class, space_class

_END = "\x01"            # behind a word; in a text it is no part of one, and so is its neighbour


def find(texts: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
    """The words of texts, string [N] -> string [N, (W)]; whether each comes after a space or begins
    its text, bool [N, (W)]; and its first character in the text and the one after its last one,
    int32 [N, (W)] twice."""
    letter, digit, single, mark, none = _classes()
    texts = tf.strings.regex_replace(texts, _END, "\x02")
    marked = tf.strings.regex_replace(
        texts, "([{0}][{0}{3}]*|[{1}][{1}{3}]*|[{2}][{3}]*|[{3}]+)".format(
            letter, digit, single, mark), "\\1" + _END)
    # Each part, except the last one, is a word with the characters between it and the one before.
    parts = tf.strings.split(marked, _END, result_type="RaggedTensor")[:, :-1]
    words = tf.strings.regex_replace(parts.flat_values, "^[%s]+" % none, "")
    is_first = tf.equal(tf.ragged.range(parts.row_lengths()).flat_values, 0)
    begins = is_first & tf.equal(words, parts.flat_values)
    after = tf.strings.regex_full_match(
        parts.flat_values, "[%s]*[%s][^%s]+" % (none, space_class(), none))
    size, length = (tf.strings.length(each, unit="UTF8_CHAR")
                    for each in (words, parts.flat_values))
    ends = tf.concat([[0], tf.cumsum(length)], axis=0)
    ends = ends[1:] - tf.gather(tf.gather(ends, parts.row_starts()), parts.value_rowids())
    return tuple(map(parts.with_flat_values, (words, begins | after, ends - size, ends)))


@functools.cache
def _classes():
    """The characters of each kind, as RE2 has them."""
    codes: dict[str, list[int]] = {}
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:
            codes.setdefault(kind_of(chr(code)), []).append(code)
    return [character_class(codes[kind]) for kind in ("letter", "digit", "single", "mark", "")]
