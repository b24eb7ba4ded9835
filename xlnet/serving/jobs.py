"""Lists of items: results in the order of the items, errors item by item, progress bars."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional

from tqdm import tqdm

from xlnet.errors import UserError

_SECONDS_WITHOUT_BAR = 2        # short calls have none


class Job(NamedTuple):
    """What is done with each item.

    Attributes:
      prepare: function from an item to what `compute` takes; its UserErrors are about that item.
      compute: function from a list of these to their results.
      at_once: items that `compute` takes, at most.
    """
    prepare: Callable[[Any], Any]
    compute: Callable[[list], Sequence[Any]]
    at_once: int


def bar(total: Optional[int], is_wanted: bool) -> tqdm:
    """A progress bar on standard error, for work of some seconds and only on a terminal."""
    return tqdm(total=total, unit=" texts", leave=False, delay=_SECONDS_WITHOUT_BAR,
                disable=None if is_wanted else True)


def results(job: Job, items: Sequence[Any], errors: str, update: Callable[[int], object]) -> list:
    """The results of items, in their order.

    Args:
      errors: "raise", or "return": the result of a bad item is its UserError.
      update: called with the number of items that are done since the last call.

    Raises:
      UserError: an item is bad; it is named by its number, from 0 on.
    """
    found: list[Any] = []
    for number, item in enumerate(items):
        try:
            found.append(job.prepare(item))
        except UserError as e:
            if errors == "raise":
                raise _numbered(number, e) from None
            found.append(e)
    good = [number for number, each in enumerate(found) if not isinstance(each, UserError)]
    update(len(items) - len(good))
    for begin in range(0, len(good), job.at_once):
        some = good[begin:begin + job.at_once]
        for number, result in zip(some, job.compute([found[number] for number in some])):
            found[number] = result
        update(len(some))
    return found


def pipe(job: Job, items: Iterable[Any], errors: str, shows_bar: bool) -> Iterator[Any]:
    """Yields what `results` returns, and reads as many items at a time as the job takes.

    If `items` raises, the results of the items before it are yielded first.
    """
    total = len(items) if isinstance(items, Sequence) else None
    iterator, first = iter(items), 0
    failure: Optional[Exception] = None
    with bar(total, shows_bar) as progress:
        while failure is None:
            some: list[Any] = []
            try:
                for item in itertools.islice(iterator, job.at_once):
                    some.append(item)       # one by one: what was read before a failure is kept
            except Exception as e:
                failure = e
            if not some:
                break
            for number, result in enumerate(results(job, some, "return", progress.update), first):
                if errors == "raise" and isinstance(result, UserError):
                    raise _numbered(number, result)
                yield result
            first += len(some)
    if failure is not None:
        raise failure


def _numbered(number, error):
    return UserError("text %d: %s" % (number, error))
