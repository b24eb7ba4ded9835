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

from xlnet import errors
from xlnet.engine import train_step
from xlnet.errors import UserError
from xlnet.network.incremental import IncrementalNetwork
from xlnet.serving.loaded import LoadedModel
from xlnet.serving.session import Part, Restored, Tensors
from xlnet.settings.network import NetworkSettings, XLNetConfig

_SECONDS_FOR_ANOTHER_THREAD = 10    # to read on what this one began
_EMPTY = np.iinfo(np.int64).max     # the position of a slot without a token


def build(config: XLNetConfig, network: NetworkSettings,
          is_causal: bool) -> tuple[Tensors, Tensors]:
    """The inputs and outputs of an `IncrementalNetwork`, by its names; the attention of layer i is
    `attention/i`."""
    run = network.run_config(is_training=False)
    with train_step.model_scope(kept_in=run.precision):
        made = IncrementalNetwork(config, run, has_queries=not is_causal)
    return (dict(made.inputs._asdict(), size=made.size, parents=made.parents),
            {"log_probabilities": made.log_probabilities, "clear": made.clear,
             "select": made.select,
             **{"attention/%d" % layer: found for layer, found in enumerate(made.attention)}})


class LanguageModel:
    """A pretrained network with its output layer.

    Raises:
      UserError: its checkpoint has no output layer, or it was trained on neither of the objectives
        "permutation" and "causal".
    """

    def __init__(self, loaded: LoadedModel, restored: Restored):
        if loaded.tuned is not None:
            raise UserError("%s was fine-tuned for %s and has no output layer over the vocabulary; "
                            "expected a pretrained model" % (loaded.prefix, loaded.tuned.task.name))
        if loaded.objective not in ("permutation", "causal"):
            raise UserError("%s was trained with objective=%s, expected permutation or causal"
                            % (loaded.prefix, loaded.objective))
        self.is_causal = loaded.objective == "causal"
        self.n_layer = loaded.config.n_layer
        self._lock = threading.Lock()
        self._reading: Optional[Reading] = None         # the one that has the lock
        self._part = restored.part("language model", lambda: build(
            loaded.config, loaded.network, self.is_causal))

    @contextmanager
    def reading(self, size: int) -> Iterator[Reading]:
        """A text to be read, of which the last `size` tokens are kept; one at a time: other
        threads wait.

        Raises:
          UserError: it is this thread that reads another one, so that it waits for itself, and no
            other thread goes on with that.
        """
        open_one = self._reading
        is_own = open_one and open_one.thread == threading.get_ident()
        if not self._lock.acquire(timeout=_SECONDS_FOR_ANOTHER_THREAD if is_own else -1):
            raise UserError("a text is still being written here (Model.stream); read it to its "
                            "end, or close() it, before anything else is asked")
        try:
            self._reading = Reading(self._part, size, self.is_causal)
            yield self._reading
        finally:
            self._reading = None
            self._lock.release()


class Reading:
    """A text that is being read, in B rows that share positions: at first one.

    Args:
      size: S; when they are full the oldest token gives way to the newest.

    Attributes:
      thread: the one that read last; a generator may be moved on by several.
    """

    def __init__(self, part: Part, size: int, is_causal: bool):
        self._part, self._is_causal = part, is_causal
        self._positions = np.full(size, _EMPTY)         # [S], of the slots' tokens
        self._count = 0                                 # tokens read
        self.thread = threading.get_ident()
        self._part("clear", {"size": size})

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
        return self._run("log_probabilities", ids, positions, asked, hidden, again_from)

    def attention(self, layers: Sequence[int], ids: np.ndarray, positions: Sequence[int],
                  asked: Sequence[int], hidden: np.ndarray) -> list[np.ndarray]:
        """The attention probabilities of some layers, counted from 0, as the first tokens are read:
        [B,N,T+P,T] of each; arguments as of `read`."""
        found = self._run(["attention/%d" % layer for layer in layers], ids, positions, asked,
                          hidden, None)
        return [layer[..., :len(positions)] for layer in found]

    def keep(self, rows: Sequence[int]) -> None:
        """Makes the rows from now on those of these numbers; one may go on as several."""
        self._part("select", {"parents": rows})

    def _run(self, names, ids, positions, asked, hidden, again_from):
        self.thread = threading.get_ident()
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
        with errors.explained():
            return self._part(names, {
                "ids": ids, "asked": len(asked), "first_slot": first, "hidden": hides,
                "distances": np.where(hides, 0, rows - self._positions),
                "wanted": [tokens - 1] if self._is_causal else np.arange(tokens, len(rows))})

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
