"""The devices and machines of a run."""

import dataclasses
from typing import Optional

from xlnet.settings.fields import HelpGroup, Settings, setting


class TaskDeviceSettings(Settings, help_group=HelpGroup.DEVICES, belongs_to=None):
    """Where fine-tuning runs: on one machine."""

    num_core_per_host: int = setting(
        1,
        "GPUs per machine, or replicas on the CPU with device=cpu",
        minimum=1,
    )
    device: str = setting(
        "auto",
        "where to run; auto: on GPUs, or with one replica on the CPU if there are none",
        choices=("auto", "gpu", "cpu"),
    )
    xla: Optional[bool] = setting(
        None,
        "compile the training step with XLA; not given: on GPUs; in "
        "fine-tuning batches then have at most six lengths",
        HelpGroup.SPEED,
    )

    def devices(self) -> "DeviceSettings":
        """These settings as of pretraining, which has more of them."""
        return DeviceSettings(**dataclasses.asdict(self), num_hosts=1)


class DeviceSettings(TaskDeviceSettings, help_group=HelpGroup.DEVICES, belongs_to=None):
    """Where pretraining runs: docs/how_to/several_gpus.md."""

    num_hosts: Optional[int] = setting(
        None,
        "number of machines; if not given, as many as TF_CONFIG or SLURM name",
        minimum=1,
    )
    use_tpu: bool = setting(False, "run on a TPU (never tried)")
    tpu_name: str = setting(
        "local", "name or grpc address of the TPU", HelpGroup.ORIGINAL, aliases=("tpu",)
    )
    fused_attention: Optional[bool] = setting(
        None,
        "pretrain with attention that Triton compiles to one program, on an NVIDIA GPU with "
        "TensorFlow 2.21, XLA and --precision=bf16 or fp16; not given: where all of that is, "
        "Triton is installed and the run has one H100 or H200",
        HelpGroup.SPEED,
    )

    def on_one_machine(self) -> "DeviceSettings":
        """These settings for what runs on GPUs or the CPU of one machine: all but pretraining."""
        return dataclasses.replace(
            self, use_tpu=False, num_hosts=1, fused_attention=False
        )
