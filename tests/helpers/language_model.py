"""A pretrained model with random weights: its directory, and its network in one forward pass."""

import functools

import numpy as np
import tensorflow.compat.v1 as tf

import xlnet
from helpers import golden, vocabulary
from helpers.networks import sizes
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import checkpoint
from xlnet.model import heads, modeling
from xlnet.runs import run_document
from xlnet.settings.network import NetworkSettings

CLAMP_LEN = 20


class Pretrained:
    """A directory as pretraining writes it."""

    def __init__(self, folder, is_causal, train=vocabulary.train_tiny_model):
        self.folder, self.is_causal = folder, is_causal
        self.objective = "causal" if is_causal else "permutation"
        self.tokenizer = Tokenizer(train(folder / "spiece.model"))
        self.config = xlnet.XLNetConfig(
            **sizes(layers=3, width=16, heads=2, inner=32),
            n_token=self.tokenizer.vocab_size,
        )
        self._run = NetworkSettings(clamp_len=CLAMP_LEN).run_config(is_training=False)
        resolved = dict(objective=self.objective, clamp_len=CLAMP_LEN)
        document = run_document.RunDocument("", "xlnet pretrain", resolved)
        run_document.write(str(folder), document, self.config)
        self.prefix = str(folder / "model.ckpt-4")
        self.weights = self._random_weights()
        arrays = dict(self.weights, global_step=np.int64(4))
        checkpoint.write_arrays(self.prefix, arrays)
        checkpoint.write_state_file(str(folder))
        self._at_once = {}

    @functools.cached_property
    def loaded(self):
        """The model of `xlnet.load`; not to be closed, as all tests share it."""
        return xlnet.load(self.folder, device="cpu")

    @property
    def model(self):
        return self.loaded.language_model()

    def _random_weights(self):
        with tf.Graph().as_default(), tf.variable_scope("model"):
            ids = tf.zeros([1, 2], tf.int32)
            outputs = self._network(ids, seg_ids=ids, positions=ids)
            heads.lm_logits(outputs.sequence, outputs.embedding_table)
            random = np.random.RandomState(1)
            shapes = {v.op.name: v.shape.as_list() for v in tf.global_variables()}
        return {
            name: (1.0 if name.endswith("gamma") else 0.0)
            + 0.5 * random.randn(*shape).astype(np.float32)
            for name, shape in shapes.items()
        }

    def _network(self, ids, positions, **inputs):
        return modeling.transformer_xl(
            self.config,
            self._run,
            input_ids=ids,
            attn_type="uni" if self.is_causal else "bi",
            query=None if self.is_causal else modeling.Query(positions=positions),
            **inputs,
        )

    def at_once(self, text, hides, positions=()):
        """Log probabilities of ids [Q] in one forward pass with an explicit mask, bool [Q,Q]: of
        the tokens at `positions`, of a causal network of those after each token."""
        length = len(text)
        if length not in self._at_once:
            self._at_once[length] = self._build(length)
        run, (ids, hidden, asked) = self._at_once[length]
        return run({ids: [text], hidden: [hides], asked: [positions]})[0]

    def _build(self, length):
        with tf.Graph().as_default() as graph, tf.variable_scope("model"):
            inputs = (
                tf.placeholder(tf.int32, [1, length]),
                tf.placeholder(tf.bool, [1, length, length]),
                tf.placeholder(tf.int32, [1, None]),
            )
            outputs = self._network(inputs[0], mask=inputs[1], positions=inputs[2])
            logits = heads.lm_logits(outputs.sequence, outputs.embedding_table)
            said, session = tf.nn.log_softmax(logits), tf.Session(graph=graph)
            golden.load(
                session, {v: self.weights[v.op.name] for v in tf.global_variables()}
            )
        return lambda feeds: session.run(said, feeds), inputs


def hidden_in_order(length, order):
    """The mask [Q,Q] of a factorization order, by its definition: tokens that are not in the order
    are known, so all see them; a token of the order sees them and those before it."""
    rank = np.full(length, -1)
    rank[order] = np.arange(len(order))
    hidden = rank > rank[:, None]
    hidden[order, order] = True
    return hidden
