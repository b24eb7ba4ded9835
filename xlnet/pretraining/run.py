"""A pretraining run: its data, evaluation, and what it adds to the trainer."""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import TYPE_CHECKING, Optional

import tensorflow.compat.v1 as tf

from xlnet import files
from xlnet.batches import input_pipeline
from xlnet.engine import checkpoint
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.engine.devices import Devices
from xlnet.engine.recurrent_memory import MemoryFiles
from xlnet.engine.trainer import Job, Trainer
from xlnet.errors import UserError
from xlnet.model_directory.run_settings import SavedRunSettings, check_weights
from xlnet.pretraining import sources
from xlnet.pretraining.model import PretrainingModel
from xlnet.records.manifest import Manifest
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import PRETRAINING_NAME, PretrainingSettings
from xlnet.settings.training import TASK_NAME, OptimizationSettings
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer, descriptions_beside

if TYPE_CHECKING:
    from xlnet.pretraining.held_out import HeldOut

HELD_OUT_NAME = "held_out.csv"

_log = logging.getLogger(__name__)


class Pretrainer(Job):
    """A pretraining run: data, model directory, evaluation.

    The constructor reads nothing; `prepare` reads and checks, `train` writes. After them come, in
    the order of `trainer`, the parts of a `Job`.

    Args:
      settings: of pretraining.
      config: of the architecture.
      network: settings of the network.
      optimization: settings of the optimization.
      device_settings: of the devices.
      manifest: that of the training records.
      devices: those of `device_settings`.
    """

    def __init__(self, settings: PretrainingSettings, config: XLNetConfig,
                 network: NetworkSettings, optimization: OptimizationSettings,
                 device_settings: DeviceSettings, manifest: Manifest,
                 devices: Devices):
        self._settings = settings
        self.config = config
        self._network = network
        self._optimization = optimization
        self._manifest = manifest
        self._device_settings = device_settings
        self._devices = devices

    def prepare(self) -> None:
        """Reads and checks everything; writes nothing.

        Raises:
          UserError: something does not fit.
        """
        _check_pretrained(self._settings.model_dir, "model_dir")
        self._read()
        settings = self._settings

        # Does the batch fit the text streams and the devices, the vocabulary the objective?
        input_pipeline.steps_per_epoch(self._manifest, settings.train_batch_size)
        self._devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)
        if settings.objective == "masked" and self._tokenizer.mask_id is None:
            raise UserError("objective is masked, but %s has no <mask>" % self._tokenizer.path)
        if settings.eval_steps and not settings.eval_record_info_dir:
            _log.info("note: eval_steps is %d, but nothing is evaluated without "
                      "--eval_record_info_dir", settings.eval_steps)

        # Do the initial weights fit, or the settings of the run that is resumed?
        if settings.init_checkpoint and not checkpoint.all_prefixes(settings.model_dir):
            check_weights(checkpoint.resolve(settings.init_checkpoint), self.config,
                          self._tokenizer, "init_checkpoint")
        contents = {"record_info_dir": self._manifest.digest, SPIECE_NAME: self._tokenizer.sha256}
        if self._held_out:
            contents["eval_record_info_dir"] = self._held_out.digest
        self._saved = SavedRunSettings(     # the architecture in place of the path of its file
            settings.model_dir, PRETRAINING_NAME,
            (settings, self._network, self._optimization, self._device_settings),
            evaluates=settings.eval_record_info_dir is not None, leave_out=("model_config_path",),
            more=self.config.to_dict(), contents=contents)
        self._saved.check(self.config, self._tokenizer)

    def evaluate(self) -> dict[str, float]:
        """The held-out loss of a checkpoint and the metrics derived from it; writes nothing.

        Raises:
          UserError: something does not fit.
        """
        self._settings = settings = dataclasses.replace(
            self._settings, eval_record_info_dir=(
                self._settings.eval_record_info_dir or self._settings.record_info_dir))
        path, flag = (settings.init_checkpoint, "init_checkpoint") if settings.init_checkpoint \
            else (settings.model_dir, "model_dir")
        prefix = checkpoint.resolve(path, flag)
        _check_pretrained(os.path.dirname(prefix), flag)
        self._read()
        check_weights(prefix, self.config, self._tokenizer, flag)
        is_run = "global_step" in checkpoint.names(prefix)
        if not is_run:          # weights alone, such as released ones
            # A model_dir that is not a directory: there is no run to resume.
            self._settings = dataclasses.replace(settings, init_checkpoint=prefix, model_dir=prefix)
        evaluator = self._evaluator(self._make_model(), keeps=False)
        if evaluator is None:
            raise RuntimeError("no held-out records")
        return evaluator(checkpoint.step_in(prefix) if is_run else 0, prefix if is_run else None)

    def _read(self):
        settings, manifest = self._settings, self._manifest
        vocabulary = files.local(os.path.join(settings.record_info_dir, manifest.sp_model))
        self._tokenizer = Tokenizer(vocabulary, manifest.uncased, manifest.keep_accents,
                                    descriptions_beside(settings.init_checkpoint))
        self._permutation = sources.choose_permutation(
            settings, manifest, is_read=settings.objective != "causal")     # it predicts all tokens
        self._held_out = sources.held_out_manifest(settings, manifest)

    def train(self) -> bool:
        """Trains from the newest checkpoint to the last step; evaluates before, during and after,
        if there are held-out records.

        Returns:
          False if a signal stopped it.
        """
        settings, manifest = self._settings, self._manifest
        self.per_step = settings.train_batch_size * manifest.seq_len
        self.epoch_steps = input_pipeline.steps_per_epoch(manifest, settings.train_batch_size)
        self.memories = MemoryFiles(settings.model_dir, self._devices, settings.train_batch_size)
        self.with_perplexity = not settings.next_segment_loss     # which is part of the loss
        self.model = self._make_model()
        self._evaluate = self._evaluator(self.model)
        if self._evaluate:
            self.evaluates, self.answering = True, self._evaluate.answering
        best = BestCheckpoint(settings.model_dir, "loss", lower_is_better=True,
                              table=HELD_OUT_NAME)
        return Trainer(self, settings, self._optimization, self._devices, best).train()

    def _make_model(self):
        return PretrainingModel(self.config, self._network, self._optimization, self._settings,
                                self._manifest.reuse_len, self._tokenizer, self._devices.xla)

    def _evaluator(self, model: PretrainingModel, keeps: bool = True) -> Optional[HeldOut]:
        """The evaluator on held-out records, None without any; keeps: as for `HeldOut`."""
        directory, manifest = self._settings.eval_record_info_dir, self._held_out
        if not directory or not manifest:
            return None
        from xlnet.pretraining.held_out import HeldOut  # not for runs without held-out records

        def make_batches(batch_size, rows):
            return input_pipeline.pretraining_batches(
                directory, manifest, permutation=self._permutation, batch_size=batch_size,
                **self._reading(), seed=0, epochs=1, rows=rows)
        settings = self._settings
        return HeldOut(
            model, make_batches, manifest.num_streams, manifest.windows_per_stream,
            max(1, settings.train_batch_size // self._devices.replicas
                // settings.grad_accum_steps), self._devices, keeps)

    # -- the parts of a `Job`

    unit, examples = "tokens", "windows"
    evaluates_start = True

    def batches(self, start: int) -> tf.data.Dataset:
        settings, devices = self._settings, self._devices
        return input_pipeline.for_replicas(input_pipeline.pretraining_batches(
            settings.record_info_dir, self._manifest, permutation=self._permutation,
            batch_size=settings.train_batch_size, **self._reading(),
            seed=settings.seed, start_step=start,
            rows=devices.rows(settings.train_batch_size)), devices.per_host)

    def _reading(self):
        """Arguments of `pretraining_batches` about the vocabulary."""
        return dict(special_ids=[self._tokenizer.sep_id, self._tokenizer.cls_id],
                    legacy_word_start=self._tokenizer.is_legacy_word_start)

    def begin(self) -> None:
        self._saved.write(self.config, self._tokenizer)

    def check_host(self) -> None:
        self._saved.check_host()

    def evaluate_checkpoint(self, step: int, prefix: Optional[str]) -> dict[str, float]:
        assert self._evaluate, "`evaluates` is False"
        return self._evaluate(step, prefix)

    def banner(self) -> dict[str, str]:
        settings, manifest = self._settings, self._manifest
        return {
            "precision": self._devices.precision_in_words(self._network),
            "data": "%s: %s tokens, %d streams of %d windows" % (
                settings.record_info_dir, "{:,}".format(manifest.tokens), manifest.num_streams,
                manifest.windows_per_stream),
            "objective": settings.objective,
            "windows": "%d tokens, %d reused, memory %d, %d predicted" % (
                manifest.seq_len, manifest.reuse_len, settings.mem_len, settings.num_predict),
            "settings": " ".join("%s=%s" % item for item in self._saved.values.items()
                                 if item[0] != "about"),
        }


def _check_pretrained(directory, flag):
    if os.path.exists(os.path.join(directory, TASK_NAME)):
        raise UserError("%s: %s has a fine-tuned model (task.json), expected a pretrained one"
                        % (flag, directory))
