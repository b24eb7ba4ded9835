"""The devices and machines of a run."""

import dataclasses
import logging
import os
from typing import Optional

from xlnet.errors import UserError
from xlnet.settings.fields import HelpGroup, Settings, setting

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class DeviceSettings(Settings, help_group=HelpGroup.DEVICES):
    """Where to run: docs/tutorials/several_gpus.md."""

    num_hosts: Optional[int] = setting(
        None,
        "number of machines; if not given, as many as TF_CONFIG, SLURM or Open MPI name; "
        "needed in Kubernetes' indexed jobs",
        minimum=1,
        belongs_to=None,
    )
    num_core_per_host: int = setting(
        1, "GPUs per machine, or replicas on the CPU with device=cpu", minimum=1, belongs_to=None
    )
    device: str = setting(
        "auto",
        "where to run; auto: on GPUs, or with one replica on the CPU if there are none",
        choices=("auto", "gpu", "cpu"),
        belongs_to=None,
    )
    use_tpu: bool = setting(False, "run on a TPU (never tried)", belongs_to=None)
    tpu_name: str = setting(
        "local",
        "name or grpc address of the TPU",
        aliases=("tpu",),
        help_group=HelpGroup.ORIGINAL,
        belongs_to=None,
    )
    xla: Optional[bool] = setting(
        None,
        "compile the training step with XLA; not given: on GPUs, unless deterministic; in "
        "fine-tuning batches then have at most six lengths",
        help_group=HelpGroup.SPEED,
        belongs_to=None,
    )
    fused_attention: Optional[bool] = setting(
        None,
        "pretrain with attention that Triton compiles to one program, on an NVIDIA GPU with "
        "TensorFlow 2.21, XLA and --precision=bf16 or fp16; not given: where all of that is, "
        "Triton is installed and the run has one H100 or H200",
        help_group=HelpGroup.SPEED,
        belongs_to=None,
    )
    deterministic: bool = setting(
        False,
        "on GPUs use only operations that give the same bits each time, and no TF32: slower, and "
        "an error where TensorFlow has none",
        help_group=HelpGroup.SPEED,
        belongs_to=None,
    )

    @property
    def uses_tf32(self) -> bool:
        """Whether GPUs may compute float32 matmuls in TF32 (10 bits of mantissa), as A100 and later
        do by default."""
        return not self.deterministic and os.environ.get("NVIDIA_TF32_OVERRIDE") != "0"

    def on_one_machine(self) -> "DeviceSettings":
        """These settings for fine-tuning, which runs on GPUs or the CPU of one machine.

        With `use_tpu` there is a note, and the TPU's hosts and cores are ignored.

        Raises:
          UserError: there are several machines, or what only pretraining has is asked for.
        """
        if self.fused_attention:
            raise UserError("fused_attention is for pretraining; leave it out here")
        if self.use_tpu:
            _log.warning(
                "note: use_tpu is True: fine-tuning runs on GPUs or the CPU, here as with "
                "--num_hosts=1 --num_core_per_host=1"
            )
            return dataclasses.replace(
                self, use_tpu=False, num_hosts=1, num_core_per_host=1, fused_attention=False
            )
        if self.num_hosts not in (None, 1):
            raise UserError(
                f"num_hosts is {self.num_hosts}: fine-tuning runs on one machine; leave it 1"
            )
        return dataclasses.replace(self, num_hosts=1, fused_attention=False)
