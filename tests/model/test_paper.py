"""The network against the one of docs/explanation/paper.md: float64 NumPy, written from the paper;
with random settings."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers import paper_page
from helpers.golden import assert_close

import xlnet
from xlnet.model import heads, modeling

PAPER = paper_page.load()

CASES = range(120 if os.environ.get("XLNET_TEST_ALL") else 12)
PLAIN = dict(use_tpu=False, use_bfloat16=False, dropout=0.0, dropatt=0.0)
RUNS = 3  # of one session: a network that writes out of bounds is right the first time


class Case:
    """Settings and inputs that a seed decides; the first ones have one head, then one token."""

    def __init__(self, seed):
        self.random = random = np.random.RandomState(seed)
        pick = lambda *values: values[random.randint(len(values))]
        self.config = xlnet.XLNetConfig(
            n_layer=pick(1, 2, 3),
            d_model=pick(2, 4, 8),
            n_head=1 if seed < 6 else pick(1, 2, 3),
            d_head=pick(3, 64) if seed < 3 else pick(1, 3, 4, 64),
            d_inner=pick(1, 5, 8),
            untie_r=pick(True, False),
            ff_activation=pick("relu", "gelu", "gelu_erf"),
            n_token=11,
        )
        self.batch = pick(1, 2, 3)
        self.length = 1 if seed in (5, 6, 7) else pick(1, 2, 5, 9, 20)
        self.memory = pick(0, 0, 1, 7)
        self.is_causal = pick(True, False, False)
        self.same_length = self.is_causal and pick(True, False)
        self.has_segments = pick(True, False)
        self.has_direction = not self.is_causal and pick(True, False)
        self.targets = 0 if self.is_causal else pick(0, 1, self.length)
        self.clamp_len = pick(-1, -1, 2)
        self.mem_len, self.reuse_len = pick(None, 1, 5, 30), pick(None, 1, self.length)
        if seed < 3:  # the smallest network that wrote out of bounds
            self.batch, self.length, self.memory, self.targets = 3, 9, 0, 0
            self.has_direction = False
        self.kernels = pick("cpu", "gpu", "xla")
        self.is_training, self.recompute = pick(True, False), pick(True, False)

    def inputs(self):
        """Arrays for `modeling.transformer_xl`, and the mask of each sequence over all keys."""
        random, shape = self.random, [self.batch, self.length]
        sizes = self.config.n_layer, self.batch, self.memory, self.config.d_model
        mems = random.randn(*sizes)
        hidden = np.random.RandomState(0).rand(*shape, self.length) < 0.5
        hidden &= not self.is_causal
        arrays = dict(
            ids=random.randint(0, 11, shape),
            segments=random.randint(0, 3, shape),
            direction=random.randint(0, 2, self.batch) * self.has_direction,
            targets=random.randint(0, self.length, [self.batch, self.targets]),
            mems=mems.astype(np.float32),
            hidden=hidden,
        )
        of_memory = np.zeros(shape + [self.memory], bool)
        masked = np.concatenate([of_memory, hidden], axis=-1)
        if self.is_causal:
            keys = np.arange(-self.memory, self.length)
            ahead = keys - np.arange(self.length)[:, None]
            masked = masked | (ahead > 0) | (self.same_length & (ahead < -self.memory))
        return arrays, masked

    def expected(self, weights, arrays, masked):
        """(outputs [B,P or Q,D], new memories [L,B,M',D] before `mem_len` cuts them)."""
        found = []
        for b in range(self.batch):
            one = PAPER.network(
                weights,
                self.config,
                arrays["ids"][b],
                masked[b],
                arrays["mems"][:, b],
                arrays["segments"][b] if self.has_segments else None,
                arrays["targets"][b] if self.targets else None,
                arrays["direction"][b],
                self.clamp_len,
            )
            found.append(one)
        outputs, inputs = zip(*found)
        reused = np.stack(inputs, axis=1)[:, :, : self.reuse_len]
        return np.array(outputs), np.concatenate([arrays["mems"], reused], axis=2)

    def build(self, tensors):
        """`modeling.Outputs` of the tensors."""
        run = xlnet.RunConfig(
            is_training=self.is_training,
            **PLAIN,
            init_std=0.5,
            mem_len=self.mem_len,
            reuse_len=self.reuse_len,
            clamp_len=self.clamp_len,
            same_length=self.same_length,
            recompute=self.recompute,
            device=self.kernels,
        )
        with tf.variable_scope("model"):
            return modeling.transformer_xl(
                self.config,
                run,
                input_ids=tensors["ids"],
                seg_ids=tensors["segments"] if self.has_segments else None,
                direction=tensors["direction"] if self.has_direction else None,
                mask=None if self.is_causal else tensors["hidden"],
                mems=tf.unstack(tensors["mems"]) if self.memory else None,
                query=modeling.Query(tensors["targets"]) if self.targets else None,
                attn_type="uni" if self.is_causal else "bi",
            )


@pytest.mark.parametrize("seed", CASES)
def test_network_of_the_paper(graph, seed):
    case = Case(seed)
    rounds = [case.inputs() for _ in range(RUNS)]
    tensors = {}
    for name, value in rounds[0][0].items():
        tensors[name] = tf.placeholder(value.dtype, value.shape)
    outputs = case.build(tensors)
    fetches = outputs.sequence, outputs.new_mems or []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        by_name = {}
        for variable in tf.global_variables():
            name = variable.op.name.split("transformer/")[1]
            value = case.random.randn(*variable.shape.as_list()) * 0.3
            by_name[name] = (value + name.endswith("gamma")).astype(np.float32)
            variable.load(by_name[name], session)
        for arrays, masked in rounds:
            found, mems = session.run(
                fetches, {tensors[name]: arrays[name] for name in arrays}
            )
            wanted, kept = case.expected(by_name, arrays, masked)
            assert_close(found, wanted, "output", rtol=2e-5)
            assert len(mems) == (case.config.n_layer if case.mem_len else 0)
            for mem, want in zip(mems, kept):
                assert_close(mem, want[:, -case.mem_len :], "memory", rtol=2e-5)


def test_masks_of_the_paper(graph):
    """Those of ranks: the query stream's, and the content stream's with each token itself."""
    rank = np.array([[1, -1, 0, 2, -1], [-1, 2, 1, -1, 0]])
    is_target = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 1]], bool)
    of_sequence = modeling.permutation_mask(tf.constant(rank), tf.constant(is_target))
    position = tf.range(3, 8)
    query = modeling.with_memory(of_sequence, position, 3, "bi", same_length=False)
    content = query._replace(own_key=tf.constant([[3, 4, 5, 6, 7]]))
    with tf.Session() as session:
        found_query, found_content = session.run([query.dense(), content.dense()])
    for b in range(2):
        masked = PAPER.who_is_masked(rank[b], is_target[b], 3)
        np.testing.assert_array_equal(found_query[b], masked)
        itself = PAPER.distances_to_keys(5, 3) == 0
        np.testing.assert_array_equal(found_content[b], masked & ~itself)


def test_losses_of_the_paper(graph):
    random = np.random.RandomState(0)
    table, bias = random.randn(11, 4), random.randn(11)
    g, tokens = random.randn(2, 3, 4), random.randint(0, 11, [2, 3])
    of_targets, of_table = (tf.constant(array, tf.float32) for array in (g, table))
    found = heads.lm_loss(of_targets, tf.constant(tokens), of_table)
    with tf.Session() as session:
        session.run(tf.global_variables()[0].assign(bias.astype(np.float32)))
        found = session.run(found)
    weights = {"word_embedding/lookup_table": table}
    for b in range(2):
        wanted = PAPER.losses(weights, bias, g[b], tokens[b])
        assert_close(found[b], wanted, "losses", rtol=2e-6)
