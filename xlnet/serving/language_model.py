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
from xlnet.errors import UserError
from xlnet.model_directory.model_files import LoadedModel
from xlnet.network.incremental import IncrementalNetwork
from xlnet.serving import session
from xlnet.serving.session import RestoredSession, Subgraph, Tensors
from xlnet.settings.network import NetworkSettings, XLNetConfig

_SLOTS_OF_TOKEN = 32  # reading or copying so many slots takes about as long as a token
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
            order=made.order,
        ),
        {
            "log_probabilities": made.log_probabilities,
            "clear": made.clear,
            "select": made.select,
            "arrange": made.arrange,
            **{f"attention/{layer}": found for layer, found in enumerate(made.attention)},
        },
    )


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
            raise UserError(
                f"{loaded.prefix} was fine-tuned for {loaded.tuned.task.name} and has no output "
                "layer over the vocabulary; expected a pretrained model"
            )
        if loaded.objective not in ("permutation", "causal"):
            raise UserError(
                f"{loaded.prefix} was trained with objective={loaded.objective}, expected "
                "permutation or causal"
            )
        self.is_causal = loaded.objective == "causal"
        self.tokens_before = loaded.tokens_before
        self.n_layer = loaded.config.n_layer
        self._build = lambda: build(loaded.config, loaded.network, self.is_causal)
        self._restored = restored
        self._free: list[Subgraph] = []
        self._made = 0
        self._lock = threading.Lock()
        self._free.append(self._subgraph())
        self.joint_generation: Any = None  # made by `joint_generation.of` when it is needed

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
            with session.as_shared(part), suppress(UserError):
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
        self, part: Subgraph, is_causal: bool, size: int, tokens_before: Optional[int] = None
    ) -> None:
        self._subgraph, self._is_causal = part, is_causal
        self._tokens_before = tokens_before
        self.size = size
        self._positions = np.full(size, _EMPTY)  # [S], of the slots' tokens
        self._is_hidden = np.zeros((1, size), bool)  # [B,S], slots that a text may not see
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
        padding: Optional[np.ndarray] = None,
        first_text: int = 0,
        oldest: Optional[np.ndarray] = None,
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
          first_text: the number of the first of the B texts.
          oldest: int [B], the position of the oldest token that each text sees. None: all are seen.

        Returns:
          Log probabilities, float32: [B,P,V] of the token at each blank; of a causal network,
          [B,1,V] of the token after the last one.
        """
        if again_from is not None:
            self._positions[again_from:] = _EMPTY
            self._count = again_from
        return self._run(
            "log_probabilities", ids, positions, asked, hidden, padding, first_text, oldest
        )

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
        self._subgraph("select", {"parents": rows}, self._slots_as_tokens(len(rows)))
        self._is_hidden = self._is_hidden[list(rows)]

    def add_texts(self, kept: Sequence[int], count: int, size: int, position: int) -> None:
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
            "arrange",
            {"parents": parents, "order": order, "size": self.size},
            self._slots_as_tokens(len(parents)),
        )
        is_hidden = np.ones((len(parents), self.size), bool)
        is_hidden[: len(kept), added:] = self._is_hidden[list(kept)][:, by_age]
        self._is_hidden = is_hidden
        self._positions = np.arange(position - self.size, position)
        self._count = self.size

    def back_to_slot(self, slot: int) -> None:
        """The next tokens take this slot and those after it."""
        self._count = slot

    def _run(
        self,
        names: Any,
        ids: np.ndarray,
        positions: Sequence[int],
        asked: Sequence[int],
        hidden: Optional[np.ndarray],
        padding: Optional[np.ndarray] = None,
        first_text: int = 0,
        oldest: Optional[np.ndarray] = None,
    ) -> Any:
        # The tokens are written to consecutive slots, after those of the newest tokens.
        tokens = len(positions)
        first = self._count % self.size
        self._count += tokens
        self._positions[first : first + tokens] = positions
        is_hidden = self._is_hidden[first_text : first_text + len(ids)]  # a view, [B,S]
        is_hidden[:, first : first + tokens] = False if padding is None else padding
        # The T tokens and the P blanks may not see empty slots, padding, tokens that are too old or
        # too far away, and those of the T tokens that `hidden` names. Everything else that was read
        # before is visible, as the memory is in pretraining. A blank has only a query: it is a row
        # of the mask, and not a column that others could see.
        rows = np.concatenate([positions, asked]).astype(np.int64)[:, None]  # [T+P,1]
        is_empty = self._positions == _EMPTY  # [S]
        hides = np.broadcast_to(is_empty, (len(rows), self.size)).copy()  # [T+P,S]
        if hidden is not None:
            hides[:, first : first + tokens] |= hidden
        elif self._is_causal:
            hides |= self._positions > rows
        if self._tokens_before is not None:
            hides |= rows - self._positions > self._tokens_before
        if oldest is not None:
            is_hidden = is_hidden | (self._positions < oldest[:, None])
        return self._subgraph(
            names,
            {
                "ids": ids,
                "asked": len(asked),
                "first_text": first_text,
                "first_slot": first,
                "hidden": hides | is_hidden[:, None],
                "distances": np.where(is_empty, 0, rows - self._positions),
                "wanted": [tokens - 1] if self._is_causal else np.arange(tokens, len(rows)),
            },
            self._slots_as_tokens(len(ids)),
        )

    def _slots_as_tokens(self, texts: int) -> int:
        """The number of tokens that cost as much time as the slots of some texts."""
        return texts * self.size // _SLOTS_OF_TOKEN
