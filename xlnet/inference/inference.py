"""What all calls of a loaded model share: the session, the parts of its graph, and its counts."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.corpus.offsets import Aligner
from xlnet.finetuning.model import TaskModel
from xlnet.finetuning.predictor import Predictor, placeholders
from xlnet.inference import session
from xlnet.inference.language_model import LanguageModel
from xlnet.runs.model_files import LoadedModel
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.devices import DeviceSettings
from xlnet.support.errors import NotFinite, UserError, wrong
from xlnet.tasks.task import InlineExample, Row

_log = logging.getLogger(__name__)


class Call(NamedTuple):
    """A method of a model on items, in two steps. An item that is bad is a UserError of the first
    step; the second one raises NotFinite if it is so for any item."""

    prepare: Callable[[Any], Any]  # from an item to what `compute` takes
    compute: Callable[[list], Sequence[Any]]  # from a list of these to their results
    at_once: int  # items that `compute` takes, at most


class Inference:
    """A loaded model and its session, which any number of threads may use.

    Attributes:
      loaded: the model's files.
      batch_size: texts that go through the network together, at most.
      most_tokens: tokens that go through the network together, at most, but at least one text;
        None: any number.
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
        self.lock = threading.Lock()
        self._restored: Optional[session.RestoredSession] = session.RestoredSession(
            loaded.prefix, device
        )
        self._language_model: Optional[LanguageModel] = None
        self.generation_batch: Any = (
            None  # made by `generation.batch_of` when it is needed
        )
        self.blank_pieces: Any = None  # made by `filling` when they are needed

    def open(self) -> session.RestoredSession:
        """The session; UserError after `close`, and in a fork of the process."""
        if self._restored is None:
            raise UserError("the model is closed")
        self._restored.check_process()
        return self._restored

    def close(self) -> None:
        """Frees the memory of the weights."""
        restored, self._restored = self._restored, None
        if restored:
            restored.close()

    def tuned(self, verb: Optional[str] = None) -> FineTunedTask:
        """The task of a fine-tuned model; UserError if it has none, or its method is another."""
        tuned = self.loaded.tuned
        if tuned is None:
            raise wrong(
                "model", "a pretrained one", "one that was fine-tuned for a task"
            )
        if verb not in (None, tuned.task.type.verb):
            raise UserError(
                f"the model was trained for {tuned.task.type.name} ({tuned.task.name}): its method "
                f"is {tuned.task.type.verb}, not {verb}"
            )
        return tuned

    def predictor(self) -> Predictor:
        """Predicts rows with the output layer of the task."""
        tuned = self.tuned()

        def build() -> tuple[session.Tensors, session.Tensors]:
            inputs = placeholders(tuned)
            return inputs, TaskModel(
                self.loaded.config, tuned, self.loaded.network
            ).outputs(inputs)

        subgraph = self.open().subgraph("task", build)
        return Predictor(
            tuned, self.tokenizer, subgraph, self.batch_size, self.most_tokens
        )

    def language_model(self) -> LanguageModel:
        """The network with its output layer over the vocabulary; one for all threads."""
        restored = self.open()
        with self.lock:
            if self._language_model is None:
                self._language_model = LanguageModel(self.loaded, restored)
            return self._language_model

    @functools.cached_property
    def aligner(self) -> Aligner:
        """Finds the characters of each token of a text."""
        return Aligner(self.tokenizer)

    def note_cut(self, is_cut: np.ndarray, length: int) -> None:
        """Counts texts, bool [n], that lost some of their tokens; the first time with a warning."""
        cut = int(np.count_nonzero(is_cut))
        with self.lock:
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


def require_finite(values: np.ndarray) -> None:
    """Raises NotFinite for outputs of the network that are not finite numbers: whatever is chosen
    by them would look like an answer."""
    if not np.isfinite(values).all():
        raise NotFinite(
            "the outputs of the network are not finite numbers; if precision is fp16, give fp32"
        )


def row_of(
    tuned: FineTunedTask, number: int, asked: InlineExample, place: str = ""
) -> Row:
    """The row of an inline example; UserError, which begins with `place`, if it is bad."""
    row, fault = tuned.task.reader.row(str(number), asked)
    if fault:
        raise UserError(place + fault)
    return row
