"""What the programs that fine-tune share."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xlnet import cli
from xlnet.errors import UserError
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import HelpGroup
from xlnet.settings.finetuning import (
    ClassifierSettings,
    FineTuningSettings,
    SpanSettings,
    TaskSettings,
)
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import OptimizationSettings

_NO_TPU = "no TPU is addressed"

# Flags of the original programs that have no effect.
NO_LONGER_NEEDED = {
    "iterations": "it is the length of a TPU loop",
    "master": _NO_TPU,
    "tpu_job_name": _NO_TPU,
    "tpu_zone": _NO_TPU,
    "gcp_project": _NO_TPU,
    "predict_batch_size": "use eval_batch_size",
}

# What --help shows, after the flags for the data; --helpfull shows all.
FIRST = (
    "model_dir",
    "init_checkpoint",
    "do_train",
    "do_eval",
    "do_predict",
    "max_seq_length",
    "train_batch_size",
    "learning_rate",
)


def run(
    group: type[TaskSettings],
    about: str,
    examples: Sequence[str],
    no_longer_needed: Mapping[str, str] = MappingProxyType({}),
    data: Sequence[str] = ("task_name", "data_dir"),
) -> None:
    """Runs the command line of a program; `data`: its first settings in --help."""
    cli.run(
        main,
        group,
        NetworkSettings,
        OptimizationSettings,
        DeviceSettings,
        about=about,
        no_longer_needed=no_longer_needed,
        first=(*data, *FIRST),
        examples=examples,
    )


def main(
    settings: FineTuningSettings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    device: DeviceSettings,
) -> None:
    """Makes records, trains, evaluates and predicts as the settings say."""
    from xlnet.finetuning import start
    from xlnet.tasks.types import known

    known.load(settings.task_module)
    # Flags of a task are checked once its name is known: the model may have it.
    check = functools.partial(check_task, settings)
    if isinstance(settings, SpanSettings) and settings.do_prepro:
        start.make_records(settings, check)
        if not settings.does_run:
            return
    start.run(
        settings,
        network,
        optimization,
        device,
        cli.given_names(),
        check,
        preset=cli.preset_of("learning_rate"),
    )


def check_task(settings: FineTuningSettings, name: str) -> None:
    """Raises UserError for flags that contradict the known task `name`."""
    from xlnet.tasks.types import known

    if known.canonical_name(name) in (known.CUSTOM, "tsv"):
        return
    task = known.find_task(name)
    # Flags for columns belong to own files.
    for field in dataclasses.fields(settings):
        if field.metadata["help_group"] is HelpGroup.COLUMNS and cli.given(field.name):
            raise UserError(
                f"{field.name} is for --task_name=custom; the columns of task {task.name} are known"
            )
    if (
        isinstance(settings, ClassifierSettings)
        and cli.given("is_regression")
        and task.is_regression
        and not settings.is_regression
    ):
        raise UserError(f"is_regression is False, but task {task.name} has scores")
