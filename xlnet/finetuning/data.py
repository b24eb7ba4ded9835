"""The data of a fine-tuning run: files to rows (`tasks.fields.Row`), read once and checked; rows to
train on to record files, which later runs find and use again. A question or a sentence to tag that
is longer than `max_seq_length` has several records, its windows."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence

import numpy as np

from xlnet.corpus import record_files
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.training import CACHE
from xlnet.support import files, system
from xlnet.support.errors import wrong
from xlnet.tasks.fields import Row, expand_split, splits_of
from xlnet.tasks.files import forms, parsing

_log = logging.getLogger(__name__)

_NOTED_RATIO = 0.01  # of unknown pieces, or of cut rows: above it there is a warning
# Part of the name of a record file: to be raised whenever the same text gives other arrays.
_RECORDS_VERSION = 4
_ROWS_AT_ONCE = 1000

# The end of a note on rows of which the network does not read all. The context of a question is
# never cut, as windows cover it.
CUT_WORDS = "the rows are cut; see --max_seq_length (of questions: --max_query_length)"


class TaskData:
    """The rows of the files of a task, and the records of those to train on. The file of a split is
    read once.

    A split, such as "dev", has one part of its own name, or several: MNLI's dev has the parts
    "dev_matched" and "dev_mismatched".

    Args:
      tuned: the task, and the settings that name its files.
      tokenizer: of the model, for the records.
    """

    def __init__(self, tuned: FineTunedTask, tokenizer: Tokenizer):
        self._settings, self._task, self._tuned = tuned.settings, tuned.task, tuned
        self.tokenizer = tokenizer
        # The rows of each part of a split, by (its name, whether its labels were needed).
        self._read: dict[tuple[str, bool], Sequence[Row]] = {}

    # -- files

    def paths(self, split: str) -> list[str]:
        """The paths of the parts of a split: files, or directories of files. A part that is held
        out of the train file has the path of that file."""
        names_of_parts = self._task.files.by_split
        paths = []
        for part in expand_split(self._task, split):
            # A name, or several, of which the first file that exists is read.
            names = names_of_parts.get(part) or names_of_parts["train"]
            # One path, or several with commas between, which are read as one file.
            listed = forms.find_file(self._settings.data_dir, names)
            paths += forms.each_path(listed)
        return paths

    def files_read(self, split: str) -> list[str]:
        """The paths of all files that are read for a split: a task type may read several files for
        one of `paths`, as a ranking does."""
        all_files: list[str] = []
        for path in self.paths(split):
            all_files += self._task.files_of(path)
        return all_files

    def can_evaluate(self) -> bool:
        """Whether training may evaluate on `eval_split`: its files exist, or `eval_steps` is given,
        and a missing file is an error where it is read."""
        split = self._settings.eval_split
        if self._settings.eval_steps is not None:
            return True
        # A task may have no dev file, and no part such as dev_matched. If it lacks another split,
        # that is a wrong name, and `paths` raises a UserError.
        names = [part.partition("_")[0] for part in splits_of(self._task)]
        if split == "dev" and split not in names:
            return False
        return all(map(os.path.exists, self.paths(split)))

    # -- files to rows

    def rows_of_split(self, split: str, need_labels: bool) -> dict[str, Sequence[Row]]:
        """The rows of each part of a split, by the name of the part. need_labels: whether a row
        without a label is an error."""
        data_dir = self._settings.data_dir
        rows_by_part = {}
        for part in expand_split(self._task, split):
            if (part, need_labels) not in self._read:
                # If dev is held out of the train file, this has the rows of both, train and dev.
                parts_read = parsing.read_parts(self._task, data_dir, part, need_labels)
                for name, rows in parts_read.items():
                    self._read[name, need_labels] = rows
            rows_by_part[part] = self._read[part, need_labels]
        return rows_by_part

    def rows_of_train_file(self) -> Sequence[Row]:
        """The rows of the train file, without those that are held out."""
        return self.rows_of_split("train", need_labels=True)["train"]

    def rows_to_evaluate(self) -> dict[str, Sequence[Row]]:
        """The rows of each part of `eval_split`, by the name of the part."""
        return self.rows_of_split(self._settings.eval_split, need_labels=True)

    def rows_to_predict(self) -> dict[str, Sequence[Row]]:
        """The rows of each file of `predict_file`, by the name of the file without its extension;
        if none is given, the rows of each part of `predict_split`, by the name of the part."""
        settings = self._settings
        if not settings.predict_file:
            return self.rows_of_split(settings.predict_split, need_labels=False)
        rows_by_name = {}
        for path in forms.each_path(settings.predict_file):
            name = "stdin" if path == "-" else forms.stem(os.path.basename(path))
            if name in rows_by_name:  # the predictions of both would have the same file
                raise wrong("predict_file", f"two files {name}", "different names")
            rows_by_name[name] = parsing.read_to_predict(self._task, path)
        return rows_by_name

    # -- training: rows to records

    def write_records(self, rows: Sequence[Row]) -> str:
        """Writes the records of the rows to train on to a TFRecord file, unless it exists; returns
        its path. When it writes, it warns if the vocabulary or the length lose much of the text.

        The file is named after its content, `<output_dir>/<task>.train.<hash>.tfrecord`, by default
        in `cache/records` of the model directory.
        """
        task, tokenizer, layout = self._task, self.tokenizer, self._tuned.layout
        features = self._tuned.features(is_training=True)
        # The name has a hash of everything that the content depends on: settings and rows.
        settings = [
            _RECORDS_VERSION,
            tokenizer.sha256,
            tokenizer.uncased,
            tokenizer.keep_accents,
            layout,
            features,
            task.labels,
            dataclasses.asdict(task.options),
        ]
        own_code = system.import_own_module(self._settings.own_module)
        if own_code:  # perhaps of the task type, which makes the records
            settings.append(files.sha256(own_code["__file__"]))
        digest = hashlib.sha256(json.dumps(settings).encode())
        for row in rows:
            content = json.dumps([row.pairs, row.label, row.source])
            digest.update(content.encode())
        name = f"{task.name}.train.{digest.hexdigest()[:16]}.tfrecord"
        cache = os.path.join(self._settings.model_dir, CACHE, "records")
        path = os.path.join(self._settings.output_dir or cache, name)

        if os.path.exists(path):  # an earlier run has written it
            return path

        # The integers of a record are token ids, and label ids and positions, which are mostly
        # smaller: 2^14 leaves room for these where the vocabulary is small. Larger ones are errors.
        largest = max(tokenizer.vocab_size, 1 << 14)
        to_bytes = record_files.ExampleBytes(features, largest)
        # Pieces (subword tokens), those that are unknown to the vocabulary, and rows that are cut.
        num_pieces = num_unknown = num_cut = 0
        # Records are written as they are made, under another name until all are there.
        with files.writing(path) as f:
            for begin in range(0, len(rows), _ROWS_AT_ONCE):
                block = rows[begin : begin + _ROWS_AT_ONCE]
                # arrays: [m,...] by name, of the m records of the rows; num_records: int [rows], of
                # each row; counts: the `TokenCounts` of the rows.
                arrays, num_records, counts = task.encode(block, tokenizer, layout)
                arrays["is_real_example"] = np.ones(num_records.sum(), np.int32)
                num_cut += np.count_nonzero(counts.is_cut)
                ids = arrays["input_ids"][arrays["input_mask"] == 0]  # without padding
                is_special = np.isin(ids, [tokenizer.sep_id, tokenizer.cls_id])
                num_pieces += np.count_nonzero(~is_special)
                num_unknown += np.count_nonzero(ids == tokenizer.unk_id)
                for example in to_bytes.encode(arrays):
                    # A TFRecord has the length and checksums around the bytes of the example.
                    f.write(record_files.frame(example))
        if num_unknown > _NOTED_RATIO * num_pieces:
            unknown = "of the pieces are unknown to the vocabulary; is it one of this language?"
            percent = 100 * num_unknown / num_pieces
            _log.warning("note: train: %.1f %% %s", percent, unknown)
        if num_cut > _NOTED_RATIO * len(rows):
            percent = 100 * num_cut / len(rows)
            _log.warning("note: train: %.1f %% of %s", percent, CUT_WORDS)
        return path


# ---- texts that occur more than once


def note_repeated_texts(
    train: Sequence[Row], evaluated: Mapping[str, Sequence[Row]]
) -> None:
    """Logs how many rows of the train file contradict the label of an earlier row with the same
    text, and how many rows of each evaluated part have a text that is trained on.

    Args:
      train: the rows of the train file.
      evaluated: the rows of the parts of `eval_split`, by the name of the part.
    """
    first: dict[int, Row] = {}  # the first row of each text, by the digest of the text
    count = 0
    example = ("", "")  # the ids of two rows that contradict each other
    for row in train:
        earlier = first.setdefault(parsing.text_digest(row), row)
        if earlier.label != row.label:
            count, example = count + 1, (earlier.id, row.id)
    if count:
        _log.warning(
            "note: train: %s of %s rows give a text another label than a row before, such as the "
            "rows %s and %s",
            f"{count:,}",
            f"{len(train):,}",
            *example,
        )
    for split, rows in evaluated.items():
        count = sum(parsing.text_digest(row) in first for row in rows)
        if count and rows is not train:  # with --eval_split=train they are the same
            _log.warning(
                "note: %s: %s of %s rows are trained on: their scores say little about other texts",
                split,
                f"{count:,}",
                f"{len(rows):,}",
            )
