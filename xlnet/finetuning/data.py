"""The data of a fine-tuning run: files to rows, read once and checked, to records, to batches."""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Sequence
from typing import Any, Optional

from xlnet import cores, files, own_modules
from xlnet.batches import input_pipeline
from xlnet.errors import UserError
from xlnet.model_directory.task_settings import FineTunedTask
from xlnet.records import feature_spec
from xlnet.tasks.features import encoding
from xlnet.tasks.files import parsing, readers
from xlnet.tasks.task import Row, expand_split, splits_of
from xlnet.tasks.types.contract import Reader
from xlnet.tokenization.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

MOST_LENGTHS = 6  # of batches, where XLA compiles the step: it makes a program for each length


def compiled_multiple(max_seq_length: int, multiple: int) -> int:
    """The number of tokens to whose multiples the lengths of batches are rounded up, so that there
    are at most `MOST_LENGTHS` lengths.

    >>> compiled_multiple(128, 8)   # 24, 48, 72, 96, 120 and 128
    24
    """
    step = math.ceil(max_seq_length / MOST_LENGTHS)
    return multiple * math.ceil(step / multiple)


def _own_code(reader: Reader) -> list[str]:
    """The digests of the files with the code of an own task type's reader, whose records depend on
    it; [] for the library's types."""
    modules = {each.__module__ for each in type(reader).__mro__}
    own = [name for name in modules if name.split(".")[0] not in ("xlnet", "builtins")]
    paths = [getattr(sys.modules.get(name), "__file__", None) for name in own]
    return sorted(own_modules.digest_of(path) for path in paths if path)


class TaskData:
    """The data of a task that the settings of `tuned` ask for."""

    def __init__(self, tuned: FineTunedTask, tokenizer: Tokenizer):
        self._settings, self._task = tuned.settings, tuned.task
        self._tokenizer = tokenizer
        self._layout, self._padding = tuned.layout, tuned.padding
        self._warned: set[str] = set()  # paths of records with warnings, and the warnings
        self._read: dict[tuple[str, bool], Sequence[Row]] = {}
        self._to_predict: Optional[dict[str, Sequence[Row]]] = None

    # -- files

    def has(self, split: str) -> bool:
        """Whether the files of a split exist; a held-out split is part of the train file."""
        if split in ("train", "dev") and split not in splits_of(self._task):
            return False  # not an unknown name: the task has no such file
        return all(map(os.path.exists, self.paths(split)))

    def paths(self, split: str) -> list[str]:
        """The files of a split, or directories of files; of a held-out one the train file."""
        named = self._task.files.by_split
        return [
            path
            for part in expand_split(self._task, split)
            for path in readers.each_path(
                readers.find_file(self._settings.data_dir, named.get(part) or named["train"])
            )
        ]

    def digests(self, split: str) -> list[str]:
        """The content of the files of a split."""
        return [
            files.digest_of(each)
            for path in self.paths(split)
            for each in self._task.reader.files_of(path)
        ]

    def can_evaluate(self) -> bool:
        """Whether there is a file to evaluate on while training, or `eval_steps` is given: then a
        missing file is an error."""
        return self._settings.eval_steps is not None or self.has(self._settings.eval_split)

    # -- files to rows

    def of_split(self, split: str, need_labels: bool) -> dict[str, Sequence[Row]]:
        """The rows of each part of a split, such as dev_matched of dev, by its name."""
        data_dir = self._settings.data_dir
        rows_of: dict[str, Sequence[Row]] = {}
        for part in expand_split(self._task, split):
            if (part, need_labels) not in self._read:
                # Reading the train file gives the rows of dev, too, if dev is held out of it.
                found = parsing.read_parts(self._task, data_dir, part, need_labels)
                for name, rows in found.items():
                    self._read[name, need_labels] = rows
            rows_of[part] = self._read[part, need_labels]
        return rows_of

    def to_train(self) -> Sequence[Row]:
        """The rows to train on, made by the reader of those of the train file."""
        rows = self.of_split("train", need_labels=True)["train"]
        return self._task.reader.training_rows(rows, self._settings.seed, self._settings.data_dir)

    def to_predict(self) -> dict[str, Sequence[Row]]:
        """The rows of each file of `predict_file` (`readers.Paths` are several), or else of
        `predict_split`, as of `of_split`. Of several files, bad ones are named and left out."""
        settings = self._settings
        if not settings.predict_file:
            return self.of_split(settings.predict_split, need_labels=False)
        if self._to_predict is not None:
            return self._to_predict
        self._to_predict, paths = {}, readers.each_path(settings.predict_file)
        for path in paths:
            name = "stdin" if path == "-" else readers.stem(os.path.basename(path))
            try:
                self._to_predict[name] = parsing.read_to_predict(self._task, path)
            except UserError as e:
                if len(paths) == 1:
                    raise
                _log.warning("%s", e if path in str(e) else f"{path}: {e}")
        return self._to_predict

    # -- rows to records, records to batches

    def records(
        self, split: str, rows: Sequence[Row], is_training: bool = False
    ) -> encoding.Records:
        """The records of a split's rows, made at most once. Warns, once for each file, if the
        vocabulary or the length lose much of the text.

        is_training: whether to refuse a length that no row reaches.
        """
        # The number of choices may differ between training and prediction: a ranking trains on
        # pairs of documents, and scores documents one by one.
        settings, task = self._settings, self._task
        made = encoding.write_records(
            settings.output_dir,
            f"{task.name}.{split}",
            task.reader.examples(rows),
            self._tokenizer,
            self._layout,
            label_features=self._label_features(),
            label_names=task.labels,
            encode=task.reader.encode,
            options=(*task.reader.record_options, *_own_code(task.reader)),
            num_choices=max(len(rows[0].pairs), task.head.num_choices(False)),
            workers=cores.available(),
            overwrite=settings.overwrite_data,
            is_training=is_training,
        )
        if made.path not in self._warned:
            self._warned.add(made.path)
            for warning in made.seen.warnings(task.reader.cut_words):
                what = warning.partition(" % ")[2]
                if what not in self._warned:  # of the first file; the vocabulary is the same
                    self._warned.add(what)
                    _log.warning("note: %s: %s", split, warning)
        return made

    def batches(
        self, path: str, is_training: bool = False, is_compiled: bool = False, **how: Any
    ) -> Any:
        """A `tf.data.Dataset` of the batches of a record file.

        Args:
          path: of the file.
          is_training: whether examples have the choices of training.
          is_compiled: whether XLA compiles what reads the batches, once for each length: they have
            then at most `MOST_LENGTHS` lengths.
          how: other arguments of `input_pipeline.finetuning_batches`.
        """
        task, length, padding = self._task, self._layout.max_seq_length, self._padding
        features = feature_spec.finetuning_features(
            length, self._label_features(), task.head.num_choices(is_training)
        )
        multiple = padding.multiple
        if is_compiled:
            multiple = compiled_multiple(length, multiple)
        return input_pipeline.finetuning_batches(
            path,
            features,
            row_length=length,
            multiple=multiple,
            pads=padding.side,
            token_features=padding.token_features,
            **how,
        )

    def _label_features(self) -> tuple:
        return self._task.head.features(self._layout.max_seq_length)
