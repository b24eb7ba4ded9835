"""Fine-tuning examples as arrays, and as record files that are made once and found again.

Shape letters: T = `max_seq_length` tokens of one choice, C choices (1 unless multiple choice).
"""

import collections
import hashlib
import json
import os

import numpy as np

from xlnet import files, records
from xlnet.errors import UserError

SEG_A, SEG_B, SEG_CLS, SEG_PAD = 0, 1, 2, 4

# `A <sep> B <sep> <cls>` and one token of text.
MIN_SEQ_LENGTH = 4

# choices: ((text_a, text_b or None), ...), one pair per choice; label: an int, or a float score.
Example = collections.namedtuple("Example", "choices label")

# Part of the name of a record file: to be raised whenever other arrays come out of the same text.
_RECORDS_VERSION = 1
_EXAMPLES_AT_ONCE = 1000


def check_max_seq_length(max_seq_length):
    """Raises UserError where not even one token of text would fit."""
    if max_seq_length < MIN_SEQ_LENGTH:
        raise UserError("max_seq_length is %d, expected at least %d: special tokens and one of text"
                        % (max_seq_length, MIN_SEQ_LENGTH))


def truncated(ids_a, ids_b, budget):
    """Returns two lists of at most `budget` ids together: the longer one loses its last id until
    they fit, the second one when both are equally long."""
    length_a, length_b = len(ids_a), len(ids_b)
    while length_a + length_b > budget:
        if length_a > length_b:
            length_a -= 1
        else:
            length_b -= 1
    return ids_a[:length_a], ids_b[:length_b]


def choice_features(ids_a, ids_b, max_seq_length, cls_id, sep_id):
    """Lays out `A <sep> <cls>` (`ids_b` is None) or `A <sep> B <sep> <cls>`, padded on the left.

    Args:
      ids_a, ids_b: lists of int; what does not fit is cut off (see `truncated`).

    Returns:
      A dict of `input_ids` int32 [T] (padding 0), `input_mask` float32 [T] (1 is padding) and
      `segment_ids` int32 [T] (A and its <sep> 0, B and its <sep> 1, <cls> 2, padding 4).
    """
    check_max_seq_length(max_seq_length)
    if ids_b is None:
        ids = ids_a[:max_seq_length - 2] + [sep_id]
        segments = [SEG_A] * len(ids)
    else:
        ids_a, ids_b = truncated(ids_a, ids_b, max_seq_length - 3)
        ids = ids_a + [sep_id] + ids_b + [sep_id]
        segments = [SEG_A] * (len(ids_a) + 1) + [SEG_B] * (len(ids_b) + 1)
    ids, segments = ids + [cls_id], segments + [SEG_CLS]
    padding = max_seq_length - len(ids)
    return dict(
        input_ids=np.array([0] * padding + ids, np.int32),
        input_mask=np.array([1] * padding + [0] * len(ids), np.float32),
        segment_ids=np.array([SEG_PAD] * padding + segments, np.int32))


def example_features(choices, label, max_seq_length, cls_id, sep_id, is_regression=False):
    """Returns one example, a dict of arrays as `records.finetuning_features` lists them.

    Args:
      choices: list of (ids_a, ids_b or None), one pair per choice; their arrays are joined, [C*T].
      label: int, or a float with `is_regression`.
    """
    laid_out = [choice_features(ids_a, ids_b, max_seq_length, cls_id, sep_id)
                for ids_a, ids_b in choices]
    joined = {name: np.concatenate([each[name] for each in laid_out]) for name in laid_out[0]}
    return dict(joined, label_ids=(np.float32 if is_regression else np.int32)(label),
                is_real_example=np.int32(1))


def features_of(examples, tokenizer, max_seq_length, is_regression=False):
    """Yields the features of each `Example`; texts are tokenized a thousand examples at a time."""
    check_max_seq_length(max_seq_length)
    for start in range(0, len(examples), _EXAMPLES_AT_ONCE):
        block = examples[start:start + _EXAMPLES_AT_ONCE]
        texts = [text for example in block for pair in example.choices for text in pair]
        ids = iter(tokenizer.encode_lines([text or "" for text in texts]))
        for example in block:
            choices = []
            for _, text_b in example.choices:
                ids_a, ids_b = next(ids), next(ids)
                choices.append((ids_a, None if text_b is None else ids_b))
            yield example_features(choices, example.label, max_seq_length, tokenizer.cls_id,
                                   tokenizer.sep_id, is_regression)


def write_records(directory, name, examples, tokenizer, max_seq_length, *, labels=None,
                  batch_size=1, overwrite=False):
    """Writes examples as a TFRecord file named after its content, unless it is there already.

    Args:
      directory: where to; made if need be.
      name: how the file name begins, such as "mrpc.train".
      examples: a non-empty list of `Example`, all with the same number of choices.
      labels: tuple of label names, or None: labels are scores.
      batch_size: the last batch is filled up to it with copies of the last example that have
        `is_real_example` 0. Copies, because an example without a token has no mean.
      overwrite: write the file even if it is there.

    Returns:
      The path of the file, `<directory>/<name>.<hash>.tfrecord`.
    """
    check_max_seq_length(max_seq_length)
    settings = [_RECORDS_VERSION, tokenizer.sha256, tokenizer.uncased, tokenizer.keep_accents,
                max_seq_length, labels, batch_size]
    path = os.path.join(directory, "%s.%s.tfrecord" % (name, _content_hash(settings, examples)))
    if overwrite or not os.path.exists(path):
        layout = records.finetuning_features(max_seq_length, labels is None,
                                             len(examples[0].choices))
        values = features_of(examples, tokenizer, max_seq_length, is_regression=labels is None)
        _write(path, layout, values, padding=-len(examples) % batch_size)
    return path


def _content_hash(settings, examples):
    digest = hashlib.sha256(json.dumps(settings).encode())
    for example in examples:
        digest.update(json.dumps(example).encode())
    return digest.hexdigest()[:16]


def _write(path, layout, values, padding):
    import tensorflow as tf
    with files.replacing(path) as temporary, tf.io.TFRecordWriter(temporary) as writer:
        for value in values:
            writer.write(records.encode(layout, value))
        for _ in range(padding):
            writer.write(records.encode(layout, dict(value, is_real_example=np.int32(0))))
