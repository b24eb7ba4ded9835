"""What all calls of a loaded model share: the session, the parts of its graph, and its counts."""

from __future__ import annotations

import logging
import threading
from typing import Any, Optional

import numpy as np

from xlnet.engine.predictor import in_order as in_order_of_records
from xlnet.errors import UserError
from xlnet.finetuning.model import TaskModel
from xlnet.model_directory.model_files import LoadedModel
from xlnet.model_directory.task_settings import FineTunedTask
from xlnet.serving import session
from xlnet.serving.language_model import LanguageModel
from xlnet.settings.devices import DeviceSettings
from xlnet.tasks.features import encoding
from xlnet.tasks.features.by_length import batches_by_length
from xlnet.tasks.features.encoding import TokenCounts
from xlnet.tasks.task import InlineExample, Row

_log = logging.getLogger(__name__)

_BATCHES_AT_ONCE = 8  # texts of about equal length are batched out of so many batches


class Inference:
    """A loaded model and its session, which any number of threads may use.

    Attributes:
      loaded: the model's files.
      batch_size: texts that go through the network together, at most.
      most_tokens: tokens that go through the network together, at most, but at least one text;
        None: any number.
      at_once: texts that are sorted by length, at most.
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
        self.at_once = _BATCHES_AT_ONCE * batch_size
        self.cut = 0
        self._lock = threading.Lock()
        self._restored: Optional[session.RestoredSession] = session.RestoredSession(
            loaded.prefix, device
        )
        self._language_model: Optional[LanguageModel] = None

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

    def tuned(self, verb: Optional[str]) -> FineTunedTask:
        """The task of a fine-tuned model; UserError if it has none, or its method is another."""
        tuned = self.loaded.tuned
        if tuned is None:
            raise UserError(
                "the model is pretrained alone, expected one that was fine-tuned; it has encode, "
                "vectors, fill and generate"
            )
        if verb not in (None, tuned.task.type.verb):
            raise UserError(
                f"the model was trained for {tuned.task.type.name} ({tuned.task.name}): its method "
                f"is {tuned.task.type.verb}, not {verb}"
            )
        return tuned

    def language_model(self) -> LanguageModel:
        """The network with its output layer over the vocabulary; one for all threads."""
        restored = self.open()
        with self._lock:
            if self._language_model is None:
                self._language_model = LanguageModel(self.loaded, restored)
            return self._language_model

    # ---- what a fine-tuned model predicts

    def task_subgraph(self, tuned: FineTunedTask) -> session.Subgraph:
        """The part of the graph with the output layer of the task."""

        def build() -> tuple[session.Tensors, session.Tensors]:
            inputs = session.placeholders(tuned)
            model = TaskModel(self.loaded.config, tuned, self.loaded.network)
            return inputs, model.outputs(inputs)

        return self.open().subgraph("task", build)

    def values(self, tuned: FineTunedTask, rows: list[Row]) -> tuple[Any, TokenCounts]:
        """The `contract.Predictions.values` for n rows, as `--do_predict` computes them, and the
        counts of their tokens, int [n]."""
        # Rows to records: a long text may be several. Their outputs come in the order of lengths,
        # are put in that of the records, and the records of a row are joined.
        task, layout = tuned.task, tuned.layout
        records, windows = task.reader.encode(
            list(task.reader.examples(rows)), self.tokenizer, layout
        )
        counts = encoding.pop_token_counts(records)
        first = np.cumsum(windows) - windows
        subgraph = self.task_subgraph(tuned)
        joined = in_order_of_records(
            [
                dict(subgraph({name: name for name in subgraph.names}, batch), index=numbers)
                for numbers, batch in batches_by_length(
                    records, layout.max_seq_length, tuned.padding, self.batch_size, self.most_tokens
                )
            ]
        )
        joined["loss"] = np.zeros(len(records["input_ids"]), np.float32)  # without labels
        has_windows = encoding.has_windows(layout)
        values = task.head.join(joined, windows if has_windows else None).values
        return values, TokenCounts(counts.read[first], counts.total[first])

    # ---- texts that were longer than the network reads

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


def row_of(tuned: FineTunedTask, number: int, asked: InlineExample, place: str = "") -> Row:
    """The row of an inline example; UserError, which begins with `place`, if it is bad."""
    row, fault = tuned.task.reader.row(str(number), asked)
    if fault:
        raise UserError(place + fault)
    return row
