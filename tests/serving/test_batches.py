"""Records in memory as batches of about equal length."""

import numpy as np
import pytest

from xlnet.serving import batches


@pytest.mark.parametrize("pads", ["left", "right"])
def test_batches_are_as_long_as_their_longest_text(pads):
    """Two texts in a record; nothing but padding is cut off, and the order comes back."""
    lengths = np.random.default_rng(0).integers(1, 13, [7, 2])                    # [m,C], T = 12
    place = np.arange(12)
    is_token = place < lengths[:, :, None] if pads == "right" else \
        place >= 12 - lengths[:, :, None]
    records = {"input_ids": np.where(is_token, lengths[:, :, None], 0).reshape(7, 24),
               "input_mask": 1. - is_token.reshape(7, 24), "label_ids": np.arange(7)}
    shape = batches.Shape(12, pads, ("input_ids", "input_mask"), 4)
    numbers, outputs, sizes = [], [], []
    for some, batch in batches.by_length(records, shape, 3):
        length = batch["input_ids"].shape[1] // 2
        sizes.append(length)
        assert length == -(-lengths[some].max() // 4) * 4
        ids = batch["input_ids"].reshape(-1, 2, length)
        assert ((ids > 0).sum(axis=2) == lengths[some]).all()
        assert (batch["label_ids"] == some).all()
        numbers.append(some)
        outputs.append({"sums": ids.sum(axis=2)})
    assert sizes == sorted(sizes) and list(map(len, numbers)) == [3, 3, 1]
    assert (batches.in_order(numbers, outputs)["sums"] == lengths ** 2).all()
