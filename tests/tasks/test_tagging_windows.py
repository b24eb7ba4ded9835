"""Words as pieces, windows of sentences that are too long."""

import random

import numpy as np
import pytest
from helpers.finetuning import make_vocabulary

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.tasks.features import encoding
from xlnet.tasks.features.encoding import Layout
from xlnet.tasks.tagging import tags


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "sp.model"
    make_vocabulary(path, 37)
    return Tokenizer(str(path))


# --- Windows


def test_the_laws_of_windows():
    rng = random.Random(0)
    for _ in range(500):
        room = rng.randint(1, 30)
        sizes = [
            min(rng.choice([1, 1, 1, 2, 3, 9]), room) for _ in range(rng.randint(1, 80))
        ]
        found = tags.windows_of(sizes, room)
        owned = [word for window in found for word in range(window.own, window.own_end)]
        assert owned == list(range(len(sizes)))  # each word once, in order
        assert (len(found) == 1) == (sum(sizes) <= room)
        for window in found:
            assert window.first <= window.own < window.own_end <= window.last
            assert sum(sizes[window.first : window.last]) <= room
    # Own words have context on both sides; that of the ends is on one side.
    assert tags.windows_of([1] * 40, 16) == [
        (0, 16, 0, 12),
        (10, 26, 12, 24),
        (22, 38, 24, 36),
        (30, 40, 36, 40),
    ]


# --- Arrays


def encode(tokenizer, length, *examples):
    examples = list(map(tags.TaggedExample._make, examples))
    return tags.arrays_of(examples, tokenizer, Layout(length, long_document="split"))


def test_labels_are_at_the_pieces_of_words(tokenizer):
    words = ["kamat", "mi", "telok"]
    arrays, counts = encode(tokenizer, 24, (words, [1, 1, 0], [2, 0, 1]))
    ids = [
        tokenizer.ids("kamat"),
        tokenizer.ids("mi"),
        tokenizer.encode_words(["telok"], [0])[0],
    ]
    sizes, flat = list(map(len, ids)), sum(ids, [])
    padding = [0] * (22 - len(flat))
    assert counts.tolist() == [1]
    assert arrays["input_ids"].tolist() == [
        padding + flat + [tokenizer.sep_id, tokenizer.cls_id]
    ]
    assert arrays["label_ids"].tolist() == [
        padding
        + [3, *[0] * (sizes[0] - 1), 1, *[0] * (sizes[1] - 1)]
        + [2, *[0] * (sizes[2] - 1), 0, 0]
    ]
    assert np.flatnonzero(arrays["word_starts"][0]).tolist() == [
        len(padding),
        len(padding) + sizes[0],
        len(padding) + sizes[0] + sizes[1],
    ]
    counts = encoding.pop_token_counts(arrays)
    assert (counts.read.tolist(), counts.total.tolist()) == ([len(flat)], [len(flat)])
    assert {name: array.dtype for name, array in arrays.items()} == dict(
        input_ids=np.int32,
        input_mask=np.float32,
        segment_ids=np.int32,
        label_ids=np.int32,
        word_starts=np.int32,
        is_real_example=np.int32,
    )


def test_each_word_of_a_long_sentence_is_tagged_once_in_order(tokenizer):
    rng = random.Random(0)
    words = rng.choices(["kamat", "mi", "telok", "la"], k=60)
    tags = [rng.randrange(5) for _ in words]
    arrays, counts = encode(tokenizer, 16, (words, [1] * 60, tags), (["mi"], [1], None))
    assert counts[0] > 5 and counts[1] == 1 and counts.sum() == len(arrays["input_ids"])
    found = arrays["label_ids"][:-1][arrays["word_starts"][:-1] > 0]
    assert (found - 1).tolist() == tags
    assert not arrays["label_ids"][-1].any() and arrays["word_starts"][-1].sum() == 1


def test_the_end_of_a_word_that_does_not_fit_is_cut_off(tokenizer):
    arrays, counts = encode(tokenizer, 8, (["kamat" * 9, "mi"], [1, 1], [1, 0]))
    assert counts.tolist() == [2]
    assert arrays["input_ids"][0, :6].tolist() == tokenizer.ids("kamat" * 9)[:6]
    assert arrays["word_starts"].sum(axis=1).tolist() == [1, 1]
