"""A pretraining run: its data, and its `Job` for the trainer."""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import Optional

from xlnet import files
from xlnet.batches import input_pipeline
from xlnet.engine import checkpoint
from xlnet.engine.best_checkpoint import Selection
from xlnet.engine.devices import Devices
from xlnet.engine.recurrent_memory import MemoryFiles
from xlnet.engine.run_settings import KeptSettings, check_weights
from xlnet.engine.trainer import Job, Trainer
from xlnet.errors import UserError
from xlnet.pretraining import sources
from xlnet.pretraining.held_out import HeldOut
from xlnet.pretraining.model import PretrainingModel
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.finetuning import TASK_NAME
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import PRETRAINING_NAME, PretrainingSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.tokenization.tokenizer import Tokenizer, descriptions_beside

HELD_OUT_NAME = "held_out.tsv"

_log = logging.getLogger(__name__)


class Run:
    """A pretraining run: data, model directory, evaluation.

    The constructor reads nothing; `prepare` reads and checks, `train` writes.

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
                 device_settings: DeviceSettings, manifest: sources.AnyManifest,
                 devices: Devices):
        self._settings = settings
        self._config = config
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
        self._check()
        self._kept = self._settings_to_keep()
        self._kept.check(self._config, self._tokenizer)

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
        check_weights(prefix, self._config, self._tokenizer, flag)
        is_run = "global_step" in checkpoint.names(prefix)
        if not is_run:          # weights alone, such as released ones
            # A model_dir that is not a directory: there is no run to resume.
            self._settings = dataclasses.replace(settings, init_checkpoint=prefix, model_dir=prefix)
        evaluator = self._evaluator(self._model(), keeps=False)
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

    def _check(self):
        settings = self._settings
        input_pipeline.steps_per_epoch(self._manifest, settings.train_batch_size)
        self._devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)
        if settings.objective == "masked" and self._tokenizer.mask_id is None:
            raise UserError("objective is masked, but %s has no <mask>" % self._tokenizer.path)
        if settings.init_checkpoint and not checkpoint.all_prefixes(settings.model_dir):
            check_weights(checkpoint.resolve(settings.init_checkpoint), self._config,
                          self._tokenizer, "init_checkpoint")
        if settings.eval_steps and not settings.eval_record_info_dir:
            _log.info("note: eval_steps is %d, but nothing is evaluated without "
                      "--eval_record_info_dir", settings.eval_steps)

    def _settings_to_keep(self):
        """The `KeptSettings`, with the architecture in place of the path of its file."""
        settings = self._settings
        records = {"record_info_dir": self._manifest.digest}
        if self._held_out:
            records["eval_record_info_dir"] = self._held_out.digest
        return KeptSettings(
            settings.model_dir, PRETRAINING_NAME,
            (settings, self._network, self._optimization, self._device_settings),
            evaluates=settings.eval_record_info_dir is not None, leave_out=("model_config_path",),
            more=dict(self._config.to_dict(), about=records))

    def train(self) -> bool:
        """Trains from the newest checkpoint to the last step; evaluates before, during and after,
        if there are held-out records.

        Returns:
          False if a signal stopped it.
        """
        return Trainer(self._job(), self._settings, self._optimization, self._devices, Selection(
            self._settings.model_dir, "loss", lower_is_better=True, table=HELD_OUT_NAME)).train()

    def _model(self):
        return PretrainingModel(self._config, self._network, self._optimization, self._settings,
                                self._manifest.reuse_len, self._tokenizer, self._devices.xla)

    def _job(self):
        settings, manifest = self._settings, self._manifest
        model = self._model()
        held_out = self._evaluator(model)
        return Job(
            model_fn=model.model_fn, batches=self._batches, config=self._config, unit="tokens",
            per_step=settings.train_batch_size * manifest.seq_len, examples="windows",
            epoch_steps=input_pipeline.steps_per_epoch(manifest, settings.train_batch_size),
            banner=self._banner, begin=lambda: self._kept.keep(self._config, self._tokenizer),
            check_host=self._kept.check_host, evaluate=held_out,
            answering=held_out.answering if held_out else None, evaluates_start=True,
            memories=MemoryFiles(settings.model_dir, self._devices, settings.train_batch_size),
            keeps_journal=True,
            with_perplexity=not settings.next_segment_loss)     # which is part of the loss

    def _evaluator(self, model: PretrainingModel, keeps: bool = True) -> Optional[HeldOut]:
        """The evaluator on held-out records, None without any; keeps: as for `HeldOut`."""
        directory, manifest = self._settings.eval_record_info_dir, self._held_out
        if not directory or not manifest:
            return None

        def make_batches(batch_size, rows):
            return input_pipeline.pretraining_batches(
                directory, manifest, permutation=self._permutation, batch_size=batch_size,
                **self._reading(), seed=0, epochs=1, rows=rows)
        settings = self._settings
        return HeldOut(
            model, make_batches, manifest.num_streams,
            max(1, settings.train_batch_size // self._devices.replicas
                // settings.grad_accum_steps), self._devices, keeps)

    # -- data

    def _batches(self, start):
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

    def _banner(self):
        settings, manifest = self._settings, self._manifest
        return {
            "precision": self._devices.precision_in_words(self._network),
            "data": "%s: %s tokens, %d streams of %d windows" % (
                settings.record_info_dir, "{:,}".format(manifest.tokens), manifest.num_streams,
                manifest.windows_per_stream),
            "objective": settings.objective,
            "windows": "%d tokens, %d reused, memory %d, %d predicted" % (
                manifest.seq_len, manifest.reuse_len, settings.mem_len, settings.num_predict),
            "settings": " ".join("%s=%s" % item for item in self._kept.values.items()
                                 if item[0] != "about"),
        }


def _check_pretrained(directory, flag):
    if os.path.exists(os.path.join(directory, TASK_NAME)):
        raise UserError("%s: %s has a fine-tuned model (task.json), expected a pretrained one"
                        % (flag, directory))
