"""A pretrained network that reads texts token by token and predicts tokens at any position.

A blank is a position whose token is to be predicted. Shape letters: B texts side by side, T tokens
that are read at once, P blanks, V vocabulary, S slots: as many tokens are kept, N heads.
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
)
from xlnet.model import parameters
from xlnet.model.incremental import incremental_network
from xlnet.runs.model_files import LoadedModel
from xlnet.support.errors import require_finite, wrong

_EMPTY = np.iinfo(np.int64).max  # the position of a slot without a token


class LanguageModel:
    """A pretrained network with its output layer over the vocabulary. UserError for a fine-tuned
    model, and for an objective other than permutation and causal.

    Args:
      loaded: the model's files.
      session: has its weights.

    Attributes:
      is_causal: whether it reads from left to right only.
      tokens_before: how many tokens before its own each token sees; None: all.
    """

    # The keys and values of a text stay on the device from one call to the next, in variables of
    # the graph. Texts that are read at the same time each have a copy of the graph with variables
    # of its own; the weights are shared. A copy is built when all others are in use, and is kept.

    def __init__(self, loaded: LoadedModel, session: RestoredSession):
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
        self._loaded, self._session = loaded, session
        self._copy_numbers = itertools.count(1)
        # The first copy is built now: an error, such as a missing weight, is raised here.
        self._free_copies = [self._new_copy()]  # that are not in use

    def require_queries(self) -> None:
        """Raises UserError for a model that reads from left to right only."""
        if self.is_causal:
            raise wrong(
                "model",
                "one of objective=causal, which can only generate",
                "one of objective=permutation, which has a query stream",
            )

    def build_copies(self, copies: int) -> None:
        """Builds copies of the graph, and calls each once: later up to `copies` texts can be read
        at the same time, and none of them waits for a copy to be built."""
        # All are open at the same time, so that each takes a copy of its own.
        with ExitStack() as readings:
            for _ in range(copies):
                reading = readings.enter_context(self.reading(2, texts=2))
                # Any token of both texts at position 0; position 1 is predicted.
                reading.read(np.zeros([2, 1], int), [0], [1])

    def _build(self) -> tuple[Tensors, Tensors]:
        """Builds the operations of a copy of the graph; returns the placeholders and the outputs of
        its `incremental_network`, by name."""
        run_config = self._loaded.network.run_config(is_training=False)
        with parameters.model_scope(kept_in=run_config.precision):
            return incremental_network(
                self._loaded.config, run_config, has_queries=not self.is_causal
            )

    def _new_copy(self) -> Subgraph:
        """Builds another copy of the graph, under a name of its own."""
        name = f"language model {next(self._copy_numbers)}"
        return self._session.copies(name, self._build)[0]

    @contextmanager
    def reading(self, size: int, texts: int = 1) -> Iterator[Reading]:
        """Yields a `Reading` of so many texts, still empty, each with `size` slots for tokens. At
        the end their memory is freed."""
        # Lists and counters are safe between threads, an `if` before `pop` would not be.
        try:
            subgraph = self._free_copies.pop()
        except IndexError:  # all are in use
            subgraph = self._new_copy()
        try:
            reading = Reading(self, subgraph, size)
            if texts > 1:
                # The first text, still empty, so many times.
                reading.select([0] * texts)
            yield reading
        finally:
            # This does not wait for a turn: the memory is freed even if nobody waits for the
            # result any more. RuntimeError: the model is closed, so the memory is freed already.
            with suppress(RuntimeError):
                subgraph.run_session(["clear"], {"size": 1})
            self._free_copies.append(subgraph)


class Reading:
    """A text that is being read, or B texts, the tokens of which are read at the same positions.
    Each text keeps its last S tokens in slots: when these are full, the newest token replaces the
    oldest one.

    Args:
      model: has the network.
      subgraph: a copy of its graph, which nothing else uses meanwhile.
      size: S.
    """

    # Example with S = 4: "the cat sat on", then "a", then "mat":
    #   slots       the cat sat on     a   cat sat on     a   mat sat on
    #   positions   0   1   2   3      4   1   2   3      4   5   2   3
    # Attention depends on the positions of tokens, so their order in the slots makes no difference.
    def __init__(self, model: LanguageModel, subgraph: Subgraph, size: int) -> None:
        self._model, self._subgraph = model, subgraph
        self._slot_positions = np.full(size, _EMPTY)  # [S], of the slots' tokens
        self._slot_is_padding = np.zeros((1, size), bool)  # [B,S]
        self._num_read = 0  # tokens of each text
        # Makes the slots, of one text.
        self._subgraph.compute(["clear"], {"size": size})

    def read(
        self,
        ids: np.ndarray,
        positions: Sequence[int],
        blanks: Sequence[int] = (),
        *,
        masked: np.ndarray | None = None,
        padding: np.ndarray | None = None,
        layers: Sequence[int] = (),
    ) -> Any:
        """Reads T more tokens of each text and predicts tokens.

        The caller sees to it that the T tokens fit behind the newest token: either T = 1, or they
        are the first that are read, and T is at most S.

        Args:
          ids: int [B,T].
          positions: of the tokens in the text, [T]; they need not be in order.
          blanks: positions of the P blanks; a causal network fills none and ignores them.
          masked: bool [T+P,T], True where a row, the T tokens and then the P blanks, may not see a
            column, one of the T tokens. None: a causal network masks the tokens on the right, any
            other network none.
          padding: bool [B,T], True for tokens that nobody may see. None: there is none.
          layers: numbers of layers from 0 on, whose attention is returned, too. Only for the first
            tokens that are read, which have the first slots.

        Returns:
          Log probabilities, float32: [B,P,V] of the token at each blank; of a causal network,
          [B,1,V] of the token after the last one. With `layers`: (these, a list over the layers of
          the attention probabilities [B,N,T+P,T]).
        """
        is_causal = self._model.is_causal
        if is_causal:  # it has no queries
            blanks = ()
        # The tokens are written to consecutive slots, after those of the newest tokens.
        num_tokens = len(positions)
        first = self._num_read % len(self._slot_positions)
        self._num_read += num_tokens
        slots = slice(first, first + num_tokens)
        self._slot_positions[slots] = positions
        self._slot_is_padding[:, slots] = False if padding is None else padding

        # The T tokens and the P blanks are the rows of the mask, all slots its columns. A row may
        # not see empty slots, padding, tokens that are too far away, and those of the T tokens that
        # `masked` names. Everything else that was read before is visible, as the memory is in
        # pretraining. A blank has only a query: it is not a column, so no row sees it.
        rows = np.concatenate([positions, blanks]).astype(np.int64)  # [T+P], positions
        # How far each slot's token is to the left of each row, [T+P,S].
        distances = rows[:, None] - self._slot_positions
        is_empty = self._slot_positions == _EMPTY  # [S]
        mask = np.tile(is_empty, (len(rows), 1))  # [T+P,S]
        if masked is not None:
            mask[:, slots] |= masked
        elif is_causal:
            mask |= distances < 0
        if self._model.tokens_before is not None:
            mask |= distances > self._model.tokens_before

        # A causal network predicts at its last token, another one at the blanks, the last rows.
        first_predicting = num_tokens - 1 if is_causal else num_tokens
        of_layers = [f"attention/{layer}" for layer in layers]
        outputs = self._subgraph.compute(
            ["log_probabilities", *of_layers],
            {
                "ids": ids,
                "num_blanks": len(blanks),
                "first_slot": first,
                "hidden": mask | self._slot_is_padding[:, None],  # [B,T+P,S]
                "distances": np.where(is_empty, 0, distances),
                "predicted_rows": range(first_predicting, len(rows)),
            },
        )
        log_probabilities = outputs["log_probabilities"]
        require_finite(log_probabilities)
        if not layers:
            return log_probabilities
        # The T tokens have the first slots; the others are empty.
        attention = [outputs[name][..., :num_tokens] for name in of_layers]
        return log_probabilities, attention

    def select(self, parents: Sequence[int]) -> None:
        """Replaces the texts: the new text b continues a copy of the text `parents[b]`. An index
        that occurs twice gives two texts; a text whose index is missing is dropped."""
        self._subgraph.compute(["select"], {"parents": parents})
        self._slot_is_padding = self._slot_is_padding[list(parents)]
