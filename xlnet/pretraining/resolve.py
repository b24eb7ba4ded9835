"""From the settings of a command line to a pretraining run: what is found, read and checked."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from typing import NamedTuple

import tensorflow as tf2

from xlnet.corpus import input_pipeline, permutation
from xlnet.corpus.manifest import MANIFEST_NAME, Manifest
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import checkpoint, devices
from xlnet.engine.devices import Devices
from xlnet.pretraining import objectives
from xlnet.pretraining.run import PretrainingRun
from xlnet.runs import run_document
from xlnet.settings.fields import Settings, read_settings
from xlnet.settings.network import (
    CONFIG_NAME,
    NetworkSettings,
    XLNetConfig,
)
from xlnet.settings.pretraining import PretrainingSettings, SamplingSettings
from xlnet.settings.training import DeviceSettings, OptimizationSettings
from xlnet.support import files, system
from xlnet.support.errors import UserError, wrong

_log = logging.getLogger(__name__)

_TFRECORDS = "tfrecords"
# Flags of the original that describe the records. The manifest of the records has the values: a
# flag that is given must have the same one.
_FLAGS_OF_RECORDS = ("seq_len", "reuse_len", "bi_data", "uncased")
# Entries of the manifest that are the same for held-out records and those that are trained on.
_SHARED = ("sp_model_sha256", "seq_len", "reuse_len", "uncased", "keep_accents")
# The compute capability of H100 and H200, on which fused attention was tried.
_TRIED = (9, 0)


def resolve(
    settings: PretrainingSettings,
    architecture: Settings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    device: DeviceSettings,
    given: Collection[str],
) -> PretrainingRun:
    """The run that a command line describes, a training or (`do_eval`) an evaluation. If it has
    several hosts, this waits for all of them.

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
    system.import_own_module(settings.own_module)
    settings = _with_directories(settings)
    # Before anything that may fail on one host alone, for which the others would wait.
    run_devices = devices.connect(device)
    start = start_of(settings)
    settings, network, optimization = inherited_settings(
        settings, network, optimization, given, start
    )

    # Read the records.
    manifest, held_out = read_manifests(settings)
    config = choose_architecture(settings, architecture, manifest, start)
    tokenizer = Tokenizer(
        files.local(os.path.join(settings.record_info_dir, manifest.sp_model)),
        manifest.uncased,
        manifest.keep_accents,
    )
    objective = objectives.find(settings.objective)
    if objective.needs_mask_id and tokenizer.mask_id is None:
        raise wrong(tokenizer.path, "no <mask>", "one", f"--objective={objective.name}")

    # Which tokens are predicted. Some objectives choose their targets themselves and read no
    # sampled ones: 1 of these is a number that any sequence can have.
    num_predict = settings.num_predict if objective.samples_targets else 1
    sampling = choose_sampling(
        settings, num_predict, manifest.seq_len, manifest.reuse_len
    )

    # Make the document of the run, which is written when training starts. It has `num_predict` and
    # `perm_size` as they are given, 0 where they follow from the lengths of the records: training
    # that continues from the weights may have longer records.
    digests = {"record_info_dir": manifest.digest}
    if held_out:
        digests["eval_record_info_dir"] = held_out.digest
    groups = (settings, network, optimization, device)
    resolved = {**run_document.values_of(groups), **config.to_dict()}
    resolved.pop("model_config_path", None)  # the architecture itself is there
    document = run_document.RunDocument(
        run_document.path_in(settings.model_dir),
        settings.program,
        resolved,
        text=run_document.text_of(tokenizer),
        digests=digests,
    )

    # Do the weights fit the network, the records the devices, and this run the one that it resumes?
    fused_attention = None
    if start.weights and not start.resumes:
        run_document.check_weights(start.weights, config, tokenizer, start.flag)
    if not settings.do_eval:
        # For its error: the batch size must divide the number of streams.
        input_pipeline.steps_per_epoch(manifest, settings.train_batch_size)
        run_devices.check_divides(settings.train_batch_size, settings.grad_accum_steps)
        if held_out:
            note_trained_on(held_out, manifest)
        elif settings.eval_steps:
            _log.info(
                "note: eval_steps is %d, but nothing is evaluated without "
                "--eval_record_info_dir",
                settings.eval_steps,
            )
        run_document.check_resumed(document, config, tokenizer, settings.allow_changes)
        fused_attention = choose_fused_attention(
            device.fused_attention, objective.name, config, network, run_devices
        )
    return PretrainingRun(
        settings=settings,
        optimization=optimization,
        config=config,
        devices=run_devices,
        network=network,
        weights=None if start.resumes else start.weights,
        objective=objective,
        tokenizer=tokenizer,
        manifest=manifest,
        sampling=sampling,
        held_out=held_out,
        document=document,
        fused_attention=fused_attention,
    )


# ---- what the command line leaves out


def _with_directories(settings: PretrainingSettings) -> PretrainingSettings:
    """The settings with the directories to use: those of records as `_records_directory` says, and
    defaults for those that are not given. By default the model_dir of a training is `model` next to
    the records, and an evaluation is on the records of `record_info_dir`."""
    records = _records_directory("record_info_dir", settings.record_info_dir)
    held_out, model_dir = settings.eval_record_info_dir, settings.model_dir
    if held_out:
        held_out = _records_directory("eval_record_info_dir", held_out)
    if settings.do_eval:
        held_out = held_out or records
    elif not model_dir:
        if files.is_remote(records):
            raise wrong("model_dir", "none", f"one: {records} is not on a disk")
        parent = os.path.dirname(os.path.abspath(records))
        model_dir = os.path.join(parent, "model")
        files.require_no_pattern(model_dir, "model_dir")
        _log.info("note: model_dir is not given: %s", model_dir)
    return dataclasses.replace(
        settings,
        record_info_dir=records,
        eval_record_info_dir=held_out,
        model_dir=model_dir,
    )


def _records_directory(flag: str, directory: str) -> str:
    """The directory with the records that the flag `flag` names by `directory`. The original's
    command lines name a subdirectory `tfrecords` of it: then its parent is returned, with a note.
    """
    parent, last = os.path.split(directory.rstrip("/"))
    parent = parent or "."
    if last == _TFRECORDS and files.exists(os.path.join(parent, MANIFEST_NAME)):
        _log.info("note: %s: the records are in %s", flag, parent)
        return parent
    return directory


class Start(NamedTuple):
    """What a command starts from.

    Attributes:
      weights: the prefix of the checkpoint; None: random weights.
      flag: that names it; "" without one.
      resumes: whether the run in model_dir resumes.
    """

    weights: str | None
    flag: str
    resumes: bool = False


def start_of(settings: PretrainingSettings) -> Start:
    """What the command starts from. A training resumes if its model_dir has a checkpoint; else it
    starts from --init_checkpoint or, without one, from random weights. An evaluation has the
    weights of --init_checkpoint, or else those in model_dir."""
    newest = checkpoint.newest(settings.model_dir)
    if newest and not settings.do_eval:
        return Start(newest, "model_dir", resumes=True)
    if settings.init_checkpoint:
        return Start(checkpoint.resolve(settings.init_checkpoint), "init_checkpoint")
    if settings.do_eval:
        return Start(checkpoint.resolve(settings.model_dir, "model_dir"), "model_dir")
    return Start(None, "")


def inherited_settings(
    settings: PretrainingSettings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    given: Collection[str],
    start: Start,
) -> tuple[PretrainingSettings, NetworkSettings, OptimizationSettings]:
    """The settings, where those that are not given are those of the run whose weights the command
    starts from: all of them if it resumes this run, and only those that belong to the model
    otherwise. With random weights, the settings stay.

    Args:
      settings: as given, or their defaults, like the next two.
      network: how the network is run.
      optimization: of the optimizer.
      given: the names of the settings that the user gave, at any value.
      start: what the command starts from.

    Raises:
      UserError: a given setting contradicts a run that resumes, the weights are fine-tuned, or
        model_dir has initial weights.
    """
    groups = settings, network, optimization
    if start.weights is None:
        run_document.refuse_released(settings.model_dir)
        return groups
    directory = os.path.dirname(start.weights)
    document = run_document.read(directory)
    if not document:
        return groups
    if document.task is not None:
        found = f"a fine-tuned model (by {document.path})"
        raise wrong(f"{start.flag}: {directory or '.'}", found, "a pretrained one")
    # `different`: in words, the given settings that are not those of the run.
    groups, different = run_document.inherit(
        groups, given, document, of_run=start.resumes
    )
    settings, network, optimization = groups
    # Given and inherited values together may contradict each other, so they are checked again.
    # The optimization has inherited values only of a run that resumes.
    if start.resumes:
        run_document.refuse(document, different, settings.allow_changes)
        optimization.check()
    settings.check()
    return groups


def choose_architecture(
    settings: PretrainingSettings,
    architecture: Settings,
    manifest: Manifest,
    start: Start,
) -> XLNetConfig:
    """The architecture: each value from its flag, or else from `model_config_path`, a JSON file or
    the name of a preset, or else from the directory of the weights that the command starts from.

    Args:
      settings: after `inherited_settings`.
      architecture: `ArchitectureSettings`; None of those that are not given.
      manifest: of the training records.
      start: what the command starts from.

    Raises:
      UserError: there is no architecture, or its vocabulary has another size than that of the
        records.
    """
    given = {}
    for key, value in vars(architecture).items():
        if value is not None:
            given[key] = value
    path = settings.model_config_path
    if not path and start.weights:
        of_weights = os.path.join(os.path.dirname(start.weights), CONFIG_NAME)
        path = of_weights if os.path.exists(of_weights) else None
    if path:
        values = read_settings(path, "model_config_path", "model")
    elif given:
        # The original's values of these two, where their flags are not given.
        values = {"ff_activation": "relu", "untie_r": False}
    else:
        raise wrong("model_config_path", "none", "an architecture, or all of its flags")
    # The size of the vocabulary is that of the records, unless `path` was found next to weights,
    # which have theirs. A flag comes before all.
    if path == settings.model_config_path:
        values["n_token"] = manifest.vocab_size
    config = XLNetConfig(**{**values, **given})
    if config.n_token != manifest.vocab_size:
        where = "n_token" if "n_token" in given else f"n_token of {path}"
        pieces = f"the pieces of the records in {settings.record_info_dir}"
        raise wrong(where, config.n_token, f"{manifest.vocab_size}, {pieces}")
    return config


# ---- the records


def read_manifests(
    settings: PretrainingSettings,
) -> tuple[Manifest, Manifest | None]:
    """The manifests of the training records and of the held-out ones, None without such; a
    UserError if a flag contradicts them, or their vocabulary or lengths differ."""
    directory = settings.record_info_dir
    manifest = Manifest.read(directory)
    _check_same("", settings, _FLAGS_OF_RECORDS, manifest, directory)
    if not settings.eval_record_info_dir:
        return manifest, None
    flag = "eval_record_info_dir"
    held_out = Manifest.read(settings.eval_record_info_dir, flag)
    where = f"{flag}: {settings.eval_record_info_dir}: "
    _check_same(where, held_out, _SHARED, manifest, directory)
    return manifest, held_out


def _check_same(
    where: str,
    described: PretrainingSettings | Manifest,
    names: Sequence[str],
    manifest: Manifest,
    directory: str,
) -> None:
    """Raises UserError if one of the attributes `names` of `described` differs from that of the
    manifest of the training records; None, a flag that is not given, is not compared.

    Args:
      where: the beginning of the error, before the name.
      described: flags, or the manifest of other records.
      names: of the attributes.
      manifest: of the training records.
      directory: of the training records.
    """
    for name in names:
        found, expected = getattr(described, name), getattr(manifest, name)
        if found is None or found == expected:
            continue
        if name == "sp_model_sha256":
            raise wrong(where + name, "another vocabulary", f"that of {directory}")
        raise wrong(
            where + name, found, f"{expected}, as of the records in {directory}"
        )


def choose_sampling(
    settings: SamplingSettings, num_predict: int, seq_len: int, reuse_len: int
) -> SamplingSettings:
    """The settings of targets and orders. `num_predict` and `perm_size` follow from the lengths of
    the records where they are 0, not given.

    Args:
      settings: with these among others; its `num_predict` is not read.
      num_predict: of the targets of a sequence.
      seq_len: tokens of a sequence.
      reuse_len: those of them at its beginning whose vectors the memory keeps.

    Raises:
      UserError: more targets than a sequence can have, or no such factorization order.
    """
    sampling = SamplingSettings(
        perm_size=settings.perm_size or max(reuse_len, seq_len - reuse_len),
        factorization_order=settings.factorization_order,
        num_predict=num_predict or max(1, seq_len // 6),
        mask_mode=settings.mask_mode,
        mask_alpha=settings.mask_alpha,
        mask_beta=settings.mask_beta,
    )
    permutation.check(sampling, seq_len, reuse_len)
    return sampling


# ---- checks


def choose_fused_attention(
    requested: bool | None,
    objective: str,
    config: XLNetConfig,
    network: NetworkSettings,
    run_devices: Devices,
) -> tuple[int, int] | None:
    """Whether attention is compiled to one program, and for which GPUs.

    Args:
      requested: --fused_attention; None: it is not given, and attention is compiled on devices on
        which this was tried, if it is possible there. A note says if it is not.
      objective: its name.
      config: whose d_head is checked.
      network: whose precision is checked.
      run_devices: the devices.

    Returns:
      The compute capability of the GPUs for which it is compiled; None: it is not.

    Raises:
      UserError: it is requested and not possible.
    """
    capability = devices.compute_capability(run_devices.gpus)
    is_wanted = requested
    if requested is None:
        is_single = run_devices.replicas == 1
        # Triton is in the extra `gpu` alone.
        is_wanted = capability == _TRIED and is_single and bool(find_spec("triton"))
    if not is_wanted:
        return None
    try:
        _check_attention(capability, objective, config, network, run_devices)
    except UserError as error:
        if requested:
            raise
        _log.info("note: %s; attention is that of XLA", error)
        return None
    return capability


def _check_attention(
    capability: tuple[int, int] | None,
    objective: str,
    config: XLNetConfig,
    network: NetworkSettings,
    run_devices: Devices,
) -> None:
    """Raises UserError unless attention can be one program, and gives on these devices what the
    plain form gives. Arguments as of `choose_fused_attention`; capability: of the GPUs."""
    from xlnet.model import kernels_gpu_check  # for GPUs alone

    # From this version on XLA can launch programs that others have compiled.
    major, minor = tf2.__version__.split(".")[:2]
    is_new = (int(major), int(minor)) >= (2, 21)
    if not capability or not run_devices.xla or not is_new:
        found = f"{run_devices.description}, xla {run_devices.xla}, TensorFlow {tf2.__version__}"
        expected = "NVIDIA GPUs of one kind, --xla and TensorFlow 2.21"
        raise wrong("fused_attention", found, expected)
    if objective == "causal":
        masks = "an objective with factorization orders, by which its programs mask"
        raise wrong("fused_attention", "objective causal", masks)
    precision = str(network.run_config(is_training=True).precision)
    kernels_gpu_check.check(
        capability, precision, config.d_head, run_devices.session_config()
    )


def note_trained_on(held_out: Manifest, manifest: Manifest) -> None:
    """Logs a note if held-out records are made from text that is trained on: from the same files
    (by the SHA-256 of their content, `input_content`), and not by --split from the documents that
    the training records leave out."""
    # What the two data sets were made from, and by which flags.
    evaluated, trained = held_out.made_from, manifest.made_from
    content = evaluated.get("input_content")
    is_same_text = content is not None and content == trained.get("input_content")
    # A document is held out if its hash is below the fraction `heldout_share`: what a smaller
    # fraction holds out, a larger one leaves out of training, too.
    is_other_part = (
        evaluated.get("split") == "heldout"
        and trained.get("split") == "train"
        and evaluated.get("heldout_share", 0) <= trained.get("heldout_share", 0)
    )
    is_same_data = held_out.digest == manifest.digest
    if is_same_data or (is_same_text and not is_other_part):
        _log.warning(
            "note: eval_record_info_dir: its text is trained on: their loss says little about "
            "other texts; --split=train and --split=heldout of xlnet data make take different "
            "documents"
        )
