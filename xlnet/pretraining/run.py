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
from xlnet.engine import checkpoint
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.engine.devices import Devices
from xlnet.engine.recurrent_memory import MemoryFiles
from xlnet.engine.trainer import Trainer
from xlnet.engine.training_run import TrainingRun
from xlnet.errors import UserError
from xlnet.model_directory.run_settings import SavedRunSettings, check_weights
from xlnet.pretraining import objectives, sources
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


class Pretrainer:
    """A pretraining run. The constructor reads nothing; `prepare` reads and checks, `train` writes;
    or `evaluate` alone, which does not write.

    Args:
      manifest: that of the training records.
      settings: of the run.
      config: the architecture.
      network: settings of the network beside it.
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

        if self.devices.fused_attention:
            if settings.objective == "causal":
                raise UserError(
                    "fused_attention: its programs mask by factorization order, which objective "
                    "causal has not; leave it out"
                )
            from xlnet.network import kernels_gpu_check

            kernels_gpu_check.check(
                self.devices.fused_attention,
                str(self.network.run_config(is_training=True).precision),
                self.config.d_head,
                self.devices.session_config(),
            )

        # Does the batch fit the text streams and the devices, the vocabulary the objective?
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

        # Do the initial weights fit, or the settings of the run that is resumed?
        if settings.init_checkpoint and not checkpoint.all_prefixes(settings.model_dir):
            prefix = checkpoint.resolve(settings.init_checkpoint)
            check_weights(prefix, self.config, self._tokenizer, "init_checkpoint")
            checkpoint.check_finite(prefix)
        contents = {"record_info_dir": self._manifest.digest, SPIECE_NAME: self._tokenizer.sha256}
        if self._held_out:
            contents["eval_record_info_dir"] = self._held_out.digest
        if settings.objective_module and settings.objective_module.endswith(".py"):
            contents["objective_module"] = files.sha256(settings.objective_module)
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

        # A file that was swapped for another one of its size would be trained on without a word.
        saved = checkpoint.all_prefixes(settings.model_dir)
        step = saved[-1][0] if saved else 0
        manifest.verify_sample(settings.record_info_dir, "record_info_dir", step)
        held_out = settings.eval_record_info_dir
        if self._held_out and held_out and held_out != settings.record_info_dir:
            self._held_out.verify_sample(held_out, "eval_record_info_dir", step)

    def train(self) -> None:
        """Trains from the newest checkpoint to the last step; evaluates before, during and after,
        if there are held-out records. Raises `Unfinished` if a signal stopped it."""
        settings = self.settings
        run = self.training_run()
        selection = BestCheckpoint(
            settings.model_dir, "loss", lower_is_better=True, table=HELD_OUT_NAME
        )
        Trainer(run, selection).train()

    def training_run(self) -> TrainingRun:
        """What the trainer knows of this run. An epoch: each sequence of the records once."""
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
            describe=lambda: self._saved.write(self.config, self._tokenizer),
            check_host=self._saved.check_host,
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
            "settings": " ".join(
                "{}={}".format(*item) for item in self._saved.values.items() if item[0] != "about"
            ),
        }

    # -- evaluation, while training and without it

    def _evaluator(self, model: PretrainingModel, keeps: bool = True) -> Optional[HeldOut]:
        """The evaluator on held-out records, None without any; keeps: as for `HeldOut`."""
        settings, manifest = self.settings, self._held_out
        if not manifest:
            return None
        assert settings.eval_record_info_dir, "its manifest was read"
        directory: str = settings.eval_record_info_dir
        from xlnet.pretraining.held_out import HeldOut  # not for runs without held-out records

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
        is_run = "global_step" in checkpoint.names(prefix)
        # Weights alone, such as released ones, are the start of a run whose directory is none.
        if not is_run:
            settings = dataclasses.replace(settings, init_checkpoint=prefix, model_dir=prefix)
        self.settings = dataclasses.replace(
            settings, eval_record_info_dir=settings.eval_record_info_dir or settings.record_info_dir
        )
        self._read()
        check_weights(prefix, self.config, self._tokenizer, flag)
        checkpoint.check_finite(prefix)
        self._note_trained_on(os.path.dirname(prefix))
        evaluator = self._evaluator(self._network_and_objective(), keeps=False)
        assert evaluator, "there are held-out records"
        return evaluator(checkpoint.step_in(prefix) if is_run else 0, prefix if is_run else None)

    def _note_trained_on(self, directory: str) -> None:
        """Notes how many of the evaluated sequences the checkpoint in `directory`, perhaps the
        `best/` of a run, was trained on, as far as the records of its training are there."""
        assert self._held_out, "there are held-out records"
        homes = (directory, os.path.dirname(os.path.abspath(directory)))
        paths = [os.path.join(home, PRETRAINING_NAME + ".json") for home in homes]
        path = next((each for each in paths if os.path.exists(each)), None)
        if not path:
            return
        kept = files.read_json(path, "settings")
        digest = kept.get("about", {}).get("record_info_dir")
        if digest == self._held_out.digest:  # wherever they are
            sources.note_trained_on(self._held_out, self._held_out, "record_info_dir")
            return
        with contextlib.suppress(UserError):  # they are gone, or damaged
            manifest = Manifest.read(kept.get("record_info_dir") or "")
            if manifest.digest == digest:
                sources.note_trained_on(self._held_out, manifest, "record_info_dir")


def _check_pretrained(directory: str, flag: str) -> None:
    if os.path.exists(os.path.join(directory, TASK_NAME)):
        raise UserError(
            f"{flag}: {directory} has a fine-tuned model (task.json), expected a pretrained one"
        )
