"""A pretraining run: what is read and checked, what is trained, what is evaluated."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from typing import TYPE_CHECKING, Any, Optional

import tensorflow.compat.v1 as tf

from xlnet import files
from xlnet.batches import input_pipeline
from xlnet.engine import checkpoint, trainer
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.engine.devices import Devices
from xlnet.engine.recurrent_memory import MemoryFiles
from xlnet.engine.training_run import TrainingRun
from xlnet.errors import UserError
from xlnet.model_directory import run_document
from xlnet.model_directory.run_document import RunDocument
from xlnet.pretraining import objectives, sources
from xlnet.pretraining.model import PretrainingModel
from xlnet.records.manifest import Manifest
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.tokenization.tokenizer import Tokenizer, descriptions_beside

if TYPE_CHECKING:
    from xlnet.pretraining.held_out import HeldOut

HELD_OUT_NAME = "held_out.csv"

_log = logging.getLogger(__name__)


class Pretrainer:
    """A pretraining run. The constructor reads nothing; `prepare` reads and checks, `train` writes;
    or `evaluate` alone, which does not write.

    Args:
      manifest: that of the training records.
      settings: of the run.
      config: the architecture.
      network: how the network is run, such as its precision and dropout.
      optimization: settings of the optimizer.
      device_settings: which devices were asked for.
      devices: those of the run.
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        settings: PretrainingSettings,
        config: XLNetConfig,
        network: NetworkSettings,
        optimization: OptimizationSettings,
        device_settings: DeviceSettings,
        devices: Devices,
    ):
        self._manifest = manifest
        self.settings = settings
        self.config = config
        self.network = network
        self.optimization = optimization
        self.device_settings = device_settings
        self.devices = devices

    def prepare(self) -> None:
        """Reads and checks everything, writes nothing; a UserError if something does not fit."""
        _check_pretrained(self.settings.model_dir, "model_dir")
        self._read()
        settings = self.settings

        if self._held_out:
            sources.note_trained_on(self._held_out, self._manifest, "eval_record_info_dir")

        # Fused attention that was not asked for gives way; asked for, it must be possible.
        try:
            self._check_fused_attention()
        except UserError as error:
            if self.device_settings.fused_attention:
                raise
            _log.info("note: %s; attention is that of XLA", error)
            self.devices = dataclasses.replace(self.devices, fused_attention=None)

        # Check that the batch size fits the text streams and the devices, and the vocabulary the
        # objective.
        input_pipeline.steps_per_epoch(self._manifest, settings.train_batch_size)
        self.devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)
        if self._objective.needs_mask_id and self._tokenizer.mask_id is None:
            raise UserError(
                f"objective is {settings.objective}, but {self._tokenizer.path} has no <mask>"
            )
        if settings.eval_steps and not settings.eval_record_info_dir:
            _log.info(
                "note: eval_steps is %d, but nothing is evaluated without --eval_record_info_dir",
                settings.eval_steps,
            )

        # Check that the initial weights fit, or the settings of the run that is resumed.
        if settings.init_checkpoint and not checkpoint.all_prefixes(settings.model_dir):
            prefix = checkpoint.resolve(settings.init_checkpoint)
            run_document.check_weights(prefix, self.config, self._tokenizer, "init_checkpoint")
            checkpoint.check_finite(prefix)
        self._document = self._describe()
        run_document.check_resumed(
            self._document, self.config, self._tokenizer, settings.allow_changes
        )

    @property
    def _groups(self) -> tuple[Settings, ...]:
        return (self.settings, self.network, self.optimization, self.device_settings)

    def _describe(self) -> RunDocument:
        """The document of the run, with the architecture in place of the path of its file."""
        settings = self.settings
        digests = {"record_info_dir": self._manifest.digest}
        if self._held_out:
            digests["eval_record_info_dir"] = self._held_out.digest
        resolved = {**run_document.values_of(self._groups), **self.config.to_dict()}
        resolved.pop("model_config_path", None)
        return RunDocument(
            run_document.path_in(settings.model_dir),
            settings.program,
            dict(sorted(resolved.items())),
            text=run_document.text_of(self._tokenizer),
            read=digests,
        )

    def _read(self) -> None:
        """Reads the vocabulary, the rule for targets and the held-out manifest; compares record
        files with the checksums of their manifests."""
        settings, manifest = self.settings, self._manifest
        self._objective = objectives.find(settings.objective)
        vocabulary = files.local(os.path.join(settings.record_info_dir, manifest.sp_model))
        self._tokenizer = Tokenizer(
            vocabulary,
            manifest.uncased,
            manifest.keep_accents,
            descriptions_beside(settings.init_checkpoint),
        )
        self._permutation = sources.choose_permutation(
            settings, manifest, is_read=self._objective.samples_targets
        )
        self._held_out = sources.held_out_manifest(settings, manifest)

        # Otherwise a file that was replaced by another one of the same size would be trained on
        # silently.
        saved = checkpoint.all_prefixes(settings.model_dir)
        step = saved[-1][0] if saved else 0
        manifest.verify_sample(settings.record_info_dir, "record_info_dir", step)
        held_out = settings.eval_record_info_dir
        if self._held_out and held_out and held_out != settings.record_info_dir:
            self._held_out.verify_sample(held_out, "eval_record_info_dir", step)

    def train(self) -> None:
        """Trains from the newest checkpoint to the last step; evaluates before, during and after,
        if there are held-out records. Raises `Unfinished` if a signal stopped it."""
        selection = BestCheckpoint(
            self.settings.model_dir, "loss", lower_is_better=True, table=HELD_OUT_NAME
        )
        trainer.train(self.training_run, self.devices, selection)

    def training_run(self, devices: Devices) -> TrainingRun:
        """What the trainer knows of this run on the devices. An epoch: each sequence of the records
        once."""
        self.devices = devices
        settings, manifest = self.settings, self._manifest
        model = self._network_and_objective()
        evaluator = self._evaluator(model)
        return TrainingRun(
            settings=settings,
            config=self.config,
            optimization=self.optimization,
            devices=self.devices,
            model_fn=model.model_fn,
            batches=self.batches,
            banner=self.banner,
            describe=lambda: run_document.write(
                settings.model_dir, self._document, self.config, self._tokenizer
            ),
            check_host=lambda: run_document.check_host(self._document, self._groups),
            per_step=settings.train_batch_size * manifest.seq_len,
            epoch_steps=input_pipeline.steps_per_epoch(manifest, settings.train_batch_size),
            unit="tokens",
            examples="windows",
            with_perplexity=not settings.next_segment_loss,  # which is part of the loss
            evaluates_start=True,
            evaluate=evaluator,
            build_evaluation=evaluator.predictor.build if evaluator else None,
            memories=MemoryFiles(settings.model_dir, self.devices, settings.train_batch_size),
        )

    def _check_fused_attention(self) -> None:
        """A UserError if attention is to be fused, and its programs do not cover this run or
        compute something else than the plain form on this GPU."""
        if not self.devices.fused_attention:
            return
        if self.settings.objective == "causal":
            raise UserError(
                "fused_attention: its programs mask by factorization order, which objective causal "
                "does not have"
            )
        from xlnet.network import kernels_gpu_check

        kernels_gpu_check.check(
            self.devices.fused_attention,
            str(self.network.run_config(is_training=True).precision),
            self.config.d_head,
            self.devices.session_config(),
        )

    def _network_and_objective(self) -> PretrainingModel:
        return PretrainingModel(
            self.config,
            self.network,
            self.optimization,
            self.settings,
            self._manifest.reuse_len,
            self._tokenizer,
            self.devices.xla,
            self.devices.fused_attention,
        )

    # -- what the trainer calls

    def batches(self, start: int) -> tf.data.Dataset:
        """This host's batches from the batch `start` on, counted over the run."""
        # This host reads its own batch elements of each global batch, divided among its replicas.
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

    def _dataset(self, directory: str, manifest: Manifest, **how: Any) -> tf.data.Dataset:
        return input_pipeline.pretraining_batches(
            directory,
            manifest,
            permutation=self._permutation,
            special_ids=[self._tokenizer.sep_id, self._tokenizer.cls_id],
            legacy_word_start=self._tokenizer.is_legacy_word_start,
            **how,
        )

    def banner(self) -> dict[str, str]:
        """The banner's lines between devices and batch."""
        settings, manifest = self.settings, self._manifest
        return {
            "precision": self.devices.precision_in_words(self.network),
            "operations": self.devices.compilation_in_words(),
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
                settings.num_predict if self._objective.samples_targets else "all",
            ),
            "settings": " ".join("{}={}".format(*item) for item in self._document.resolved.items()),
        }

    # -- evaluation, while training and without it

    def _evaluator(self, model: PretrainingModel, keeps: bool = True) -> Optional[HeldOut]:
        """The evaluator on held-out records, None without any; keeps: as for `HeldOut`."""
        settings, manifest = self.settings, self._held_out
        if not manifest:
            return None
        assert settings.eval_record_info_dir, "its manifest was read"
        directory: str = settings.eval_record_info_dir
        from xlnet.pretraining.held_out import HeldOut  # not made for runs without held-out records

        return HeldOut(
            model,
            manifest,
            lambda batch_size, rows: self._dataset(
                directory,
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
        records_flag = "eval_record_info_dir"
        if not settings.eval_record_info_dir:
            records_flag = "record_info_dir"
            self.settings = dataclasses.replace(
                settings, eval_record_info_dir=settings.record_info_dir
            )
        self._read()
        run_document.check_weights(prefix, self.config, self._tokenizer, flag)
        checkpoint.check_finite(prefix)
        self._note_trained_on(os.path.dirname(prefix), records_flag)
        # There are no initial weights: the evaluator restores all of the checkpoint, or refuses it.
        self.settings = dataclasses.replace(self.settings, init_checkpoint=None)
        evaluator = self._evaluator(self._network_and_objective(), keeps=False)
        assert evaluator, "there are held-out records"
        has_step = "global_step" in checkpoint.names(prefix)  # released weights have none
        return evaluator(checkpoint.step_in(prefix) if has_step else 0, prefix)

    def _note_trained_on(self, directory: str, flag: str) -> None:
        """Notes how many of the evaluated sequences the checkpoint in `directory` was trained on,
        as far as the records of its training are there. flag: what named the evaluated ones."""
        assert self._held_out, "there are held-out records"
        run = run_document.read(directory)
        if not run:
            return
        digest = run.read.get("record_info_dir")
        if digest == self._held_out.digest:  # wherever they are
            sources.note_trained_on(self._held_out, self._held_out, flag)
            return
        with contextlib.suppress(UserError):  # they are gone, or damaged
            manifest = Manifest.read(run.resolved.get("record_info_dir") or "")
            if manifest.digest == digest:
                sources.note_trained_on(self._held_out, manifest, flag)


def _check_pretrained(directory: str, flag: str) -> None:
    run = run_document.read(directory)
    if run and run.task is not None:
        raise UserError(
            f"{flag}: {directory} has a fine-tuned model (by {run.path}), expected a pretrained one"
        )
