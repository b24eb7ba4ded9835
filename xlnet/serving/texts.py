"""What a loaded model is given, as rows: one text or several, pairs, questions, choices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from xlnet.errors import UserError
from xlnet.tasks.output import results
from xlnet.tasks.ranking import measures
from xlnet.tasks.task import Columns, InlineExample, Task
from xlnet.tokenization.tokenizer import is_text


def _plain(values: Any) -> Any:
    """Arrays and columns of tables as lists; anything else as it is."""
    for name in ("tolist", "to_list", "to_pylist"):  # NumPy and pandas, polars, pyarrow
        if hasattr(values, name):
            return getattr(values, name)()
    return values


def list_items(texts: Any) -> tuple[list, bool]:
    """(list of items, whether `texts` was one item). A tuple is one item: a pair, or the words of a
    text."""
    texts = _plain(texts)
    # Whatever can be iterated over is several items, except what a method takes as one item: a
    # text, a tuple, a dict. A table is refused later as one item: iterating over it would give the
    # names of its columns.
    is_one = (
        isinstance(texts, (str, bytes, tuple, Mapping))
        or hasattr(texts, "columns")
        or not isinstance(texts, Iterable)
    )
    return ([texts], True) if is_one else (list(texts), False)


def iterate_items(texts: Any) -> Iterable[Any]:
    """The items of a list, an array, a column of a table, or a generator."""
    # Iterating over a table or a dict would give the names of its columns.
    found = _plain(texts)
    if (
        isinstance(found, (str, bytes, Mapping))
        or hasattr(found, "columns")
        or not isinstance(found, Iterable)
    ):
        raise UserError(
            "texts is {}, expected a list or a generator of texts".format(
                " ".join((f"{texts!r:.80}").split())
            )
        )
    return found


def as_text(item: Any) -> str:
    """A str; UserError if it is none."""
    if not isinstance(item, str):
        raise UserError(f"found {item!r:.80}, expected a text")
    if not is_text(item):
        raise UserError(
            f"found {item[:40]!r}, expected a text: it has code points that are no characters"
        )
    return str(item)  # not NumPy's


_FIRST, _SECOND = ("text", "text_a"), ("text_pair", "text_b")  # names of the texts of a dict


def with_own_names(item: Any, columns: Columns) -> Any:
    """An item; a dict with the names of a task's own columns has `text` and `text_pair` instead."""
    if not isinstance(item, Mapping) or set(item) <= {_FIRST[0], _SECOND[0]}:
        return item
    # In a pair, `text_a`, `text_b` and `text_pair` keep their meaning, also where the column of the
    # other text is called so: requests to the server read them so, too.
    own = {
        name: known[0]
        for known, names, of_other_text in (
            (_FIRST, columns.text_a, _SECOND if columns.text_b else ()),
            (_SECOND, columns.text_b, _FIRST[1:]),
        )
        for name in names
        if len(names) == 1 and name not in of_other_text
    }
    if not set(own) & set(item):
        return item
    found = {}
    for name, text in item.items():
        if own.get(name, name) in found:
            raise UserError(f"found a dict with {', '.join(map(str, item))}, expected a text once")
        found[own.get(name, name)] = text
    return found


def pair(item: Any) -> tuple:
    """(text, second text or None) of a text, a pair, or a dict with `text` and `text_pair`, which
    may be called `text_a` and `text_b`, too."""
    if isinstance(item, Mapping):
        first, second = ([name for name in names if name in item] for names in (_FIRST, _SECOND))
        if len(first) != 1 or len(second) > 1 or len(item) > len(first + second):
            raise UserError(
                "found a dict with {}, expected text, and text_pair of a pair".format(
                    ", ".join(map(str, item)) or "nothing"
                )
            )
        text, text_pair = item[first[0]], item[second[0]] if second else None
        return pair(text) if text_pair is None else pair((text, text_pair))
    if isinstance(item, (tuple, list)):
        if len(item) != 2:
            raise UserError(f"found {len(item)} texts together, expected one text or a pair")
        return as_text(item[0]), as_text(item[1])
    return as_text(item), None


def pair_of(item: Any, task: Optional[Task]) -> tuple:
    """`pair` in the order in which the network of a task reads it: a tuple of a question and its
    context, as `Model.answer` takes them, is (context, question). None: a model without a task."""
    if task is None:
        return pair(item)
    item = with_own_names(item, task.columns)
    if task.type.verb == "answer" and isinstance(item, (tuple, list)):
        item = tuple(reversed(item))
    return pair(item)


def require_list(name: str, values: Any) -> Sequence:
    """A list or a tuple; UserError if it is none, or a set: these items belong to others by their
    order, as choices to their numbers."""
    if isinstance(values, tuple):
        return values
    items, is_one = list_items(values)
    if is_one or isinstance(values, (set, frozenset)):
        raise UserError(f"{name} is {values!r:.80}, expected a list")
    return items


def zip_lists(**lists: Any) -> list[tuple]:
    """Tuples of what belongs together, of lists of equal length."""
    lists_of_items = [require_list(name, values) for name, values in lists.items()]
    sizes = list(map(len, lists_of_items))
    if len(set(sizes)) != 1:
        raise UserError(
            "found lists of {}, expected as many of each".format(" and ".join(map(str, sizes)))
        )
    return list(zip(*lists_of_items))


# ---- the item of each method


def _parts(item: Any, *forms: tuple[str, ...]) -> Sequence[Any]:
    """The parts of an item that is a tuple; forms: the names of its parts."""
    if not isinstance(item, (tuple, list)) or len(item) not in map(len, forms):
        raise UserError(
            "found {!r:.80}, expected {}".format(
                item, " or ".join("({})".format(", ".join(names)) for names in forms)
            )
        )
    return item


def _of_pair(item: Any) -> list[InlineExample]:
    return [InlineExample(*pair(item))]


def _of_choices(item: Any) -> list[InlineExample]:
    parts = _parts(item, ("text", "choices"), ("text", "choices", "question"))
    asked = parts[2] if len(parts) > 2 else None
    return [
        InlineExample(
            as_text(parts[0]),
            None if asked is None else as_text(asked),
            tuple(map(as_text, require_list("choices", parts[1]))),
        )
    ]


def _of_query(item: Any) -> list[InlineExample]:
    query, documents = _parts(item, ("query", "documents"))
    documents = require_list("documents", documents)
    return [InlineExample(as_text(query), as_text(document)) for document in documents]


def _of_question(item: Any) -> list[InlineExample]:
    question, context = _parts(item, ("question", "context"))
    return [InlineExample(as_text(context), as_text(question))]


def _of_words(item: Any) -> list[InlineExample]:
    item = _plain(item)
    if isinstance(item, (list, tuple)):
        return [InlineExample(tuple(map(as_text, item)))]
    return [InlineExample(as_text(item))]


def _ranked(found: list) -> list[results.Ranked]:
    scores = np.array(found)
    return [
        results.Ranked(int(index), float(scores[index]))
        for index in measures.best_first(scores, np.arange(len(scores)))
    ]


class Method(NamedTuple):
    """A method that queries a fine-tuned model.

    Attributes:
      rows: makes the examples of an item, such as one for each document of a query.
      result: makes the result of the item of the results of these.
    """

    rows: Callable[[Any], list[InlineExample]]
    result: Callable[[list], Any] = operator.itemgetter(0)


METHODS = {
    "classify": Method(_of_pair),
    "score": Method(_of_pair),
    "choose": Method(_of_choices),
    "rank": Method(_of_query, _ranked),
    "answer": Method(_of_question),
    "tag": Method(_of_words),
}
