"""What the methods of a loaded model have in common: how items are computed, what an item may be,
and the model with its weights. An item is what a method takes for one result, such as a text."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.corpus.tokenizer import Tokenizer, is_text
from xlnet.engine.devices import connect
from xlnet.engine.session import RestoredSession
from xlnet.finetuning.model import Predictor, TaskModel
from xlnet.inference.language_model import LanguageModel
from xlnet.inference.settings import plain
from xlnet.runs.model_files import LoadedModel
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.training import DeviceSettings
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.fields import InlineExample, Published, Row

_log = logging.getLogger(__name__)

# Texts are taken for so many batches at once, and sorted by length: a batch has texts of about
# equal length, so little padding.
_BATCHES_AT_ONCE = 8


class Computed(NamedTuple):
    """The result of an item, and how much of the item was read.

    Attributes:
      result: what the method of `Model` returns for one item.
      tokens_read: how many tokens of the item's texts were read, without special ones.
      tokens: how many tokens the texts have, without special ones.
    """

    result: Any
    tokens_read: int
    tokens: int


class Method:
    """A method of a model, with its settings. `results` calls `prepare` for each item, then
    `compute` for those that are good; a subclass overrides these two, or `compute_one` alone.

    Attributes:
      at_once: items that are computed together, at most.
    """

    at_once = 1

    def prepare(self, item: Any) -> Any:
        """What `compute` takes of an item; UserError if the item is bad."""
        return item

    def compute(self, items: list) -> list[Computed]:
        """The results of one or more items, as `prepare` returned them. A UserError, such as of
        outputs that are not finite, counts for all of these items."""
        return [self.compute_one(item) for item in items]

    def compute_one(self, item: Any) -> Computed:
        """The result of an item as the caller gave it; UserError if it is bad. A method that
        computes several items together has `prepare` and `compute` in place of this."""
        raise NotImplementedError

    def results(self, items: Iterable[Any]) -> Iterator[Computed | UserError]:
        """Yields the result of each item, in their order; for a bad item its UserError. `items` may
        be endless: at most `at_once` of them are read before their results are yielded."""
        remaining = iter(items)
        while group := list(itertools.islice(remaining, self.at_once)):
            # All are checked before those that are good are computed together.
            prepared: list[Any] = []  # what `compute` takes of an item, or its error
            for item in group:
                try:
                    prepared.append(self.prepare(item))
                except UserError as e:
                    prepared.append(e)
            good = [entry for entry in prepared if not isinstance(entry, UserError)]
            computed: Sequence[Computed | UserError] = ()  # of each good item
            if good:
                try:
                    computed = self.compute(good)
                except UserError as e:
                    computed = [e] * len(good)
            next_computed = iter(computed)
            for entry in prepared:
                yield entry if isinstance(entry, UserError) else next(next_computed)


class RestoredModel:
    """A trained model with its weights, which any number of threads may use.

    Args:
      device: where it runs, "auto", "gpu" or "cpu".

    Attributes:
      task, labels, n_layer, tokenizer, max_seq_length: as of `Model`.
      loaded: the model's files.
      batch_size: texts that go through the network together, at most.
      at_once: texts that a method which batches them computes together, at most.
      most_tokens: tokens that go through the network together, at most, but at least one text;
        None: any number.
      verb: the method that predicts, such as "classify"; None for a pretrained model.
      published: the task's `fields.Published`, such as what is replaced in texts; empty for a
        pretrained model.
      session: a `RestoredSession` with its weights.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        device: str,
        batch_size: int,
        most_tokens: int | None = None,
    ) -> None:
        self.loaded = loaded
        self.batch_size, self.most_tokens = batch_size, most_tokens
        self.at_once = _BATCHES_AT_ONCE * batch_size
        self.tokenizer = loaded.tokenizer
        self.n_layer = loaded.config.n_layer
        self.max_seq_length = loaded.max_seq_length
        task = loaded.tuned.task if loaded.tuned else None
        self.task: str | None = task.name if task else None
        self.verb: str | None = task.verb if task else None
        self.labels: tuple[str, ...] | None = None
        if task and task.labels:
            self.labels = task.labels
        self.published = task.published if task else Published()
        # One host: each process of a launcher, such as srun, has a model of its own. Without XLA,
        # which is for training steps.
        devices = connect(DeviceSettings(device=device, num_hosts=1, xla=False))
        self.session = RestoredSession(devices, loaded.prefix)
        self._has_noted_cut = False
        self._lock = threading.Lock()
        self._language_model: LanguageModel | None = None

    def require_tuned(self, verb: str | None = None) -> FineTunedTask:
        """The task of a fine-tuned model, and its settings; UserError if the model is only
        pretrained, or `verb` is given and is not the method of its task."""
        tuned = self.loaded.tuned
        if tuned is None:
            raise wrong("model", "a pretrained one", "one fine-tuned for a task")
        if verb not in (None, self.verb):
            found = f"one of {tuned.task.kind}, whose method is {self.verb}"
            raise wrong("model", found, f"one with the method {verb}")
        return tuned

    def predictor(self) -> Predictor:
        """A `Predictor` of rows: the network with the output layer of the task. UserError for a
        model that is only pretrained."""
        loaded = self.loaded
        model = TaskModel(loaded.config, self.require_tuned(), loaded.network)
        return Predictor(
            model, self.tokenizer, self.session, self.batch_size, self.most_tokens
        )

    def language_model(self) -> LanguageModel:
        """The network with its output layer over the vocabulary; one for all threads."""
        with self._lock:
            if self._language_model is None:
                self._language_model = LanguageModel(self.loaded, self.session)
            return self._language_model

    def row(self, example: InlineExample, place: str = "") -> Row:
        """The row of an example from a call in Python, as the task reads rows of files. UserError,
        which begins with `place`, if it is bad."""
        try:
            row = self.require_tuned().task.row(example)
        except ValueError as e:  # whose text says what is wrong
            raise UserError(f"{place}{e}") from e
        texts = itertools.chain.from_iterable(row.pairs)  # of all pairs, or None
        require_known(self.tokenizer, texts, place)
        return row

    def note_cut(self, is_cut: np.ndarray, length: int) -> None:
        """Warns, the first time, if any of n texts was cut.

        Args:
          is_cut: bool [n], whether a text lost some of its tokens.
          length: to which texts are cut [tokens].
        """
        num_cut = int(np.count_nonzero(is_cut))
        if num_cut and not self._has_noted_cut:
            self._has_noted_cut = True
            _log.warning(
                "note: %d text(s) of %d are cut to %d tokens; it is said once",
                num_cut,
                len(is_cut),
                length,
            )


# ---- what a method is given: one item or several


def several(values: Any) -> Iterable | None:
    """The items of a list, an array, a column of a table or a generator; None if `values` is a
    single item."""
    values = plain(values)
    # A table of pandas (it has `columns`) is one item, which methods refuse: iterating over it
    # would give the names of its columns.
    is_one = isinstance(values, (str, bytes, Mapping)) or hasattr(values, "columns")
    return values if isinstance(values, Iterable) and not is_one else None


def require_list(name: str, values: Any) -> list:
    """Several items as a list; UserError if it is a single one."""
    items = several(values)
    if items is None:
        raise wrong(name, f"{values!r:.80}", "a list")
    return list(items)


def as_text(item: Any) -> str:
    """The item as a str; UserError if it is none, or has half a character (`is_text`)."""
    if not isinstance(item, str) or not is_text(item):
        raise wrong("text", f"{item!r:.80}", "a text of characters")
    return str(item)  # NumPy's type of a text is a subclass of str


def pair(item: Any) -> tuple[str, str | None]:
    """(text, second text or None) of an item that is a text or a pair; UserError for others."""
    if isinstance(item, (tuple, list)):
        if len(item) != 2:
            raise wrong("text", f"{len(item)} texts together", "one text or a pair")
        return as_text(item[0]), as_text(item[1])
    return as_text(item), None


def require_known(
    tokenizer: Tokenizer, texts: Iterable[str | None], place: str = ""
) -> None:
    """Raises UserError, which begins with `place`, if the vocabulary knows no token of all texts
    together: a prediction would be about nothing. A text that is None is left out."""
    present = [text for text in texts if text is not None]
    ids, _ = tokenizer.encode_to_array(present)  # [T], of all texts
    is_unknown = ids == tokenizer.unk_id
    is_mark = tokenizer.ids_without_mark[ids] < 0  # nothing but the mark of a space
    if (is_unknown | is_mark).all():
        found = f"{' '.join(present)!r:.80}"
        raise wrong(f"{place}text", found, "tokens that are in the vocabulary")
