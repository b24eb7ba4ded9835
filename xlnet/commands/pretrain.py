"""Pretrains an XLNet on the records of xlnet data make."""

import dataclasses
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Callable

from xlnet.commands import cli
from xlnet.settings import presets
from xlnet.settings.data import RECORD_SETTINGS
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings
from xlnet.settings.network import (
    ARCHITECTURE_KEYS,
    CONFIG_NAME,
    ArchitectureSettings,
    NetworkSettings,
    XLNetConfig,
)
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.support import errors, files, own_modules, quiet
from xlnet.support.errors import UserError

if TYPE_CHECKING:
    from xlnet.corpus.manifest import Manifest

UNUSED = (
    "d_embed",
    "gcp_project",
    "iterations",
    "master",
    "max_seq_length",
    "num_passes",
    "summary_type",
    "tpu_job_name",
    "tpu_zone",
    "track_mean",
)

# The original's values of architecture flags that are not given.
ARCHITECTURE_DEFAULTS = {"ff_activation": "relu", "untie_r": False}


def main(
    settings: PretrainingSettings,
    architecture: Settings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    device: DeviceSettings,
) -> None:
    quiet.import_tensorflow()
    from xlnet.engine.devices import connect
    from xlnet.pretraining import run as pretraining
    from xlnet.pretraining import sources

    if settings.own_module:
        own_modules.load(settings.own_module, "own_module")
    # What was not given: the directories follow from the records, other settings from the run that
    # is there.
    given = cli.given_names()
    settings = with_directories(settings, sources.find_records)
    settings, network, optimization = inherit_from_run(
        settings, network, optimization, given
    )
    devices = connect(device, compiles_on_gpus=True)  # hosts meet here
    manifest = sources.read_manifest(
        settings.record_info_dir, settings.spiece_model_file
    )
    check_against_manifest(settings, manifest)
    settings = sources.with_lengths(settings, manifest)
    config = choose_architecture(settings, architecture, manifest)
    if settings.do_eval:
        pretraining.evaluate(manifest, settings, config, network, optimization, devices)
        return
    pretraining.train(
        manifest, settings, config, network, optimization, device, devices
    )


def inherit_from_run(
    settings: PretrainingSettings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    given: Collection[str],
) -> tuple[PretrainingSettings, NetworkSettings, OptimizationSettings]:
    """Fills in settings that are not given with those of the run in `model_dir`. At a start from
    the weights of another run, and in an evaluation, with what belongs to the model of the weights.
    Raises UserError if a given setting contradicts a run that resumes, or if model_dir has initial
    weights."""
    from xlnet.runs import run_document

    trains = not settings.do_eval
    # A run that failed before its first checkpoint leaves a document, but nothing resumes.
    resumes = trains and bool(run_document.weights_in(settings.model_dir))
    if trains and not resumes and not settings.init_checkpoint:
        run_document.refuse_released(settings.model_dir)
        return settings, network, optimization
    # a preset is for training: in an evaluation only the command line counts
    if not trains:
        given = [name for name in given if cli.given(name)]
    weights = (
        settings.model_dir
        if resumes
        else settings.init_checkpoint or settings.model_dir
    )
    run = run_document.read(files.directory_of(weights))
    # a run of fine-tuning is refused later
    if run and (not resumes or run.task is None):
        (settings, network, optimization), different = run_document.inherit(
            (settings, network, optimization), given, run, of_run=resumes
        )
        if resumes:
            run_document.refuse(run, different, settings.allow_changes)
            optimization.check()
        settings.check()
    return settings, network, optimization


def with_directories(
    settings: PretrainingSettings, find_records: Callable[[str], str]
) -> PretrainingSettings:
    """The settings with the directories of the records as found, and with `model` next to them as
    the default of model_dir."""
    found: dict[str, Any] = {
        name: find_records(getattr(settings, name))
        for name in ("record_info_dir", "eval_record_info_dir")
        if getattr(settings, name)
    }
    for name, directory in found.items():
        if directory != getattr(settings, name):
            print(f"note: {name}: the records are in {directory}")
    if not (settings.model_dir or settings.do_eval):
        if files.is_remote(found["record_info_dir"]):
            raise UserError(
                "model_dir: the records are not on a disk; give a directory that is"
            )
        parent = os.path.dirname(os.path.abspath(found["record_info_dir"]))
        found["model_dir"] = os.path.join(parent, "model")
        print("note: model_dir is not given: {}".format(found["model_dir"]))
    return dataclasses.replace(settings, **found)


def check_against_manifest(settings: PretrainingSettings, manifest: "Manifest") -> None:
    """Raises UserError for a flag that contradicts the records."""
    for name in RECORD_SETTINGS:
        wanted, found = getattr(settings, name), getattr(manifest, name)
        if wanted is not None and wanted != found:
            raise UserError(
                f"{name}: the flag says {wanted}, the records in {settings.record_info_dir} were "
                f"made with {found}"
            )


def choose_architecture(
    settings: PretrainingSettings, flags: Settings, manifest: "Manifest"
) -> XLNetConfig:
    """The architecture: of flags, which take precedence; of a JSON file; of the run that is
    resumed, or of the initial checkpoint's directory. A vocabulary of another size is an error."""
    given = {}
    for key in ARCHITECTURE_KEYS:
        if getattr(flags, key) is not None:
            given[key] = getattr(flags, key)
    # Its file may be that of the run that resumes, or be next to the initial weights.
    path = settings.model_config_path
    homes = [settings.model_dir] if settings.model_dir else []
    if settings.init_checkpoint:
        homes.insert(
            0 if settings.do_eval else 1, files.directory_of(settings.init_checkpoint)
        )
    for home in homes:
        beside = os.path.join(home, CONFIG_NAME)
        if not path and os.path.exists(beside):
            path = beside
    values = ARCHITECTURE_DEFAULTS if given else {}
    if path:
        values, _ = presets.read(path, "model_config_path", presets.MODEL)
    elif not given:
        raise UserError(
            "model_config_path: no architecture; give it, or all of its flags"
        )
    # The size of the vocabulary is that of the records if neither weights nor a flag say it.
    is_of_weights = path and (
        settings.init_checkpoint or path != settings.model_config_path
    )
    size = {} if is_of_weights else {"n_token": manifest.vocab_size}
    config = XLNetConfig(**{**values, **size, **given})
    if config.n_token != manifest.vocab_size:
        raise errors.wrong(
            "n_token" if "n_token" in given else f"n_token of {path}",
            config.n_token,
            f"{manifest.vocab_size}, the pieces of the records in {settings.record_info_dir}",
        )
    return config


def run() -> None:
    cli.run(
        main,
        PretrainingSettings,
        ArchitectureSettings,
        NetworkSettings,
        OptimizationSettings,
        DeviceSettings,
        about=__doc__,
        unused=UNUSED,
        examples=(
            "--config=base_24gb --record_info_dir=records "
            "--eval_record_info_dir=heldout_records --model_dir=model",
            "--record_info_dir=records --model_dir=model "
            "--model_config_path=tiny --n_token=8000 --train_batch_size=8 "
            "--mem_len=64 --perm_size=64 --num_predict=40 --learning_rate=1e-3 --train_steps=2000",
            "--do_eval=True --init_checkpoint=model --record_info_dir=heldout_records",
            "--config=base_8gpus --record_info_dir=records "
            "--model_dir=model --precision=bf16 --recompute=True --grad_accum_steps=4",
        ),
    )
