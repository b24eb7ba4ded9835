"""A pretraining run, from its settings to the loop: what is read and checked, what is trained."""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.corpus import input_pipeline
from xlnet.corpus.manifest import Manifest
from xlnet.engine import checkpoint, loop
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.engine.devices import Devices
from xlnet.pretraining import sources
from xlnet.pretraining.data import PretrainingData
from xlnet.pretraining.held_out import HeldOut
from xlnet.pretraining.model import PretrainingModel
from xlnet.runs import run_document
from xlnet.runs.run_document import RunDocument
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.support.errors import UserError

_log = logging.getLogger(__name__)


def train(
    manifest: Manifest,
    settings: PretrainingSettings,
    config: XLNetConfig,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    device_settings: DeviceSettings,
    devices: Devices,
) -> None:
    """Trains from the newest checkpoint to the last step; evaluates before, during and after, if
    there are held-out records.

    Args:
      manifest: that of the training records.
      settings: of the run.
      config: the architecture.
      network: how the network is run, such as its precision and dropout.
      optimization: settings of the optimizer.
      device_settings: which devices were asked for.
      devices: those of the run.

    Raises:
      UserError: something does not fit; nothing was written.
      Unfinished: a signal stopped it.
    """
    # Read the data, and check that it fits the devices.
    _check_pretrained(settings.model_dir, "model_dir")
    data = PretrainingData(settings, manifest)
    devices = _with_possible_attention(
        settings, config, network, device_settings, devices
    )
    input_pipeline.steps_per_epoch(manifest, settings.train_batch_size)
    devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)
    if data.held_out:
        sources.note_trained_on(data.held_out, manifest, "eval_record_info_dir")
    elif settings.eval_steps:
        _log.info(
            "note: eval_steps is %d, but nothing is evaluated without --eval_record_info_dir",
            settings.eval_steps,
        )

    # Check that the initial weights fit, or the settings of the run that is resumed.
    tokenizer = data.tokenizer
    if settings.init_checkpoint and not checkpoint.all_prefixes(settings.model_dir):
        prefix = checkpoint.resolve(settings.init_checkpoint)
        run_document.check_weights(prefix, config, tokenizer, "init_checkpoint")
        checkpoint.read_weights(prefix)  # which must be finite
    digests = {"record_info_dir": manifest.digest}
    if data.held_out:
        digests["eval_record_info_dir"] = data.held_out.digest
    groups = (settings, network, optimization, device_settings)
    resolved = {**run_document.values_of(groups), **config.to_dict()}
    resolved.pop("model_config_path", None)  # the architecture stands in its place
    document = RunDocument(
        run_document.path_in(settings.model_dir),
        settings.program,
        dict(sorted(resolved.items())),
        text=run_document.text_of(tokenizer),
        read=digests,
    )
    run_document.check_resumed(document, config, tokenizer, settings.allow_changes)

    # Train.
    model = PretrainingModel(
        config,
        network,
        optimization,
        settings,
        manifest.reuse_len,
        tokenizer,
        devices.xla,
        devices.fused_attention,
    )
    loop.fit(
        PretrainingRun(model, data, document, device_settings, devices),
        BestCheckpoint(settings.model_dir, "loss", lower_is_better=True),
    )


def evaluate(
    manifest: Manifest,
    settings: PretrainingSettings,
    config: XLNetConfig,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    devices: Devices,
) -> dict[str, Any]:
    """The held-out loss of a checkpoint and the metrics derived from it; writes nothing. Arguments
    and errors as for `train`."""
    path, flag = settings.model_dir, "model_dir"
    if settings.init_checkpoint:
        path, flag = settings.init_checkpoint, "init_checkpoint"
    prefix = checkpoint.resolve(path, flag)
    _check_pretrained(os.path.dirname(prefix), flag)
    # There are no initial weights: all of the checkpoint is restored, or it is refused.
    records = settings.eval_record_info_dir or settings.record_info_dir
    settings = dataclasses.replace(
        settings, eval_record_info_dir=records, init_checkpoint=None
    )
    data = PretrainingData(settings, manifest)
    run_document.check_weights(prefix, config, data.tokenizer, flag)
    model = PretrainingModel(
        config, network, optimization, settings, manifest.reuse_len, data.tokenizer
    )
    has_step = "global_step" in checkpoint.names(prefix)  # released weights have none
    held_out = HeldOut(model, data, devices)
    return held_out.evaluate(checkpoint.step_in(prefix) if has_step else 0, prefix)


class PretrainingRun(loop.TrainingRun):
    """A run of pretraining, for `loop.fit`."""

    evaluates_start = True

    def __init__(
        self,
        model: PretrainingModel,
        data: PretrainingData,
        document: RunDocument,
        device_settings: DeviceSettings,
        devices: Devices,
    ):
        self.settings = model.settings
        self.config = model.config
        self.optimization = model.optimization
        self.devices = devices
        self.unit = ("tokens", model.settings.train_batch_size * data.manifest.seq_len)
        # The loss of next segments is part of the loss.
        self.with_perplexity = not model.settings.next_segment_loss
        self.evaluates = data.held_out is not None
        self.model_fn = model.model_fn
        self._model = model
        self._data = data
        self._document = document
        self._device_settings = device_settings
        self._held_out = HeldOut(model, data, devices) if data.held_out else None

    def batches(self, start: int) -> tf.data.Dataset:
        return self._data.to_train(start, self.devices)

    def evaluate(self, step: int, prefix: Optional[str]) -> dict[str, Any]:
        assert self._held_out, "without held-out records no evaluation is due"
        return self._held_out.evaluate(step, prefix)

    def write_document(self) -> None:
        tokenizer = self._data.tokenizer
        run_document.write(
            self.settings.model_dir, self._document, self.config, tokenizer
        )

    def check_host(self) -> None:
        groups = (
            self.settings,
            self._model.network,
            self.optimization,
            self._device_settings,
        )
        run_document.check_host(self._document, groups)

    def banner(self) -> dict[str, str]:
        settings, manifest = self._model.settings, self._data.manifest
        predicted = (
            settings.num_predict if self._data.objective.samples_targets else "all"
        )
        steps = input_pipeline.steps_per_epoch(manifest, settings.train_batch_size)
        return {
            "precision": self.devices.precision_in_words(self._model.network),
            "data": (
                f"{settings.record_info_dir}: {manifest.tokens:,} tokens, {manifest.num_streams} "
                f"streams of {manifest.windows_per_stream} windows; an epoch is {steps:,.1f} steps"
            ),
            "objective": settings.objective,
            "windows": (
                f"{manifest.seq_len} tokens, {manifest.reuse_len} reused, memory "
                f"{settings.mem_len}, {predicted} predicted"
            ),
            "settings": " ".join(
                "{}={}".format(*item) for item in self._document.resolved.items()
            ),
        }


def _with_possible_attention(
    settings: PretrainingSettings,
    config: XLNetConfig,
    network: NetworkSettings,
    device_settings: DeviceSettings,
    devices: Devices,
) -> Devices:
    """The devices without fused attention where its programs do not cover the run, or compute
    something else than the plain form on this GPU; a UserError if it was asked for."""
    if not devices.fused_attention:
        return devices
    from xlnet.model import kernels_gpu_check

    try:
        if settings.objective == "causal":
            raise UserError(
                "fused_attention: its programs mask by factorization order, which objective causal "
                "does not have"
            )
        kernels_gpu_check.check(
            devices.fused_attention,
            str(network.run_config(is_training=True).precision),
            config.d_head,
            devices.session_config(),
        )
    except UserError as error:
        if device_settings.fused_attention:
            raise
        _log.info("note: %s; attention is that of XLA", error)
        return dataclasses.replace(devices, fused_attention=None)
    return devices


def _check_pretrained(directory: str, flag: str) -> None:
    run = run_document.read(directory)
    if run and run.task is not None:
        raise UserError(
            f"{flag}: {directory} has a fine-tuned model (by {run.path}), expected a pretrained one"
        )
