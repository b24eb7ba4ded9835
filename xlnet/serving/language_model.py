"""A pretrained network that reads texts token by token and predicts tokens at any position.

Shape letters: B texts side by side, T tokens, P blanks, V vocabulary, S slots that keep tokens.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Optional

import numpy as np

from xlnet.engine import train_step
from xlnet.errors import UserError
from xlnet.model_directory.model_files import LoadedModel
from xlnet.network.incremental import IncrementalNetwork
from xlnet.serving.session import Restored, Tensors
from xlnet.settings.network import NetworkSettings, XLNetConfig

_EMPTY = np.iinfo(np.int64).max  # the position of a slot without a token


def build(
    config: XLNetConfig, network: NetworkSettings, is_causal: bool
) -> tuple[Tensors, Tensors]:
    """The inputs and outputs of an `IncrementalNetwork`, by its names; `attention/i` of layer i."""
    run = network.run_config(is_training=False)
    with train_step.model_scope(kept_in=run.precision):
        made = IncrementalNetwork(config, run, has_queries=not is_causal)
    return (
        dict(
            made.inputs._asdict(),
            size=made.size,
            parents=made.parents,
            kept_before=made.kept_before,
        ),
        {
            "log_probabilities": made.log_probabilities,
            "clear": made.clear,
            "select": made.select,
            "kept": made.kept,
            "put_back": made.put_back,
            **{f"attention/{layer}": found for layer, found in enumerate(made.attention)},
        },
    )


class LanguageModel:
    """A pretrained network with its output layer.

    Attributes:
      is_causal: whether it reads from left to right only.
      n_layer: number of layers.
      turn: lock of the network. A reading takes it for each step; hold it from the first step to
        the last where nobody waits in between.
    """

    def __init__(self, loaded: LoadedModel, restored: Restored):
        if loaded.tuned is not None:
            raise UserError(
                f"{loaded.prefix} was fine-tuned for {loaded.tuned.task.name} and has no "
                "output layer over the vocabulary; "
                "expected a pretrained model"
            )
        if loaded.objective not in ("permutation", "causal"):
            raise UserError(
                f"{loaded.prefix} was trained with objective={loaded.objective}, expected "
                "permutation or causal"
            )
        self.is_causal = loaded.objective == "causal"
        self.n_layer = loaded.config.n_layer
        self.turn = threading.RLock()
        self._reading: Optional[Reading] = None  # whose keys and values the network holds
        self._size = 0  # S of the network's slots
        self._part = restored.part(
            "language model", lambda: build(loaded.config, loaded.network, self.is_causal)
        )

    @contextmanager
    def reading(self, size: int) -> Iterator[Reading]:
        """Yields a text to be read, of which the last `size` tokens are kept."""
        reading = Reading(self, size)
        try:
            yield reading
        finally:  # without `turn`: a generator may end in any thread, and must not wait there
            reading.is_over = True

    def run(self, reading: Reading, names: Any, features: Mapping[str, Any]) -> Any:
        """The outputs of these names (`Part`), computed with the keys and values of a reading."""
        with self.turn:
            # The device holds the keys and values of one reading. Those of another one that is not
            # over wait in the host's memory, and come back with its next step.
            if self._reading is not reading:
                other = self._reading  # until its keys are fetched, which may fail
                if other is not None and not other.is_over:
                    other.kept = self._part("kept", {})
                self._reading = None
                if reading.kept is None or reading.size != self._size:
                    self._size = 0  # unknown until it is cleared
                    self._part("clear", {"size": reading.size})
                    self._size = reading.size
                if reading.kept is not None:
                    self._part("put_back", {"kept_before": reading.kept})
                self._reading, reading.kept = reading, None
            return self._part(names, features)


class Reading:
    """A text that is being read, or B texts that share positions; one at first. When its S slots
    are full the newest token replaces the oldest one.

    Attributes:
      kept: keys and values while the network holds those of another reading.
      is_over: whether nothing more is read, and `kept` is not needed.
    """

    # S = 4, after "the cat sat on" and then one token more at a time:
    #   slots       the cat sat on     a   cat sat on     a   mat sat on
    #   positions   0   1   2   3      4   1   2   3      4   5   2   3
    # Attention depends on positions alone, so the order of the slots means nothing to it.
    def __init__(self, model: LanguageModel, size: int):
        self._model = model
        self.size, self.is_over = size, False
        self.kept: Optional[np.ndarray] = None
        self._positions = np.full(size, _EMPTY)  # [S], of the slots' tokens
        self._is_padding = np.zeros((1, size), bool)  # [B or 1,S]
        self._count = 0  # tokens read

    def read(
        self,
        ids: np.ndarray,
        positions: Sequence[int],
        asked: Sequence[int] = (),
        *,
        hidden: Optional[np.ndarray] = None,
        again_from: Optional[int] = None,
        padding: Optional[np.ndarray] = None,
    ) -> np.ndarray:
        """Reads T more tokens of each text and predicts tokens.

        Args:
          ids: int [B,T].
          positions: of the tokens in the text, [T]; they need not be in order.
          asked: positions of the P blanks, of a network that fills blanks.
          hidden: bool [T+P,T], which of these tokens each of them, and then each blank, may not
            see. None: those on its right for a causal network, none for another one.
          again_from: the number of tokens to keep; those after them are forgotten. Only before the
            slots are full.
          padding: bool [B,T], True for tokens that nobody may see. None: none of them.

        Returns:
          Log probabilities, float32: [B,P,V] of the token at each blank; of a causal network,
          [B,1,V] of the token after the last one.
        """
        return self._run("log_probabilities", ids, positions, asked, hidden, again_from, padding)

    def attention(
        self,
        layers: Sequence[int],
        ids: np.ndarray,
        positions: Sequence[int],
        asked: Sequence[int],
        hidden: np.ndarray,
    ) -> list[np.ndarray]:
        """The attention probabilities of some layers, counted from 0, as the first tokens are read:
        [B,N,T+P,T] of each; arguments as of `read`."""
        found = self._run([f"attention/{layer}" for layer in layers], ids, positions, asked, hidden)
        return [layer[..., : len(positions)] for layer in found]

    def keep(self, rows: Sequence[int]) -> None:
        """Continues with the texts of these numbers; a number that occurs twice gives two texts."""
        self._model.run(self, "select", {"parents": rows})
        if len(self._is_padding) > 1:
            self._is_padding = self._is_padding[list(rows)]

    def _run(self, names, ids, positions, asked, hidden, again_from=None, padding=None):
        # Where the tokens go: the slots after those of the last ones, or again from a number.
        tokens = len(positions)
        if again_from is not None:
            self._positions[again_from:] = _EMPTY
            self._count = again_from
        first = self._count % self.size  # of the slots for as many tokens, side by side
        self._count += tokens
        self._positions[first : first + tokens] = positions
        if padding is not None and len(padding) > len(self._is_padding):
            self._is_padding = np.repeat(self._is_padding, len(padding), axis=0)
        self._is_padding[:, first : first + tokens] = False if padding is None else padding
        # What the T tokens and the P blanks may not see: empty slots, padding, and of the tokens
        # that are read with them what `hidden` says. All that was read before is visible, as the
        # memory of pretraining is.
        # A blank has a query alone: it is a row, and no column that others could see.
        rows = np.concatenate([positions, asked]).astype(np.int64)[:, None]  # [T+P,1]
        hides = np.broadcast_to(self._positions == _EMPTY, (len(rows), self.size)).copy()  # [T+P,S]
        if hidden is not None:
            hides[:, first : first + tokens] |= hidden
        elif self._model.is_causal:
            hides |= self._positions > rows
        return self._model.run(
            self,
            names,
            {
                "ids": ids,
                "asked": len(asked),
                "first_slot": first,
                "hidden": hides | self._is_padding[:, None],
                "distances": np.where(hides, 0, rows - self._positions),
                "wanted": [tokens - 1] if self._model.is_causal else np.arange(tokens, len(rows)),
            },
        )
