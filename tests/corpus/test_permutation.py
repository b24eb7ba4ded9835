"""Targets and factorization orders: exact against the reference, statistical, metamorphic.

Statistical bounds: a share of N independent draws has the standard deviation sqrt(p(1 - p) / N);
it may be off by 6 of them, which happens to one of some hundred shares by chance in fewer than one
of a million runs. Seeds are fixed, so a test that passes goes on passing.
"""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.paths import SHARED, SPIECE

from xlnet.corpus import permutation
from xlnet.corpus.permutation import Random
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.model import modeling
from xlnet.settings.pretraining import SamplingSettings
from xlnet.support.errors import UserError


class Settings(SamplingSettings):
    """With the length of the first part."""

    reuse_len: int = 24

    def check_for(self, seq_len):
        permutation.check(self, seq_len, self.reuse_len)


SETTINGS = Settings(num_predict=11, perm_size=24)
TOKEN = dataclasses.replace(SETTINGS, mask_mode="token")
LEGACY = dataclasses.replace(SETTINGS, reuse_len=32, perm_size=32, mask_mode="legacy")
LENGTH = 64
# Words of 1 to 6 pieces, one of 13 (longer than a word is taken to be), A's <sep> at 45, and at
# the end <sep> <cls>.
WORDS = [
    None if each == "-" else int(each)
    for each in "1 3 1 2 6 1 1 4 2 3 1 1 2 1 13 2 1 - 5 1 2 1 1 3 1 1 1 - -".split()
]
# What the seed 0 draws for the first two streams.
POSITIONS = [
    [4, 5, 6, 10, 32, 33, 34, 35, 37, 38, 39],
    [13, 14, 15, 16, 24, 25, 41, 51, 52, 53, 61],
]
RANK = [
    int(each)
    for each in (
        "-1 -1 -1 -1 18 12 8 -1 -1 -1 20 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 "
        "24 24 24 24 24 24 24 24 36 43 35 30 24 42 47 37 24 24 24 24 24 28 24 24 "
        "24 24 24 24 24 24 24 24 24 24 24 24 24 24 71 61 "
    ).split()
]


def text(words=WORDS):
    """`is_special` and `word_start`, bool [Q], of words given by their lengths."""
    is_special, starts = [], []
    for size in words:
        is_special += [size is None] * (size or 1)
        starts += [True] + [False] * ((size or 1) - 1)
    return np.array(is_special), np.array(starts)


def mirrored(is_special, word_start):
    """The same text as a backward stream has it: a word begins at what was its last piece."""
    return is_special[::-1], np.append(word_start[1:], True)[::-1]


def draw(rows, settings=SETTINGS, direction=0, of=None):
    """Draws `rows` sequences, of one text or of one each; returns `Sampled` and the targets, bool
    [rows,Q]."""
    shape = rows, np.shape((of or text())[0])[-1]
    is_special, word_start = [np.broadcast_to(array, shape) for array in of or text()]
    drawn = permutation.sample(
        Random(0, 0, np.arange(rows), np.zeros(rows, int)),
        is_special,
        word_start,
        np.broadcast_to(direction, rows),
        settings,
        settings.reuse_len,
    )
    picked = np.zeros(is_special.shape, bool)
    used = np.nonzero(drawn.weights)
    picked[used[0], drawn.positions[used]] = True
    return drawn, picked


def assert_share(found, expected, draws):
    """Six standard deviations of a share of `draws`."""
    bound = 6 * np.sqrt(expected * (1 - expected) / draws)
    assert np.all(np.abs(found - expected) <= bound), (found, expected, bound)


@pytest.mark.parametrize("number", range(6))
def test_ranks_give_the_reference_masks(graph, golden, number):
    case = golden("any.permutation")
    given = case.group(f"in/{number}/")
    special = np.isin(
        given["inputs"], (case.settings["sep_id"], case.settings["cls_id"])
    )
    permuted = given["is_masked"] | special
    rank = permutation.ranks_of_order(given["order"][None], permuted[None])
    is_target = (given["is_masked"] & ~special)[None]
    mask = modeling.permutation_mask(tf.constant(rank), tf.constant(is_target))
    with tf.Session() as session:
        hidden = session.run(mask.dense())[0]
    np.testing.assert_array_equal(hidden, case[f"out/{number}/perm_mask"] > 0)


# ---- exact ----


@pytest.mark.parametrize("settings", [SETTINGS, TOKEN])
def test_budgets_are_exact(settings):
    drawn, picked = draw(500, settings)
    assert picked.sum(axis=1).tolist() == [11] * 500
    assert (drawn.weights == 1).all() and (np.diff(drawn.positions, axis=1) > 0).all()
    assert not picked[:, text()[0]].any()
    # 24 of the 61 tokens are in the first part: 11 * 24 / 61 = 4.3 targets, 4 or 5.
    first = picked[:, :24].sum(axis=1)
    assert set(first) == {4, 5}
    assert_share(np.mean(first == 5), 11 * 24 / 61 - 4, 500)


def test_one_seed_draws_these():
    """The numbers of Philox and all that is made of them, for good: a run can be resumed."""
    drawn, _ = draw(2)
    assert drawn.positions.tolist() == POSITIONS
    assert drawn.rank[0].tolist() == RANK


def test_every_key_has_numbers_of_its_own():
    keys = list(itertools.product((0, 1), repeat=4))
    numbers = [
        Random(seed, epoch, [stream], [sequence]).uniform(50)
        for seed, epoch, stream, sequence in keys
    ]
    again = Random(0, 0, [0], [0])
    parts = [again.uniform(50), again.uniform(7), again.uniform(50)]
    values = np.concatenate([n.ravel() for n in numbers + parts[1:]])
    assert len(set(values.tolist())) == len(values)
    np.testing.assert_array_equal(parts[0], numbers[0])


def test_words_are_whole_but_for_one_a_part():
    """Counted with words read off the list of their lengths."""
    _, picked = draw(3000)
    cut = np.zeros((3000, 2), int)
    position = 0
    for size in WORDS:
        end = position + (size or 1)
        if (size or 99) <= permutation.LONGEST_WORD:
            for part, (low, high) in enumerate(((0, 24), (24, 64))):
                # A word ends where a part ends.
                of_word = picked[:, max(low, position) : min(high, end)]
                some = of_word.sum(axis=1)
                cut[:, part] += (0 < some) & (some < of_word.shape[1])
        position = end
    assert position == LENGTH and cut.max() == 1


# ---- statistical: chances ----


@pytest.mark.parametrize(
    "settings",
    [SETTINGS, TOKEN, dataclasses.replace(SETTINGS, num_predict=50, mask_beta=2)],
    ids=["whole_word", "token", "50"],
)
@pytest.mark.parametrize("backward", [False, True])
def test_every_token_has_the_same_chance(settings, backward):
    """Whatever its word's length, its place, its part, the direction and the budget."""
    is_special, word_start = mirrored(*text()) if backward else text()
    _, picked = draw(10000, settings, of=(is_special, word_start))
    assert_share(picked.mean(axis=0)[~is_special], settings.num_predict / 61, 10000)


def test_both_directions_draw_the_same_spans():
    """Metamorphic: of the mirrored text neighbours are picked together as often."""
    forward = [array[24:] for array in text()]
    shares = []
    for seed, of in enumerate((forward, mirrored(*forward))):
        rows = [np.tile(array, (10000, 1)) for array in of]
        random = Random(seed, 0, range(10000), [0] * 10000)
        budgets = np.full(10000, 7)
        picked = permutation.sample_targets(random, *rows, budgets, SETTINGS)
        shares.append((picked[:, 1:] & picked[:, :-1]).mean(axis=0))
    a, b = shares[0], shares[1][::-1]
    bound = 6 * np.sqrt(2 * (a + b) / 2 * (1 - (a + b) / 2) / 10000)
    assert np.all(np.abs(a - b) <= bound + 1e-12)


def test_ngrams_have_sizes_with_weight_1_over_n():
    """Of 400 words; the seam and the end of the lap may shorten 3 of about 72 n-grams or more."""
    rows, length = 200, 400
    words = permutation._Words(
        np.zeros((rows, length), bool), np.ones((rows, length), bool)
    )
    dice = np.random.default_rng(0).random((rows, length + 1))
    ngram = permutation._ngrams(words, dice[:, 1:], dice[:, :1])
    sizes = np.concatenate([np.bincount(row) for row in ngram])
    share = np.bincount(sizes)[1:] / len(sizes)
    expected = 1 / np.arange(1, 6)
    expected /= expected.sum()
    assert np.bincount(sizes)[0] == 0 and len(share) == 5
    deviation = 6 * np.sqrt(expected * (1 - expected) / len(sizes))
    assert (np.abs(share - expected) < deviation + 3 / 100).all()


def test_spans_lie_evenly():
    """With a budget of 1/6 each six n-grams in a row give about one: the halves of the text differ
    by much less than if tokens were drawn without looking at each other (hypergeometric)."""
    settings = dataclasses.replace(TOKEN, reuse_len=48, num_predict=16)
    _, picked = draw(5000, settings, of=(np.zeros(96, bool), np.ones(96, bool)))
    left = picked[:, :24].sum(axis=1)  # half of the first part, 4 of its 8 targets
    by_lot = np.sqrt(8 * 0.5 * 0.5 * 40 / 47)
    assert abs(left.mean() - 4) < 6 * by_lot / np.sqrt(5000)
    assert left.std() < 0.6 * by_lot


# ---- orders ----


@pytest.mark.parametrize("perm_size", [24, 7, 64])  # 7: a cut chunk is the last
def test_parts_are_set_apart(perm_size):
    """The first part is blind to the second, the second sees all of the first."""
    is_special, _ = text()
    drawn, picked = draw(1, dataclasses.replace(SETTINGS, perm_size=perm_size))
    rank, is_target = drawn.rank[0], picked[0]
    hidden = (rank + 1 - is_target)[:, None] <= rank[None]
    assert hidden[:24, 24:].all()
    assert not hidden[24:, :24].any()
    ordered = is_target | is_special
    for part in (slice(0, 24), slice(24, 64)):
        inner, own = hidden[part, part], ordered[part]
        assert not inner[:, ~own].any()  # plain tokens: seen by all
        assert inner[~own][:, own].all()  # and they see no permuted one
        assert inner[np.diag_indices(len(own))].tolist() == is_target[part].tolist()


def test_all_orders_are_equally_frequent():
    """Each of the 24 orders of four tokens; a token that is not permuted takes no part."""
    permuted = np.tile(np.array([1, 1, 0, 1, 1], bool), (24000, 1))
    rank = permutation.uniform(Random(0, 0, range(24000), [0] * 24000), permuted, 5)
    assert (rank[:, 2] == -1).all()
    orders = np.argsort(rank[:, [0, 1, 3, 4]], axis=1) @ [64, 16, 4, 1]
    _, counts = np.unique(orders, return_counts=True)
    assert len(counts) == 24
    assert_share(counts / 24000, 1 / 24, 24000)


@pytest.fixture
def own_order(monkeypatch):
    """A function that registers an order for one test, and returns settings that name it."""
    monkeypatch.setattr(permutation, "ORDERS", dict(permutation.ORDERS))

    def register(order):
        permutation.register_order(order)
        return dataclasses.replace(SETTINGS, factorization_order=order.__name__)

    return register


def test_the_library_s_order_stays(own_order):
    def uniform(random, is_permuted, perm_size):
        return np.where(is_permuted, 0, -1)

    with pytest.raises(ValueError, match="found the name 'uniform'"):
        own_order(uniform)


def test_as_many_targets_as_a_sequence_can_have():
    """Legacy takes half of them from each part."""
    for settings, most in (
        (SETTINGS, LENGTH - 3),
        (LEGACY, LENGTH - 3),
        (dataclasses.replace(LEGACY, reuse_len=8), 16),
        (dataclasses.replace(LEGACY, reuse_len=60), 9),
    ):
        dataclasses.replace(settings, num_predict=most).check_for(LENGTH)
        with pytest.raises(UserError, match=f"^num_predict: .*at most {most} for"):
            dataclasses.replace(settings, num_predict=most + 1).check_for(LENGTH)


def test_an_order_of_ones_own(own_order):
    def left_to_right(random, is_permuted, perm_size):
        return np.where(is_permuted, np.arange(is_permuted.shape[1]), -1)

    settings = own_order(left_to_right)
    settings.check_for(LENGTH)
    drawn, picked = draw(1, settings)
    # Of each part, from the left; the second part comes after all of the first.
    targets = np.flatnonzero(picked[0])
    assert (np.diff(drawn.rank[0, targets]) > 0).all()


@pytest.mark.parametrize(
    "ranks, said",
    (
        (lambda shape: np.zeros(shape, np.int32), "from 0 to 0, expected .* 0 to 23"),
        (lambda shape: np.zeros(shape, np.float32), "float32"),
        (lambda shape: np.zeros(shape[1], np.int32), "\\(24,\\)"),
    ),
)
def test_wrong_ranks_of_an_order_are_refused(own_order, ranks, said):
    def wrong(random, is_permuted, perm_size):
        return ranks(is_permuted.shape)

    with pytest.raises(UserError, match="factorization_order wrong: found .*" + said):
        draw(1, own_order(wrong))


def test_given_targets_fill_slots_from_the_left():
    is_target = np.zeros((2, LENGTH), bool)
    is_target[0, [3, 30, 31]] = True
    positions, weights = permutation._positions(is_target, 11)
    assert positions[0].tolist() == [3, 30] + [31] * 9
    assert positions[1].tolist() == [63] * 11  # <cls>: no target is hidden
    np.testing.assert_array_equal(weights, [[1] * 3 + [0] * 8, [0] * 11])


# ---- the reference's rule ----


def simulate_reference(rng, starts, goal):
    """Its rule in other words, a token at a time: mask of one part, alpha 6, beta 1."""
    mask, at = np.zeros(len(starts), bool), 0
    while mask.sum() < goal:
        n = rng.choice([1, 2, 3, 4, 5], p=np.array([60, 30, 20, 15, 12]) / 137)
        n = min(n, goal - mask.sum())
        skip = rng.integers(6 * n)
        following = np.flatnonzero(starts[at + skip :]) + at + skip
        if not len(following) or following[0] + n >= len(starts):
            break
        mask[following[0] : following[0] + n] = True
        at = following[0] + n + 6 * n - skip
    while mask.sum() < goal:
        mask[rng.integers(len(starts))] = True
    return mask


@pytest.mark.parametrize("backward", [False, True])
def test_legacy_draws_as_the_reference_does(backward):
    is_special, word_start = text()
    # The rule reads backward sequences as the text runs, and takes word starts by piece.
    of = (is_special[::-1], word_start[::-1]) if backward else (is_special, word_start)
    _, picked = draw(10000, LEGACY, direction=int(backward), of=of)
    rng, expected = np.random.default_rng(1), np.zeros(LENGTH)
    # The parts of a backward sequence are those of the mirrored text, each read as text runs.
    parts = ((32, 64, 6), (0, 32, 5)) if backward else ((0, 32, 6), (32, 64, 5))
    for low, high, goal in parts:
        for _ in range(1500):
            masked = simulate_reference(rng, word_start[low:high], goal)
            expected[low:high] += masked / 1500
    expected[is_special] = 0
    found = picked.mean(axis=0)[:: -1 if backward else 1]
    bound = 6 * np.sqrt(expected * (1 - expected) * (1 / 1500 + 1 / 10000)) + 1e-3
    assert (np.abs(found - expected) <= bound).all()
    # Its chances are uneven: why it is not the default.
    assert np.ptp(found[~is_special]) > 0.1


def test_legacy_leaves_slots_empty_where_special_tokens_were_drawn():
    drawn, picked = draw(500, LEGACY)
    used = drawn.weights.sum(axis=1)
    assert used.max() == 11 and 6 < used.min() < 11
    assert not picked[:, text()[0]].any()
    np.testing.assert_array_equal(picked.sum(axis=1), used)


RECORDS = SHARED / "golden" / "training" / "tfrecords"


@pytest.mark.skipif(
    not (RECORDS.is_dir() and SPIECE.exists()),
    reason="the authors' records are not there",
)
def test_legacy_predicts_the_pieces_that_the_authors_program_masks():
    """By piece: the difference of two draws of a share p in N targets has the standard deviation
    sqrt(2 p (1 - p) / N); windows overlap by half, which doubles the variance at most."""
    rows, length = 16, 128  # of a batch, as the file's name says
    (path,) = RECORDS.glob("*.tfrecords")
    column = tf.io.FixedLenFeature([length], tf.int64)
    serialized = [data.numpy() for data in tf.data.TFRecordDataset([str(path)])]
    arrays = tf.io.parse_example(serialized, dict(input=column, is_masked=column))
    ids, is_masked = arrays["input"].numpy(), arrays["is_masked"].numpy()
    tokenizer = Tokenizer(str(SPIECE), False, False)
    # The second half of each batch is read backward.
    direction = np.arange(len(ids)) % rows // (rows // 2)
    is_special = np.isin(ids, [tokenizer.sep_id, tokenizer.cls_id])
    rule = dataclasses.replace(LEGACY, reuse_len=64, num_predict=21, perm_size=64)
    of = is_special, tokenizer.is_legacy_word_start[ids]
    _, picked = draw(len(ids), rule, direction=direction, of=of)
    theirs, ours = (
        np.bincount(ids[chosen & ~is_special], minlength=tokenizer.vocab_size)
        for chosen in (is_masked > 0, picked)
    )
    assert abs(ours.sum() - theirs.sum()) < 500 and theirs.sum() == 269197
    frequent = theirs > 200
    off = (ours - theirs)[frequent] / np.sqrt(4.0 * theirs[frequent])
    assert np.abs(off).max() < 5 and np.mean(np.square(off)) < 1.5, off
