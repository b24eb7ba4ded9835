"""Rows of files that are larger than the memory: on disk, read in order. n: their number."""

from __future__ import annotations

import functools
import hashlib
import itertools
import pickle
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Callable

from xlnet.support.errors import wrong

_ROWS_AT_ONCE = 500
_ROWS_IN_MEMORY = 10000
_BLOCKS_IN_MEMORY = 8  # of rows that are read by number


class StoredRows(Sequence):
    """Rows in a temporary file that exists as long as this object."""

    def __init__(self, rows: Iterable[Any]):
        # A file without a name is removed with the process, however that ends.
        self._file = tempfile.TemporaryFile(prefix="xlnet-rows-")
        self._offsets: list[int] = []  # of each block in the file
        self._count = 0
        rows = iter(rows)
        for block in iter(lambda: list(itertools.islice(rows, _ROWS_AT_ONCE)), []):
            self._offsets.append(self._file.tell())
            try:
                self._file.write(pickle.dumps(block))
                self._file.flush()
            except OSError as e:
                where = f"rows in {tempfile.gettempdir()}"
                raise wrong(where, e.strerror, "room for them", "TMPDIR") from None
            self._count += len(block)
        self._block = functools.lru_cache(maxsize=_BLOCKS_IN_MEMORY)(self._read_block)

    def _read_block(self, number: int) -> list[Any]:
        self._file.seek(self._offsets[number])
        return pickle.load(self._file)  # noqa: S301  a file without a name that we wrote

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self._offsets)):
            yield from self._read_block(number)

    def __getitem__(self, index: Any) -> Any:
        """The row `index`, or a list of those of a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        number, i = divmod(range(self._count)[index], _ROWS_AT_ONCE)
        return self._block(number)[i]


def store_rows(rows: Iterable[Any]) -> Sequence[Any]:
    """A list of few rows, `StoredRows` of many."""
    # Reading one row more than may be held in memory shows whether there are too many.
    rest = iter(rows)
    first = list(itertools.islice(rest, _ROWS_IN_MEMORY + 1))
    return (
        first
        if len(first) <= _ROWS_IN_MEMORY
        else StoredRows(itertools.chain(first, rest))
    )


class MappedRows(Collection):
    """The values of a function for each row, or for several rows in parallel, computed again in
    each iteration."""

    def __init__(self, function: Callable[..., Any], *rows: Collection[Any]):
        self._function = function
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows[0])

    def __iter__(self) -> Iterator[Any]:
        return map(self._function, *self._rows)

    def __contains__(self, value: object) -> bool:
        return any(value == each for each in self)


def digest(text: str) -> int:
    """A number of 8 bytes that represents a text: of a million different ones, two have the same
    number with a probability of 3 in 100 million."""
    content = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
