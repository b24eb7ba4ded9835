"""Pretrains an XLNet on the records of xlnet data make.

Examples:
  xlnet pretrain --config=base_24gb --record_info_dir=records \\
      --eval_record_info_dir=heldout_records --model_dir=model
  xlnet pretrain --config=tiny --record_info_dir=records --model_dir=model
  xlnet pretrain --do_eval=True --init_checkpoint=model --record_info_dir=heldout_records
  xlnet pretrain --config=base_8gpus --record_info_dir=records --model_dir=model \\
      --precision=bf16 --recompute=True --grad_accum_steps=4
"""

from xlnet.commands import cli
from xlnet.settings.network import ArchitectureSettings, NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import DeviceSettings, OptimizationSettings
from xlnet.support import system

# `xlnet data make` takes the same presets of `configs/`: it knows these settings, and ignores them.
GROUPS = (
    PretrainingSettings,
    ArchitectureSettings,
    NetworkSettings,
    OptimizationSettings,
    DeviceSettings,
)


def run() -> None:
    """The program, whose `--help` has the docstring of the module."""
    with cli.command(
        *GROUPS,
        about=__doc__,
        unused=cli.UNUSED,
        preset_table="pretrain",
    ) as line:
        settings, architecture, network, optimization, device = line.settings
        system.import_tensorflow()
        from xlnet.pretraining.pretrain import pretrain
        from xlnet.pretraining.resolve import resolve

        pretraining_run = resolve(
            settings, architecture, network, optimization, device, line.given
        )
        pretrain(pretraining_run)
