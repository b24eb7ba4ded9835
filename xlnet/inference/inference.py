"""What all calls of a loaded model share: the session, the parts of its graph, its counts, and what
a method may be given."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.corpus.offsets import align
from xlnet.corpus.tokenizer import Tokenizer, is_text
from xlnet.engine.devices import connect
from xlnet.engine.session import RestoredSession
from xlnet.finetuning.model import Predictor, TaskModel
from xlnet.inference.language_model import LanguageModel
from xlnet.runs.model_files import LoadedModel
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.devices import DeviceSettings
from xlnet.support.errors import UserError, wrong
from xlnet.tasks.contract import Task
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
    """A method of a model on items. An item that is bad is a UserError of `prepare`; one of
    `compute`, such as an output that is not finite, is that of all items that it has."""

    compute: Callable[[list], Sequence[Computed]]
    at_once: int = 1  # items that `compute` takes, at most
    prepare: Callable[[Any], Any] = lambda item: item  # to what `compute` takes

    def results(self, items: Iterable[Any]) -> Iterator[Computed | UserError]:
        """Yields the results of items, in their order; of a bad one its UserError."""
        rest = iter(items)
        while some := list(itertools.islice(rest, self.at_once)):
            yield from self._results(some)

    def _results(self, items: list) -> list[Computed | UserError]:
        # All items are checked before the others are computed together.
        found: list[Any] = []
        good: list[int] = []
        for number, item in enumerate(items):
            try:
                found.append(self.prepare(item))
                good.append(number)
            except UserError as e:
                found.append(e)
        if not good:
            return found
        computed: Sequence[Computed | UserError]
        try:
            computed = self.compute([found[number] for number in good])
        except UserError as e:
            computed = [e] * len(good)
        for number, result in zip(good, computed):
            found[number] = result
        return found


class Inference:
    """A loaded model and its session, which any number of threads may use.

    Attributes:
      loaded: the model's files.
      batch_size: texts that go through the network together, at most.
      most_tokens: tokens that go through the network together, at most, but at least one text;
        None: any number.
      session: with its weights.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        device: DeviceSettings,
        batch_size: int,
        most_tokens: int | None = None,
    ) -> None:
        self.loaded = loaded
        self.tokenizer = loaded.tokenizer
        self.batch_size, self.most_tokens = batch_size, most_tokens
        # Each process of a launcher, such as srun, has a model of its own.
        devices = connect(device.on_one_machine())
        self.session = RestoredSession(devices, loaded.prefix)
        self._has_noted_cut = False
        self._lock = threading.Lock()
        self._language_model: LanguageModel | None = None

    def tuned(self, verb: str | None = None) -> FineTunedTask:
        """The task of a fine-tuned model; UserError if it has none, or its method is another."""
        tuned = self.loaded.tuned
        if tuned is None:
            raise wrong("model", "a pretrained one", "one fine-tuned for a task")
        if verb not in (None, tuned.task.verb):
            found = f"one of {tuned.task.kind}, whose method is {tuned.task.verb}"
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

    def unknown_parts(self, text: str) -> list[tuple[int, int]]:
        """The (start, end) of each token of a text that is not in the vocabulary [characters]."""
        aligned = align(self.tokenizer, text)
        is_unknown = aligned.ids == self.tokenizer.unk_id
        starts, ends = aligned.starts[is_unknown], aligned.ends[is_unknown]
        return list(zip(starts.tolist(), ends.tolist()))

    def row(self, asked: InlineExample, place: str = "") -> tuple[Row, int]:
        """The row of an inline example, and how many tokens of its texts are unknown; UserError,
        which begins with `place`, if it is bad."""
        try:
            row = self.tuned().task.row("0", asked)
        except ValueError as e:
            raise UserError(f"{place}{e}") from e
        texts = itertools.chain.from_iterable(row.pairs)
        return row, count_unknown(self.tokenizer, texts, place)

    def note_cut(self, is_cut: np.ndarray, length: int) -> None:
        """Warns, the first time, that some texts, bool [n], lost some of their tokens."""
        cut = int(np.count_nonzero(is_cut))
        if cut and not self._has_noted_cut:
            self._has_noted_cut = True
            _log.warning(
                "note: %d text(s) of %d are cut to %d tokens; it is said once",
                cut,
                len(is_cut),
                length,
            )


# ---- what a method is given: one text or several, and pairs of them


def list_items(texts: Any) -> tuple[list, bool]:
    """(list of items, whether `texts` was one item). A tuple is one item: a pair, or the words of a
    text."""
    texts = plain(texts)
    if isinstance(texts, tuple) or not are_several(texts):
        return [texts], True
    return list(texts), False


def plain(values: Any) -> Any:
    """Arrays, and columns of pandas, as lists; anything else as it is."""
    return values.tolist() if hasattr(values, "tolist") else values


def are_several(texts: Any) -> bool:
    """Whether these are several items: a list, a column of a table, a generator."""
    # A table is one item, which is refused: iterating over it would give the names of its columns.
    is_item = isinstance(texts, (str, bytes, Mapping)) or hasattr(texts, "columns")
    return isinstance(texts, Iterable) and not is_item


def require_list(name: str, values: Any) -> Sequence:
    """A list or a tuple; UserError if it is none."""
    items = plain(values)
    if not are_several(items):
        raise wrong(name, f"{values!r:.80}", "a list")
    return list(items)


def as_text(item: Any) -> str:
    """A str; UserError if it is none."""
    if not isinstance(item, str) or not is_text(item):
        raise wrong("text", f"{item!r:.80}", "a text of characters")
    return str(item)  # not NumPy's


def pair(item: Any) -> tuple[str, str | None]:
    """(text, second text or None) of a text or a pair."""
    if isinstance(item, (tuple, list)):
        if len(item) != 2:
            raise wrong("text", f"{len(item)} texts together", "one text or a pair")
        return as_text(item[0]), as_text(item[1])
    return as_text(item), None


def example_of(item: Any, task: Task | None) -> InlineExample:
    """The example of a text or a pair in the order in which the network of a task reads it; a pair
    is in the order of the names of its texts, such as (question, context)."""
    if isinstance(item, InlineExample):
        return item
    first, second = pair(item)
    if second is not None and task and task.texts == ("question", "context"):
        first, second = second, first
    return InlineExample(first, second)


def count_unknown(
    tokenizer: Tokenizer, given: Iterable[str | None], place: str = ""
) -> int:
    """How many tokens of texts, of which some may be None, are not in the vocabulary; UserError,
    which begins with `place`, if no other token is there, as any answer would be of nothing."""
    texts = [text for text in given if text is not None]
    ids, _ = tokenizer.encode_to_array(texts)
    is_unknown = ids == tokenizer.unk_id
    is_mark = tokenizer.ids_without_mark[ids] < 0  # nothing but the mark of a space
    if (is_unknown | is_mark).all():
        found = f"{' '.join(texts)!r:.80}"
        raise wrong(f"{place}text", found, "tokens that are in the vocabulary")
    return int(np.count_nonzero(is_unknown))
