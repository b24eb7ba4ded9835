"""What a loaded model is given, as rows: one text or several, pairs, questions, choices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlnet.errors import UserError
from xlnet.tasks.output import results
from xlnet.tasks.task import Asked
from xlnet.tasks.types import ranking
from xlnet.tokenization.tokenizer import is_text


def _plain(values: Any) -> Any:
    """Arrays and columns of tables as lists; anything else as it is."""
    for name in ("tolist", "to_list", "to_pylist"):  # NumPy and pandas, polars, pyarrow
        if hasattr(values, name):
            return getattr(values, name)()
    return values


def listed(texts: Any) -> tuple[list, bool]:
    """(list of items, whether `texts` was one item). A tuple is one item: a pair, or the words of a
    text."""
    texts = _plain(texts)
    # A list, or what else can be iterated over, is many of anything: a method needs no flag that
    # says what it was given. The iteration over a table would give the names of its columns.
    is_one = (
        isinstance(texts, (str, bytes, tuple, Mapping))
        or hasattr(texts, "columns")
        or not isinstance(texts, Iterable)
    )
    return ([texts], True) if is_one else (list(texts), False)


def in_order(texts: Any) -> Iterable[Any]:
    """The items of a list, an array, a column of a table, or a generator."""
    # The iteration over a table or a dict would give the names of its columns.
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
        raise UserError(f"found {type(item).__name__}, expected a text: str")
    if not is_text(item):
        raise UserError(
            f"found {item[:40]!r}, expected a text: it has code points that are no characters"
        )
    return str(item)  # not NumPy's


def pair(item: Any) -> tuple:
    """(text, second text or None) of a text, a pair, or a dict with `text` and `text_pair`."""
    if isinstance(item, Mapping):
        if not {"text"} <= set(item) <= {"text", "text_pair"}:
            raise UserError(
                "found a dict with {}, expected text, and text_pair of a pair".format(
                    ", ".join(map(str, item)) or "nothing"
                )
            )
        return (
            pair((item["text"], item["text_pair"]))
            if item.get("text_pair") is not None
            else pair(item["text"])
        )
    if isinstance(item, (tuple, list)):
        if len(item) != 2:
            raise UserError(f"found {len(item)} texts together, expected one text or a pair")
        return as_text(item[0]), as_text(item[1])
    return as_text(item), None


def several(name: str, values: Any) -> Sequence:
    """A list or a tuple; UserError if it is none."""
    if isinstance(values, tuple):
        return values
    items, is_one = listed(values)
    if is_one:
        raise UserError(f"{name} is {values!r:.80}, expected a list")
    return items


def together(**lists: Any) -> list[tuple]:
    """Tuples of what belongs together, of lists of equal length."""
    listed = [several(name, values) for name, values in lists.items()]
    sizes = list(map(len, listed))
    if len(set(sizes)) != 1:
        raise UserError(
            "found lists of {}, expected as many of each".format(" and ".join(map(str, sizes)))
        )
    return list(zip(*listed))


# ---- the item of each method


def _parts(item, *forms):
    """The parts of an item that is a tuple; forms: the names of its parts."""
    if not isinstance(item, (tuple, list)) or len(item) not in map(len, forms):
        raise UserError(
            "found {!r:.80}, expected {}".format(
                item, " or ".join("({})".format(", ".join(names)) for names in forms)
            )
        )
    return item


def _of_pair(item):
    return [Asked(*pair(item))]


def _of_choices(item):
    parts = _parts(item, ("text", "choices"), ("text", "choices", "question"))
    asked = parts[2] if len(parts) > 2 else None
    return [
        Asked(
            as_text(parts[0]),
            None if asked is None else as_text(asked),
            tuple(map(as_text, several("choices", parts[1]))),
        )
    ]


def _of_query(item):
    query, documents = _parts(item, ("query", "documents"))
    return [Asked(as_text(query), as_text(each)) for each in several("documents", documents)]


def _of_question(item):
    question, context = _parts(item, ("question", "context"))
    return [Asked(as_text(context), as_text(question))]


def _of_words(item):
    item = _plain(item)
    return [Asked(tuple(map(as_text, item)) if isinstance(item, (list, tuple)) else as_text(item))]


def _ranked(found):
    scores = np.array(found)
    return [
        results.Ranked(int(index), float(scores[index]))
        for index in ranking.best_first(scores, np.arange(len(scores)))
    ]


class Method(NamedTuple):
    """A method that asks a fine-tuned model: an item to its rows, and their results to its own."""

    rows: Callable[[Any], list[Asked]]
    result: Callable[[list], Any] = operator.itemgetter(0)


METHODS = {
    "classify": Method(_of_pair),
    "score": Method(_of_pair),
    "choose": Method(_of_choices),
    "rank": Method(_of_query, _ranked),
    "answer": Method(_of_question),
    "tag": Method(_of_words),
}
