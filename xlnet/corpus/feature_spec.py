"""What TFRecord files hold: each layout is written once, for the writer and for the parser.

Shape letters: Q tokens in a sequence, T tokens in a fine-tuning example.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlnet.support.errors import UserError

# dtype: "int" or "float".
Feature = collections.namedtuple("Feature", "name shape dtype")


def pretraining_features(seq_len: int) -> tuple[Feature, ...]:
    """Layout of one pretraining sequence of `seq_len` = Q tokens."""
    return (
        Feature("input", (seq_len,), "int"),  # token ids
        Feature("seg_id", (seq_len,), "int"),  # 0 context and A, 1 B, 2 <cls>
        Feature(
            "word_start", (seq_len,), "int"
        ),  # 1 where, in reading order, a word begins
        Feature("label", (), "int"),  # 1: B continues A
        Feature("direction", (), "int"),  # 0 forward, 1 backward
        Feature(
            "starts_stream", (), "int"
        ),  # 1: nothing precedes, the memory is zeroed
    )


CLASS_ID = Feature("label_ids", (), "int")  # the label of a classification


def finetuning_features(
    max_seq_length: int,
    label_features: Sequence[Feature] = (CLASS_ID,),
    num_choices: int = 1,
) -> tuple[Feature, ...]:
    """Layout of one fine-tuning example of T = `max_seq_length` × `num_choices` tokens, with what a
    task type adds (`tasks.types.contract.Head.features`)."""
    length = max_seq_length * num_choices
    return (
        Feature("input_ids", (length,), "int"),
        Feature("input_mask", (length,), "float"),  # 1 is padding
        Feature("segment_ids", (length,), "int"),
        *label_features,
        Feature("is_real_example", (), "int"),  # 0 fills up the last batch
    )


def parse(features: Sequence[Feature], serialized: Any) -> dict[str, Any]:
    """Parses a batch of serialized examples to a dict of int32 and float32 tensors `[B, ...]`."""
    import tensorflow as tf

    kinds = {"int": tf.int64, "float": tf.float32}
    layout = {}
    for name, shape, dtype in features:
        layout[name] = tf.io.FixedLenFeature(shape, kinds[dtype])
    parsed = tf.io.parse_example(serialized, layout)
    for name, value in parsed.items():
        if value.dtype == tf.int64:
            parsed[name] = tf.cast(value, tf.int32)
    return parsed


# Many examples of one layout as bytes at once, without TensorFlow. Every number takes the same
# number of bytes, so all examples of a layout have one size: an empty example is repeated, and its
# slots are filled a column at a time. Shape letters: n examples, R bytes of one.


class ExampleBytes:
    """Serializes examples of a layout; `largest`: the largest int in any of the features."""

    def __init__(self, layout: Sequence[Feature], largest: int) -> None:
        self._layout = {feature.name: feature for feature in layout}
        self._varints = varint_table(largest)  # [largest+1,bytes]
        sizes = {}
        for feature in layout:
            width = 4 if feature.dtype == "float" else self._varints.shape[1]
            sizes[feature.name] = int(np.prod(feature.shape, dtype=int)) * width
        self._empty, self._slots = empty_example(layout, sizes)

    def encode(self, columns: Mapping[str, np.ndarray]) -> list[bytes]:
        """Returns the bytes of n examples; `columns`: arrays [n, ...] of the features' shapes by
        name, ints from 0 on."""
        count = len(next(iter(columns.values())))
        view = np.tile(np.frombuffer(self._empty, np.uint8), [count, 1])  # [n,R]
        for name, values in columns.items():
            if self._layout[name].dtype == "float":
                numbers = np.ascontiguousarray(values, "<f4").view(np.uint8)
            else:
                self._check_range(name, values)
                numbers = self._varints[values]
            view[:, self._slots[name]] = numbers.reshape(count, -1)
        return [row.tobytes() for row in view]

    def _check_range(self, name: str, values: np.ndarray) -> None:
        """Raises UserError for an int without an entry in the table."""
        largest = len(self._varints) - 1
        if np.size(values) and not 0 <= np.min(values) <= np.max(values) <= largest:
            raise UserError(
                f"feature '{name}' has integers from {np.min(values)} to {np.max(values)}, "
                f"expected 0 to {largest}"
            )


def varint_table(largest: int) -> np.ndarray:
    """Varints of 0 ... `largest` of one length, which parsers accept: uint8 [largest+1,bytes]."""
    # Seven bits a byte, the lowest first, the top bit set where more follow: 300 is 10101100
    # 00000010, and 5 in as many bytes 10000101 00000000.
    width = max(1, -(-int(largest).bit_length() // 7))
    groups = np.arange(largest + 1)[:, None] >> (7 * np.arange(width)) & 127
    groups[:, :-1] |= 128  # another byte follows
    return groups.astype(np.uint8)


def empty_example(
    layout: Sequence[Feature], sizes: Mapping[str, int]
) -> tuple[bytes, dict[str, slice]]:
    """Returns the bytes of an example of zeros, and the slice of each feature's numbers; `sizes`:
    the bytes of these numbers, by name."""
    entries, ends = b"", {}
    for name, dtype in sorted((feature.name, feature.dtype) for feature in layout):
        # A map entry {key=1, value=2: Feature {float_list=2 or int64_list=3: {value=1, packed}}}.
        values = _field(2 if dtype == "float" else 3, _field(1, bytes(sizes[name])))
        entries += _field(1, _field(1, name.encode()) + _field(2, values))
        ends[name] = len(entries)
    example = _field(1, entries)
    shift = len(example) - len(entries)
    slots = {}
    for name, end in ends.items():
        slots[name] = slice(shift + end - sizes[name], shift + end)
    return example, slots


def _field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer: bytes, text or a message."""
    # 2: the wire type of contents with their length in front.
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
