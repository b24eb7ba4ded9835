"""A pretrained network that reads texts token by token and says what may stand where.

What it has read is kept on its device as keys and values of every layer, so that a token costs the
same however long the text before it is.

Shape letters: B rows, T tokens, P blanks, V vocabulary, S slots that keep tokens.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Optional

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.config import NetworkSettings, XLNetConfig
from xlnet.engine import checkpoint, training
from xlnet.errors import UserError
from xlnet.network.incremental import IncrementalNetwork

_EMPTY = np.iinfo(np.int64).max     # the position of a slot without a token


class LanguageModel:
    """The network of a checkpoint with its output layer, in a session of its own.

    Args:
      prefix: of the checkpoint.
      objective: what it was trained on, "permutation" or "causal".
      clamp_len: as in training.

    Raises:
      UserError: the checkpoint is not whole, or has no output layer.
    """

    def __init__(self, config: XLNetConfig, prefix: str, objective: str, clamp_len: int = -1):
        if objective not in ("permutation", "causal"):
            raise UserError("%s was trained with objective=%s, expected permutation or causal"
                            % (prefix, objective))
        training.set_up_process()
        self.is_causal = objective == "causal"
        self._lock = threading.Lock()
        run = NetworkSettings(clamp_len=clamp_len).run_config(is_training=False)
        with tf.Graph().as_default() as graph:
            with training.model_scope():
                self._network = IncrementalNetwork(config, run, has_queries=not self.is_causal)
            restore = _restore(prefix)
            self._session = tf.Session(graph=graph)
            with checkpoint.reading(prefix):
                self._session.run([restore, tf.local_variables_initializer()])

    def close(self) -> None:
        self._session.close()

    @contextmanager
    def reading(self, size: int) -> Iterator[Reading]:
        """A text to be read, of which the last `size` tokens are kept; one at a time: other
        threads wait."""
        with self._lock:
            yield Reading(self._session, self._network, size, self.is_causal)


def _restore(prefix):
    """The operation that reads the network's variables from a checkpoint."""
    variables = tf.global_variables()
    comparison = checkpoint.compare(prefix, variables)
    if comparison.missing:
        raise UserError("checkpoint %s has no %s, which filling in and continuing need: give the "
                        "pretrained model; a fine-tuned one has no output layer over the vocabulary"
                        % (prefix, ", ".join(comparison.missing)))
    stored = checkpoint.weights(prefix)
    values = tf.raw_ops.RestoreV2(
        prefix=prefix, tensor_names=[stored[variable.op.name] for variable in variables],
        shape_and_slices=[""] * len(variables), dtypes=[tf.float32] * len(variables))
    return tf.group(*[variable.assign(tf.ensure_shape(value, variable.shape), read_value=False)
                      for variable, value in zip(variables, values)])


class Reading:
    """A text that is being read, in B rows that share positions: at first one.

    Args:
      size: S; when they are full the oldest token gives way to the newest.
    """

    def __init__(self, session: tf.Session, network: IncrementalNetwork, size: int,
                 is_causal: bool):
        self._session, self._network, self._is_causal = session, network, is_causal
        self._positions = np.full(size, _EMPTY)         # [S], of the slots' tokens
        self._count = 0                                 # tokens read
        session.run(network.clear, {network.size: size})

    def read(self, ids: np.ndarray, positions: Sequence[int], asked: Sequence[int] = (), *,
             hidden: Optional[np.ndarray] = None, again_from: Optional[int] = None) -> np.ndarray:
        """Reads T more tokens in each row, and says what may stand at the blanks.

        Args:
          ids: int [B,T]. positions: of the tokens in the text, [T]; they need not be in order.
          asked: positions of the P blanks, of a network that fills blanks.
          hidden: bool [T+P,T], which of these tokens each of them, and then each blank, may not
            see. None: those on its right for a causal network, none for another one.
          again_from: the number of tokens that stay as they are; those after them are forgotten.
            Only while no token has given way.

        Returns:
          Log probabilities, float32: [B,P,V] of the token at each blank; of a causal network,
          [B,1,V] of the token after the last one.
        """
        return self._run(self._network.log_probabilities, ids, positions, asked, hidden, again_from)

    def attention(self, ids: np.ndarray, positions: Sequence[int], asked: Sequence[int],
                  hidden: np.ndarray) -> list[np.ndarray]:
        """The attention probabilities of the first tokens that are read: of each layer
        [B,N,T+P,T]; arguments as of `read`."""
        found = self._run(self._network.attention, ids, positions, asked, hidden, None)
        return [layer[..., :len(positions)] for layer in found]

    def keep(self, rows: Sequence[int]) -> None:
        """Makes the rows from now on those of these numbers; one may go on as several."""
        self._session.run(self._network.select, {self._network.parents: rows})

    def _run(self, fetches, ids, positions, asked, hidden, again_from):
        tokens = len(positions)
        first = self._place(tokens, again_from)
        self._positions[first:first + tokens] = positions
        rows = np.concatenate([positions, asked]).astype(np.int64)[:, None]      # [T+P,1]
        hides = np.broadcast_to(self._positions == _EMPTY,
                                (len(rows), len(self._positions))).copy()        # [T+P,S]
        if hidden is not None:
            hides[:, first:first + tokens] |= hidden
        elif self._is_causal:
            hides |= self._positions > rows
        inputs = self._network.inputs
        return self._session.run(fetches, {
            inputs.ids: ids, inputs.asked: len(asked), inputs.first_slot: first,
            inputs.hidden: hides,
            inputs.distances: np.where(hides, 0, rows - self._positions),
            inputs.wanted: [tokens - 1] if self._is_causal else np.arange(tokens, len(rows))})

    def _place(self, tokens, again_from):
        """The first of the slots for as many tokens, side by side."""
        if again_from is not None:
            self._positions[again_from:] = _EMPTY
            self._count = again_from
        first = self._count % len(self._positions)
        if first + tokens > len(self._positions):
            raise ValueError("%d tokens at slot %d of %d" % (tokens, first, len(self._positions)))
        self._count += tokens
        return first
