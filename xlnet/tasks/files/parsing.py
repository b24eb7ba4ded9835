"""Records of files to the `Row`s of a task: columns are found, texts and labels parsed.

A file is read and checked to its end before it is used; the first of its errors are listed. Each of
its records is a row, or refused, or left out with a number that is reported.
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
from xlnet.tasks.files import forms
from xlnet.tasks.task import CUSTOM, InlineExample, Row, TaskFields

_log = logging.getLogger(__name__)

LISTED = 20  # errors that are shown

# ---- the rows of splits


def read_parts(
    task: TableReader, data_dir: str, part: str, need_labels: bool
) -> dict[str, Sequence[Row]]:
    """The rows of a part, "train" or one file of a split, and of the part that is read with it, if
    dev is held out of the train file."""
    share, by_split = task.files.dev_share, task.files.by_split
    is_held_out = part in ("train", "dev") and share > 0
    file = "train" if is_held_out else part
    path = forms.require_file(data_dir, by_split[file], file)
    if file != "train":
        # A row that is left out would change what an evaluation counts.
        task = task.with_files(skips_errors=False)
    rows = task.read(path, need_labels or is_held_out)
    if not is_held_out:
        return {part: rows}
    train, dev = hold_out(rows, share)
    if not train or not dev:
        found = f"{len(train)} rows to train on and {len(dev)} held out as dev"
        raise wrong(path, found, "two texts, or queries, or more", "--dev_file")
    return {"train": train, "dev": dev}


def hold_out(rows: Sequence[Row], share: float) -> tuple[Sequence[Row], Sequence[Row]]:
    """Splits rows into (train, dev), so that identical texts, and the rows of a query, are on one
    side.

    The hash of a text, or of the name of its query, chooses its side: it stays there when rows are
    added, removed, sorted or labelled in another way. One rule comes before: of each label with two
    texts or more at least one is on each side, or where labels share texts, in train. A rare label
    whose hashes are all on one side lends the text with the lowest hash to dev, or the one with the
    highest to train, and only such a text may change its side when texts of its label are added.

    Args:
      rows: those of the train file.
      share: about the fraction of the texts, or of the queries, that is dev.
    """
    hashes = []
    texts_of: dict[Any, set[int]] = {}  # of each label; of "", all rows
    for row in rows:
        number = _digest(row.query) if row.query else text_digest(row)
        hashes.append(number)
        labels = row.label if isinstance(row.label, tuple) else (row.label,)
        for label in ("", *labels):
            if isinstance(label, str):
                texts_of.setdefault(label, set()).add(number)
    # Hashes are spread evenly over [0, 2^64).
    dev = {number for number in hashes if number < share * 2**64}
    divisible = [texts for _, texts in sorted(texts_of.items()) if len(texts) > 1]
    for texts in divisible:
        if not texts & dev:
            dev.add(min(texts))
    for texts in divisible:
        if texts <= dev:  # what is not trained on is not learned
            dev.remove(max(texts))
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row, number in zip(rows, hashes):
        parts[number in dev].append(row)
    return parts


def text_digest(row: Row) -> int:
    """A number that represents the texts of a row, whatever its name and its query. Blanks are
    joined and characters composed, as programs write the same text in different ways."""
    texts = []
    for text in itertools.chain.from_iterable(row.pairs):
        texts.append(" ".join(forms.composed(text or "").split()))
    return _digest("\0".join(texts))


def _digest(text: str) -> int:
    """A number of 8 bytes that represents a text: of a million different ones, two have the same
    number with a probability of 3 in 100 million."""
    content = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def read_to_predict(task: TableReader, path: str) -> Sequence[Row]:
    """The rows of a file to predict, labelled or not: as many as the file has records."""
    if forms.declared_form(task, path).name is None:
        raise forms.unknown_form(path, None)
    kept = dataclasses.replace(task.published, rows_where={}, skipped_labels=())
    return dataclasses.replace(task, published=kept).read(path, False)


# ---- the rows of a file


def _report(path: str, errors: list[str], are_skipped: bool) -> None:
    """Raises UserError with the first of a file's errors, or warns of those that are skipped."""
    listed = "\n  ".join(["", *errors[:LISTED]])
    if are_skipped:
        _log.warning("note: %s: %d rows skipped%s", path, len(errors), listed)
        return
    if len(errors) == 1:
        raise UserError(errors[0])
    _log.info("%d faulty rows, such as%s", len(errors), listed)
    raise UserError(f"{errors[0]} (and {len(errors) - 1} more faulty row(s))")


class TableReader(TaskFields):
    """Files to the rows of a task; `contract.Task` adds what becomes of them. A task type defines
    `parse_label`, and the other parsers where it differs.

    Attributes:
      takes_empty_text_b: otherwise that is an error of the row.
    """

    takes_empty_text_b: ClassVar[bool] = False

    # -- what a task type may define

    def table(self, path: str) -> forms.Records:
        """The records of one file, or of a directory, in its declared form."""
        if self.files.directory_form and os.path.isdir(path):
            yield from forms.read_directory(self, path)
            return
        form = forms.declared_form(self, path)
        if form.name not in forms.TABLES:
            raise forms.unknown_form(path, form.name)
        for place, cells in forms.read(path, form, f"task {self.name}"):
            yield place, forms.flattened(cells)

    def parse_pairs(self, text_a: str, text_b: str | None, choices: list) -> tuple:
        """The pairs of the `Row`; a ValueError says in words what is wrong.

        A pair is (text, None) or (text, second text); there are `num_choices` of them.

        Args:
          text_a: not empty.
          text_b: not empty; None where the task has no second text.
          choices: the cells of the columns `columns.choices`, a str each, or a list in JSON.
        """
        return ((text_a, text_b),)

    def parse_label(self, cells: list) -> Any:
        """The label, which must fit into JSON; a ValueError says in words what is wrong. cells: of
        the columns `columns.label`, each a str, or any value in JSON; None where the file has no
        labels."""
        raise NotImplementedError

    def check_row(self, row: Row, seen: dict) -> None:
        """Raises ValueError for a row that is wrong among the others. seen: a dict for the type's
        own use, empty at the first row of a file."""

    # -- rows of files

    def read(self, path: str, need_labels: bool) -> Sequence[Row]:
        """The rows of a file, of several, or of a directory.

        Args:
          path: of the file, of several with commas between, or "-", the standard input.
          need_labels: whether a row without a known label is an error; if not, its label is None.
        """
        seen: dict = {}
        numbers = itertools.count()  # of the rows, also of those that are left out
        rows = []
        for each in forms.each_path(path):
            rows += self._read_file(each, need_labels, seen, numbers)
        if not rows:
            raise wrong(path, "no rows", f"some of task {self.name}")
        return rows

    def _read_file(
        self, path: str, need_labels: bool, seen: dict, numbers: Iterator[int]
    ) -> list[Row]:
        """The rows of one file. All are read before the first error is raised."""
        names = {}  # of the columns of all records so far
        rows = []
        errors = []
        left_out: collections.Counter[str] = collections.Counter()
        for place, cells in self.table(path):
            if not cells and need_labels:
                left_out["empty rows"] += 1
                continue
            number = next(numbers)
            try:
                if not cells or isinstance(cells, str):
                    raise ValueError(cells or "an empty row")
                names.update(dict.fromkeys(cells))
                why = self._why_left_out(cells)
                if why:
                    left_out[why] += 1
                    continue
                id = cells.get(self.columns.id, str(number))
                row = self._of_cells(cells, id, need_labels)
                self.check_row(row, seen)
                rows.append(row)
            except ValueError as e:
                errors.append(f"{place}: {e}")
        for what, count in left_out.items():
            _log.info("%s is read without %s %s", path, f"{count:,}", what)
        if names:
            self._check_columns(path, need_labels, names)
        if errors:
            # Official files may have bad rows, which the authors of the set left out, too.
            skips = self.files.skips_errors or self.published.has_broken_rows
            _report(path, errors, bool(skips and need_labels and rows))
        return rows

    def _why_left_out(self, cells: Mapping[str, Any]) -> str:
        """Why a row of a published set is not one of its task; "": it is."""
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
        """Raises UserError unless there is each column that is needed."""
        columns = self.columns
        form = forms.declared_form(self, path)
        if form.name == "text":  # a line has a part of the texts; the others are empty
            return
        needed = {
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
        flags = ["--delimiter", "--header", "--encoding"] if is_table else []
        others = ", ".join(name or "''" for name in names)
        for flag, wanted in needed.items():
            for name in filter(None, wanted):
                if is_table and name.isdecimal() and not form.header:
                    found = f"the number of a column, {name}"
                    raise wrong(path, found, "names", "--header")
                if name not in names:
                    found = f"no column '{name}' in {others:.300}"
                    if self.name == CUSTOM:
                        flags.insert(0, f"--{flag}")
                    raise wrong(path, found, "one", ", ".join(flags))

    # -- a row

    def _of_cells(self, cells: dict, id: Any, need_labels: bool) -> Row:
        """The row of a record, called `id`."""
        columns, texts = self.columns, []
        for names in (columns.text_a, columns.text_b):
            parts = [forms.to_text(cells.get(name), name) for name in names]
            texts.append(" ".join(filter(None, parts)))
        choices = [cells.get(name) for name in columns.choices]
        pairs = self._pairs(texts[0], texts[1] if columns.text_b else None, choices)
        query = forms.to_text(cells.get(columns.query)) or None
        name = forms.to_text(id)
        forms.require_text(name + (query or ""))
        label = None
        try:
            label = self.parse_label([cells.get(name) for name in columns.label])
        except ValueError:
            # A label that is not needed may be wrong.
            if need_labels:
                raise
        return Row(name, pairs, label, query)

    def row(self, asked: InlineExample) -> Row:
        """The row of texts without a file, called "0"; a ValueError says in words what is wrong."""
        has_text_b = bool(self.columns.text_b)
        if (asked.text_b is not None) != has_text_b:
            expected = "a pair of texts" if has_text_b else "one text, not a pair"
            raise ValueError(f"expected {expected}")
        pairs = self._pairs(asked.text_a, asked.text_b, list(asked.choices))
        return Row("0", pairs, None)

    def _pairs(self, text_a: str, text_b: str | None, choices: list) -> tuple:
        """The pairs of a `Row`."""
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
            forms.require_text((first or "") + (second or ""))
        return pairs
