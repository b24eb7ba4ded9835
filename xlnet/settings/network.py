"""The architecture, which is part of a checkpoint, and how the network runs, which is not."""

import dataclasses
import os
from typing import Any, Optional, Union

from xlnet.settings.fields import (
    HelpGroup,
    Settings,
    check_limits,
    check_value,
    read_settings,
    required,
    same_as,
    setting,
)
from xlnet.support import files
from xlnet.support.errors import wrong

CONFIG_NAME = "xlnet_config.json"  # the architecture's file in a checkpoint's directory


@dataclasses.dataclass(frozen=True, init=False)
class XLNetConfig:
    """The architecture of an XLNet (paper, appendix A.4), equal for all uses of a checkpoint.

    Made from exactly one of the three:

    Args:
      FLAGS: parsed flags, or any object with these attributes.
      json_path: a released `xlnet_config.json`, or a name in `configs/model.json`.
      **values: the attributes by keyword.

    Raises:
      UserError: an unknown, missing or wrongly typed value.
    """

    n_layer: int = required("number of layers", minimum=1, maximum=1000)
    d_model: int = required("width of the hidden states", minimum=1)
    n_head: int = required("number of attention heads", minimum=1)
    d_head: int = required("width of one attention head", minimum=1)
    d_inner: int = required("width inside the feed-forward layer", minimum=1)
    ff_activation: str = required(
        "activation of the feed-forward layer; gelu is the tanh form of the original, gelu_erf the "
        "exact one",
        choices=("relu", "gelu", "gelu_erf"),
    )
    untie_r: bool = required("each layer has its own attention biases r_w, r_r and r_s")
    n_token: int = required(
        "vocabulary size; that of the data if not given", HelpGroup.MODEL, minimum=1
    )

    def __init__(
        self,
        FLAGS: Any = None,
        json_path: Union[str, os.PathLike[str], None] = None,
        **values: Any,
    ) -> None:
        if (FLAGS is not None) + (json_path is not None) + bool(values) != 1:
            expected = "exactly one of FLAGS, json_path and keywords"
            raise wrong("XLNetConfig", "none or several", expected)
        source = "XLNetConfig"
        if FLAGS is not None:
            values = {key: getattr(FLAGS, key) for key in ARCHITECTURE_KEYS}
        elif json_path is not None:
            source = f"model config {json_path}"
            values = read_settings(os.fspath(json_path), "model config", "model")
        for key in values:
            if key not in ARCHITECTURE_KEYS:
                raise wrong(source, f"'{key}'", f"only {', '.join(ARCHITECTURE_KEYS)}")
        for field in dataclasses.fields(XLNetConfig):
            value = values.get(field.name)
            if value is None:
                raise wrong(source, f"no {field.name}", field.metadata["help"])
            check_value(field, value, source)
            object.__setattr__(self, field.name, value)  # `self` is frozen
        if self.d_model % 2:
            expected = "an even number (sine and cosine halves)"
            raise wrong(f"{source}: d_model", self.d_model, expected)

    def to_dict(self) -> dict[str, Any]:
        """The values by name, as in `xlnet_config.json`."""
        return dataclasses.asdict(self)

    def to_json(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the architecture as JSON to `path`."""
        files.write_json(os.fspath(path), dict(sorted(self.to_dict().items())))


ARCHITECTURE_KEYS = tuple(XLNetConfig.__dataclass_fields__)


# `ArchitectureSettings` is a class with the fields of `XLNetConfig` as flags of the same names. A
# flag that is not given is None. `type` makes the class of its name, its bases and the `_body` that
# a `class` statement would have.
_types: dict[str, Any] = {}
_body: dict[str, Any] = {
    "__annotations__": _types,
    "__doc__": "The architecture as flags, in place of model_config_path.",
}
for _field in dataclasses.fields(XLNetConfig):
    _types[_field.name] = Optional[_field.type]
    _body[_field.name] = same_as(XLNetConfig, _field.name, default=None)
ArchitectureSettings: type[Settings] = type(
    "ArchitectureSettings", (Settings,), _body, help_group=HelpGroup.ORIGINAL
)


# The dtype of each value of `precision`.
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class NetworkSettings(Settings, help_group=HelpGroup.ORIGINAL):
    """How the network is initialized and regularized."""

    # Against overfitting.
    dropout: float = setting(
        0.1,
        "dropout rate of hidden states",
        HelpGroup.REGULARIZATION,
        minimum=0.0,
        below=1.0,
    )
    dropatt: float = setting(
        0.1,
        "dropout rate of attention probabilities",
        HelpGroup.REGULARIZATION,
        minimum=0.0,
        below=1.0,
    )
    # The initial weights, and how far apart positions may be.
    init: str = setting(
        "normal",
        "distribution of the initial weights",
        choices=("normal", "uniform"),
    )
    init_std: float = setting(
        0.02,
        "standard deviation of normal initialization",
        minimum=0.0,
    )
    init_range: float = setting(
        0.1, "half width of uniform initialization", minimum=0.0
    )
    clamp_len: int = setting(
        -1,
        "clip relative distances to ±clamp_len [tokens]; -1: off",
        minimum=-1,
        belongs_to="model",
    )
    # Speed and memory.
    use_bfloat16: bool = setting(False, "the same as --precision=bf16", belongs_to=None)
    precision: Optional[str] = setting(
        None,
        "dtype of the matmuls (mixed precision); fp32 if not given",
        HelpGroup.SPEED,
        choices=tuple(DTYPES),
    )
    recompute: bool = setting(
        False,
        "gradient checkpointing: less memory, a third more time",
        HelpGroup.SPEED,
        belongs_to=None,
    )

    def run_config(self, is_training: bool, **more: Any) -> "RunConfig":
        """The `RunConfig` of these settings.

        Args:
          is_training: whether dropout is applied.
          more: further attributes of `RunConfig`: mem_len, reuse_len, same_length, device and
            fused_attention.

        Raises:
          UserError: as `check`.
        """
        return RunConfig(
            is_training=is_training,
            use_tpu=False,
            traced_once=is_training,  # `engine.estimator` meets its conditions
            **dataclasses.asdict(self),
            **more,
        )

    def check(self) -> None:
        self.run_config(is_training=True)  # which checks its values


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """How the network is run: dropout, initialization, memory. Not part of a checkpoint.

    Args:
      is_training: whether dropout is applied.
      use_tpu: kept for the documented API; the strategy chooses the devices.
      use_bfloat16: the documented name of precision="bf16".
      dropout: rate for hidden states.
      dropatt: rate for attention probabilities.
      init: "normal" (with `init_std`) or "uniform" (within ±`init_range`).
      init_range: half width of the uniform distribution.
      init_std: standard deviation of the normal distribution.
      mem_len: positions kept as memory [tokens]; None or 0: no memory.
      reuse_len: leading positions of a sequence that enter the memory [tokens]; None or 0: all.
      bi_data: the second half of the batch runs backward.
      clamp_len: relative distances are clipped to ±clamp_len; -1: off.
      same_length: every position attends over the same span (with `attn_type="uni"`).
      precision: dtype of the matmuls, "fp32", "bf16" or "fp16"; weights, softmax, layer norm and
        loss stay float32. None: as `use_bfloat16` says.
      recompute: gradient checkpointing: the backward pass computes each layer's activations again;
        less memory for a third more work, the same gradients.
      device: what kernels are chosen for: "cpu", "gpu", "tpu", or "xla" where XLA compiles
        the graph for another device; None: the device that is found when the network is built;
        "plain": attention as the paper's equations say, on any device.
      traced_once: all layers call one function, which takes a third of the time to build. Ask for
        the gradients before any session runs the graph, and run it in a session of
        `engine.devices.Devices.session_config`. The programs of this library train with it.
      fused_attention: the compute capability of an NVIDIA GPU, such as (9, 0), for which
        `kernels_gpu` compiles attention to one program; with device "xla" alone. None: off.

    Raises:
      UserError: a value is not allowed, or two contradict each other.
    """

    is_training: bool
    use_tpu: bool
    use_bfloat16: bool
    dropout: float
    dropatt: float
    init: str = NetworkSettings.init
    init_range: float = NetworkSettings.init_range
    init_std: float = NetworkSettings.init_std
    mem_len: Optional[int] = None
    reuse_len: Optional[int] = None
    bi_data: bool = False
    clamp_len: int = NetworkSettings.clamp_len
    same_length: bool = False
    precision: Optional[str] = NetworkSettings.precision
    recompute: bool = NetworkSettings.recompute
    device: Optional[str] = None
    traced_once: bool = False
    fused_attention: Optional[tuple[int, int]] = None

    def __post_init__(self) -> None:
        # Two settings say the precision, as the documented API has use_bfloat16. From here on,
        # `precision` is not None, and `use_bfloat16` agrees with it.
        precision = self.precision or ("bf16" if self.use_bfloat16 else "fp32")
        object.__setattr__(self, "precision", precision)  # `self` is frozen
        if self.device not in (None, "plain", "cpu", "gpu", "tpu", "xla"):
            raise wrong("device", repr(self.device), "plain, cpu, gpu, tpu or xla")
        if self.fused_attention and self.device != "xla":
            raise wrong("device", self.device, "xla", "fused_attention")
        # The limits are declared in `NetworkSettings`, for fields of the same names.
        for field in dataclasses.fields(NetworkSettings):
            check_limits(field, getattr(self, field.name), field.name)
        if not self.clamp_len:
            raise wrong("clamp_len", 0, "at least 1, or -1: off")
        if self.use_bfloat16 and precision != "bf16":
            raise wrong("precision", precision, "bf16", "--use_bfloat16")
        object.__setattr__(self, "use_bfloat16", precision == "bf16")


def create_run_config(is_training: bool, is_finetune: bool, FLAGS: Any) -> RunConfig:
    """Returns the `RunConfig` that `FLAGS` describes: any object with attributes of `RunConfig`.

    Fine-tuning (`is_finetune`) has no memory of earlier sequences and ignores its attributes.
    """
    # `FLAGS` of the original's programs lack our own settings, which then have their defaults.
    values: dict[str, Any] = {}
    for field in dataclasses.fields(NetworkSettings):
        values[field.name] = getattr(FLAGS, field.name, field.default)
    if not is_finetune:
        for name in ("mem_len", "reuse_len", "bi_data", "same_length"):
            default = getattr(RunConfig, name)
            values[name] = getattr(FLAGS, name, default)
    use_tpu = getattr(FLAGS, "use_tpu", False)
    return RunConfig(is_training, use_tpu, **values)
