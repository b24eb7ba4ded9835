"""A pretrained network that reads texts token by token and predicts tokens at any position.

Shape letters: B texts side by side, T tokens, P blanks, V vocabulary, S slots that keep tokens.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Optional

import numpy as np

from xlnet.engine import train_step
from xlnet.inference import session
from xlnet.inference.session import RestoredSession, Subgraph, Tensors
from xlnet.model.incremental import IncrementalNetwork
from xlnet.runs.model_files import LoadedModel
from xlnet.support.errors import UserError, wrong

_EMPTY = np.iinfo(np.int64).max  # the position of a slot without a token


class LanguageModel:
    """A pretrained network with its output layer.

    Attributes:
      is_causal: whether it reads from left to right only.
      tokens_before: as of `LoadedModel`.
      n_layer: number of layers.
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
        self.n_layer = loaded.config.n_layer
        self._loaded, self._restored = loaded, restored
        self._free: list[Subgraph] = []
        self._made = 0
        self._lock = threading.Lock()
        self._free.append(self._subgraph())

    def require_queries(self) -> None:
        """Raises UserError for a model that reads from left to right only."""
        if self.is_causal:
            raise wrong(
                "model",
                "one of objective=causal, which generates alone",
                "one of objective=permutation, which has a query stream",
            )

    def prepare(self, copies: int) -> None:
        """Builds copies of the graph, and calls each once, so that nobody waits for the first so
        many texts that are read at the same time."""
        blank = () if self.is_causal else (1,)
        with ExitStack() as held:
            for _ in range(copies):
                reading = held.enter_context(self.reading(2))
                reading.read(np.zeros([1, 1], int), [0], blank)
                reading.keep([0])
                reading.add_texts([0], 1, 2, 1)

    def _build(self) -> tuple[Tensors, Tensors]:
        """The inputs and outputs of an `IncrementalNetwork`, by its names; `attention/i` of layer
        i."""
        run = self._loaded.network.run_config(is_training=False)
        with train_step.model_scope(kept_in=run.precision):
            made = IncrementalNetwork(
                self._loaded.config, run, has_queries=not self.is_causal
            )
        inputs = dict(
            made.inputs._asdict(),
            size=made.size,
            parents=made.parents,
            order=made.order,
        )
        outputs = {
            "log_probabilities": made.log_probabilities,
            "clear": made.clear,
            "select": made.select,
            "arrange": made.arrange,
        }
        for layer, probabilities in enumerate(made.attention):
            outputs[f"attention/{layer}"] = probabilities
        return inputs, outputs

    def _subgraph(self) -> Subgraph:
        """A copy of the graph that is not in use."""
        with self._lock:
            if self._free:
                return self._free.pop()
            self._made += 1
            number = self._made
        return self._restored.subgraph(f"language model {number}", self._build)

    @contextmanager
    def reading(self, size: int) -> Iterator[Reading]:
        """Yields a text to be read, of which the last `size` tokens are kept."""
        part = self._subgraph()
        try:
            yield Reading(part, self.is_causal, size, self.tokens_before)
        finally:
            # The memory is freed even if the caller has left. If the model is closed it is freed
            # already.
            with session.as_shared(), suppress(UserError):
                part("clear", {"size": 1})
            self._free.append(part)


class Reading:
    """A text that is being read, or B texts that share positions; one at first. When its S slots
    are full the newest token replaces the oldest one.

    Attributes:
      size: S.
    """

    # Example with S = 4: "the cat sat on", then "a", then "mat":
    #   slots       the cat sat on     a   cat sat on     a   mat sat on
    #   positions   0   1   2   3      4   1   2   3      4   5   2   3
    # Attention depends on the positions of tokens, so their order in the slots makes no difference.
    def __init__(
        self,
        part: Subgraph,
        is_causal: bool,
        size: int,
        tokens_before: Optional[int] = None,
    ) -> None:
        self._subgraph, self._is_causal = part, is_causal
        self._tokens_before = tokens_before
        self.size = size
        self._positions = np.full(size, _EMPTY)  # [S], of the slots' tokens
        self._is_hidden = np.zeros(
            (1, size), bool
        )  # [B,S], slots that a text may not see
        self._count = 0  # tokens read
        self._subgraph("clear", {"size": size})

    def read(
        self,
        ids: np.ndarray,
        positions: Sequence[int],
        asked: Sequence[int] = (),
        *,
        hidden: Optional[np.ndarray] = None,
        again_from: Optional[int] = None,
        layers: Sequence[int] = (),
    ) -> Any:
        """Reads T more tokens of each text and predicts tokens.

        Args:
          ids: int [B,T].
          positions: of the tokens in the text, [T]; they need not be in order.
          asked: positions of the P blanks, of a network that fills blanks.
          hidden: bool [T+P,T], which of these tokens each of them, and then each blank, may not
            see. None: those on its right for a causal network, none for another one.
          again_from: the number of tokens to keep; those after them are forgotten. Only before the
            slots are full.
          layers: numbers of layers from 0 on, whose attention is returned, too. Only for the first
            tokens that are read.

        Returns:
          Log probabilities, float32: [B,P,V] of the token at each blank; of a causal network,
          [B,1,V] of the token after the last one. With `layers`: (these, a list over the layers of
          the attention probabilities [B,N,T+P,T]).
        """
        if again_from is not None:
            self._positions[again_from:] = _EMPTY
            self._count = again_from
        names = ["log_probabilities", *[f"attention/{layer}" for layer in layers]]
        found = self._run(names, ids, positions, asked, hidden=hidden)
        if not layers:
            return found[0]
        return found[0], [layer[..., : len(positions)] for layer in found[1:]]

    def read_prompts(
        self,
        ids: np.ndarray,
        end: int,
        asked: Sequence[int],
        padding: np.ndarray,
        first_text: int,
    ) -> np.ndarray:
        """Reads the prompts of the B texts from number `first_text` on, which were added last, so
        that they end before the position `end`; padding: bool [B,T], True for tokens that nobody
        may see. Returns the same as `read`."""
        tokens = ids.shape[1]
        self._count = self.size - tokens
        positions = range(end - tokens, end)
        return self._run(
            ["log_probabilities"],
            ids,
            positions,
            asked,
            padding=padding,
            first_text=first_text,
        )[0]

    def keep(self, rows: Sequence[int]) -> None:
        """Continues with the texts of these numbers; a number that occurs twice gives two texts."""
        self._subgraph("select", {"parents": rows})
        self._is_hidden = self._is_hidden[list(rows)]

    def add_texts(
        self, kept: Sequence[int], count: int, size: int, position: int
    ) -> None:
        """Continues with the texts of some numbers and `count` new ones, which see nothing yet, and
        with `size` slots. `position` is that of the next token: the slots are those of the
        positions before it, the newest one last. If they are fewer, the oldest tokens are lost."""
        # Example: S = 4, three tokens were read, and a text with 6 slots joins:
        #   slots       the cat sat .      .   .   .  the cat sat
        #   positions   0   1   2   .      -3  -2  -1  0   1   2
        by_age = np.roll(np.arange(self.size), -(self._count % self.size))
        by_age = by_age[max(self.size - size, 0) :]
        added = size - len(by_age)
        order = np.concatenate([np.zeros(added, int), by_age])
        self.size = size
        parents = [*kept, *[0] * count]
        self._subgraph(
            "arrange", {"parents": parents, "order": order, "size": self.size}
        )
        is_hidden = np.ones((len(parents), self.size), bool)
        is_hidden[: len(kept), added:] = self._is_hidden[list(kept)][:, by_age]
        self._is_hidden = is_hidden
        self._positions = np.arange(position - self.size, position)
        self._count = self.size

    def _run(
        self,
        names: Sequence[str],
        ids: np.ndarray,
        positions: Sequence[int],
        asked: Sequence[int],
        *,
        hidden: Optional[np.ndarray] = None,
        padding: Optional[np.ndarray] = None,
        first_text: int = 0,
    ) -> Any:
        # The tokens are written to consecutive slots, after those of the newest tokens.
        tokens = len(positions)
        first = self._count % self.size
        self._count += tokens
        self._positions[first : first + tokens] = positions
        is_hidden = self._is_hidden[first_text : first_text + len(ids)]  # a view, [B,S]
        is_hidden[:, first : first + tokens] = False if padding is None else padding
        # The T tokens and the P blanks may not see empty slots, padding, tokens that are too far
        # away, and those of the T tokens that `hidden` names. Everything else that was read before
        # is visible, as the memory is in pretraining. A blank has only a query: it is a row of the
        # mask, and not a column that others could see.
        rows = np.concatenate([positions, asked]).astype(np.int64)[:, None]  # [T+P,1]
        is_empty = self._positions == _EMPTY  # [S]
        hides = np.broadcast_to(is_empty, (len(rows), self.size)).copy()  # [T+P,S]
        if hidden is not None:
            hides[:, first : first + tokens] |= hidden
        elif self._is_causal:
            hides |= self._positions > rows
        if self._tokens_before is not None:
            hides |= rows - self._positions > self._tokens_before
        return self._subgraph(
            list(names),
            {
                "ids": ids,
                "asked": len(asked),
                "first_text": first_text,
                "first_slot": first,
                "hidden": hides | is_hidden[:, None],
                "distances": np.where(is_empty, 0, rows - self._positions),
                "wanted": [tokens - 1]
                if self._is_causal
                else np.arange(tokens, len(rows)),
            },
        )
