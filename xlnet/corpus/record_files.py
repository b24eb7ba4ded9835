"""What TFRecord files hold: the layout of examples, their bytes, and the frame around each.

Each layout is written once, for the writer and for the parser. Examples are written without
TensorFlow, many at a time: every number of a feature takes the same number of bytes, so all
examples of a layout have one size. An example of zeros is repeated, and the bytes of its numbers
are replaced, a feature at a time.

Shape letters: Q tokens in a sequence, T tokens in a fine-tuning example or in each of its C
choices, n examples, R bytes of one.
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
    """Layout of one pretraining sequence of `seq_len` = Q tokens: each feature with its name, the
    shape of its numbers, and how they are stored ("byte": integers up to 127)."""
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
    """Layout of one fine-tuning example of C*T tokens, C = `num_choices` times T =
    `max_seq_length`; with `label_features`, which its task type adds
    (`tasks.contract.Task.features`)."""
    length = max_seq_length * num_choices
    return (
        Feature("input_ids", (length,), "int"),
        Feature("input_mask", (length,), "float"),  # 1 is padding
        Feature("segment_ids", (length,), "int"),
        *label_features,
        # Always 1: the original fills up its last batch with examples that have 0.
        Feature("is_real_example", (), "int"),
    )


def parse(features: Sequence[Feature], serialized: Any) -> dict[str, Any]:
    """Parses serialized examples, string [B], to tensors by the names of `features`: int32 for
    "int" and "byte", float32 for "float", [B, *shape of the feature]."""
    import tensorflow as tf

    types = {"int": tf.int64, "byte": tf.int64, "float": tf.float32}  # of the file
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
    """Serializes examples of a layout to the bytes of `tf.train.Example`.

    Args:
      layout: the features of an example.
      largest: the largest number in features of dtype "int".
    """

    def __init__(self, layout: Sequence[Feature], largest: int) -> None:
        self._layout = layout
        self._varints = _varint_table(largest)  # [largest+1,bytes]
        widths = {"int": self._varints.shape[1], "byte": 1, "float": 4}  # [bytes]
        # An example of zeros: a message whose field 1 has a map of features by name. Each entry of
        # the map ends in the numbers of its feature; entries are in the order of their names.
        entries = b""
        self._slots = {}  # where in `entries` the numbers of each feature are, by name
        for name, shape, dtype in sorted(layout):
            size = int(np.prod(shape, dtype=int)) * widths[dtype]
            # An entry {key=1, value=2: Feature {float_list=2 or int64_list=3: {value=1, packed}}}.
            numbers = _field(1, bytes(size))
            feature = _field(2 if dtype == "float" else 3, numbers)
            entries += _field(1, _field(1, name.encode()) + _field(2, feature))
            self._slots[name] = slice(len(entries) - size, len(entries))
        self._of_zeros = np.frombuffer(_field(1, entries), np.uint8)  # [R]
        # Where the entries are in the example: behind the field's number and length.
        self._entries = slice(len(self._of_zeros) - len(entries), None)

    def encode(self, columns: Mapping[str, np.ndarray]) -> list[bytes]:
        """Returns the bytes of each of n examples.

        Args:
          columns: the numbers of all examples by feature, [n, *shape of the feature]; integers of
            any dtype for "int" and "byte".

        Raises:
          UserError: a number of an "int" feature is below 0 or above `largest`.
        """
        count = len(next(iter(columns.values())))
        examples = np.tile(self._of_zeros, [count, 1])  # [n,R]
        entries = examples[:, self._entries]  # a view: what it gets, the examples get
        largest = len(self._varints) - 1
        for name, _, dtype in self._layout:
            values = columns[name]
            # The bytes of the numbers, uint8, n times as many as the feature's slot has.
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
    """The integers 0 ... `largest` as varints of protocol buffers, uint8 [largest+1,bytes], all of
    them with as many bytes as `largest` needs, which parsers accept."""
    # Seven bits a byte, the lowest first, the top bit set where more follow: 300 is 10101100
    # 00000010, and 5 in as many bytes 10000101 00000000.
    width = max(1, -(-int(largest).bit_length() // 7))  # [bytes]
    numbers = np.arange(largest + 1)[:, None]
    seven_bits = numbers >> (7 * np.arange(width)) & 127  # [largest+1,bytes]
    seven_bits[:, :-1] |= 128  # another byte follows
    return seven_bits.astype(np.uint8)


def _field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer, whose content is bytes, text or a message."""
    # 2: the wire type of contents with their length in front.
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """An integer as the shortest varint, as `_varint_table` explains it."""
    low_bytes = bytearray()
    while value > 127:
        low_bytes.append(value & 127 | 128)  # seven bits; another byte follows
        value >>= 7
    return bytes([*low_bytes, value])


# The frame of an example in a TFRecord file, without TensorFlow:
#
#     | length of the data, 8 bytes | its checksum, 4 | data | checksum of the data, 4 |

_BEFORE, _BEHIND = 12, 4  # [bytes] around the data
_BLOCK = 1 << 18  # [bytes] of remote files read at once
_REMEDY = "make the records again"


def frame(data: bytes) -> bytes:
    """Returns the record of `data` in a file: its length, the data, and the checksums of both."""
    length = len(data).to_bytes(8, "little")
    return length + _checksum(length) + data + _checksum(data)


def _checksum(data: bytes) -> bytes:
    """TFRecord's masked CRC-32C, 4 bytes."""
    # TFRecord masks it, by a rotation and a constant, as data may contain checksums itself, and the
    # checksum of those is a poor one. & 0xFFFFFFFF keeps 32 bits.
    checksum = google_crc32c.value(data)
    rotated = checksum >> 15 | checksum << 17 & 0xFFFFFFFF
    masked = rotated + 0xA282EAD8 & 0xFFFFFFFF
    return masked.to_bytes(4, "little")


class EqualRecords:
    """Random access to the records of a file that all have one size, as ours have.

    Of a remote file a block of records is read at once and kept, as a request for one record takes
    as long as one for dozens.

    Args:
      path: of the file.
      size: of a record with its frame [bytes]; None: as the first one says.
    """

    def __init__(self, path: str, size: int | None = None):
        self._path = path
        if size is None:
            with files.open_binary(path) as f:
                length = f.read(8)  # of the first record's data
            size = _BEFORE + int.from_bytes(length, "little") + _BEHIND
        self._size = size
        # The bytes that were read last, and where in the file they begin.
        self._block, self._block_begin = b"", 0

    def __len__(self) -> int:
        """The number of records; a UserError if the file does not have complete ones."""
        total = files.size(self._path)
        if total % self._size:
            expected = f"records of {self._size} bytes"
            raise wrong(self._path, f"{total} bytes", expected)
        return total // self._size

    def read(self, number: int) -> bytes:
        """The data of the record `number`, from 0; a UserError if it is damaged."""
        begin = number * self._size  # in the file
        block_end = self._block_begin + len(self._block)
        if begin < self._block_begin or begin + self._size > block_end:
            size = self._size
            if files.is_remote(self._path):
                size = max(_BLOCK, size)
            with (
                errors.reading(self._path, _REMEDY),
                files.open_binary(self._path) as f,
            ):
                f.seek(begin)
                self._block, self._block_begin = f.read(size), begin
        in_block = begin - self._block_begin
        record = self._block[in_block : in_block + self._size]
        data = record[_BEFORE:-_BEHIND]
        # The frame of the data again shows damage, and a record of another size.
        if record != frame(data):
            where = f"{self._path}: record {number}"
            raise wrong(where, "damage", "a record", _REMEDY)
        return data
