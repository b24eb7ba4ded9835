"""Targets beside the masks that the authors' program wrote for the same windows."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.paths import SHARED, SPIECE

from xlnet.corpus import permutation
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.pretraining import SamplingSettings

RECORDS = SHARED / "golden" / "training" / "tfrecords"


def sampled(ids, direction, is_special, is_word_start, rule):
    """What the rule predicts: bool [W,Q]."""
    is_target = np.zeros(ids.shape, bool)
    for low in range(0, len(ids), 1 << 12):
        numbers = np.arange(len(ids))[low : low + (1 << 12)]
        found = permutation.sample(
            permutation.Random(0, 0, np.zeros_like(numbers), numbers),
            is_special[numbers],
            is_word_start[ids[numbers]],
            direction[numbers],
            rule,
            64,
        )
        row, slot = np.nonzero(found.weights)
        is_target[numbers[row], found.positions[row, slot]] = True
    return is_target


@pytest.mark.skipif(
    not (RECORDS.is_dir() and SPIECE.exists()),
    reason="the authors' records are not there",
)
def test_legacy_predicts_the_pieces_that_the_authors_program_masks():
    """By piece: the difference of two draws of a share p in N targets has the standard deviation
    sqrt(2 p (1 - p) / N); windows overlap by half, which doubles the variance at most."""
    rows, length = 16, 128  # of a batch, as the file's name says
    (path,) = RECORDS.glob("*.tfrecords")
    layout = dict.fromkeys(
        ("input", "is_masked"), tf.io.FixedLenFeature([length], tf.int64)
    )
    serialized = [data.numpy() for data in tf.data.TFRecordDataset([str(path)])]
    arrays = tf.io.parse_example(serialized, layout)
    ids, is_masked = arrays["input"].numpy(), arrays["is_masked"].numpy()
    tokenizer = Tokenizer(str(SPIECE), False, False)
    # The second half of each batch is read backward.
    direction = np.arange(len(ids)) % rows // (rows // 2)
    is_special = np.isin(ids, [tokenizer.sep_id, tokenizer.cls_id])
    rule = SamplingSettings(num_predict=21, perm_size=64, mask_mode="legacy")
    drawn = sampled(ids, direction, is_special, tokenizer.is_legacy_word_start, rule)
    theirs, ours = (
        np.bincount(ids[chosen & ~is_special], minlength=tokenizer.vocab_size)
        for chosen in (is_masked > 0, drawn)
    )
    assert abs(ours.sum() - theirs.sum()) < 500 and theirs.sum() == 269197
    frequent = theirs > 200
    off = (ours - theirs)[frequent] / np.sqrt(4.0 * theirs[frequent])
    assert np.abs(off).max() < 5 and np.mean(np.square(off)) < 1.5, off
