"""A pretrained network that reads texts token by token and predicts tokens at any position.

Shape letters: B texts side by side, T tokens, P blanks, V vocabulary, S slots that keep tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import numpy as np

from xlnet.engine.session import (
    RestoredSession,
    Subgraph,
    Tensors,
    require_finite,
)
from xlnet.model import parameters
from xlnet.model.incremental import incremental_network
from xlnet.runs.model_files import LoadedModel
from xlnet.support.errors import wrong

_EMPTY = np.iinfo(np.int64).max  # the position of a slot without a token


class LanguageModel:
    """A pretrained network with its output layer.

    Attributes:
      is_causal: whether it reads from left to right only.
      tokens_before: as of `LoadedModel`.
    """

    # The keys and values of a text stay on the device from one call to the next, in variables of
    # the graph. Texts that are read at the same time each have a copy of the graph with variables
    # of its own; the weights are shared. A copy is built when all others are in use, and is kept.

    def __init__(self, loaded: LoadedModel, restored: RestoredSession):
        if loaded.tuned is not None:
            found = f"fine-tuned for {loaded.tuned.task.name}"
            raise wrong(
                loaded.prefix, found, "a pretrained model, which has an output layer"
            )
        if loaded.objective not in ("permutation", "causal"):
            found = f"trained with objective={loaded.objective}"
            raise wrong(loaded.prefix, found, "permutation or causal")
        self.is_causal = loaded.objective == "causal"
        self.tokens_before = loaded.tokens_before
        self._loaded, self._restored = loaded, restored
        self._numbers = itertools.count(1)  # of the copies
        self._free: list[Subgraph] = []
        self._free.append(self._subgraph())

    def require_queries(self) -> None:
        """Raises UserError for a model that reads from left to right only."""
        if self.is_causal:
            raise wrong(
                "model",
                "one of objective=causal, which can only generate",
                "one of objective=permutation, which has a query stream",
            )

    def prepare(self, copies: int) -> None:
        """Builds copies of the graph, and calls each once, so that nobody waits for the first so
        many texts that are read at the same time."""
        with ExitStack() as held:
            for _ in range(copies):
                reading = held.enter_context(self.reading(2, texts=2))
                reading.read(np.zeros([2, 1], int), [0], [1])

    def _build(self) -> tuple[Tensors, Tensors]:
        """The inputs and outputs of an `incremental_network`."""
        run = self._loaded.network.run_config(is_training=False)
        with parameters.model_scope(kept_in=run.precision):
            return incremental_network(
                self._loaded.config, run, has_queries=not self.is_causal
            )

    def _subgraph(self) -> Subgraph:
        """A copy of the graph that is not in use."""
        # Lists and counters are safe between threads, an `if` before `pop` would not be.
        with suppress(IndexError):
            return self._free.pop()
        name = f"language model {next(self._numbers)}"
        return self._restored.copies(name, self._build)[0]

    @contextmanager
    def reading(self, size: int, texts: int = 1) -> Iterator[Reading]:
        """Yields texts to be read, of which the last `size` tokens are kept."""
        part = self._subgraph()
        try:
            reading = Reading(self, part, size)
            if texts > 1:
                reading.keep([0] * texts)  # the first text, still empty, so many times
            yield reading
        finally:
            # The memory is freed even if nobody waits for the result any more. If the model is
            # closed it is freed already.
            with suppress(RuntimeError):
                part.run(["clear"], {"size": 1})
            self._free.append(part)


class Reading:
    """A text that is being read, or B texts that share positions. When its S slots are full the
    newest token replaces the oldest one."""

    # Example with S = 4: "the cat sat on", then "a", then "mat":
    #   slots       the cat sat on     a   cat sat on     a   mat sat on
    #   positions   0   1   2   3      4   1   2   3      4   5   2   3
    # Attention depends on the positions of tokens, so their order in the slots makes no difference.
    def __init__(self, model: LanguageModel, part: Subgraph, size: int) -> None:
        self._model, self._subgraph = model, part
        self._positions = np.full(size, _EMPTY)  # [S], of the slots' tokens
        self._is_padding = np.zeros((1, size), bool)  # [B,S], of the slots
        self._count = 0  # tokens read
        self._subgraph(["clear"], {"size": size})

    def read(
        self,
        ids: np.ndarray,
        positions: Sequence[int],
        asked: Sequence[int] = (),
        *,
        hidden: np.ndarray | None = None,
        padding: np.ndarray | None = None,
        layers: Sequence[int] = (),
    ) -> Any:
        """Reads T more tokens of each text and predicts tokens.

        Args:
          ids: int [B,T].
          positions: of the tokens in the text, [T]; they need not be in order.
          asked: positions of the P blanks; a causal network fills none and ignores them.
          hidden: bool [T+P,T], which of these tokens each of them, and then each blank, may not
            see. None: those on its right for a causal network, none for another one.
          padding: bool [B,T], True for tokens that nobody may see. None: there is none.
          layers: numbers of layers from 0 on, whose attention is returned, too. Only for the first
            tokens that are read.

        Returns:
          Log probabilities, float32: [B,P,V] of the token at each blank; of a causal network,
          [B,1,V] of the token after the last one. With `layers`: (these, a list over the layers of
          the attention probabilities [B,N,T+P,T]).
        """
        is_causal = self._model.is_causal
        if is_causal:  # it has no queries
            asked = ()
        # The tokens are written to consecutive slots, after those of the newest tokens.
        tokens = len(positions)
        first = self._count % len(self._positions)
        self._count += tokens
        slots = slice(first, first + tokens)
        self._positions[slots] = positions
        self._is_padding[:, slots] = False if padding is None else padding
        # The T tokens and the P blanks may not see empty slots, padding, tokens that are too far
        # away, and those of the T tokens that `hidden` names. Everything else that was read before
        # is visible, as the memory is in pretraining. A blank has only a query: it is a row of the
        # mask, and not a column that others could see.
        rows = np.concatenate([positions, asked]).astype(np.int64)[:, None]  # [T+P,1]
        is_empty = self._positions == _EMPTY  # [S]
        hides = np.tile(is_empty, (len(rows), 1))  # [T+P,S]
        if hidden is not None:
            hides[:, slots] |= hidden
        elif is_causal:
            hides |= self._positions > rows
        if self._model.tokens_before is not None:
            hides |= rows - self._positions > self._model.tokens_before
        predicted, *attention = self._subgraph(
            ["log_probabilities", *[f"attention/{layer}" for layer in layers]],
            {
                "ids": ids,
                "asked": len(asked),
                "first_slot": first,
                "hidden": hides | self._is_padding[:, None],
                "distances": np.where(is_empty, 0, rows - self._positions),
                "wanted": [tokens - 1] if is_causal else range(tokens, len(rows)),
            },
        )
        require_finite(predicted)
        if not layers:
            return predicted
        return predicted, [layer[..., :tokens] for layer in attention]

    def keep(self, rows: Sequence[int]) -> None:
        """Continues with the texts of these numbers; a number that occurs twice gives two texts."""
        self._subgraph(["select"], {"parents": rows})
        self._is_padding = self._is_padding[list(rows)]
