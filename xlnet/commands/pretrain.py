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
        from xlnet.engine import best_checkpoint, loop
        from xlnet.pretraining import held_out, resolve

        system.import_own_module(settings.own_module)
        pretraining_run = resolve.resolve(
            settings, architecture, network, optimization, device, line.given
        )
        if pretraining_run.settings.do_eval:
            held_out.evaluate(pretraining_run)
            return
        best = best_checkpoint.BestCheckpoint(
            pretraining_run.settings.model_dir, "loss", lower_is_better=True
        )
        # Without held-out records nothing is evaluated during training.
        evaluator = (
            held_out.HeldOut(pretraining_run) if pretraining_run.held_out else None
        )
        loop.fit(pretraining_run, best, evaluator)
