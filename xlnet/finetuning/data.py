"""The data of a fine-tuning run: files to rows (`tasks.task.Row`), read once and checked, and rows
to train on to record files, which later runs find and use again."""

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
from xlnet.settings.finetuning import TaskSettings
from xlnet.settings.training import CACHE
from xlnet.support import files, system
from xlnet.support.errors import wrong
from xlnet.tasks.files import forms, parsing
from xlnet.tasks.task import Row, expand_split, splits_of

_log = logging.getLogger(__name__)

_NOTED = 0.01  # a larger ratio of unknown pieces or of cut rows is warned of
# Part of the name of a record file: to be raised whenever the same text gives other arrays.
_RECORDS_VERSION = 4
_ROWS_AT_ONCE = 1000

# The end of a note on rows of which the network does not read all. The context of a question is
# never cut, as windows cover it.
CUT_WORDS = "the rows are cut; see --max_seq_length (of questions: --max_query_length)"


def own_code(settings: TaskSettings) -> list[str]:
    """The digest of the file of `own_module`, on which records depend; [] without one."""
    module = system.import_own_module(settings.own_module)
    if not module:
        return []
    return [files.sha256(module["__file__"])]


class TaskData:
    """The rows of a task's files, as the settings of `tuned` name them, and the records of those to
    train on, made with the tokenizer of the model. Each file is read once."""

    def __init__(self, tuned: FineTunedTask, tokenizer: Tokenizer):
        self._settings, self._task, self._tuned = tuned.settings, tuned.task, tuned
        self.tokenizer = tokenizer
        # The rows of each part of a split, by (its name, whether its labels were needed).
        self._read: dict[tuple[str, bool], Sequence[Row]] = {}

    # -- files

    def paths(self, split: str) -> list[str]:
        """The path of each part of a split: a file, or a directory of files; of a part that is held
        out of the train file that file."""
        named = self._task.files.by_split
        paths = []
        for part in expand_split(self._task, split):
            names = named.get(part) or named["train"]
            paths += forms.each_path(forms.find_file(self._settings.data_dir, names))
        return paths

    def files_read(self, split: str) -> list[str]:
        """The files that are read for a split: of each path those that the task's type says."""
        found: list[str] = []
        for path in self.paths(split):
            found += self._task.files_of(path)
        return found

    def can_evaluate(self) -> bool:
        """Whether the training is evaluated on `eval_split`: its files exist, or `eval_steps` is
        given, and a missing file is an error."""
        split = self._settings.eval_split
        if self._settings.eval_steps is not None:
            return True
        names = [name.partition("_")[0] for name in splits_of(self._task)]
        if split == "dev" and split not in names:
            return False  # not an unknown name: the task has no such file
        return all(map(os.path.exists, self.paths(split)))

    # -- files to rows

    def rows_of_split(self, split: str, need_labels: bool) -> dict[str, Sequence[Row]]:
        """The rows of each part of a split, such as dev_matched of dev, by its name. need_labels:
        whether a row without a label is an error."""
        data_dir = self._settings.data_dir
        rows_of = {}
        for part in expand_split(self._task, split):
            if (part, need_labels) not in self._read:
                # Reading the train file gives the rows of dev, too, if dev is held out of it.
                found = parsing.read_parts(self._task, data_dir, part, need_labels)
                for name, rows in found.items():
                    self._read[name, need_labels] = rows
            rows_of[part] = self._read[part, need_labels]
        return rows_of

    def rows_of_train_file(self) -> Sequence[Row]:
        """The rows of the train file, without those that are held out."""
        return self.rows_of_split("train", need_labels=True)["train"]

    def rows_to_train(self) -> Sequence[Row]:
        """The rows to train on, which the task's type makes of those of the train file: a ranking
        makes pairs of documents."""
        return self._task.training_rows(self.rows_of_train_file(), self._settings.seed)

    def rows_to_evaluate(self) -> dict[str, Sequence[Row]]:
        """The rows of each part of `eval_split`, by its name."""
        return self.rows_of_split(self._settings.eval_split, need_labels=True)

    def rows_to_predict(self) -> dict[str, Sequence[Row]]:
        """The rows of each file of `predict_file`, or else of each part of `predict_split`, by its
        name."""
        settings = self._settings
        if not settings.predict_file:
            return self.rows_of_split(settings.predict_split, need_labels=False)
        rows_of = {}
        for path in forms.each_path(settings.predict_file):
            name = "stdin" if path == "-" else forms.stem(os.path.basename(path))
            if name in rows_of:
                raise wrong("predict_file", f"two files {name}", "different names")
            rows_of[name] = parsing.read_to_predict(self._task, path)
        return rows_of

    # -- training: rows to records

    def records(self, rows: Sequence[Row]) -> str:
        """The path of the TFRecord file with the records of the rows to train on, which is named
        after its content: `<output_dir>/<task>.train.<hash>.tfrecord`, by default in `cache/` of
        the model. Unless it is there already, writes it, and warns if the vocabulary or the length
        lose much of the text."""
        task, tokenizer, layout = self._task, self.tokenizer, self._tuned.layout
        features = self._tuned.features(is_training=True)
        # The name has a hash of everything that the content depends on.
        settings = [
            _RECORDS_VERSION,
            tokenizer.sha256,
            tokenizer.uncased,
            tokenizer.keep_accents,
            layout,
            features,
            task.labels,
            dataclasses.asdict(task.options),
            *own_code(self._settings),
        ]
        digest = hashlib.sha256(json.dumps(settings).encode())
        for row in rows:
            content = json.dumps([row.pairs, row.label, row.source])
            digest.update(content.encode())
        name = f"{task.name}.train.{digest.hexdigest()[:16]}.tfrecord"
        cache = os.path.join(self._settings.model_dir, CACHE, "records")
        path = os.path.join(self._settings.output_dir or cache, name)

        if os.path.exists(path):  # an earlier run has written it
            return path

        # The integers of a record are ids of tokens and, mostly smaller, of labels and positions.
        largest = max(tokenizer.vocab_size, 1 << 14)
        to_bytes = record_files.ExampleBytes(features, largest)
        pieces = unknown = cut = 0
        # Records are written as they are made, under another name until all are there.
        with files.writing(path) as f:
            for begin in range(0, len(rows), _ROWS_AT_ONCE):
                block = rows[begin : begin + _ROWS_AT_ONCE]
                arrays, windows, counts = task.encode(block, tokenizer, layout)
                arrays["is_real_example"] = np.ones(windows.sum(), np.int32)
                cut += np.count_nonzero(counts.is_cut)
                ids = arrays["input_ids"][arrays["input_mask"] == 0]
                is_special = np.isin(ids, [tokenizer.sep_id, tokenizer.cls_id])
                pieces += np.count_nonzero(~is_special)
                unknown += np.count_nonzero(ids == tokenizer.unk_id)
                f.writelines(map(record_files.frame, to_bytes.encode(arrays)))
        if unknown > _NOTED * pieces:
            what = "of the pieces are unknown to the vocabulary; is it one of this language?"
            _log.warning("note: train: %.1f %% %s", 100 * unknown / pieces, what)
        if cut > _NOTED * len(rows):
            ratio = 100 * cut / len(rows)
            _log.warning("note: train: %.1f %% of %s", ratio, CUT_WORDS)
        return path


# ---- texts that occur more than once


def note_repeated_texts(
    train: Sequence[Row], evaluated: Mapping[str, Sequence[Row]]
) -> None:
    """Notes rows to train on whose label contradicts that of the same text, and rows to evaluate
    that are trained on. Texts are compared, whatever files they come from."""
    first: dict[int, Row] = {}  # of each text
    count, example = 0, ("", "")
    for row in train:
        before = first.setdefault(parsing.text_digest(row), row)
        if before.label != row.label:
            count, example = count + 1, (before.id, row.id)
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
        if count and rows is not train:
            _log.warning(
                "note: %s: %s of %s rows are trained on: their scores say little about other texts",
                split,
                f"{count:,}",
                f"{len(rows):,}",
            )
