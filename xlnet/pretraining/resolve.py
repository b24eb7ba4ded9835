"""From the settings of a command line to a pretraining run: what is found, read and checked."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Collection
from typing import Any, Optional

from xlnet.corpus import input_pipeline
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import checkpoint, devices
from xlnet.engine.devices import Devices
from xlnet.pretraining import data, objectives
from xlnet.pretraining.run import PretrainingRun
from xlnet.runs import run_document
from xlnet.runs.run_document import RunDocument
from xlnet.settings import presets
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings
from xlnet.settings.network import (
    ARCHITECTURE_KEYS,
    CONFIG_NAME,
    NetworkSettings,
    XLNetConfig,
)
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.support import files
from xlnet.support.errors import UserError, wrong

_log = logging.getLogger(__name__)

# The original's values of architecture flags that are not given.
_ARCHITECTURE_DEFAULTS = {"ff_activation": "relu", "untie_r": False}


def resolve(
    settings: PretrainingSettings,
    architecture: Settings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    device: DeviceSettings,
    given: Collection[str],
) -> PretrainingRun:
    """The run that a command line says. Hosts meet here.

    A value comes from the first of: the flag, the file of `--config`, the run in the directory or
    of the initial weights, the default.

    Args:
      settings: as given, or their defaults, like the next four.
      architecture: `ArchitectureSettings`.
      network: how the network is run.
      optimization: of the optimizer.
      device: which devices are asked for.
      given: the names of the settings that the user gave, at any value.

    Raises:
      UserError: something does not fit; nothing was written.
    """
    settings = _with_directories(settings)
    settings, network, optimization = inherit(settings, network, optimization, given)
    used = devices.connect(device, compiles_on_gpus=True)

    # Read the records. An evaluation without held-out records is on them.
    manifest = data.read_manifest(settings)
    asked = settings
    settings = data.with_lengths(settings, manifest)
    config = choose_architecture(settings, architecture, manifest)
    if settings.do_eval and not settings.eval_record_info_dir:
        settings = dataclasses.replace(
            settings, eval_record_info_dir=settings.record_info_dir
        )
    tokenizer = Tokenizer(
        files.local(os.path.join(settings.record_info_dir, manifest.sp_model)),
        manifest.uncased,
        manifest.keep_accents,
    )
    objective = objectives.find(settings.objective)
    if objective.needs_mask_id and tokenizer.mask_id is None:
        raise wrong(tokenizer.path, "no <mask>", "one", f"--objective={objective.name}")
    permutation = data.choose_permutation(settings, manifest, objective.samples_targets)
    held_out = data.held_out_manifest(settings, manifest)

    # Write down what the run is. Lengths that follow from these records are left out: whoever goes
    # on with the weights may have longer ones.
    if not settings.do_eval:
        used = _with_possible_attention(settings, config, network, device, used)
    digests = {"record_info_dir": manifest.digest}
    if held_out:
        digests["eval_record_info_dir"] = held_out.digest
    kept = dataclasses.replace(
        settings, num_predict=asked.num_predict, perm_size=asked.perm_size
    )
    groups = (kept, network, optimization, device)
    resolved = {**run_document.values_of(groups), **config.to_dict()}
    resolved.pop("model_config_path", None)  # the architecture stands in its place
    document = RunDocument(
        run_document.path_in(settings.model_dir),
        settings.program,
        dict(sorted(resolved.items())),
        text=run_document.text_of(tokenizer),
        read=digests,
    )
    run = PretrainingRun(
        settings,
        network,
        optimization,
        config,
        tokenizer,
        manifest,
        held_out,
        permutation,
        used,
        document,
    )
    if not settings.do_eval:
        _check_training(run)
    return run


def _with_directories(settings: PretrainingSettings) -> PretrainingSettings:
    """The settings with the directories of the records as found, and with `model` next to them as
    the default of model_dir."""
    found: dict[str, Any] = {}
    for name in ("record_info_dir", "eval_record_info_dir"):
        directory = getattr(settings, name)
        if directory:
            found[name] = data.find_records(directory)
            if found[name] != directory:
                _log.info("note: %s: the records are in %s", name, found[name])
    if not settings.model_dir and not settings.do_eval:
        records = found["record_info_dir"]
        if files.is_remote(records):
            raise wrong("model_dir", "none", f"one: {records} is not on a disk")
        parent = os.path.dirname(os.path.abspath(records))
        found["model_dir"] = os.path.join(parent, "model")
        _log.info("note: model_dir is not given: %s", found["model_dir"])
    return dataclasses.replace(settings, **found)


def inherit(
    settings: PretrainingSettings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    given: Collection[str],
) -> tuple[PretrainingSettings, NetworkSettings, OptimizationSettings]:
    """Fills in settings that are not given with those of the run in `model_dir`. At a start from
    the weights of another run, and in an evaluation, with what belongs to the model of the weights.

    Raises:
      UserError: a given setting contradicts a run that resumes, or model_dir has initial weights.
    """
    trains = not settings.do_eval
    # A run that failed before its first checkpoint leaves a document, but nothing resumes.
    resumes = trains and bool(run_document.weights_in(settings.model_dir))
    if trains and not resumes and not settings.init_checkpoint:
        run_document.refuse_released(settings.model_dir)
        return settings, network, optimization
    weights = settings.model_dir
    if settings.init_checkpoint and not resumes:
        weights = settings.init_checkpoint
    document = run_document.read(files.directory_of(weights))
    # a run of fine-tuning is refused later
    if document and (not resumes or document.task is None):
        (settings, network, optimization), different = run_document.inherit(
            (settings, network, optimization), given, document, of_run=resumes
        )
        if resumes:
            run_document.refuse(document, different, settings.allow_changes)
            optimization.check()
        settings.check()
    return settings, network, optimization


def choose_architecture(
    settings: PretrainingSettings, flags: Settings, manifest: Manifest
) -> XLNetConfig:
    """The architecture: of flags, which take precedence; of a JSON file; of the run that is
    resumed, or of the initial checkpoint's directory. A vocabulary of another size is an error."""
    given = {}
    for key in ARCHITECTURE_KEYS:
        if getattr(flags, key) is not None:
            given[key] = getattr(flags, key)
    path = settings.model_config_path or _kept_architecture(settings)
    values = _ARCHITECTURE_DEFAULTS if given else {}
    if path:
        values = presets.read(path, "model_config_path", "model")
    elif not given:
        raise wrong("model_config_path", "none", "an architecture, or all of its flags")
    # The size of the vocabulary is that of the records if neither weights nor a flag say it.
    size = {}
    if not settings.init_checkpoint and path == settings.model_config_path:
        size = {"n_token": manifest.vocab_size}
    config = XLNetConfig(**{**values, **size, **given})
    if config.n_token != manifest.vocab_size:
        where = "n_token" if "n_token" in given else f"n_token of {path}"
        pieces = f"the pieces of the records in {settings.record_info_dir}"
        raise wrong(where, config.n_token, f"{manifest.vocab_size}, {pieces}")
    return config


def _kept_architecture(settings: PretrainingSettings) -> Optional[str]:
    """The architecture's file of the run that resumes, or next to the initial weights."""
    directories = []
    if settings.model_dir:
        directories.append(settings.model_dir)
    if settings.init_checkpoint:
        directories.append(files.directory_of(settings.init_checkpoint))
    if settings.do_eval:
        directories.reverse()
    for directory in directories:
        path = os.path.join(directory, CONFIG_NAME)
        if os.path.exists(path):
            return path
    return None


def _with_possible_attention(
    settings: PretrainingSettings,
    config: XLNetConfig,
    network: NetworkSettings,
    device: DeviceSettings,
    used: Devices,
) -> Devices:
    """The devices without fused attention where its programs do not cover the run, or compute
    something else than the plain form on this GPU; a UserError if it was asked for."""
    if not used.fused_attention:
        return used
    from xlnet.model import kernels_gpu_check

    try:
        if settings.objective == "causal":
            masks = "an objective with factorization orders, by which its programs mask"
            raise wrong("fused_attention", "objective causal", masks)
        kernels_gpu_check.check(
            used.fused_attention,
            str(network.run_config(is_training=True).precision),
            config.d_head,
            used.session_config(),
        )
    except UserError as error:
        if device.fused_attention:
            raise
        _log.info("note: %s; attention is that of XLA", error)
        return dataclasses.replace(used, fused_attention=None)
    return used


def _check_training(run: PretrainingRun) -> None:
    """Raises UserError if the records do not fit the devices, the initial weights the network, or
    the run the one that it resumes."""
    settings, manifest, held_out = run.settings, run.manifest, run.held_out
    check_pretrained(settings.model_dir, "model_dir")
    input_pipeline.steps_per_epoch(manifest, settings.train_batch_size)
    run.devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)
    if held_out:
        data.note_trained_on(held_out, manifest, "eval_record_info_dir")
    elif settings.eval_steps:
        _log.info(
            "note: eval_steps is %d, but nothing is evaluated without --eval_record_info_dir",
            settings.eval_steps,
        )
    if settings.init_checkpoint and not checkpoint.all_prefixes(settings.model_dir):
        prefix = checkpoint.resolve(settings.init_checkpoint)
        run_document.check_weights(prefix, run.config, run.tokenizer, "init_checkpoint")
        checkpoint.read_weights(prefix)  # which must be finite
    run_document.check_resumed(
        run.document, run.config, run.tokenizer, settings.allow_changes
    )


def check_pretrained(directory: str, flag: str) -> None:
    """Raises UserError if a directory has a fine-tuned model."""
    document = run_document.read(directory)
    if document and document.task is not None:
        by = f"a fine-tuned model (by {document.path})"
        raise wrong(f"{flag}: {directory}", by, "a pretrained one")
