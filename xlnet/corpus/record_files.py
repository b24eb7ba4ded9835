"""What TFRecord files hold: the layout of examples, their bytes, and the frame around each.

Each layout is written once, for the writer and for the parser. Examples are written without
TensorFlow, many at a time: every number of a feature takes the same number of bytes, so all
examples of a layout have one size. An empty example is repeated, and its slots are filled a column
at a time.

Shape letters: Q tokens in a sequence, T tokens in a fine-tuning example, n examples, R bytes of
one.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np

from xlnet.support import errors, files
from xlnet.support.errors import wrong

# dtype: "int", "byte" (an int from 0 to 127) or "float".
Feature = collections.namedtuple("Feature", "name shape dtype")


def pretraining_features(seq_len: int) -> tuple[Feature, ...]:
    """Layout of one pretraining sequence of `seq_len` = Q tokens."""
    return (
        Feature("input", (seq_len,), "int"),  # token ids
        Feature("seg_id", (seq_len,), "byte"),  # 0 context and A, 1 B, 2 <cls>
        # 1 where, in reading order, a word begins
        Feature("word_start", (seq_len,), "byte"),
        Feature("label", (), "byte"),  # 1: B continues A
        Feature("direction", (), "byte"),  # 0 forward, 1 backward
        # 1: nothing precedes, the memory is zeroed
        Feature("starts_stream", (), "byte"),
    )


def finetuning_features(
    max_seq_length: int, label_features: Sequence[Feature], num_choices: int
) -> tuple[Feature, ...]:
    """Layout of one fine-tuning example of T = `max_seq_length` × `num_choices` tokens, with what a
    task type adds (`tasks.contract.Task.features`)."""
    length = max_seq_length * num_choices
    return (
        Feature("input_ids", (length,), "int"),
        Feature("input_mask", (length,), "float"),  # 1 is padding
        Feature("segment_ids", (length,), "int"),
        *label_features,
        # 1; the original fills up its last batch with others, which have 0.
        Feature("is_real_example", (), "int"),
    )


def parse(features: Sequence[Feature], serialized: Any) -> dict[str, Any]:
    """Parses a batch of serialized examples to a dict of int32 and float32 tensors `[B, ...]`."""
    import tensorflow as tf

    types = {"int": tf.int64, "byte": tf.int64, "float": tf.float32}
    layout = {}
    for name, shape, dtype in features:
        layout[name] = tf.io.FixedLenFeature(shape, types[dtype])
    parsed = tf.io.parse_example(serialized, layout)
    for name, value in parsed.items():
        if value.dtype == tf.int64:
            parsed[name] = tf.cast(value, tf.int32)
    return parsed


# Examples as bytes.


class ExampleBytes:
    """Serializes examples of a layout; `largest`: the largest number of features of dtype "int"."""

    def __init__(self, layout: Sequence[Feature], largest: int) -> None:
        self._layout = layout
        self._varints = _varint_table(largest)  # [largest+1,bytes]
        widths = {"int": self._varints.shape[1], "byte": 1, "float": 4}
        # An example of zeros, whose features are in the order of their names.
        entries = b""
        self._slots = {}  # where in the entries the numbers of each feature are
        for name, shape, dtype in sorted(layout):
            size = int(np.prod(shape, dtype=int)) * widths[dtype]
            # A map entry {key=1, value=2: Feature {float_list=2 or int64_list=3: {value=1,
            # packed}}}.
            value = _field(2 if dtype == "float" else 3, _field(1, bytes(size)))
            entries += _field(1, _field(1, name.encode()) + _field(2, value))
            self._slots[name] = slice(len(entries) - size, len(entries))
        self._empty = np.frombuffer(_field(1, entries), np.uint8)  # [R]
        self._entries = slice(len(self._empty) - len(entries), None)

    def encode(self, columns: Mapping[str, np.ndarray]) -> list[bytes]:
        """Returns the bytes of n examples; `columns`: arrays [n, ...] of the features' shapes by
        name, ints from 0 on. A UserError for an int above `largest`, or below 0."""
        count = len(next(iter(columns.values())))
        examples = np.tile(self._empty, [count, 1])  # [n,R]
        entries = examples[:, self._entries]
        largest = len(self._varints) - 1
        for name, _, dtype in self._layout:
            values = columns[name]
            if dtype == "float":
                numbers = np.ascontiguousarray(values, "<f4").view(np.uint8)
            elif dtype == "byte":
                numbers = values.astype(np.uint8)
            else:
                if values.size and not 0 <= values.min() <= values.max() <= largest:
                    found = f"integers from {values.min()} to {values.max()}"
                    raise wrong(f"feature '{name}'", found, f"0 to {largest}")
                numbers = np.take(self._varints, values, axis=0)
            entries[:, self._slots[name]] = numbers.reshape(count, -1)
        return list(map(bytes, examples))


def _varint_table(largest: int) -> np.ndarray:
    """Varints of 0 ... `largest` of one length, which parsers accept: uint8 [largest+1,bytes]."""
    # Seven bits a byte, the lowest first, the top bit set where more follow: 300 is 10101100
    # 00000010, and 5 in as many bytes 10000101 00000000.
    width = max(1, -(-int(largest).bit_length() // 7))
    groups = np.arange(largest + 1)[:, None] >> (7 * np.arange(width)) & 127
    groups[:, :-1] |= 128  # another byte follows
    return groups.astype(np.uint8)


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


# The frame of an example in a TFRecord file, without TensorFlow:
#
#     | length of the data, 8 bytes | its checksum, 4 | data | checksum of the data, 4 |

_BEFORE, _BEHIND = 12, 4  # [bytes] around the data
_BLOCK = 1 << 18  # [bytes] of remote files read at once
_AGAIN = "make the records again"


def frame(data: bytes) -> bytes:
    """Returns the record of `data` in a file."""
    length = len(data).to_bytes(8, "little")
    return length + _checksum(length) + data + _checksum(data)


def _checksum(data: bytes) -> bytes:
    """TFRecord's masked CRC-32C."""
    # Masked: data may contain checksums itself, and the checksum of those is a poor one.
    checksum = google_crc32c.value(data)
    rotated = checksum >> 15 | checksum << 17 & 0xFFFFFFFF
    masked = rotated + 0xA282EAD8 & 0xFFFFFFFF
    return masked.to_bytes(4, "little")


class EqualRecords:
    """Random access to the records of a file that all have one size, as ours have.

    Of a remote file the last block that was read is kept: a request for one record takes as long as
    one for dozens.
    """

    def __init__(self, path: str, size: int | None = None):
        """size: of a record, if it is known [bytes]."""
        self._path = path
        if size is None:  # that of the first one
            with files.open_binary(path) as f:
                length = f.read(8)
            size = _BEFORE + int.from_bytes(length, "little") + _BEHIND
        self._size = size
        self._block, self._begin = b"", 0

    def __len__(self) -> int:
        total = files.size(self._path)
        if total % self._size:
            expected = f"records of {self._size} bytes"
            raise wrong(self._path, f"{total} bytes", expected)
        return total // self._size

    def read(self, number: int) -> bytes:
        """The data of the record `number`, from 0; a UserError if it is damaged."""
        begin = number * self._size
        block_end = self._begin + len(self._block)
        if begin < self._begin or begin + self._size > block_end:
            size = self._size
            if files.is_remote(self._path):
                size = max(_BLOCK, size)
            with errors.reading(self._path, _AGAIN), files.open_binary(self._path) as f:
                f.seek(begin)
                self._block, self._begin = f.read(size), begin
        at = begin - self._begin
        record = self._block[at : at + self._size]
        data = record[_BEFORE:-_BEHIND]
        if record != frame(data):  # a record of another size is of another file
            where = f"{self._path}: record {number}"
            raise wrong(where, "damage", "a record", _AGAIN)
        return data
