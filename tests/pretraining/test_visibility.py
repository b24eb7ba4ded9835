"""Law: a token that a target may not see changes nothing in the query stream of that target.

Shape letters as in `modeling`.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.laws import law
from helpers.pretraining import TINY
from hypothesis import strategies as st

from xlnet.corpus import permutation
from xlnet.engine.devices import Devices
from xlnet.model import heads
from xlnet.pretraining import objectives
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import SamplingSettings

pytestmark = pytest.mark.slow

VOCABULARY = 30


@st.composite
def sequences(draw):
    """Lengths, also ones that do not divide each other, and how targets are sampled."""
    length = draw(st.integers(8, 22))
    reuse_len = draw(st.integers(1, length - 5))
    mode = draw(st.sampled_from(["whole_word", "token", "legacy"]))
    most = length - 3
    if mode == "legacy":  # half of them in each part
        most = min(most, 2 * reuse_len, 2 * (length - reuse_len) + 1)
    sampling = SamplingSettings(
        num_predict=draw(st.integers(1, most)),
        perm_size=draw(st.integers(1, length + 2)),
        mask_alpha=draw(st.integers(2, 6)),
        mask_beta=draw(st.integers(1, 2)),
        mask_mode=mode,
    )
    permutation.check(sampling, length, reuse_len)
    return length, reuse_len, sampling


def sample(length, reuse_len, sampling, direction, is_pair, seed):
    """ids and segments [Q], and `Sampled` of one sequence: the context, then A <sep> B <sep> <cls>,
    or A <sep> <cls>."""
    random = np.random.RandomState(seed)
    specials = [length - 2, length - 1] + [
        random.randint(reuse_len + 1, length - 3)
    ] * is_pair
    is_special = np.isin(np.arange(length), specials)
    segments = np.arange(length) > specials[-1] if is_pair else np.zeros(length)
    ids, is_word_start = random.randint(9, VOCABULARY, length), random.rand(1, length)
    drawn = permutation.sample(
        permutation.Random(seed, 0, [0], [0]),
        is_special[None],
        is_word_start < 0.6,
        np.array([direction]),
        sampling,
        reuse_len,
    )
    return ids, segments, is_special, drawn


def visible(drawn, is_special, reuse_len):
    """bool [P,Q], by the definition: the second part sees all of the first, which is blind to it;
    in its own part a target sees what is not permuted, and of the permuted what comes before it."""
    rank, targets = drawn.rank[0], drawn.positions[0]
    position = np.arange(len(is_special))
    is_permuted = is_special | np.isin(position, targets[drawn.weights[0] > 0])
    found = []
    for target in targets:
        in_own_part = (position < reuse_len) == (target < reuse_len)
        comes_before = ~is_permuted | (rank < rank[target])
        found.append(np.where(in_own_part, comes_before, position < reuse_len))
    return np.array(found)


NETWORKS = st.fixed_dictionaries(
    dict(
        mem_len=st.integers(0, 9),
        clamp_len=st.sampled_from([-1, 3]),
        untie_r=st.booleans(),
    )
)


@law(
    6,
    300,
    lengths=sequences(),
    direction=st.integers(0, 1),
    is_pair=st.booleans(),
    network=NETWORKS,
    seed=st.integers(0, 2**32 - 1),
)
def test_a_hidden_token_changes_nothing(lengths, direction, is_pair, network, seed):
    ids, segments, is_special, drawn = sample(*lengths, direction, is_pair, seed)
    reuse_len = lengths[1]
    sees = visible(drawn, is_special, reuse_len)  # [P,Q]
    counts = drawn.weights[0] > 0  # [P]
    influence = changes(ids, segments, drawn, direction, reuse_len, **network)
    assert not counts.any() or influence[~sees & counts[:, None]].max(initial=0) < 1e-5
    assert influence[sees & counts[:, None]].max(initial=1) > 1e-3


def changes(ids, segments, drawn, direction, reuse_len, mem_len, clamp_len, untie_r):
    """float [P,Q]: how much the loss of each target changes with each token of the sequence."""
    length, random = len(ids), np.random.RandomState(0)
    config = XLNetConfig(**dict(TINY, untie_r=untie_r), n_token=VOCABULARY)
    rows = np.tile(ids, [length + 1, 1])  # row j + 1: with another token at j
    rows[np.arange(length) + 1, np.arange(length)] = (ids + 5) % VOCABULARY
    with tf.Graph().as_default() as graph:

        def of_rows(value, dtype):
            shape = [length + 1] + [1] * np.ndim(value)
            return tf.constant(np.tile(value, shape), dtype)

        features = dict(
            seg_ids=segments,
            rank=drawn.rank[0],
            direction=direction,
            positions=drawn.positions[0],
        )
        features = {name: of_rows(x, tf.int32) for name, x in features.items()}
        mems = [of_rows(random.randn(mem_len, 8), tf.float32) for _ in range(2)]
        tf.set_random_seed(1)
        network = NetworkSettings(init_std=0.5, clamp_len=clamp_len)
        run = network.run_config(False, mem_len=mem_len, reuse_len=reuse_len)
        features["input_ids"] = tf.constant(rows, tf.int32)
        read = objectives.Batch(config, run, features, mems if mem_len else None)
        outputs, vectors = objectives.find("permutation").predict(read)
        targets = of_rows(ids[drawn.positions[0]], None)
        losses = heads.lm_loss(vectors, targets, outputs.embedding_table)  # [Q+1,P]
        as_built = Devices(None).session_config(is_training=True)
        with tf.Session(graph=graph, config=as_built) as session:
            session.run(tf.global_variables_initializer())
            found = session.run(losses)
    return np.abs(found[1:] - found[0]).T
