"""What TFRecord files hold: each layout is written once, for the writer and for the parser.

Shape letters: Q tokens in a sequence, T tokens in a fine-tuning example.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

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
