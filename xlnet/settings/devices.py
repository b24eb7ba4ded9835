"""The devices and machines of a run."""

import dataclasses
import logging
from typing import Optional

from xlnet.errors import UserError
from xlnet.settings.fields import Need, Settings, setting

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class DeviceSettings(Settings, need=Need.DEVICES):
    """Where to run: docs/tutorials/several_gpus.md."""
    num_hosts: int = setting(1, "number of machines; above 1 set TF_CONFIG on each", minimum=1,
                             resume="any")
    num_core_per_host: int = setting(1, "GPUs of a machine; with device=cpu replicas on its CPU",
                                     minimum=1, resume="any")
    device: str = setting("auto", "GPUs, or the CPU where none is found; auto takes GPUs if there "
                          "are any, and one replica on the CPU if not",
                          choices=("auto", "gpu", "cpu"), resume="any")
    use_tpu: bool = setting(False, "run on a TPU (never tried)", resume="any")
    tpu_name: str = setting("local", "with use_tpu: name or grpc address of the TPU",
                            aliases=("tpu",), need=Need.ORIGINAL, resume="any")
    xla: bool = setting(False, "compile each replica's part of the training step with XLA; in "
                        "fine-tuning give --padding=fixed too: each length is compiled anew",
                        need=Need.SPEED, resume="any")
    tf32: Optional[bool] = setting(None, "on GPUs that can (A100 and later), float32 products in "
                                   "TF32, which keeps ten bits of each factor in place of 23; if "
                                   "not given, unless deterministic", need=Need.SPEED, resume="any")
    deterministic: bool = setting(False, "on GPUs, only operations that give the same bits each "
                                  "time: slower; TensorFlow stops where it has none",
                                  need=Need.SPEED, resume="any")

    @property
    def uses_tf32(self) -> bool:
        """What `tf32` leads to."""
        return not self.deterministic if self.tf32 is None else self.tf32

    def on_one_machine(self) -> "DeviceSettings":
        """These settings for fine-tuning, which runs on GPUs or the CPU of one machine.

        A TPU is noted, and its hosts and cores are not counted.

        Raises:
          UserError: several machines.
        """
        if self.use_tpu:
            _log.warning("note: use_tpu is True: fine-tuning runs on GPUs or the CPU, here as with "
                         "--num_hosts=1 --num_core_per_host=1")
            return dataclasses.replace(self, use_tpu=False, num_hosts=1, num_core_per_host=1)
        if self.num_hosts != 1:
            raise UserError("num_hosts is %d: fine-tuning runs on one machine; leave it 1"
                            % self.num_hosts)
        return self
