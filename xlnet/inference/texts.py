"""What a loaded model is given: one text or several, and pairs of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from xlnet.corpus.tokenizer import Tokenizer, is_text
from xlnet.support.errors import wrong
from xlnet.tasks.task import InlineExample, Row, Task


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
    if isinstance(values, tuple):
        return values
    items, is_one = list_items(values)
    if is_one:
        raise wrong(name, f"{values!r:.80}", "a list")
    return items


def as_text(item: Any) -> str:
    """A str; UserError if it is none."""
    if not isinstance(item, str) or not is_text(item):
        raise wrong("text", f"{item!r:.80}", "a text of characters")
    return str(item)  # not NumPy's


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
