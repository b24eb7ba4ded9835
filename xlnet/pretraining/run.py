"""A pretraining run: what is read and checked, what is trained, what is evaluated."""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import TYPE_CHECKING, Any, Optional

import tensorflow.compat.v1 as tf

from xlnet import files
from xlnet.batches import input_pipeline
from xlnet.engine import checkpoint
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.engine.recurrent_memory import MemoryFiles
from xlnet.engine.trainer import Job, Trainer
from xlnet.errors import UserError
from xlnet.model_directory.run_settings import SavedRunSettings, check_weights
from xlnet.pretraining import sources
from xlnet.pretraining.model import PretrainingModel
from xlnet.records.manifest import Manifest
from xlnet.settings.pretraining import PRETRAINING_NAME
from xlnet.settings.training import TASK_NAME
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer, descriptions_beside

if TYPE_CHECKING:
    from xlnet.pretraining.held_out import HeldOut

HELD_OUT_NAME = "held_out.csv"

_log = logging.getLogger(__name__)


class Pretrainer(Job):
    """A pretraining run. The constructor reads nothing; `prepare` reads and checks, `train` writes;
    or `evaluate` alone, which does not write.

    Args:
      manifest: that of the training records.
      of_job: the arguments of `Job`, by name.
    """

    unit, examples, evaluates_start = "tokens", "windows", True

    def __init__(self, manifest: Manifest, **of_job: Any):
        super().__init__(**of_job)
        self._manifest = manifest

    def prepare(self) -> None:
        """Reads and checks everything, writes nothing; a UserError if something does not fit."""
        _check_pretrained(self.settings.model_dir, "model_dir")
        self._read()
        settings = self.settings

        # Does the batch fit the text streams and the devices, the vocabulary the objective?
        input_pipeline.steps_per_epoch(self._manifest, settings.train_batch_size)
        self.devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)
        if settings.objective == "masked" and self._tokenizer.mask_id is None:
            raise UserError(f"objective is masked, but {self._tokenizer.path} has no <mask>")
        if settings.eval_steps and not settings.eval_record_info_dir:
            _log.info(
                "note: eval_steps is %d, but nothing is evaluated without --eval_record_info_dir",
                settings.eval_steps,
            )

        # Do the initial weights fit, or the settings of the run that is resumed?
        if settings.init_checkpoint and not checkpoint.all_prefixes(settings.model_dir):
            prefix = checkpoint.resolve(settings.init_checkpoint)
            check_weights(prefix, self.config, self._tokenizer, "init_checkpoint")
            checkpoint.check_finite(prefix)
        contents = {"record_info_dir": self._manifest.digest, SPIECE_NAME: self._tokenizer.sha256}
        if self._held_out:
            contents["eval_record_info_dir"] = self._held_out.digest
        self._saved = SavedRunSettings(  # the architecture in place of the path of its file
            settings.model_dir,
            PRETRAINING_NAME,
            (settings, self.network, self.optimization, self.device_settings),
            evaluates=settings.eval_record_info_dir is not None,
            leave_out=("model_config_path",),
            more=self.config.to_dict(),
            contents=contents,
        )
        self._saved.check(self.config, self._tokenizer)

    def _read(self):
        settings, manifest = self.settings, self._manifest
        vocabulary = files.local(os.path.join(settings.record_info_dir, manifest.sp_model))
        self._tokenizer = Tokenizer(
            vocabulary,
            manifest.uncased,
            manifest.keep_accents,
            descriptions_beside(settings.init_checkpoint),
        )
        self._permutation = sources.choose_permutation(
            settings, manifest, is_read=settings.objective != "causal"
        )  # it predicts all tokens
        self._held_out = sources.held_out_manifest(settings, manifest)

    def train(self) -> bool:
        """Trains from the newest checkpoint to the last step; evaluates before, during and after,
        if there are held-out records. Returns False if a signal stopped it."""
        # What the trainer reads of a `Job`. An epoch: each sequence of the records once.
        settings, manifest = self.settings, self._manifest
        self.model = self._network_and_objective()  # the Estimator calls its `model_fn`
        self.per_step = settings.train_batch_size * manifest.seq_len
        self.epoch_steps = input_pipeline.steps_per_epoch(manifest, settings.train_batch_size)
        self.memories = MemoryFiles(settings.model_dir, self.devices, settings.train_batch_size)
        self.with_perplexity = not settings.next_segment_loss  # which is part of the loss
        self._evaluate = self._evaluator()
        if self._evaluate:
            self.evaluates, self.answering = True, self._evaluate.answering
        return Trainer(
            self,
            BestCheckpoint(settings.model_dir, "loss", lower_is_better=True, table=HELD_OUT_NAME),
        ).train()

    def _network_and_objective(self):
        return PretrainingModel(
            self.config,
            self.network,
            self.optimization,
            self.settings,
            self._manifest.reuse_len,
            self._tokenizer,
            self.devices.xla,
        )

    # -- the parts of a `Job`, which the trainer calls

    def batches(self, start: int) -> tf.data.Dataset:
        # Of each global batch this host reads its own rows, cut into those of its replicas.
        settings, devices = self.settings, self.devices
        return input_pipeline.for_replicas(
            self._dataset(
                settings.record_info_dir,
                self._manifest,
                batch_size=settings.train_batch_size,
                seed=settings.seed,
                start_step=start,
                rows=devices.rows(settings.train_batch_size),
            ),
            devices.per_host,
        )

    def _dataset(self, directory, manifest, **how):
        return input_pipeline.pretraining_batches(
            directory,
            manifest,
            permutation=self._permutation,
            special_ids=[self._tokenizer.sep_id, self._tokenizer.cls_id],
            legacy_word_start=self._tokenizer.is_legacy_word_start,
            **how,
        )

    def begin(self) -> None:
        self._saved.write(self.config, self._tokenizer)

    def check_host(self) -> None:
        self._saved.check_host()

    def evaluate_checkpoint(self, step: int, prefix: Optional[str]) -> dict[str, float]:
        assert self._evaluate, "`evaluates` is False"
        return self._evaluate(step, prefix)

    def banner(self) -> dict[str, str]:
        settings, manifest = self.settings, self._manifest
        return {
            "precision": self.devices.precision_in_words(self.network),
            "data": "{}: {} tokens, {} streams of {} windows".format(
                settings.record_info_dir,
                f"{manifest.tokens:,}",
                manifest.num_streams,
                manifest.windows_per_stream,
            ),
            "objective": settings.objective,
            "windows": "{} tokens, {} reused, memory {}, {} predicted".format(
                manifest.seq_len,
                manifest.reuse_len,
                settings.mem_len,
                "all" if settings.objective == "causal" else settings.num_predict,
            ),
            "settings": " ".join(
                "{}={}".format(*item) for item in self._saved.values.items() if item[0] != "about"
            ),
        }

    # -- evaluation, while training and without it

    def _evaluator(self, keeps: bool = True) -> Optional[HeldOut]:
        """The evaluator on held-out records, None without any; keeps: as for `HeldOut`."""
        settings, manifest = self.settings, self._held_out
        if not manifest:
            return None
        from xlnet.pretraining.held_out import HeldOut  # not for runs without held-out records

        return HeldOut(
            self.model,
            manifest,
            lambda batch_size, rows: self._dataset(
                settings.eval_record_info_dir,
                manifest,
                batch_size=batch_size,
                rows=rows,
                seed=0,
                epochs=1,
            ),
            self.devices,
            keeps,
        )

    def evaluate(self) -> dict[str, float]:
        """The held-out loss of a checkpoint and the metrics derived from it; writes nothing. A
        UserError if something does not fit."""
        settings = self.settings
        path, flag = (
            (settings.init_checkpoint, "init_checkpoint")
            if settings.init_checkpoint
            else (settings.model_dir, "model_dir")
        )
        prefix = checkpoint.resolve(path, flag)
        _check_pretrained(os.path.dirname(prefix), flag)
        is_run = "global_step" in checkpoint.names(prefix)
        # Weights alone, such as released ones, are the start of a run whose directory is none.
        start = {} if is_run else dict(init_checkpoint=prefix, model_dir=prefix)
        self.settings = dataclasses.replace(
            settings,
            **start,
            eval_record_info_dir=(settings.eval_record_info_dir or settings.record_info_dir),
        )
        self._read()
        check_weights(prefix, self.config, self._tokenizer, flag)
        checkpoint.check_finite(prefix)
        self.model = self._network_and_objective()
        evaluator = self._evaluator(keeps=False)
        assert evaluator, "there are held-out records"
        return evaluator(checkpoint.step_in(prefix) if is_run else 0, prefix if is_run else None)


def _check_pretrained(directory, flag):
    if os.path.exists(os.path.join(directory, TASK_NAME)):
        raise UserError(
            f"{flag}: {directory} has a fine-tuned model (task.json), expected a pretrained one"
        )
