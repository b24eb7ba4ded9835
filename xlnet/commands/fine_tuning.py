"""What the programs that fine-tune share."""

from collections.abc import Sequence

from xlnet.commands import cli
from xlnet.settings.devices import DeviceSettings, TaskDeviceSettings
from xlnet.settings.finetuning import FineTuningSettings, SpanSettings, TaskSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import OptimizationSettings

# Flags of the original programs that have no effect.
UNUSED = (
    "gcp_project",
    "iterations",
    "master",
    "num_hosts",
    "overwrite_data",
    "predict_batch_size",
    "shuffle_buffer",
    "tpu",
    "tpu_job_name",
    "tpu_name",
    "tpu_zone",
)


def run(
    group: type[TaskSettings],
    about: str,
    examples: Sequence[str],
    unused: Sequence[str] = (),
) -> None:
    """Runs the command line of a program."""
    cli.run(
        main,
        group,
        NetworkSettings,
        OptimizationSettings,
        TaskDeviceSettings,
        about=about,
        unused=(*UNUSED, *unused),
        examples=examples,
        elsewhere=(DeviceSettings,),
    )


def main(
    settings: FineTuningSettings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    device: TaskDeviceSettings,
) -> None:
    """Makes records, trains, evaluates and predicts as the settings say."""
    from xlnet.finetuning import start
    from xlnet.runs import task_settings
    from xlnet.tasks.types import known

    known.load(settings.own_module)
    if isinstance(settings, SpanSettings) and settings.do_prepro:
        start.make_records(settings)
        if not settings.does_run:
            return
    run = task_settings.resolve_run(settings, network, optimization, cli.given_names())
    start.run(run, device.devices())
