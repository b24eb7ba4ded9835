"""The rows of a task's splits, and of files to predict: each file read by the task's `Reader`."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import unicodedata
from collections.abc import Sequence

from xlnet.support.errors import wrong
from xlnet.tasks.files import readers
from xlnet.tasks.files.row_store import digest, store_rows
from xlnet.tasks.task import Row, Task

_log = logging.getLogger(__name__)

_LABELS_NAMED = 20  # at most

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
        raise wrong(path, found, "two texts, or groups, or more", "--dev_file")
    return dict(zip(("train", "dev"), parts))


def hold_out(rows: Sequence[Row], share: float) -> tuple[Sequence[Row], Sequence[Row]]:
    """Splits rows into (train, dev), so that identical texts, and the rows of a group or a query,
    are on one side.

    The hash of a text, or of the name of its group, chooses its side: it stays there when rows are
    added, removed, sorted or labelled in another way. One rule comes before: of each label with two
    texts or more at least one is on each side, or where labels share texts, in train. A rare label
    whose hashes are all on one side lends the text with the lowest hash to dev, or the one with the
    highest to train, and only such a text may change its side when texts of its label are added. A
    note names the labels with a single text.

    Args:
      rows: those of the train file.
      share: about the fraction of the texts, or of the groups, that is dev.
    """
    hashes = [_hash_of(row) for row in rows]
    texts_of: dict[str, set[int]] = {"": set(hashes)}  # of each label; of all rows
    for number, row in zip(hashes, rows):
        for label in _labels_of(row):
            texts_of.setdefault(label, set()).add(number)
    # Hashes are spread evenly over [0, 2^64).
    dev = {number for number in texts_of[""] if number < share * 2**64}
    for _, texts in sorted(texts_of.items()):
        if len(texts) > 1 and not texts & dev:
            dev.add(min(texts))
    for _, texts in sorted(texts_of.items()):
        if len(texts) > 1 and texts <= dev:  # what is not trained on is not learned
            dev.remove(max(texts))
    del texts_of[""]
    single = sorted(label for label, texts in texts_of.items() if len(texts) == 1)
    if single:
        _log.info(
            "note: %d labels have a single text, in train or in dev: %s",
            len(single),
            ", ".join(single[:_LABELS_NAMED]),
        )
    train = store_rows(row for row, each in zip(rows, hashes) if each not in dev)
    return train, store_rows(row for row, each in zip(rows, hashes) if each in dev)


def _hash_of(row: Row) -> int:
    """The number of what stays on one side of a split: a group, a query, or a text."""
    if row.group is not None or row.query:
        return digest(row.query if row.group is None else row.group)
    return text_digest(row)


def text_digest(row: Row) -> int:
    """The number of the texts of a row, whatever its name and its query. Blanks are joined and
    characters composed, since programs write the same text in different ways."""
    texts = []
    for text in itertools.chain.from_iterable(row.pairs):
        texts.append(" ".join(unicodedata.normalize("NFC", str(text or "")).split()))
    return digest("\0".join(texts))


def _labels_of(row: Row) -> Sequence[str]:
    """The names among the labels of a row: one, several, or those of its words."""
    labels = row.label if isinstance(row.label, tuple) else (row.label,)
    return [label for label in labels if isinstance(label, str)]


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
