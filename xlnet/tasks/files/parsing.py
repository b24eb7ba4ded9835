"""Converts the records of files to the `Row`s of a task: finds columns, parses texts and labels.

A file is read and checked to its end before it is used; the first of its errors are listed. Each of
its records becomes a row, is an error, or is left out; how many are left out is reported.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from xlnet.support.errors import UserError, wrong
from xlnet.tasks.fields import CUSTOM, InlineExample, Row, TaskFields
from xlnet.tasks.files import forms

_log = logging.getLogger(__name__)

LISTED = 20  # maximum number of a file's errors that are shown

# ---- the rows of splits


def read_parts(
    task: TableReader, data_dir: str, part: str, need_labels: bool
) -> dict[str, Sequence[Row]]:
    """Reads the file of a part of a split.

    Args:
      task: names the files.
      data_dir: the directory of the files.
      part: a split of one file: "train", "dev", or such as "dev_matched".
      need_labels: whether a row without a known label is an error.

    Returns:
      the rows by the name of their part: those of `part`; where dev is held out of the train file,
      those of both, whichever was asked for.
    """
    share, by_split = task.files.dev_share, task.files.by_split
    is_divided = part in ("train", "dev") and share > 0
    split = "train" if is_divided else part  # the one that has the file
    path = forms.require_file(data_dir, by_split[split], split)
    if split != "train":
        # A row that is left out would change what an evaluation counts.
        task = task.with_files(skips_errors=False)
    # Train and dev are divided by labels, too.
    rows = task.read(path, need_labels or is_divided)
    if not is_divided:
        return {part: rows}
    train, dev = hold_out(rows, share)
    if not train or not dev:
        found = f"{len(train)} rows to train on and {len(dev)} held out as dev"
        raise wrong(path, found, "two texts, or queries, or more", "--dev_file")
    return {"train": train, "dev": dev}


def hold_out(rows: Sequence[Row], share: float) -> tuple[Sequence[Row], Sequence[Row]]:
    """Splits rows into (train, dev), so that identical texts, and the rows of a query, are on one
    side.

    The digest (hash) of a text, or of the name of its query, chooses its side: it stays there when
    rows are added, removed, sorted or labelled in another way. One exception: a label with two
    texts or more has at least one in train and, unless labels share texts, one in dev. If its
    digests are all on one side, the text with the lowest one moves to dev, or that with the highest
    one to train. Only such a text may change its side when texts of its label are added.

    Args:
      rows: those of the train file.
      share: about the fraction of the texts, or of the queries, that is dev.
    """
    digests = []  # of each row
    digests_of: dict[str, set[int]] = {}  # of each label; "": of all rows
    for row in rows:
        digest = _digest(row.query) if row.query else text_digest(row)
        digests.append(digest)
        labels = row.label if isinstance(row.label, tuple) else (row.label,)
        for label in ("", *labels):
            if isinstance(label, str):  # not a score, nor a `GoldAnswer`
                digests_of.setdefault(label, set()).add(digest)
    # Digests are spread evenly over [0, 2^64).
    dev = {digest for digest in digests if digest < share * 2**64}
    # In the order of labels, as the order of rows must not matter.
    divisible = [texts for _, texts in sorted(digests_of.items()) if len(texts) > 1]
    for of_label in divisible:
        if not of_label & dev:
            dev.add(min(of_label))
    # Train comes last and so has precedence: what is not trained on is not learned.
    for of_label in divisible:
        if of_label <= dev:
            dev.remove(max(of_label))
    train_rows = [row for row, digest in zip(rows, digests) if digest not in dev]
    dev_rows = [row for row, digest in zip(rows, digests) if digest in dev]
    return train_rows, dev_rows


def text_digest(row: Row) -> int:
    """The digest of the texts of a row, not of its name and its query: an int below 2^64. Blanks
    are joined and characters composed, as programs write the same text in different ways."""
    texts = []
    for text in itertools.chain.from_iterable(row.pairs):
        words = forms.composed(text or "").split()  # a second text may be None
        texts.append(" ".join(words))
    return _digest("\0".join(texts))


def _digest(text: str) -> int:
    """A hash of a text, an int of 8 bytes: of a million different texts, two have the same one with
    a probability of 3 in 100 million."""
    content = text.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(content, digest_size=8).digest()
    return int.from_bytes(digest, "little")


def read_to_predict(task: TableReader, path: str) -> Sequence[Row]:
    """The rows of a file to predict, labelled or not: as many as the file has records, also those
    that a published set leaves out."""
    # A file to predict must have a known form; `Tagging.table` takes an unknown one for CoNLL's.
    if forms.declared_form(task, path).name is None:
        raise forms.unknown_form(path, None)
    # The rules by which a published set leaves rows out; own tasks have none.
    published = dataclasses.replace(task.published, rows_where={}, skipped_labels=())
    task = dataclasses.replace(task, published=published)
    return task.read(path, need_labels=False)


# ---- the rows of a file


def _report(path: str, errors: list[str], are_skipped: bool) -> None:
    """Raises UserError with the first error of a file, and logs the first `LISTED` if there are
    more; or, if the rows that have errors are skipped, only warns of them."""
    listed = "\n  ".join(["", *errors[:LISTED]])
    if are_skipped:
        _log.warning("note: %s: %d rows skipped%s", path, len(errors), listed)
        return
    if len(errors) == 1:
        raise UserError(errors[0])
    _log.info("%d faulty rows, such as%s", len(errors), listed)
    raise UserError(f"{errors[0]} (and {len(errors) - 1} more faulty row(s))")


class TableReader(TaskFields):
    """Reads the rows of a task from its files. `contract.Task` adds all other methods of a task. A
    task type defines `parse_label`, and other methods where it differs.

    Attributes:
      takes_empty_text_b: whether a row's second text may be empty.
    """

    takes_empty_text_b: ClassVar[bool] = False

    # -- what a task type may define

    def table(self, path: str) -> forms.Records:
        """Yields the records of one file, in its declared form, or of a directory."""
        if self.files.directory_form and os.path.isdir(path):
            yield from forms.read_directory(self, path)
            return
        form = forms.declared_form(self, path)
        if form.name not in forms.TABLES:
            raise forms.unknown_form(path, form.name)
        for place, cells in forms.read(path, form, f"task {self.name}"):
            yield place, forms.flattened(cells)

    def parse_pairs(self, text_a: str, text_b: str | None, choices: list) -> tuple:
        """The pairs of the `Row`, one, or one for each choice; raises ValueError, which says in
        words what is wrong.

        A pair is (text, None) or (text, second text).

        Args:
          text_a: not empty.
          text_b: not empty unless `takes_empty_text_b`; None where the task has no second text.
          choices: the cells of the columns `columns.choices`, a str each, or a list in JSON.
        """
        return ((text_a, text_b),)

    def parse_label(self, cells: list) -> Any:
        """The label, which must fit into JSON; raises ValueError, which says in words what is
        wrong. cells: those of the columns `columns.label`, each a str, or in JSON any value; None
        where the row does not have the column."""
        raise NotImplementedError

    def check_row(self, row: Row, seen: dict) -> None:
        """Raises ValueError for a row that contradicts those before it, such as by the same id.
        seen: what the type keeps of these rows, empty at the first row of what `read` reads."""

    # -- rows of files

    def read(self, path: str, need_labels: bool) -> Sequence[Row]:
        """The rows of a file, of several, or of a directory.

        Args:
          path: of the file, of several with commas between, or "-", the standard input.
          need_labels: whether a row without a known label is an error; if not, its label is None.
        """
        seen: dict = {}
        # The ids of rows without one; those that are left out are counted, too.
        numbers = itertools.count()
        rows = []
        for file in forms.each_path(path):
            rows += self._read_file(file, need_labels, seen, numbers)
        if not rows:
            raise wrong(path, "no rows", f"some of task {self.name}")
        return rows

    def _read_file(
        self, path: str, need_labels: bool, seen: dict, numbers: Iterator[int]
    ) -> list[Row]:
        """The rows of one file. All are read before an error is raised.

        Args:
          path: of the file.
          need_labels: as of `read`.
          seen: as of `check_row`.
          numbers: yields the ids of rows that have none.
        """
        columns: dict[str, None] = {}  # those of any record, in the order of the file
        rows = []
        errors = []
        left_out: collections.Counter[str] = collections.Counter()  # by reason
        for place, cells in self.table(path):
            # Where labels are not needed, there must be a prediction for each record: an empty one
            # is an error there.
            if not cells and need_labels:
                left_out["empty rows"] += 1
                continue
            number = next(numbers)
            try:
                if not cells:
                    raise ValueError("an empty row")
                if isinstance(cells, str):  # the error of a record that cannot be read
                    raise ValueError(cells)
                columns.update(dict.fromkeys(cells))
                reason = self._reason_to_leave_out(cells)
                if reason:
                    left_out[reason] += 1
                    continue
                id = cells.get(self.columns.id, str(number))
                row = self._row_of_cells(cells, id, need_labels)
                self.check_row(row, seen)
                rows.append(row)
            except ValueError as e:
                errors.append(f"{place}: {e}")
        for reason, count in left_out.items():
            _log.info("%s is read without %s %s", path, f"{count:,}", reason)
        # An error about a missing column comes before those that it causes in each row.
        if columns:
            self._check_columns(path, need_labels, columns)
        if errors:
            # Official files may have bad rows, which the authors of the set left out, too.
            skips = self.files.skips_errors or self.published.has_broken_rows
            are_skipped = bool(skips and need_labels and rows)
            _report(path, errors, are_skipped)
        return rows

    def _reason_to_leave_out(self, cells: Mapping[str, Any]) -> str:
        """Why a published set leaves this row out of its task, as "rows with label '-'"; "": it
        keeps the row. cells: of the row, by column."""
        for name, value in self.published.rows_where.items():
            if name in cells and forms.to_text(cells[name]).strip() != value:
                return f"rows whose {name} is not {value}"
        for name in self.columns.label:
            label = str(cells.get(name)).strip()
            if label in self.published.skipped_labels:
                return f"rows with label '{label}'"
        return ""

    def _check_columns(
        self, path: str, need_labels: bool, names: Collection[str]
    ) -> None:
        """Raises UserError unless a file has each column that is needed. names: of its columns."""
        columns = self.columns
        form = forms.declared_form(self, path)
        if form.name == "text":  # its lines have no labels, and each text in one column
            return
        needed = {  # flag -> names of columns
            "text_a_column": columns.text_a,
            "text_b_column": columns.text_b,
            "choice_columns": columns.choices,
            "query_id_column": (columns.query,),
        }
        if columns.id_required:
            needed["id_column"] = (columns.id,)
        if need_labels:
            needed["label_column"] = columns.label
        is_table = form.name in forms.DELIMITERS
        remedies = ["--delimiter", "--header", "--encoding"] if is_table else []
        all_names = ", ".join(name or "''" for name in names)
        for flag, of_flag in needed.items():
            for name in filter(None, of_flag):  # None: no such column is declared
                # Columns have numbers only with --header=none.
                if is_table and name.isdecimal() and not form.header:
                    found = f"the number of a column, {name}"
                    raise wrong(path, found, "names", "--header")
                if name not in names:
                    found = f"no column '{name}' in {all_names:.300}"
                    if self.name == CUSTOM:  # a published task has its own names
                        remedies.insert(0, f"--{flag}")
                    raise wrong(path, found, "one", ", ".join(remedies))

    # -- a row

    def _row_of_cells(self, cells: dict, id: Any, need_labels: bool) -> Row:
        """The row of a record; raises ValueError. id: the cell with the row's name."""
        columns, texts = self.columns, []
        for names in (columns.text_a, columns.text_b):
            of_columns = [forms.to_text(cells.get(name), name) for name in names]
            texts.append(" ".join(filter(None, of_columns)))
        text_a, text_b = texts
        choices = [cells.get(name) for name in columns.choices]
        pairs = self._pairs(text_a, text_b if columns.text_b else None, choices)
        query = forms.to_text(cells.get(columns.query)) or None
        row_name = forms.to_text(id)
        forms.require_text(row_name + (query or ""))
        label = None
        try:
            label = self.parse_label([cells.get(name) for name in columns.label])
        except ValueError:
            # A label that is not needed may be wrong.
            if need_labels:
                raise
        return Row(row_name, pairs, label, query)

    def row(self, example: InlineExample) -> Row:
        """The row of an example without a file, called "0"; raises ValueError, which says in words
        what is wrong."""
        has_text_b = bool(self.columns.text_b)
        if (example.text_b is not None) != has_text_b:
            expected = "a pair of texts" if has_text_b else "one text, not a pair"
            raise ValueError(f"expected {expected}")
        pairs = self._pairs(example.text_a, example.text_b, list(example.choices))
        return Row("0", pairs, None)

    def _pairs(self, text_a: str, text_b: str | None, choices: list) -> tuple:
        """The pairs of a `Row` of checked texts; the arguments are as of `parse_pairs`, but may be
        empty. Raises ValueError."""
        # Replacements come first: they may remove all of a text.
        text_a = self.published.replaced(text_a)
        if not text_a.strip():
            raise ValueError("the text is empty")
        if text_b is not None:
            text_b = self.published.replaced(text_b)
            if not text_b.strip() and not self.takes_empty_text_b:
                raise ValueError("the second text is empty")
        pairs = self.parse_pairs(text_a, text_b, choices)
        for first, second in pairs:
            forms.require_text(first + (second or ""))
        return pairs
