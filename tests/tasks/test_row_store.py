"""Rows on disk: a sequence like any other."""

import collections
import os

import pytest

from xlnet.support.errors import UserError
from xlnet.tasks.files import row_store
from xlnet.tasks.files.row_store import MappedRows, StoredRows


def test_stored_rows_are_a_sequence(monkeypatch):
    monkeypatch.setattr(row_store, "_ROWS_AT_ONCE", 4)
    for count in (0, 1, 4, 11):
        values = [(f"row {i}", i) for i in range(count)]
        rows = StoredRows(iter(values))
        assert len(rows) == count and bool(rows) == bool(count)
        assert list(rows) == values == list(rows)
        assert [rows[i] for i in reversed(range(-count, count))] == [
            values[i] for i in reversed(range(-count, count))
        ]
        assert rows[1:9:3] == values[1:9:3]
        with pytest.raises(IndexError):
            rows[count]


Answer = collections.namedtuple("Answer", "text start")


def test_rows_come_back_as_they_were():
    """Their types, texts that no encoding has, numbers to the last bit; what they share is kept
    once."""
    shared = "\ud800é\0" * 50000
    values = [
        (
            i,
            None,
            True,
            0.1 + i,
            float("inf"),
            [Answer(shared, None), Answer("", i)],
            (),
            [],
        )
        for i in range(20)
    ]
    rows = StoredRows(values)
    assert (
        list(rows) == values
        and type(rows[3][5][1]) is Answer
        and type(rows[3][6]) is tuple
    )
    assert type(rows[3][2]) is bool and rows[3][5][0].text is rows[4][5][0].text
    assert rows._file.seek(0, os.SEEK_END) < 20 * len(shared)


def test_several_may_go_through_them_at_once(monkeypatch):
    monkeypatch.setattr(row_store, "_ROWS_AT_ONCE", 2)
    rows = StoredRows(range(7))
    assert list(zip(rows, rows)) == [(i, i) for i in range(7)]
    doubled = MappedRows(lambda row: 2 * row, rows)
    assert len(doubled) == 7 and list(doubled) == list(doubled) == list(range(0, 14, 2))


def test_a_full_disk_is_one_line(monkeypatch):
    monkeypatch.setattr(
        row_store.tempfile, "TemporaryFile", lambda **_: open("/dev/full", "wb")
    )
    with pytest.raises(
        UserError, match="rows in .*: found No space left on device, .*TMPDIR"
    ):
        StoredRows(["x" * 100] * 2000)
