"""Sequences to the bytes of a TFRecord file, without TensorFlow: fast, and quick to start.

Every token takes the same number of bytes, so all records of a corpus have the same size. A batch
is the empty record repeated, with its slots filled: tokens and word starts are copied record by
record as slices of the text; everything else is written for the complete batch at once.

Shape letters as in `sequences`; R bytes of a record, frame included.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xlnet.corpus import feature_spec, sequences, tfrecord
from xlnet.corpus.tfrecord import BEFORE, BEHIND
from xlnet.corpus.tokenizer import Tokenizer

_BATCH_SEQUENCES = 128  # whose bytes fit the processor's cache


class SequenceEncoder:
    """Serializes sequences as framed `tf.train.Example`s of `feature_spec.pretraining_features`."""

    def __init__(self, tokenizer: Tokenizer, seq_len: int, reuse_len: int) -> None:
        self._seq_len, self._reuse_len = seq_len, reuse_len
        # One byte a token up to 128 pieces, two up to 16,384, three up to 2 million.
        self._token_bytes = feature_spec.varint_table(
            tokenizer.vocab_size - 1
        )  # [V,bytes]
        sep = self._token_bytes[tokenizer.sep_id].tobytes()
        self._ends = sep, sep + self._token_bytes[tokenizer.cls_id].tobytes()
        width = self._token_bytes.shape[1]
        layout = feature_spec.pretraining_features(seq_len)
        sizes = {}  # [bytes] of the values of each feature
        for feature in layout:
            bytes_of_value = width if feature.name == "input" else 1
            sizes[feature.name] = bytes_of_value * int(np.prod(feature.shape))
        example, self._slots = feature_spec.empty_example(layout, sizes)
        # A record whose slots are still to be filled, and its checksum.
        self._empty = tfrecord.header(len(example)) + example + bytes(BEHIND)
        self.record_bytes = len(self._empty)  # R

    def batches(
        self, cell: sequences.Cell, direction: int, starts_stream: bool
    ) -> Iterator[bytearray]:
        """Yields the records of a cell, some hundreds at a time.

        Args:
          cell: sequences of a stream.
          direction: of the stream.
          starts_stream: whether the first sequence begins its stream.
        """
        text = memoryview(self._token_bytes[cell.reading.ids].tobytes())
        words = memoryview(cell.reading.words.tobytes())
        for low in range(0, len(cell.begins), _BATCH_SEQUENCES):
            part = slice(low, low + _BATCH_SEQUENCES)
            begins = cell.begins[part]
            a_len, b_begin, label = [column[part] for column in cell.segments]
            # Where segments end in the text of the cell.
            a_end = begins + self._reuse_len + a_len
            b_end = b_begin + self._seq_len - self._reuse_len - 3 - a_len
            batch = bytearray(self._empty * len(begins))
            view = np.frombuffer(batch, np.uint8).reshape(len(begins), -1)  # [W,R]
            self._copy_text(batch, text, words, begins, a_end, b_begin, b_end)
            examples = view[:, BEFORE:-BEHIND]
            # Segment ids, and the word starts at borders.
            sep = (self._reuse_len + a_len)[:, None]  # where A's <sep> is
            segments = examples[:, self._slots["seg_id"]]
            starts = examples[:, self._slots["word_start"]]
            np.greater(np.arange(self._seq_len), sep, out=segments, casting="unsafe")
            segments[:, -1] = 2
            starts[:, [0, self._reuse_len, -2, -1]] = 1
            np.put_along_axis(starts, np.concatenate([sep, sep + 1], axis=1), 1, axis=1)
            examples[:, self._slots["label"]] = label[:, None]
            examples[:, self._slots["direction"]] = direction
            examples[0, self._slots["starts_stream"]] = starts_stream and low == 0
            view[:, -BEHIND:] = tfrecord.checksums(map(bytes, examples))
            yield batch

    def _copy_text(
        self, batch: bytearray, text: memoryview, words: memoryview, *bounds: np.ndarray
    ) -> None:
        """Writes [begin, a_end) <sep> [b_begin, b_end) <sep> <cls> and the words of both."""
        # The tokens of a sequence are two slices of the cell: two copies, instead of one for each
        # token.
        sep, sep_cls = self._ends
        width = len(sep)
        token_slot, word_slot = (
            self._slots["input"].start,
            self._slots["word_start"].start,
        )
        target = memoryview(batch)[BEFORE:]
        for record, row in enumerate(zip(*(bound.tolist() for bound in bounds))):
            begin, a_end, b_begin, b_end = row
            # Tokens: the text up to A's end, <sep>, B, <sep> <cls>.
            start = record * self.record_bytes
            at, middle = (
                start + token_slot,
                start + token_slot + (a_end - begin) * width,
            )
            target[at:middle] = text[begin * width : a_end * width]
            target[middle : middle + width] = sep
            end = middle + width + (b_end - b_begin) * width
            target[middle + width : end] = text[b_begin * width : b_end * width]
            target[end : end + 2 * width] = sep_cls
            # Word starts of both; those of special tokens are written for the batch.
            at = start + word_slot
            target[at : at + a_end - begin] = words[begin:a_end]
            at += a_end - begin + 1
            target[at : at + b_end - b_begin] = words[b_begin:b_end]
