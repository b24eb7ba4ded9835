"""Targets beside the masks that the authors' program wrote for the same windows."""

import compare_targets
import numpy as np
import pytest
from helpers.paths import SHARED, SPIECE

from xlnet.batches.permutation import Permutation
from xlnet.records.legacy import LegacyManifest
from xlnet.tokenization.tokenizer import Tokenizer

RECORDS = SHARED / "golden" / "training" / "tfrecords"


@pytest.mark.skipif(not (RECORDS.is_dir() and SPIECE.exists()),
                    reason="the authors' records are not there")
def test_legacy_predicts_the_pieces_that_the_authors_program_masks():
    """By piece: the difference of two draws of a share p in N targets has the standard deviation
    sqrt(2 p (1 - p) / N); windows overlap by half, which doubles the variance at most."""
    manifest = LegacyManifest.read(str(RECORDS), str(SPIECE))
    tokenizer = Tokenizer(str(SPIECE), False, False)
    ids, is_masked, direction = compare_targets.read(manifest)
    is_special = np.isin(ids, [tokenizer.sep_id, tokenizer.cls_id])
    rule = Permutation(reuse_len=64, num_predict=21, perm_size=64, mask_alpha=6, mask_beta=1,
                       mask_mode="legacy")
    drawn = compare_targets.targets(ids, direction, is_special, tokenizer, rule, seed=0)
    theirs, ours = (np.bincount(ids[chosen & ~is_special], minlength=tokenizer.vocab_size)
                    for chosen in (is_masked, drawn))
    assert abs(ours.sum() - theirs.sum()) < 500 and theirs.sum() == 269197
    expected = {".": 12271, ",": 11433, "▁the": 12589, "▁of": 8489, "-": 3300}
    for piece, count in expected.items():
        id = tokenizer.ids(piece)[-1] if piece[0] != "▁" else tokenizer.ids(piece[1:])[0]
        assert theirs[id] == count, piece
    frequent = theirs > 200
    deviation = np.sqrt(4. * theirs[frequent])
    off = (ours - theirs)[frequent] / deviation
    assert np.abs(off).max() < 5 and np.mean(np.square(off)) < 1.5, (off.min(), off.max())
