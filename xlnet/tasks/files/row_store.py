"""Rows of files that are larger than the memory: on disk, gone through in order.

Shape letters: n rows.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import IO, Any, Callable

import numpy as np

from xlnet.errors import UserError

_ROWS_AT_ONCE = 500
_ROWS_IN_MEMORY = 10000
_BLOCKS_IN_MEMORY = 8           # of rows asked for by number
_COPY_IN_MEMORY = 1 << 26       # [bytes]
_NAMES_APART = 1000      # names that are added before they are sorted, as long as there are few


class StoredRows(Sequence):
    """Rows in a temporary file, which is gone with this object.

    A row is made of None, numbers, texts, lists, tuples and named tuples of such. Of rows that
    stand side by side what they share, such as a paragraph, is stored once.

    Raises:
      UserError: there is no room for them.
    """

    def __init__(self, rows: Iterable[Any]):
        self._file = tempfile.TemporaryFile(prefix="xlnet-rows-")
        self._places = [0]       # where in the file each block begins, and the last one ends
        self._types: dict[type, int] = {}    # of lists and tuples, in the order of their numbers
        self._count = 0
        rows = iter(rows)
        for block in iter(lambda: list(itertools.islice(rows, _ROWS_AT_ONCE)), []):
            self._write(block)
        self._block = functools.lru_cache(maxsize=_BLOCKS_IN_MEMORY)(self._read_block)

    def _write(self, block):
        packed = json.dumps(self._packed(block)).encode("ascii")
        with _says_where():
            self._file.write(packed)
            self._file.flush()
        self._places.append(self._file.tell())
        self._count += len(block)

    def _read_block(self, number):
        begin, end = self._places[number:number + 2]
        self._file.seek(begin)
        return _unpacked(json.loads(self._file.read(end - begin)), list(self._types))

    def _packed(self, values):
        """What JSON has for the values of one place in many rows, which is a list: its form, and
        what `_unpacked` needs to know of that form."""
        kinds = [(type(value), len(value)) if isinstance(value, (list, tuple)) else None
                 for value in values]
        several = list(dict.fromkeys(kinds))
        if len(several) > 1:
            groups = [[i for i, kind in enumerate(kinds) if kind == each] for each in several]
            return [_MIXED, [(group, self._packed([values[i] for i in group]))
                             for group in groups]]
        if several[0] is None:
            return _packed_plain(values)
        kind, _ = several[0]
        return [self._types.setdefault(kind, len(self._types)), len(values),
                [self._packed(column) for column in zip(*values)]]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self._places) - 1):
            yield from self._read_block(number)

    def __getitem__(self, index: Any) -> Any:
        """The row `index`, or a list of those of a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        number, place = divmod(range(self._count)[index], _ROWS_AT_ONCE)
        return self._block(number)[place]

    def __eq__(self, other: object) -> bool:
        """Whether another sequence has the same rows."""
        return isinstance(other, Sequence) and len(self) == len(other) and all(
            one == another for one, another in zip(self, other))


def kept(rows: Iterable[Any]) -> Sequence[Any]:
    """A list of few rows, `StoredRows` of many."""
    rest = iter(rows)
    first = list(itertools.islice(rest, _ROWS_IN_MEMORY + 1))
    return first if len(first) <= _ROWS_IN_MEMORY else StoredRows(itertools.chain(first, rest))


def temporary_copy(stream: Any) -> IO[bytes]:
    """What a stream holds, as a file that can be read several times and is gone with this object.

    Raises:
      UserError: there is no room for it.
    """
    copy = tempfile.SpooledTemporaryFile(_COPY_IN_MEMORY, prefix="xlnet-stdin-")
    with _says_where():
        shutil.copyfileobj(stream, copy)
    copy.seek(0)
    return copy


@contextlib.contextmanager
def _says_where():
    try:
        yield
    except OSError as e:
        raise UserError("rows cannot be kept in %s: %s; set TMPDIR to a directory elsewhere"
                        % (tempfile.gettempdir(), e.strerror)) from None


_PLAIN, _SHARED, _MIXED = "plain", "shared", "mixed"    # forms, beside the numbers of types


def _packed_plain(values):
    """As `StoredRows._packed`, of texts, numbers and None; a text of several rows is kept once."""
    if set(map(type, values)) <= {str, type(None)}:
        numbers = {text: number for number, text in enumerate(dict.fromkeys(values))}
        if 2 * len(numbers) <= len(values):
            return [_SHARED, list(numbers), [numbers[text] for text in values]]
    return [_PLAIN, values]


def _unpacked(packed, types):
    """The values of which `StoredRows._packed` made `packed`."""
    form, *rest = packed
    if form == _PLAIN:
        return rest[0]
    if form == _SHARED:
        texts, numbers = rest
        return [texts[number] for number in numbers]
    if form == _MIXED:
        found = {place: value for places, group in rest[0]
                 for place, value in zip(places, _unpacked(group, types))}
        return [found[place] for place in range(len(found))]
    count, columns = rest
    make = getattr(types[form], "_make", types[form])
    return list(map(make, zip(*[_unpacked(column, types) for column in columns]))) if columns \
        else [make(()) for _ in range(count)]


class Mapped(Collection):
    """What a function makes of each row, or of rows side by side, made whenever it is gone
    through."""

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
    """A number of 8 bytes in the place of a text."""
    content = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


class Names:
    """A set of names in 8 bytes each: of a million different ones two are taken for the same with
    a chance of 3 in 100 million."""

    def __init__(self) -> None:
        self._sorted = np.zeros(0, np.uint64)
        self._recent: set[int] = set()

    def add(self, name: str) -> bool:
        """Adds a name; returns False where it was there."""
        number = digest(name)
        place = np.searchsorted(self._sorted, np.uint64(number))
        if number in self._recent or place < len(self._sorted) and self._sorted[place] == number:
            return False
        self._recent.add(number)
        if len(self._recent) > max(_NAMES_APART, len(self._sorted) // 8):
            self._sorted = np.sort(np.append(self._sorted, np.array(list(self._recent), np.uint64)))
            self._recent.clear()
        return True
