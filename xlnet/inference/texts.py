"""What a loaded model is given, as rows: one text or several, pairs, questions, choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from xlnet.corpus.tokenizer import Tokenizer, is_text
from xlnet.support.errors import wrong
from xlnet.tasks import ranking
from xlnet.tasks.output import results
from xlnet.tasks.task import InlineExample, Row, Task


def list_items(texts: Any) -> tuple[list, bool]:
    """(list of items, whether `texts` was one item). A tuple is one item: a pair, or the words of a
    text."""
    texts = _plain(texts)
    if isinstance(texts, tuple) or not _are_several(texts):
        return [texts], True
    return list(texts), False


def iterate_items(texts: Any) -> Iterable[Any]:
    """The items of a list, an array, a column of a table, or a generator."""
    found = _plain(texts)
    if not _are_several(found):
        raise wrong("texts", f"{texts!r:.80}", "a list or a generator of texts")
    return found


def _plain(values: Any) -> Any:
    """Arrays and columns of tables as lists; anything else as it is."""
    for name in ("tolist", "to_list", "to_pylist"):  # NumPy and pandas, polars, pyarrow
        if hasattr(values, name):
            return getattr(values, name)()
    return values


def _are_several(texts: Any) -> bool:
    # A table is one item, which is refused: iterating over it would give the names of its columns.
    is_item = isinstance(texts, (str, bytes, Mapping)) or hasattr(texts, "columns")
    return isinstance(texts, Iterable) and not is_item


def as_text(item: Any) -> str:
    """A str; UserError if it is none."""
    if not isinstance(item, str) or not is_text(item):
        raise wrong("text", f"{item!r:.80}", "a text of characters")
    return str(item)  # not NumPy's


def texts_of(row: Row) -> list[str]:
    """The texts of a row, in the order in which they are read."""
    found = []
    for pair in row.pairs:
        found += [text for text in pair if text is not None]
    return found


def count_unknown(tokenizer: Tokenizer, texts: Sequence[str], place: str = "") -> int:
    """How many tokens of texts are not in the vocabulary; UserError, which begins with `place`, if
    no other token is there, as any answer would be of nothing."""
    ids, _ = tokenizer.encode_to_array(texts)
    is_unknown = ids == tokenizer.unk_id
    is_mark = tokenizer.ids_without_mark[ids] < 0  # nothing but the mark of a space
    if (is_unknown | is_mark).all():
        found = f"{' '.join(texts)!r:.80}"
        raise wrong(f"{place}text", found, "tokens that are in the vocabulary")
    return int(np.count_nonzero(is_unknown))


def pair(item: Any) -> tuple[str, Optional[str]]:
    """(text, second text or None) of a text or a pair."""
    if isinstance(item, (tuple, list)):
        if len(item) != 2:
            raise wrong("text", f"{len(item)} texts together", "one text or a pair")
        return as_text(item[0]), as_text(item[1])
    return as_text(item), None


def example_of(item: Any, task: Optional[Task]) -> InlineExample:
    """The example of a text or a pair in the order in which the network of a task reads it; a pair
    is in the order of the names of its texts, such as (question, context)."""
    if isinstance(item, InlineExample):
        return item
    first, second = pair(item)
    if second is not None and task and task.reader.texts == ("question", "context"):
        first, second = second, first
    return InlineExample(first, second)


def layers_of(layers: Any, least: int, most: int) -> list[int]:
    """A list of numbers of layers; UserError unless all are from `least` to `most`."""
    expected = f"a list of numbers from {least} to {most}, such as [1]"
    if not isinstance(layers, (list, tuple, range, np.ndarray)) or not len(layers):
        raise wrong("layers", repr(layers), expected)
    for layer in layers:
        is_number = isinstance(layer, (int, np.integer)) and not isinstance(layer, bool)
        if not is_number or not least <= layer <= most:
            raise wrong("layers", repr(layer), expected)
    return [int(layer) for layer in layers]


def require_list(name: str, values: Any) -> Sequence:
    """A list or a tuple; UserError if it is none, or a set: these items belong to others by their
    order, as choices to their numbers."""
    if isinstance(values, tuple):
        return values
    items, is_one = list_items(values)
    if is_one or isinstance(values, (set, frozenset)):
        raise wrong(name, f"{values!r:.80}", "a list")
    return items


def zip_lists(**lists: Any) -> list[tuple]:
    """Tuples of what belongs together, of lists of equal length."""
    lists_of_items = [require_list(name, values) for name, values in lists.items()]
    sizes = [len(items) for items in lists_of_items]
    if len(set(sizes)) != 1:
        found = f"lists of {' and '.join(map(str, sizes))}"
        raise wrong(", ".join(lists), found, "as many of each")
    return list(zip(*lists_of_items))


# ---- the item of each method ----

VERBS = (
    "classify",
    "score",
    "choose",
    "rank",
    "answer",
    "tag",
)  # methods of fine-tuned models


def examples_of(verb: str, item: Any) -> list[InlineExample]:
    """The examples of an item of a method, such as one for each document of a query."""
    if isinstance(item, InlineExample):
        return [item]
    if verb == "choose":
        text, choices, question = _parts(item, ("text", "choices", "question"))
        texts = tuple(map(as_text, require_list("choices", choices)))
        return [InlineExample(as_text(text), question and as_text(question), texts)]
    if verb == "rank":
        query, documents = _parts(item, ("query", "documents"))
        examples = []
        for document in require_list("documents", documents):
            examples.append(InlineExample(as_text(query), as_text(document)))
        return examples
    if verb == "answer":
        question, context = _parts(item, ("question", "context"))
        return [InlineExample(as_text(context), as_text(question))]
    if verb == "tag" and isinstance(_plain(item), (list, tuple)):
        return [InlineExample(tuple(map(as_text, _plain(item))))]
    return [InlineExample(*pair(item))]


def ranked(found: list) -> list[results.Ranked]:
    """The documents of a query by their scores, best first."""
    scores = np.array(found)
    documents = []
    for index in ranking.best_first(scores):
        documents.append(results.Ranked(int(index), float(scores[index])))
    return documents


def _parts(item: Any, names: tuple[str, ...]) -> Sequence[Any]:
    """The parts of an item that is a tuple; the question of a choice may be missing."""
    if isinstance(item, (tuple, list)):
        if len(item) == len(names):
            return item
        if names[-1] == "question" and len(item) == 2:
            return (*item, None)
    raise wrong("text", f"{item!r:.80}", f"({', '.join(names)})")
