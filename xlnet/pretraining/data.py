"""The data of a pretraining run: records and their vocabulary, to batches."""

from __future__ import annotations

import os
from typing import Any

import tensorflow.compat.v1 as tf

from xlnet.corpus import input_pipeline
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.tokenizer import Tokenizer, descriptions_beside
from xlnet.engine.devices import Devices
from xlnet.pretraining import objectives, sources
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.support import files
from xlnet.support.errors import UserError


class PretrainingData:
    """What the records of a run are and how batches are made of them.

    Attributes:
      manifest: of the training records.
      held_out: manifest of those to evaluate on, or None.
      tokenizer: that of the records.
      objective: what is predicted.
    """

    def __init__(self, settings: PretrainingSettings, manifest: Manifest):
        self._settings = settings
        self.manifest = manifest
        self.objective = objectives.find(settings.objective)
        self.tokenizer = Tokenizer(
            files.local(os.path.join(settings.record_info_dir, manifest.sp_model)),
            manifest.uncased,
            manifest.keep_accents,
            descriptions_beside(settings.init_checkpoint),
        )
        if self.objective.needs_mask_id and self.tokenizer.mask_id is None:
            raise UserError(
                f"objective is {settings.objective}, but {self.tokenizer.path} has no <mask>"
            )
        self._permutation = sources.choose_permutation(
            settings, manifest, is_read=self.objective.samples_targets
        )
        self.held_out = sources.held_out_manifest(settings, manifest)

    def to_train(self, start: int, devices: Devices) -> tf.data.Dataset:
        """This host's batches from the batch `start` on, counted over the run, divided among its
        replicas."""
        settings = self._settings
        batches = self._batches(
            settings.record_info_dir,
            self.manifest,
            batch_size=settings.train_batch_size,
            seed=settings.seed,
            start_step=start,
            rows=devices.rows(settings.train_batch_size),
        )
        return input_pipeline.for_replicas(batches, devices.per_host)

    def to_evaluate(self, batch_size: int, rows: slice) -> tf.data.Dataset:
        """One epoch of the held-out records, a slice of each batch; the same each time."""
        directory = self._settings.eval_record_info_dir
        assert directory and self.held_out, "there are held-out records"
        return self._batches(
            directory, self.held_out, batch_size=batch_size, rows=rows, seed=0, epochs=1
        )

    def _batches(
        self, directory: str, manifest: Manifest, **how: Any
    ) -> tf.data.Dataset:
        return input_pipeline.pretraining_batches(
            directory,
            manifest,
            permutation=self._permutation,
            special_ids=[self.tokenizer.sep_id, self.tokenizer.cls_id],
            legacy_word_start=self.tokenizer.is_legacy_word_start,
            **how,
        )
