"""What all calls of a loaded model share: the session, the parts of its graph, and its counts."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from xlnet.corpus.offsets import Aligner
from xlnet.finetuning.model import TaskModel
from xlnet.finetuning.predictor import RowPredictor, placeholders
from xlnet.inference import session
from xlnet.inference.language_model import LanguageModel
from xlnet.runs.model_files import LoadedModel
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.devices import DeviceSettings
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.task import InlineExample, Row

_log = logging.getLogger(__name__)


class Computed(NamedTuple):
    """The result of an item.

    Attributes:
      tokens_read: how many tokens of its texts were read, without special ones.
      tokens: how many there are.
      unknown_tokens: how many of these are not in the vocabulary.
    """

    result: Any
    tokens_read: int
    tokens: int
    unknown_tokens: int


class Call(NamedTuple):
    """A method of a model on items, in two steps. An item that is bad is a UserError of the first
    step, or of the second one, such as an output that is not finite."""

    prepare: Callable[[Any], Any]  # from an item to what `compute` takes
    compute: Callable[[list], Sequence[Computed]]  # from a list of these
    at_once: int  # items that `compute` takes, at most

    def results(self, items: Sequence[Any]) -> list[Union[Computed, UserError]]:
        """The results of items, in their order; of a bad one its UserError."""
        # All items are checked before the first one is computed. Bad ones are left out of the
        # batches; the results of the others go where their items are.
        found: list[Any] = []
        good: list[int] = []
        for number, item in enumerate(items):
            try:
                found.append(self.prepare(item))
                good.append(number)
            except UserError as e:
                found.append(e)
        for begin in range(0, len(good), self.at_once):
            some = good[begin : begin + self.at_once]
            computed = self._computed([found[number] for number in some])
            for number, result in zip(some, computed):
                found[number] = result
        return found

    def _computed(self, prepared: list) -> Sequence[Union[Computed, UserError]]:
        """What `compute` returns of some items; of a bad one its error."""
        try:
            return self.compute(prepared)
        except UserError as e:
            if len(prepared) == 1:
                return [UserError(str(e))]
        # The error does not say whose it is, so each item is computed by itself.
        return [self._computed([one])[0] for one in prepared]


class Inference:
    """A loaded model and its session, which any number of threads may use.

    Attributes:
      loaded: the model's files.
      batch_size: texts that go through the network together, at most.
      most_tokens: tokens that go through the network together, at most, but at least one text;
        None: any number.
      session: with its weights.
      cut: how many texts were longer than the network reads, and lost some of it.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        device: DeviceSettings,
        batch_size: int,
        most_tokens: Optional[int] = None,
    ) -> None:
        self.loaded = loaded
        self.tokenizer = loaded.tokenizer
        self.batch_size, self.most_tokens = batch_size, most_tokens
        self.cut = 0
        self.session = session.RestoredSession(loaded.prefix, device)
        self._lock = threading.Lock()
        self._language_model: Optional[LanguageModel] = None

    def tuned(self, verb: Optional[str] = None) -> FineTunedTask:
        """The task of a fine-tuned model; UserError if it has none, or its method is another."""
        tuned = self.loaded.tuned
        if tuned is None:
            raise wrong("model", "a pretrained one", "one fine-tuned for a task")
        if verb not in (None, tuned.task.type.verb):
            found = (
                f"one of {tuned.task.type.name}, whose method is {tuned.task.type.verb}"
            )
            raise wrong("model", found, f"one with the method {verb}")
        return tuned

    def predictor(self) -> RowPredictor:
        """Predicts rows with the output layer of the task."""
        tuned, loaded = self.tuned(), self.loaded

        def build() -> tuple[session.Tensors, session.Tensors]:
            inputs = placeholders(tuned)
            model = TaskModel(loaded.config, tuned, loaded.network)
            return inputs, model.outputs(inputs)

        subgraph = self.session.subgraph("task", build)
        return RowPredictor(
            tuned, self.tokenizer, subgraph, self.batch_size, self.most_tokens
        )

    def language_model(self) -> LanguageModel:
        """The network with its output layer over the vocabulary; one for all threads."""
        with self._lock:
            if self._language_model is None:
                self._language_model = LanguageModel(self.loaded, self.session)
            return self._language_model

    @functools.cached_property
    def aligner(self) -> Aligner:
        """Finds the characters of each token of a text."""
        return Aligner(self.tokenizer)

    def unknown_parts(self, text: str) -> list[tuple[int, int]]:
        """The (start, end) of each token of a text that is not in the vocabulary [characters]."""
        (aligned,) = self.aligner.encode([text])
        is_unknown = aligned.ids == self.tokenizer.unk_id
        starts, ends = aligned.starts[is_unknown], aligned.ends[is_unknown]
        return list(zip(starts.tolist(), ends.tolist()))

    def note_cut(self, is_cut: np.ndarray, length: int) -> None:
        """Counts texts, bool [n], that lost some of their tokens; the first time with a warning."""
        cut = int(np.count_nonzero(is_cut))
        with self._lock:
            is_first = cut > 0 and not self.cut
            self.cut += cut
        if is_first:
            _log.warning(
                "note: %d text(s) of %d are cut to %d tokens; from now on they are "
                "counted in `cut` alone",
                cut,
                len(is_cut),
                length,
            )


def row_of(
    tuned: FineTunedTask, number: int, asked: InlineExample, place: str = ""
) -> Row:
    """The row of an inline example; UserError, which begins with `place`, if it is bad."""
    try:
        return tuned.task.reader.row(str(number), asked)
    except ValueError as e:
        raise UserError(f"{place}{e}") from e
