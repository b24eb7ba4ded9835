"""The rows of a task's splits, and of files to predict: each file read by the task's `Reader`."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from xlnet.support.errors import wrong
from xlnet.tasks.files import readers
from xlnet.tasks.files.row_store import digest, store_rows
from xlnet.tasks.task import Row, Task

# --- Splits


def read_parts(
    task: Task, data_dir: str, part: str, need_labels: bool
) -> dict[str, Sequence[Row]]:
    """The rows of a part, "train" or one file of a split, and of the part that is read with it, if
    dev is held out of the train file."""
    is_held_out = (
        part in ("train", "dev")
        and task.files.dev_share
        and "dev" not in task.files.by_split
    )
    file = "train" if is_held_out else part
    path = readers.require_file(data_dir, task.files.by_split[file], file)
    if file != "train":  # a row that is left out would change what an evaluation counts
        task = task.with_files(skips_errors=False)
    rows = read_file(task, path, need_labels or bool(is_held_out))
    if not is_held_out:
        return {part: rows}
    parts = hold_out(rows, task.files.dev_share)
    if not all(parts):
        found = f"{len(parts[0])} rows to train on and {len(parts[1])} held out as dev"
        raise wrong(path, found, "some of both", "--dev_share or --dev_file")
    return dict(zip(("train", "dev"), parts))


def hold_out(rows: Sequence[Row], share: float) -> tuple[Sequence[Row], Sequence[Row]]:
    """Splits rows into (train, dev) by a hash of their text, or of their query, alone: a row stays
    in its part when others are added, removed, sorted or labelled in another way.

    share: about the fraction of the texts, or of the queries, that is dev.
    """

    def is_dev(row: Row) -> bool:
        texts = itertools.chain.from_iterable(row.pairs)
        # Hashes are spread evenly over [0, 2^64).
        return (
            digest(row.query or "\0".join(text or "" for text in texts)) < share * 2**64
        )

    train = store_rows(row for row in rows if not is_dev(row))
    return train, store_rows(filter(is_dev, rows))


def read_file(task: Task, path: str, need_labels: bool) -> Sequence[Row]:
    """The `Row`s of one file or directory, many of them kept on disk; "-" is the standard input."""
    return task.reader.read(path, need_labels)


def read_to_predict(task: Task, path: str) -> Sequence[Row]:
    """The rows of a file to predict, labelled or not: as many as the file has records."""
    for each in readers.each_path(path):
        form = readers.declared_form(task, each)
        if not form.name:
            expected = "a name with an extension, or a flag"
            raise wrong(each, "no form", expected, "--input_format")
    columns = task.columns
    if form.name == "text":
        columns = dataclasses.replace(columns, id_required=False)
    published = dataclasses.replace(
        task.published, rows_where={}, skipped_labels=(), has_broken_rows=False
    )
    task = dataclasses.replace(task, published=published, columns=columns)
    return read_file(task.with_files(skips_errors=False), path, need_labels=False)
