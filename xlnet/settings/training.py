"""Settings of all training: directory, steps, batches, learning rate, optimizer, devices."""

from typing import Optional

from xlnet.settings.fields import HelpGroup, Settings, required, setting
from xlnet.support import files
from xlnet.support.errors import wrong

# Names in a model directory. Files:
JOURNAL_NAME = "training.csv"  # losses by step
EVALUATIONS_NAME = "evaluations.json"
RELEASED_NAME = "xlnet_model.ckpt"  # the prefix of a checkpoint without a step
RUN_NAME = "run.json"  # the document of the run; `best/` has one, too
# Directories:
BEST = "best"  # the best checkpoint
RESULTS = "results"  # results of evaluations, and predictions
# What may be deleted: TensorBoard's files and the records of fine-tuning.
CACHE = "cache"


class RunSettings(Settings, help_group=HelpGroup.MODEL):
    """What every training run has: its directory, its initial weights, its steps."""

    # Where a run is, and what it starts from.
    model_dir: str = required(
        "directory for checkpoints; a run found there resumes", belongs_to=None
    )
    model_config_path: Optional[str] = setting(
        None,
        "JSON file of the architecture, or tiny, base or large; if not given, that of "
        "model_dir or of init_checkpoint",
        belongs_to=None,
    )
    init_checkpoint: Optional[str] = setting(
        None,
        "initial weights: a checkpoint prefix, its directory, or DIRECTORY/latest",
    )
    # Its steps.
    train_batch_size: int = setting(
        8, "examples per training step, over all devices", HelpGroup.STEPS, minimum=1
    )
    grad_accum_steps: int = setting(
        1,
        "micro-batches per device and step (gradient accumulation) to save memory; 1: off",
        HelpGroup.STEPS,
        minimum=1,
        belongs_to=None,
    )
    seed: int = setting(
        0, "seed of all random numbers", HelpGroup.STEPS, minimum=0, maximum=2**32 - 1
    )
    # Checkpoints and evaluations between the steps.
    save_steps: int = setting(1000, "interval between checkpoints [steps]", minimum=1)
    eval_steps: int = setting(
        0,
        "interval between evaluations [steps]; 0: before and after training only",
        HelpGroup.EVALUATION,
        minimum=0,
    )
    log_steps: int = setting(
        50,
        "interval between log lines [steps]",
        HelpGroup.STEPS,
        minimum=1,
        belongs_to=None,
    )
    max_save: int = setting(5, "checkpoints kept; 0: all", minimum=0)
    allow_changes: bool = setting(
        False,
        "resume in model_dir, or start from init_checkpoint, although settings that affect "
        "training differ",
        belongs_to=None,
    )

    def check(self) -> None:
        super().check()
        files.require_no_pattern(self.model_dir, "model_dir")


class OptimizationSettings(Settings, help_group=HelpGroup.OPTIMIZER):
    """Learning rate, optimizer and clipping."""

    # The schedule.
    learning_rate: float = setting(1e-4, "peak learning rate", above=0.0)
    train_steps: int = setting(
        100000,
        "length of training [steps]",
        HelpGroup.STEPS,
        minimum=1,
        instead_of="epochs",
    )
    warmup_steps: int = setting(
        0,
        "length of the warm-up of the learning rate [steps]; 0: none",
        minimum=0,
    )
    decay_method: str = setting(
        "poly",
        "schedule of the learning rate after warm-up",
        choices=("poly", "cos", "constant"),
    )
    min_lr_ratio: float = setting(
        0.001,
        "final learning rate as a fraction of the peak",
        HelpGroup.ORIGINAL,
        minimum=0.0,
        maximum=1.0,
    )
    # AdamW.
    weight_decay: float = setting(
        0.0,
        "decoupled weight decay, except on biases and layer norms; 0: off",
        minimum=0.0,
    )
    adam_epsilon: float = setting(
        1e-8, "epsilon of Adam", HelpGroup.ORIGINAL, above=0.0
    )
    clip: float = setting(1.0, "maximum global norm of the gradients", above=0.0)
    lr_layer_decay_rate: float = setting(
        1.0,
        "learning rate of a layer as a fraction of that of the layer above; the embedding is the "
        "lowest; 1: off",
        minimum=0.0,
    )
    ema_decay: float = setting(
        0.0,
        "decay per step of the exponential moving average (EMA) of the weights, such as 0.999; 0: "
        "none",
        minimum=0.0,
        below=1.0,
    )
    legacy_optimizer: bool = setting(
        False,
        "use the original optimizer: no bias correction with weight decay, layer decay on "
        "gradients",
        HelpGroup.ORIGINAL,
    )

    def check(self) -> None:
        super().check()
        # The peak learning rate must be reached. In fine-tuning, a length that is not given is None
        # until the number of examples is known.
        warmup, total = self.warmup_steps, self.train_steps
        if warmup is not None and total is not None and warmup > total:
            raise wrong("warmup_steps", warmup, f"at most train_steps, {total}")


class TaskDeviceSettings(Settings, help_group=HelpGroup.DEVICES, belongs_to=None):
    """Where fine-tuning runs: on one machine, which is `DeviceSettings` with num_hosts=1."""

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
