"""What every kind of training has: its directory, steps, batches, learning rate, optimizer."""

import dataclasses
from typing import Optional

from xlnet import files
from xlnet.errors import UserError
from xlnet.settings.fields import Need, Settings, rate, required, setting, share

BEST = "best"       # the directory, in a model directory, of the best checkpoint


@dataclasses.dataclass(frozen=True)
class RunSettings(Settings, need=Need.MODEL):
    """What a run of any kind of training has: where it is kept, what it starts from, its steps."""
    model_dir: str = required("directory for checkpoints; a run found there is continued",
                              resume="any")
    model_config_path: Optional[str] = setting(
        None, "JSON with the architecture, or the name of one that comes along: tiny, base, large; "
        "that of model_dir, or beside init_checkpoint, if not given", resume="any")
    spiece_model_file: Optional[str] = setting(None, "SentencePiece model", need=Need.TEXT,
                                               resume="any")
    init_checkpoint: Optional[str] = setting(None, "weights to start from: a checkpoint prefix, "
                                             "its directory, or DIRECTORY/latest", resume="any")
    train_batch_size: int = setting(8, "examples per training step, over all devices", minimum=1,
                                    need=Need.STEPS)
    grad_accum_steps: int = setting(1, "micro-batches, one after the other, that a device cuts its "
                                    "rows into to save memory", minimum=1, need=Need.STEPS,
                                    resume="any")
    seed: int = setting(0, "seed of every random choice", minimum=0, maximum=2 ** 63 - 1,
                        need=Need.STEPS)
    save_steps: int = setting(1000, "steps between checkpoints", minimum=1, resume="any")
    eval_steps: int = setting(0, "steps between evaluations; 0: before and after", minimum=0,
                              need=Need.EVALUATION, resume="any")
    log_steps: int = setting(50, "steps between log lines", minimum=1, need=Need.STEPS,
                             resume="any")
    max_save: int = setting(5, "checkpoints kept; 0: all", minimum=0, resume="any")
    allow_changes: bool = setting(False, "go on in model_dir though settings differ that change "
                                  "what the run learns", resume="any")

    def check(self) -> None:
        super().check()
        files.require_no_pattern(self.model_dir, "model_dir")


@dataclasses.dataclass(frozen=True)
class OptimizationSettings(Settings, need=Need.OPTIMIZER):
    """Learning rate, optimizer and clipping."""
    learning_rate: float = setting(1e-4, "peak learning rate", minimum=0.0)
    train_steps: int = setting(100000, "total number of optimizer steps", minimum=1,
                               need=Need.STEPS, resume="any")
    warmup_steps: int = setting(0, "steps over which the learning rate rises from 0", minimum=0)
    warmup_share: float = share(0.0, "warmup_steps as a share of train_steps",
                                instead_of="warmup_steps")
    decay_method: str = setting("poly", "learning rate after warm-up",
                                choices=("poly", "cos", "constant"))
    min_lr_ratio: float = share(0.001, "last learning rate as a share of the peak",
                                need=Need.ORIGINAL)
    weight_decay: float = setting(0.0, "decoupled weight decay, not on biases and layer norms",
                                  minimum=0.0)
    adam_epsilon: float = setting(1e-8, "Adam's epsilon", above=0.0)
    clip: float = setting(1.0, "gradients are clipped to this global norm", above=0.0)
    lr_layer_decay_rate: float = setting(1.0, "learning rate of a layer as a share of the next "
                                         "higher one's; the embedding is the lowest", minimum=0.0)
    average_decay: float = rate(0.0, "moving average of the weights, decay per step (0.999); 0: "
                                "none")
    legacy_optimizer: bool = setting(False, "the reference's rules: no bias correction where there "
                                     "is weight decay, layer decay on gradients",
                                     need=Need.ORIGINAL)

    @property
    def warmup(self) -> int:
        """Steps of warm-up, whether they are given as a number or as a share of `train_steps`."""
        return self.warmup_steps or round(self.warmup_share * self.train_steps)

    def check(self) -> None:
        super().check()
        if self.warmup_share and self.warmup_steps:
            raise UserError("warmup_share is %s and warmup_steps is %d; give one of them"
                            % (self.warmup_share, self.warmup_steps))
        self.check_warmup()

    def check_warmup(self) -> None:
        """Raises UserError unless the peak learning rate is reached."""
        if self.warmup_steps > self.train_steps:
            raise UserError("warmup_steps is %d, but train_steps %d: the peak learning rate is not "
                            "reached; give fewer, or --warmup_share"
                            % (self.warmup_steps, self.train_steps))
