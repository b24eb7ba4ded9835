"""What the programs that fine-tune share: those for tables, for tags, for questions."""

from collections.abc import Sequence
from typing import Callable

from xlnet import cli
from xlnet.errors import UserError
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.finetuning import FineTuningSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import OptimizationSettings

_NO_TPU = "no TPU is addressed"

# Flags of the original programs that have lost their meaning.
NO_LONGER_NEEDED = {
    "iterations": "it is a TPU loop's length",
    "master": _NO_TPU,
    "tpu_job_name": _NO_TPU,
    "tpu_zone": _NO_TPU,
    "gcp_project": _NO_TPU,
    "predict_batch_size": "eval_batch_size is for predictions too",
}

# Flags of earlier versions.
GONE = {
    "mixout": "--freeze_layers and --lr_layer_decay_rate keep weights near the pretrained ones",
    "parallel_ops": "operations run side by side without it",
    "use_checkpoint": "the best checkpoint is used, or the newest one where there is no best",
    "do_export": "xlnet export writes the model for TensorFlow Serving",
    "export_dir": "see do_export",
    "data_workers": "each core that the process may use tokenizes; taskset -c 0 gives it one",
}

# What --help is about, behind what says where the data are; --helpfull is about all.
FIRST = ("model_dir", "init_checkpoint", "do_train", "do_eval", "do_predict", "max_seq_length",
         "train_batch_size", "learning_rate")


def run(settings: FineTuningSettings, network: NetworkSettings, optimization: OptimizationSettings,
        device: DeviceSettings, check_task: Callable[[str], None]) -> None:
    """Trains, evaluates and predicts as the settings say.

    check_task: raises UserError for flags that contradict a task, by its name.
    """
    from xlnet.finetuning import program
    program.run(settings, network, optimization, device, cli.given_names(), check_task)


def refuse_columns(task_name: str, flags: Sequence[str]) -> None:
    """Raises UserError for flags that name columns of own files, beside a known task."""
    for flag in flags:
        if cli.given(flag):
            raise UserError("%s is for --task_name=custom; the columns of task %s are known"
                            % (flag, task_name))
