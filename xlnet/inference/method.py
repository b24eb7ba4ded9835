"""What the methods of a loaded model have in common: how items are computed, what an item may be,
and the model with its weights."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from xlnet.corpus.tokenizer import Tokenizer, is_text
from xlnet.engine.devices import connect
from xlnet.engine.session import RestoredSession
from xlnet.finetuning.model import Predictor, TaskModel
from xlnet.inference.language_model import LanguageModel
from xlnet.runs.model_files import LoadedModel
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.training import DeviceSettings
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.task import InlineExample, Published, Row

_log = logging.getLogger(__name__)

_BATCHES_AT_ONCE = 8  # texts of about equal length are batched out of so many batches


class Computed(NamedTuple):
    """The result of an item.

    Attributes:
      tokens_read: how many tokens of its texts were read, without special ones.
      tokens: how many there are.
    """

    result: Any
    tokens_read: int
    tokens: int


class Method:
    """A method of a model, with its settings.

    Attributes:
      at_once: items that are computed together, at most.
    """

    at_once = 1

    def prepare(self, item: Any) -> Any:
        """What `compute` takes of an item; UserError if the item is bad."""
        return item

    def compute(self, items: list) -> list[Computed]:
        """The results of items, of one or more. A UserError, such as of outputs that are not
        finite, is that of all of them."""
        return [self.compute_one(item) for item in items]

    def compute_one(self, item: Any) -> Computed:
        """The result of an item that is as it was given; UserError if it is bad. A method that
        computes several items together has `prepare` and `compute` in place of this."""
        raise NotImplementedError

    def results(self, items: Iterable[Any]) -> Iterator[Computed | UserError]:
        """Yields the results of items, in their order; of a bad one its UserError."""
        rest = iter(items)
        while some := list(itertools.islice(rest, self.at_once)):
            # All are checked before those that are good are computed together.
            prepared = []
            for item in some:
                try:
                    prepared.append(self.prepare(item))
                except UserError as e:
                    prepared.append(e)
            good = [each for each in prepared if not isinstance(each, UserError)]
            computed: Iterator[Computed | UserError]
            try:
                computed = iter(self.compute(good) if good else ())
            except UserError as e:
                computed = itertools.repeat(e)
            for each in prepared:
                yield each if isinstance(each, UserError) else next(computed)


class RestoredModel:
    """A trained model with its weights, which any number of threads may use.

    Args:
      device: where it runs, as of `DeviceSettings`.

    Attributes:
      loaded: the model's files.
      batch_size: texts that go through the network together, at most.
      at_once: texts that a method which batches them computes together, at most.
      most_tokens: tokens that go through the network together, at most, but at least one text;
        None: any number.
      verb: the method that predicts, such as "classify"; None for a pretrained model.
      published: the task's `task.Published`, such as what is replaced in texts; empty for a
        pretrained model.
      session: with its weights.
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
        # Each process of a launcher, such as srun, has a model of its own.
        devices = connect(DeviceSettings(device=device, num_hosts=1, xla=False))
        self.session = RestoredSession(devices, loaded.prefix)
        self._has_noted_cut = False
        self._lock = threading.Lock()
        self._language_model: LanguageModel | None = None

    def tuned(self, verb: str | None = None) -> FineTunedTask:
        """The task of a fine-tuned model; UserError if it has none, or its method is another."""
        tuned = self.loaded.tuned
        if tuned is None:
            raise wrong("model", "a pretrained one", "one fine-tuned for a task")
        if verb not in (None, self.verb):
            found = f"one of {tuned.task.kind}, whose method is {self.verb}"
            raise wrong("model", found, f"one with the method {verb}")
        return tuned

    def predictor(self) -> Predictor:
        """Predicts rows with the output layer of the task."""
        loaded = self.loaded
        model = TaskModel(loaded.config, self.tuned(), loaded.network)
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
        """The row of an inline example; UserError, which begins with `place`, if it is bad."""
        try:
            row = self.tuned().task.row(example)
        except ValueError as e:
            raise UserError(f"{place}{e}") from e
        texts = itertools.chain.from_iterable(row.pairs)
        require_known(self.tokenizer, texts, place)
        return row

    def note_cut(self, is_cut: np.ndarray, length: int) -> None:
        """Warns, the first time, if any of n texts was cut.

        Args:
          is_cut: bool [n], whether a text lost some of its tokens.
          length: to which texts are cut [tokens].
        """
        cut = int(np.count_nonzero(is_cut))
        if cut and not self._has_noted_cut:
            self._has_noted_cut = True
            _log.warning(
                "note: %d text(s) of %d are cut to %d tokens; it is said once",
                cut,
                len(is_cut),
                length,
            )


# ---- what a method is given: one item or several


def plain(values: Any) -> Any:
    """Arrays, and columns of a table, as lists; anything else as it is."""
    return values.tolist() if hasattr(values, "tolist") else values


def several(values: Any) -> Iterable | None:
    """The items of a list, an array, a column of a table or a generator; None if `values` is a
    single item."""
    values = plain(values)
    # A table is one item, which is refused: iterating over it would give the names of its columns.
    is_one = isinstance(values, (str, bytes, Mapping)) or hasattr(values, "columns")
    return values if isinstance(values, Iterable) and not is_one else None


def require_list(name: str, values: Any) -> list:
    """Several items as a list; UserError if it is a single one."""
    items = several(values)
    if items is None:
        raise wrong(name, f"{values!r:.80}", "a list")
    return list(items)


def as_text(item: Any) -> str:
    """A str; UserError if it is none."""
    if not isinstance(item, str) or not is_text(item):
        raise wrong("text", f"{item!r:.80}", "a text of characters")
    return str(item)  # not NumPy's


def pair(item: Any) -> tuple[str, str | None]:
    """(text, second text or None) of an item that is a text or a pair; UserError for others."""
    if isinstance(item, (tuple, list)):
        if len(item) != 2:
            raise wrong("text", f"{len(item)} texts together", "one text or a pair")
        return as_text(item[0]), as_text(item[1])
    return as_text(item), None


def require_known(
    tokenizer: Tokenizer, given: Iterable[str | None], place: str = ""
) -> None:
    """Raises UserError, which begins with `place`, if the vocabulary knows no token of these texts
    together, of which some may be None: an answer would be of nothing."""
    texts = [text for text in given if text is not None]
    ids, _ = tokenizer.encode_to_array(texts)
    is_unknown = ids == tokenizer.unk_id
    is_mark = tokenizer.ids_without_mark[ids] < 0  # nothing but the mark of a space
    if (is_unknown | is_mark).all():
        found = f"{' '.join(texts)!r:.80}"
        raise wrong(f"{place}text", found, "tokens that are in the vocabulary")
