"""Calls of a loaded model on lists of items: batches, results in order, errors item by item."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
from tqdm import tqdm

from xlnet.errors import UserError

_SECONDS_WITHOUT_BAR = 2  # short calls have no progress bar


class Computed(NamedTuple):
    """The result of an item, and what was read of its texts.

    Attributes:
      tokens_read: how many tokens were read, without special ones; None: it is not known.
      tokens: of how many.
      unknown_tokens: how many tokens of its texts are not in the vocabulary.
    """

    result: Any
    tokens_read: Optional[int] = None
    tokens: Optional[int] = None
    unknown_tokens: Optional[int] = None

    def public(self) -> Any:
        """The result as a caller gets it: one with fields for the counts has them."""
        if self.tokens is not None and hasattr(self.result, "tokens_read"):
            return self.result._replace(
                tokens_read=self.tokens_read,
                tokens=self.tokens,
                unknown_tokens=self.unknown_tokens,
            )
        return self.result


class NotFinite(UserError):
    """What the network gave for an item is not a number."""


def require_finite(values: np.ndarray) -> None:
    """Raises NotFinite for outputs of the network that are not finite numbers: whatever is chosen
    by them would look like an answer."""
    if not np.isfinite(values).all():
        raise NotFinite(
            "the outputs of the network are not finite numbers; if precision is fp16, give fp32"
        )


class BatchedCall(NamedTuple):
    """A call on items, in two steps. An error of an item is raised by the first step, or is what
    the second one returns of it."""

    prepare: Callable[[Any], Any]  # from an item to what `compute` takes
    compute: Callable[[list], Sequence[Union[Computed, UserError]]]  # from a list of these
    at_once: int  # items that `compute` takes, at most


def progress_bar(total: Optional[int], is_wanted: bool) -> tqdm:
    """A progress bar on standard error, for work of some seconds and only on a terminal."""
    return tqdm(
        total=total,
        unit=" texts",
        leave=False,
        delay=_SECONDS_WITHOUT_BAR,
        disable=None if is_wanted else True,
    )


def compute_all(
    call: BatchedCall,
    items: Sequence[Any],
    errors: str,
    update: Callable[[int], object] = lambda done: None,
) -> list[Union[Computed, UserError]]:
    """The results of items, in their order; `update` is called with the number of items that are
    done since the last call.

    Raises:
      UserError: an item is bad; it has its number, from 0 on. With errors="return" the error is the
        result of the item.
    """
    # All items are checked before the first one is computed.
    found: list[Any] = []
    for number, item in enumerate(items):
        try:
            found.append(call.prepare(item))
        except UserError as e:
            if errors == "raise":
                raise _numbered(number, e) from None
            found.append(e)
    # Bad items are left out of the batches; the results of the others go where their items are.
    good = [number for number, each in enumerate(found) if not isinstance(each, UserError)]
    update(len(items) - len(good))
    for begin in range(0, len(good), call.at_once):
        some = good[begin : begin + call.at_once]
        for number, computed in zip(some, _computed(call, [found[number] for number in some])):
            if errors == "raise" and isinstance(computed, UserError):
                raise _numbered(number, computed)
            found[number] = computed
        update(len(some))
    return found


def _computed(call: BatchedCall, prepared: list[Any]) -> Sequence[Union[Computed, UserError]]:
    """What `compute` returns of some items; of one whose outputs are not finite, its error."""
    try:
        return call.compute(prepared)
    except NotFinite as e:
        if len(prepared) == 1:
            return [e]
    # The error does not say whose outputs they are, so each item is computed by itself.
    return [_computed(call, [one])[0] for one in prepared]


def pipe(call: BatchedCall, items: Iterable[Any], errors: str, shows_bar: bool) -> Iterator[Any]:
    """Yields the public results of items, and reads as many items at a time as the call takes."""
    # If `items` raises, the results of the items before it are yielded first.
    total = len(items) if isinstance(items, Sequence) else None
    iterator, first = iter(items), 0
    failure: Optional[Exception] = None
    with progress_bar(total, shows_bar) as progress:
        while failure is None:
            some: list[Any] = []
            try:
                for item in itertools.islice(iterator, call.at_once):
                    some.append(item)  # one by one: what was read before a failure is kept
            except Exception as e:
                failure = e
            if not some:
                break
            for number, found in enumerate(compute_all(call, some, "return", progress.update)):
                if isinstance(found, Computed):
                    yield found.public()
                elif errors == "raise":
                    raise _numbered(first + number, found)
                else:
                    yield found
            first += len(some)
    if failure is not None:
        raise failure


def _numbered(number: int, error: UserError) -> UserError:
    return UserError(f"text {number}: {error}")
