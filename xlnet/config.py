"""Every setting, once: name, type, default, meaning. Flags and JSON keys are derived from here.

Two lifetimes: `XLNetConfig` is the architecture and travels with the checkpoint as
`xlnet_config.json`; everything else says how to run and does not.
"""

import dataclasses
import logging
import math
import os
import typing
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Optional, Union

from xlnet import encodings, files, presets
from xlnet.errors import UserError, did_you_mean

_log = logging.getLogger(__name__)

WINDOW_SPECIAL_TOKENS = 3       # <sep> <sep> <cls> of every pretraining window


# ---- fields ----

class _Required:
    """The value of a setting that has no default and was not given."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()


class Renamed(NamedTuple):
    """A setting's older name, and how many of its units make one of today's."""
    name: str
    units: float


def setting(default: Any, help: str, *, choices: Optional[Sequence[str]] = None,
            minimum: Optional[float] = None, maximum: Optional[float] = None,
            above: Optional[float] = None, below: Optional[float] = None,
            instead_of: Optional[str] = None, renamed: Optional[Renamed] = None,
            of_model: bool = False, is_result: bool = False) -> Any:
    """A dataclass field with its meaning [unit] and what it may be.

    Args:
      default: `REQUIRED`: there is none.
      choices: the allowed names. minimum, maximum: allowed themselves; above, below: not.
      instead_of: another setting that says the same: the one of them that stands on the command
        line goes before the other one in a preset, and both on the command line are refused; of
        both in a preset the groups' own checks say what becomes.
      renamed: the name that goes on working.
      of_model: a fine-tuned model goes on with the value that it was trained with, which stands in
        its `task.json`: left out it is taken from there, and another value is refused.
      is_result: the file of what the program is for; where it is "-", the standard output, all else
        that is shown goes to the standard error.
    """
    metadata = {"help": help, "choices": choices, "minimum": minimum, "maximum": maximum,
                "above": above, "below": below, "instead_of": instead_of, "renamed": renamed,
                "of_model": of_model, "is_result": is_result}
    if default is REQUIRED:     # as a factory: fields with defaults may stand before it
        return dataclasses.field(default_factory=lambda: REQUIRED, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def required(help: str, **limits: Any) -> Any:
    """A `setting` that has no default."""
    return setting(REQUIRED, help, **limits)


def share(default: Optional[float], help: str, **more: Any) -> Any:
    """A `setting` from 0 to 1."""
    return setting(default, help, minimum=0.0, maximum=1.0, **more)


def rate(default: float, help: str) -> Any:
    """A `setting` from 0 to below 1, the chance that something is dropped."""
    return setting(default, help, minimum=0.0, below=1.0)


def of_model(default: Any, help: str, **limits: Any) -> Any:
    """A `setting` that a fine-tuned model keeps."""
    return setting(default, help, of_model=True, **limits)


def as_in(group: type, name: str, **changes: Any) -> Any:
    """The setting `name` of another group, with `changes` of what `setting` takes."""
    field = {field.name: field for field in dataclasses.fields(group)}[name]
    return setting(**{"default": default_of(field), **field.metadata, **changes})


def default_of(field: "dataclasses.Field[Any]") -> Any:
    """The default of a setting, or `REQUIRED`."""
    return REQUIRED if field.default is dataclasses.MISSING else field.default


def setting_type(field: "dataclasses.Field[Any]") -> type:
    """The plain Python type of a field: `Optional[int]` is int."""
    arguments = [a for a in typing.get_args(field.type) if a is not type(None)]
    return arguments[0] if arguments else typing.cast(type, field.type)


def check_value(field: "dataclasses.Field[Any]", value: object, source: str) -> None:
    """Raises UserError unless `value` has the type of `field` and is one that it may be."""
    kind = setting_type(field)
    fits = type(value) in ((int, float) if kind is float else (kind,))
    if not fits:
        raise UserError("%s: %s is %r, expected %s" % (source, field.name, value, kind.__name__))
    check_limits(field, value, source + ": ")


def check_limits(field: "dataclasses.Field[Any]", value: Any, before: str = "") -> None:
    """Raises UserError, which begins with `before`, unless `value` is one that `field` may be."""
    choices = field.metadata["choices"]
    if choices and value not in choices:
        raise UserError("%s%s is %r, expected one of %s%s" % (
            before, field.name, value, ", ".join(choices), did_you_mean(str(value), choices)))
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError("%s%s is %r, expected a finite number" % (before, field.name, value))
    least, most, above, below = (field.metadata[name] for name in
                                 ("minimum", "maximum", "above", "below"))
    if (least is not None and value < least or most is not None and value > most
            or above is not None and value <= above or below is not None and value >= below):
        raise UserError("%s%s is %r, expected %s" % (before, field.name, value, _range(field)))


def _range(field: "dataclasses.Field[Any]") -> str:
    """The values that a number may have: "at least 1", "0 <= dropout < 1"."""
    sides = [field.metadata[name] for name in ("minimum", "above", "maximum", "below")]
    if sides[1:] == [None, None, None]:
        return "at least %g" % sides[0]
    return "".join(text % side for text, side in zip(("%g <= ", "%g < "), sides[:2])
                   if side is not None) + field.name + "".join(
        text % side for text, side in zip((" <= %g", " < %g"), sides[2:]) if side is not None)


@dataclasses.dataclass(frozen=True)
class Settings:
    """A group of settings."""

    def __post_init__(self) -> None:
        missing = [name for name, value in vars(self).items() if value is REQUIRED]
        if missing:
            raise TypeError("%s: missing %s" % (type(self).__name__, ", ".join(missing)))

    def check(self) -> None:
        """Raises UserError for a value that is not allowed or does not go with another one.

        What depends on data, a task or another group is checked where these are at hand.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                check_limits(field, value)


# ---- the architecture ----

CONFIG_NAME = "xlnet_config.json"   # the architecture's file beside a checkpoint
PRETRAINING_NAME = "pretraining"    # .json beside a checkpoint: the settings of its pretraining
BEST = "best"                       # the directory, in a model directory, of the best checkpoint


@dataclasses.dataclass(frozen=True, init=False)
class XLNetConfig:
    """The architecture of an XLNet (paper, appendix A.4), equal for all uses of a checkpoint.

    Made from flags (`FLAGS`, any object with these attributes), from a released
    `xlnet_config.json` (`json_path`, or the name of one of `configs/model/`), or by keyword; from
    exactly one of the three.

    Raises:
      UserError: an unknown, missing or wrongly typed value, named with the nearest match.
    """
    n_layer: int = required("number of layers", minimum=1)
    d_model: int = required("width of the hidden states", minimum=1)
    n_head: int = required("number of attention heads", minimum=1)
    d_head: int = required("width of one attention head", minimum=1)
    d_inner: int = required("width inside the feed-forward layer", minimum=1)
    ff_activation: str = required("activation of the feed-forward layer: gelu is the tanh form, "
                                  "as in the authors' code, gelu_erf the exact one",
                                  choices=("relu", "gelu", "gelu_erf"))
    untie_r: bool = required("each layer has its own attention biases r_w, r_r and r_s")
    n_token: int = required("vocabulary size; as a flag: from the data if not given", minimum=1)

    def __init__(self, FLAGS: Any = None,
                 json_path: Union[str, os.PathLike[str], None] = None, **values: Any) -> None:
        if (FLAGS is not None) + (json_path is not None) + bool(values) != 1:
            raise UserError("XLNetConfig: give FLAGS, json_path or keywords, exactly one of them")
        source = "XLNetConfig"
        if FLAGS is not None:
            values = {key: getattr(FLAGS, key) for key in ARCHITECTURE_KEYS}
        elif json_path is not None:
            source = "model config %s" % json_path
            values = files.read_json(presets.find(
                os.fspath(json_path), "model config", presets.MODEL), "model config")
        _check_architecture(values, source)
        for key in ARCHITECTURE_KEYS:
            object.__setattr__(self, key, values[key])

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_json(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the architecture as JSON to `path`."""
        files.write_json(os.fspath(path), dict(sorted(self.to_dict().items())))


ARCHITECTURE_KEYS = tuple(field.name for field in dataclasses.fields(XLNetConfig))


def _check_architecture(values: Mapping[str, Any], source: str) -> None:
    for key in values:
        if key not in ARCHITECTURE_KEYS:
            raise UserError("%s: unknown key '%s'%s" % (
                source, key, did_you_mean(key, ARCHITECTURE_KEYS)))
    missing = [key for key in ARCHITECTURE_KEYS if values.get(key) is None]
    if missing:
        raise UserError("%s: missing %s" % (source, ", ".join(missing)))
    for field in dataclasses.fields(XLNetConfig):
        check_value(field, values[field.name], source)
    if values["d_model"] % 2:
        raise UserError("%s: d_model is %d, expected an even number (sine and cosine halves)"
                        % (source, values["d_model"]))


ArchitectureSettings: type[Settings] = dataclasses.make_dataclass(
    "ArchitectureSettings",
    [(field.name, Optional[field.type], as_in(XLNetConfig, field.name, default=None))
     for field in dataclasses.fields(XLNetConfig)],
    bases=(Settings,), frozen=True, namespace={
        "__module__": __name__,
        "__doc__": "The architecture as flags, in place of model_config_path."})


# ---- how the network is run ----

PRECISIONS = ("fp32", "bf16", "fp16")
POSITION_DROPOUTS = ("none", "row")


@dataclasses.dataclass(frozen=True)
class NetworkSettings(Settings):
    """How the network is initialized and regularized."""
    dropout: float = rate(0.1, "dropout rate of hidden states")
    dropatt: float = rate(0.1, "dropout rate of attention probabilities")
    position_dropout: str = setting(
        "none", "dropout of the sinusoids of the relative distances: none, or, as in the original "
                "implementation, for each batch element (row)",
        choices=POSITION_DROPOUTS)
    init: str = setting("normal", "initialization", choices=("normal", "uniform"))
    init_std: float = setting(0.02, "standard deviation of normal initialization", minimum=0.0)
    init_range: float = setting(0.1, "half width of uniform initialization", minimum=0.0)
    clamp_len: int = setting(-1, "clip relative distances to ±clamp_len [tokens]; -1: off",
                             minimum=-1)
    use_bfloat16: bool = setting(False, "the authors' name of --precision=bf16")
    precision: Optional[str] = setting(None, "number format of matrix products; fp32 if not given",
                                       choices=PRECISIONS)
    recompute: bool = setting(False, "keep no activations of a layer, compute them again in the "
                                     "backward pass: less memory, a third more time")

    def run_config(self, is_training: bool, **more: Any) -> "RunConfig":
        """The `RunConfig` of these settings; `more` is its mem_len, reuse_len, same_length, device.

        Raises:
          UserError: as `check`.
        """
        return RunConfig(is_training=is_training, use_tpu=False, built_once=is_training,
                         **dataclasses.asdict(self), **more)

    def check(self) -> None:
        self.run_config(is_training=True)


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """How the network is run: dropout, initialization, memory. Not part of a checkpoint.

    Args:
      is_training: whether dropout is applied.
      use_tpu: kept for the documented API; devices are chosen by the strategy.
      use_bfloat16: the documented name of precision="bf16".
      dropout: rate for hidden states. dropatt: rate for attention probabilities.
      init: "normal" (with `init_std`) or "uniform" (within ±`init_range`).
      mem_len: positions kept as memory. reuse_len: positions of a window that enter the memory.
      bi_data: the second half of the batch runs backward.
      clamp_len: relative distances are clipped to ±clamp_len; -1: off.
      same_length: every position attends over the same span (with `attn_type="uni"`).
      precision: "fp32", "bf16" or "fp16", the number format of the matrix products; weights,
        softmax, layer norm and loss stay float32. None: as `use_bfloat16` says.
      recompute: the backward pass computes each layer's activations again rather than to keep
        them: less memory for a third more work, the same gradients.
      position_dropout: whether the sinusoids of the relative distances have dropout too, at rate
        `dropout`: "none"; "row", a mask for each batch element, as in the published code.
      device: what the kernels are chosen for: "cpu", "gpu", or "xla" where XLA compiles the graph.
        None: found out where the network is built.
      built_once: all layers call one function, which is built in a third of their time. Its
        gradient has to be made before any session has run the graph, and a step wants the session
        of `engine.distribution.session_config`. What this library's programs train with.

    Raises:
      UserError: a value that is not allowed, or two that contradict each other.
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
    position_dropout: str = NetworkSettings.position_dropout
    device: Optional[str] = None
    built_once: bool = False

    def __post_init__(self) -> None:
        precision = self.precision or ("bf16" if self.use_bfloat16 else "fp32")
        object.__setattr__(self, "precision", precision)
        if self.device not in (None, "cpu", "gpu", "xla"):
            raise UserError("device is %r, expected None, cpu, gpu or xla" % (self.device,))
        for field in dataclasses.fields(NetworkSettings):
            check_limits(field, getattr(self, field.name))
        if not self.clamp_len:
            raise UserError("clamp_len is 0, expected at least 1, or -1: off")
        if self.use_bfloat16 and precision != "bf16":
            raise UserError("use_bfloat16 is True and precision is %s: give one of them"
                            % precision)
        object.__setattr__(self, "use_bfloat16", precision == "bf16")


_RECURRENCE = ("mem_len", "reuse_len", "bi_data", "same_length")


def create_run_config(is_training: bool, is_finetune: bool, FLAGS: Any) -> RunConfig:
    """Returns the `RunConfig` that `FLAGS` (any object with the attributes) describes.

    Fine-tuning (`is_finetune`) has no memory, so nothing of the recurrence is read.
    """
    defaults: dict[str, Any] = {
        field.name: field.default
        for field in dataclasses.fields(RunConfig) + dataclasses.fields(NetworkSettings)}
    defaults["use_tpu"] = False
    unread = ("is_training",) + (_RECURRENCE if is_finetune else ())
    return RunConfig(is_training, **{name: getattr(FLAGS, name, default)
                                     for name, default in defaults.items() if name not in unread})


# ---- what programs share ----

@dataclasses.dataclass(frozen=True)
class TextSettings(Settings):
    """How text is cleaned."""
    uncased: Optional[bool] = setting(
        None, "lower-case the text; if not given as the vocabulary was trained, which the file "
              "beside it says, or False")
    keep_accents: Optional[bool] = setting(
        None, "keep accents, syllables and full-width letters for the vocabulary's own "
              "normalization; if not given as the vocabulary was trained, or False")


@dataclasses.dataclass(frozen=True)
class RunSettings(Settings):
    """What a run of any kind of training has: where it is kept, what it starts from, its steps."""
    model_dir: str = required("directory for checkpoints; a run found there is continued")
    model_config_path: Optional[str] = setting(
        None, "JSON with the architecture, or the name of one that comes along: tiny, base, large; "
              "that of model_dir, or beside init_checkpoint, if not given")
    spiece_model_file: Optional[str] = setting(None, "SentencePiece model")
    init_checkpoint: Optional[str] = setting(
        None, "weights to start from: a checkpoint prefix, its directory, or DIRECTORY/latest")
    train_batch_size: int = setting(8, "examples per training step, over all devices", minimum=1)
    grad_accum_steps: int = setting(1, "micro-batches, one after the other, that a device cuts its "
                                       "rows into to save memory", minimum=1)
    seed: int = setting(0, "seed of every random choice", minimum=0, maximum=2 ** 63 - 1)
    save_steps: int = setting(1000, "steps between checkpoints", minimum=1)
    eval_steps: int = setting(0, "steps between evaluations; 0: before and after", minimum=0)
    log_steps: int = setting(50, "steps between log lines", minimum=1)
    max_save: int = setting(5, "checkpoints kept; 0: all", minimum=0)
    allow_changes: bool = setting(False, "go on in model_dir though settings differ that change "
                                         "what the run learns")

    def check(self) -> None:
        super().check()
        files.require_no_pattern(self.model_dir, "model_dir")


@dataclasses.dataclass(frozen=True)
class InputSettings(Settings):
    """Which text is read, and how."""
    input_glob: str = required(
        "text: comma-separated files, glob patterns and directories (their *.txt, *.jsonl, "
        "*.ndjson and *.gz); JSON lines or lists, CSV and WikiExtractor's articles are recognized "
        "by content; all else is text_format")
    text_format: str = setting(
        "lines", "lines: a sentence a line, a blank line between documents; paragraphs: the same "
                 "with a paragraph a line, cut into sentences; wikitext: WikiText's files, cut "
                 "into sentences; book: hard-wrapped paragraphs with blank lines between, cut into "
                 "sentences, a file (or its part up to a form feed) a document",
        choices=("lines", "paragraphs", "wikitext", "book"))
    json_field: str = setting("text", "JSON and CSV: the field, or column, that holds the text")
    encoding: Optional[str] = setting(
        None, "of the text (cp1252, gb18030, ...); UTF-8 if not given")
    on_error: str = setting(
        "fail", "bad UTF-8, NUL bytes, a line of more than 1 MiB, bad records, damaged .gz: fail, "
                "or skip the line and count it", choices=("fail", "skip"))
    split: str = setting("all", "the documents to take: all, the held-out ones, or the others",
                         choices=("all", "train", "heldout"))
    heldout_share: float = setting(0.05, "share of documents held out, drawn by a hash of their "
                                         "text", above=0.0, below=1.0,
                                   renamed=Renamed("heldout_percent", 100))

    def check(self) -> None:
        super().check()
        if not self.json_field:
            raise UserError("json_field is empty, expected the name of the text's field")
        if self.encoding is not None:
            encodings.check(self.encoding)
            if "\n".encode(self.encoding) != b"\n":
                raise UserError("encoding: %s is not read here, as its line feed is not one byte; "
                                "convert the files: iconv -f %s -t utf-8 OLD > NEW"
                                % (self.encoding, self.encoding))


@dataclasses.dataclass(frozen=True)
class CorpusSettings(InputSettings, TextSettings):
    """data_utils.py: text to pretraining records."""
    save_dir: str = required("directory for the records and their manifest")
    sp_path: str = required("SentencePiece model")
    seq_len: int = setting(512, "length of a window [tokens]", minimum=1)
    reuse_len: int = setting(256, "leading part of a window that continues the stream [tokens]",
                             minimum=1)
    num_streams: int = setting(0, "streams that are trained side by side; the batch size must "
                                  "divide it; 0: bsz_per_host, or as many of 32 as the text fills",
                               minimum=0)
    bi_data: bool = setting(True, "half of the streams run backward")
    from_raw_text: bool = setting(True, "input is text; False: each line holds token ids")
    use_eod: bool = setting(True, "put <eod> at the end of each document")
    num_passes: int = setting(1, "times the corpus is laid out, each with other A/B pairs and "
                                 "document order", minimum=1)
    seed: int = as_in(RunSettings, "seed")
    num_workers: int = setting(0, "processes; 0: one for each core", minimum=0)
    num_task: int = setting(1, "machines, or runs, that share the input", minimum=1)
    task: int = setting(0, "index of this machine or run, from 0", minimum=0)
    tokens_dir: Optional[str] = setting(
        None, "directory where tokenized text is kept for other records of the same text; if not "
              "given in save_dir, until the records are whole")
    overwrite: bool = setting(False, "replace records of other settings or input in save_dir, once "
                                     "the new ones are whole")
    bsz_per_host: Optional[int] = setting(None, "the reference's name for num_streams", minimum=1)
    for_config: Optional[str] = setting(
        None, "preset of train_gpu.py that the records are for, a file or a name: its window, and "
              "its train_batch_size as num_streams, unless they stand on the command line")

    def check(self) -> None:
        super().check()
        if not self.from_raw_text and self.text_format != "lines":
            raise UserError("text_format is %s, expected lines where from_raw_text is False: a "
                            "line of ids is a sentence" % self.text_format)
        if not self.for_config:      # which has the window
            self._check_window()
        if self.num_streams and self.bsz_per_host not in (None, self.num_streams):
            raise UserError("num_streams is %d but bsz_per_host, its other name, is %d; give one"
                            % (self.num_streams, self.bsz_per_host))
        if self.task >= self.num_task:
            raise UserError("task is %d, expected less than num_task, %d (tasks count from 0)"
                            % (self.task, self.num_task))

    def _check_window(self) -> None:
        shortest = WINDOW_SPECIAL_TOKENS + 3    # one token of the reused part, of A and of B
        if self.seq_len < shortest:
            raise UserError("sequence too short: seq_len is %d, expected at least %d"
                            % (self.seq_len, shortest))
        longest = self.seq_len - WINDOW_SPECIAL_TOKENS - 2
        if not 1 <= self.reuse_len <= longest:
            raise UserError("reuse_len is %d, expected 1 <= reuse_len <= seq_len - 5 = %d (the "
                            "rest of a window is two segments, <sep> <sep> <cls>)"
                            % (self.reuse_len, longest))


@dataclasses.dataclass(frozen=True)
class OptimizationSettings(Settings):
    """Learning rate, optimizer and clipping."""
    learning_rate: float = setting(1e-4, "peak learning rate", minimum=0.0)
    train_steps: int = setting(100000, "total number of optimizer steps", minimum=1)
    warmup_steps: int = setting(0, "steps over which the learning rate rises from 0", minimum=0)
    warmup_share: float = share(0.0, "warmup_steps as a share of train_steps",
                                instead_of="warmup_steps")
    decay_method: str = setting("poly", "learning rate after warm-up",
                                choices=("poly", "cos", "constant"))
    min_lr_ratio: float = share(0.001, "last learning rate as a share of the peak")
    weight_decay: float = setting(0.0, "decoupled weight decay, not on biases and layer norms",
                                  minimum=0.0)
    adam_epsilon: float = setting(1e-8, "Adam's epsilon", above=0.0)
    clip: float = setting(1.0, "gradients are clipped to this global norm", above=0.0)
    lr_layer_decay_rate: float = setting(1.0, "learning rate of a layer as a share of the next "
                                              "higher one's; the embedding is the lowest",
                                         minimum=0.0)
    average_decay: float = rate(0.0, "moving average of the weights, decay per step (0.999); "
                                     "0: none")
    legacy_optimizer: bool = setting(False, "the reference's rules: no bias correction where there "
                                            "is weight decay, layer decay on gradients")

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


@dataclasses.dataclass(frozen=True)
class DeviceSettings(Settings):
    """Where to run: docs/tutorials/several_gpus.md."""
    num_hosts: int = setting(1, "number of machines; above 1 set TF_CONFIG on each", minimum=1)
    num_core_per_host: int = setting(1, "GPUs of a machine; with device=cpu replicas on its CPU",
                                     minimum=1)
    device: str = setting("auto", "GPUs, or the CPU where none is found; auto takes GPUs if there "
                                  "are any, and one replica on the CPU if not",
                          choices=("auto", "gpu", "cpu"))
    use_tpu: bool = setting(False, "run on a TPU (never tried)")
    tpu_name: str = setting("local", "with use_tpu: name or grpc address of the TPU")
    xla: bool = setting(False, "compile each replica's part of the training step with XLA; in "
                               "fine-tuning give --padding=fixed too: each length is compiled anew")
    tf32: Optional[bool] = setting(
        None, "on GPUs that can (A100 and later), float32 products in TF32, which keeps ten bits "
              "of each factor in place of 23; if not given, unless deterministic")
    deterministic: bool = setting(False, "on GPUs, only operations that give the same bits each "
                                         "time: slower; TensorFlow stops where it has none")

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


_CHECKED = "checked against the data if given"


@dataclasses.dataclass(frozen=True)
class PretrainingSettings(RunSettings):
    """train_gpu.py: data, memory, permutation, checkpoints."""
    model_dir: str = as_in(
        RunSettings, "model_dir", default="", help="directory for checkpoints; a run found there "
        "is continued; if not given model, beside the records")
    record_info_dir: str = required("directory made by data_utils.py (its manifest is read), or "
                                    "the reference's records; also the directory above tfrecords")
    spiece_model_file: Optional[str] = as_in(
        RunSettings, "spiece_model_file", help="SentencePiece model of the reference's records, if "
        "corpus_info.json beside them does not name it; ours have their own")
    train_batch_size: int = as_in(
        RunSettings, "train_batch_size", default=16,
        help="windows per step over all devices and hosts; divides the number of streams")
    eval_steps: int = as_in(RunSettings, "eval_steps",
                            help="steps between held-out evaluations; 0: before and after")
    eval_record_info_dir: Optional[str] = setting(None, "held-out records, as record_info_dir")
    do_eval: bool = setting(
        False, "do not train: compute held-out loss and perplexity of init_checkpoint, or of the "
               "newest checkpoint in model_dir, on eval_record_info_dir, or else record_info_dir; "
               "targets are sampled as when it was trained, unless flags say otherwise")
    objective: str = setting("permutation", "what is predicted: tokens in a random order (XLNet), "
                             "the next token (Transformer-XL), masked tokens (as BERT)",
                             choices=("permutation", "causal", "masked"))
    next_segment_loss: float = setting(0.0, "weight of the loss of judging whether segment B "
                                            "continues A; 0: not judged", minimum=0.0)
    same_length: bool = setting(False, "objective causal: every position sees mem_len others")
    mem_len: int = setting(384, "positions remembered from earlier windows [tokens]", minimum=0)
    perm_size: int = setting(256, "tokens permuted among themselves [tokens]", minimum=1)
    num_predict: int = setting(85, "tokens predicted in a window", minimum=1)
    mask_mode: str = setting("whole_word", "what is predicted together: n-grams of 1 to 5 whole "
                             "words; single tokens; or n pieces by the reference's rule",
                             choices=("whole_word", "token", "legacy"))
    mask_alpha: int = setting(6, "targets lie evenly: about one of each mask_alpha / mask_beta "
                                 "n-grams in a row is one", minimum=1)
    mask_beta: int = setting(1, "see mask_alpha", minimum=1)
    on_error: str = as_in(InputSettings, "on_error", help="damaged records: fail, or read the next "
                          "whole one in the place of each, and count them")
    on_nan: str = setting("stop", "a loss or gradient that is NaN or infinite: stop, and name the "
                                  "step and the last checkpoint before it", choices=("stop",))
    seq_len: Optional[int] = setting(None, _CHECKED, minimum=1)
    reuse_len: Optional[int] = setting(None, _CHECKED, minimum=1)
    bi_data: Optional[bool] = setting(None, _CHECKED)
    uncased: Optional[bool] = as_in(TextSettings, "uncased", help=_CHECKED)
    keep_accents: Optional[bool] = as_in(TextSettings, "keep_accents", help=_CHECKED)

    def check(self) -> None:
        super().check()
        if self.do_eval and not (self.init_checkpoint or self.model_dir):
            raise UserError("do_eval needs --init_checkpoint or --model_dir: the weights to "
                            "evaluate")
        if self.same_length and self.objective != "causal":
            raise UserError("same_length is True; it belongs to --objective=causal")


@dataclasses.dataclass(frozen=True)
class TaskSettings(RunSettings, TextSettings):
    """What fine-tuning on a task of any kind has: the task, what to do."""
    task_name: str = of_model("", "a known task (cola, sst-2, ..., imdb, race, tnews, xnli-de, "
                                  "...; an unknown name lists them all) or custom for your own "
                                  "files")
    data_dir: str = setting("", "directory with the task's files; custom: train, dev (or "
                                "validation) and test as .tsv, .csv, .json, .jsonl or .parquet, or "
                                "one file")
    train_file: Optional[str] = setting(None, "files to train on, in place of those in data_dir: "
                                              "paths or glob patterns with commas between, read "
                                              "as one file")
    dev_file: Optional[str] = setting(None, "files to evaluate on while training and with do_eval, "
                                            "in the same way")
    validation_file: Optional[str] = setting(None, "another name of dev_file")
    eval_file: Optional[str] = setting(None, "another name of dev_file")
    test_file: Optional[str] = setting(None, "files that split test is read from, in the same way")
    output_dir: str = setting("", "directory for tokenized records; without it those of evaluation "
                                  "and prediction are dropped at the end")
    spiece_model_file: str = as_in(RunSettings, "spiece_model_file", default="",
                                   help="SentencePiece model; that of model_dir, or beside "
                                   "init_checkpoint, if not given")
    model_config_path: str = as_in(RunSettings, "model_config_path", default="", help="JSON with "
                                   "the architecture, or tiny, base or large; that of model_dir, "
                                   "or beside init_checkpoint, if not given")
    # None until the rows of an epoch are known (`finetuning.lengths.in_steps`).
    save_steps: int = as_in(RunSettings, "save_steps", default=None, help="steps between "
                            "checkpoints; if not given once an epoch, or every 1000 steps where "
                            "that is more often")
    eval_steps: int = as_in(RunSettings, "eval_steps", default=None, help="training steps between "
                            "evaluations that choose model_dir/best; 0: none; if not given once an "
                            "epoch")
    max_save: int = as_in(RunSettings, "max_save", default=3)
    do_train: bool = setting(False, "fine-tune on the train file")
    do_eval: bool = as_in(PretrainingSettings, "do_eval", help="evaluate on eval_split")
    do_predict: bool = setting(False, "write predictions for predict_split or predict_file")

    dev_share: Optional[float] = setting(
        None, "share of the training rows held out as dev where there is no dev file, 0: none; "
              "0.05 for known tasks and 0.1 for custom if not given", minimum=0.0, below=1.0)
    eval_split: str = setting("dev", "file evaluated: dev, test, train (mnli: dev_matched, ...)")
    eval_all_ckpt: bool = setting(False, "evaluate every checkpoint in model_dir, not one")
    metric: Optional[str] = of_model(None, "metric that chooses the best; the task's first if not "
                                           "given")
    patience: int = setting(0, "evaluations without a better one after which training stops; 0: "
                               "never", minimum=0)
    num_trials: int = setting(1, "runs with seed, seed + 1, ...; the best one is kept", minimum=1)
    learning_rates: Optional[str] = setting(None, "the trials' learning rates in turn: 2e-5,3e-5")
    use_checkpoint: str = setting("best", "evaluate and predict with model_dir/best if it is "
                                          "there, or with the newest", choices=("best", "newest"))
    do_export: bool = setting(False, "write the model for TensorFlow Serving at the end, as "
                                     "scripts/export.py does")
    export_dir: Optional[str] = setting(None, "directory for it; model_dir/export if not given")
    predict_split: str = setting("test", "file predicted: test, dev, ...")
    predict_file: Optional[str] = setting(None, "any file to be predicted in place of "
                                                "predict_split, labelled or not; - is the "
                                                "standard input")
    predict_dir: Optional[str] = setting(None, "directory for predictions; model_dir if not given")
    predict_output: Optional[str] = setting(
        None, "file for the predictions alone, in place of predict_dir; - is the standard output",
        is_result=True)

    max_seq_length: int = of_model(128, "tokens of an example, special ones included")
    padding: str = setting("longest", "batches as long as their longest example, or all of them "
                                      "max_seq_length for XLA and TPUs",
                           choices=("longest", "fixed"))
    encoding: Optional[str] = as_in(
        InputSettings, "encoding", help="of the files' text (cp1252, gb18030, ...); if not given "
        "UTF-16 where a file shows it, or UTF-8")
    data_workers: int = setting(0, "processes that tokenize large files; 0: one a core", minimum=0)
    overwrite_data: bool = setting(False, "tokenize again even if the records fit")

    eval_batch_size: int = setting(
        32, "examples that a device evaluates or predicts together; a CPU answers them as two "
            "halves side by side", minimum=1)
    epochs: Optional[float] = setting(
        None, "train_steps in passes over the training rows; 3 if neither is given", above=0.0,
        instead_of="train_steps")
    freeze_layers: int = setting(0, "freeze the embeddings and this many of the lowest layers; "
                                    "0: none", minimum=0)
    class_weights: Optional[str] = setting(None, "weights of the labels in the loss: balanced, or "
                                                 "label:weight,...")
    label_smoothing: float = share(0.0, "probability spread evenly over all labels")
    cls_scope: Optional[str] = of_model(None, "name of the output layer; the task's if not given")

    def check(self) -> None:
        super().check()
        if not (self.do_train or self.do_eval or self.do_predict or self.do_export):
            raise UserError("nothing to do: give --do_train=True, --do_eval=True, "
                            "--do_predict=True or --do_export=True")
        given = [name for name in ("dev_file", "validation_file", "eval_file")
                 if getattr(self, name)]
        if len(given) > 1:
            raise UserError("%s are the same setting; give one of them" % " and ".join(given))
        if self.eval_steps == 0:
            self.check_without_evaluations("--eval_steps")
        if self.trial_rates() and self.do_train and self.num_trials == 1:
            raise UserError("learning_rates is for several trials; give --num_trials=2 or more, or "
                            "one rate as --learning_rate")

    def check_without_evaluations(self, needed: str) -> None:
        """Raises UserError where something looks at evaluations while training, of which there are
        none; needed: what they need, in words."""
        if self.patience or self.num_trials > 1:
            raise UserError("%s needs %s: it looks at evaluations while training"
                            % ("patience" if self.patience else "num_trials", needed))

    def trial_rates(self) -> list[float]:
        """`learning_rates` as numbers, none where they are not given.

        Raises:
          UserError: they are not finite numbers above 0.
        """
        if not self.learning_rates:
            return []
        try:
            rates = [float(rate) for rate in self.learning_rates.split(",") if rate.strip()]
        except ValueError:
            rates = [math.nan]
        if not rates or not all(0 < rate < math.inf for rate in rates):
            raise UserError("learning_rates: '%s', expected finite numbers above 0 with commas "
                            "between" % self.learning_rates)
        return rates

    @property
    def named_files(self) -> dict[str, str]:
        """The files that flags name in place of those in `data_dir`, by split."""
        named = {"train": self.train_file, "test": self.test_file,
                 "dev": self.dev_file or self.validation_file or self.eval_file}
        return {split: paths for split, paths in named.items() if paths}

    @property
    def needs_data_dir(self) -> bool:
        """Whether files are read that only `data_dir` can say."""
        needed = {*(["train"] if self.do_train else ()),
                  *([self.eval_split] if self.do_eval else ()),
                  *([self.predict_split] if self.do_predict and not self.predict_file else ())}
        held_out = {"dev"} if self.do_train and self.train_file else set()
        return not needed <= {*self.named_files, *held_out}


@dataclasses.dataclass(frozen=True)
class ClassifierSettings(TaskSettings):
    """run_classifier.py: the task, its files, what to do."""
    text_a_column: str = of_model("text_a", "custom: column of the text; a,b joins two")
    text_b_column: Optional[str] = of_model(None, "custom: column of the second text")
    label_column: str = of_model("label", "custom: column of the label; multi_label: or a column "
                                          "of 0 and 1 for each label")
    id_column: Optional[str] = of_model(None, "custom: column of the row's name; row number if not "
                                              "given")
    choice_columns: Optional[str] = of_model(
        None, "custom: columns of the answers of which one is right, or one column of JSON lines "
              "that lists them")
    is_regression: bool = of_model(False, "checked against the task; custom: labels are numbers")
    multi_label: bool = of_model(False, "custom: a row has any number of labels")
    label_separator: str = of_model(",", "custom: between the labels in a multi_label cell")
    label_thresholds: Optional[str] = of_model(
        None, "multi_label: least probability of single labels, in place of predict_threshold: "
              "label:0.3,other:0.6")
    query_id_column: Optional[str] = of_model(
        None, "custom: column of a query's name; makes the task a ranking: text_a is the query, "
              "text_b and id the document, label its grade")
    ranking_loss: str = setting(
        "pairwise", "ranking: trained on pairs of a query's documents, the logistic loss on the "
                    "difference of their scores; or on each document, the squared error of its "
                    "grade", choices=("pairwise", "pointwise"))
    pairs_per_query: int = setting(50, "pairwise: pairs of a query, drawn among those of different "
                                       "grades; 0: all", minimum=0)
    ranking_cutoff: int = of_model(10, "ranking: documents of a query that NDCG and ERR look at",
                                   minimum=1)
    highest_grade: int = of_model(0, "ranking: grade of a perfect document, for ERR; 0: the "
                                     "highest one of the file", minimum=0)
    delimiter: Optional[str] = setting(
        None, "between the columns of .csv, .tsv and .txt files: a character, or tab; found by the "
              "columns' names if not given")

    predict_form: Optional[str] = setting(
        None, "form of predict_file; from its extension if not given. text: a text on each line, "
              "tabs between a pair; run, qrels: TREC's",
        choices=("tsv", "csv", "json", "jsonl", "text", "run", "qrels"))
    on_error: str = as_in(
        InputSettings, "on_error", help="rows that cannot be read: fail, or skip and count them; "
        "in predictions of a table each has an empty answer in its place")
    predict_threshold: float = of_model(
        0.5, "least probability for the second of two labels, or for each one of multi_label",
        minimum=0.0, maximum=1.0)

    long_document: str = of_model(
        "truncate", "texts that do not fit: lose the end, lose the middle, become several windows "
                    "whose answers are averaged, or go through the network in segments of "
                    "max_seq_length, each remembering the one before",
        choices=("truncate", "head_tail", "sliding", "memory"))
    max_segments: int = of_model(8, "long_document=memory: segments of a text, the rest is cut off",
                                 minimum=1)

    summary_type: str = of_model("last", "how a text becomes one vector",
                                 choices=("last", "first", "mean", "attn"))
    use_summ_proj: bool = of_model(True, "dense tanh layer over the summary")

    program: ClassVar[str] = "run_classifier.py"


@dataclasses.dataclass(frozen=True)
class TaggerSettings(TaskSettings):
    """run_tagger.py: the task, its files, what to do."""
    task_name: str = as_in(TaskSettings, "task_name", help="a known task (conll2003, msra_ner, "
                           "resume_ner) or custom for your own files")
    data_dir: str = as_in(TaskSettings, "data_dir", help="directory with the task's files; custom: "
                          "train, dev and test as train.txt or eng.train and the like, or .jsonl, "
                          "or one file to train on")
    word_column: str = of_model("1", "custom: column of the words, its number from 1 on or its "
                                     "name in the first line; in JSON the key of the text (text) "
                                     "or the tokens (tokens)")
    tag_column: Optional[str] = of_model(
        None, "custom: column of the tags in the same way, the last one if not given; in JSON "
              "the key of the entities (entities, spans, label) or the tags (ner_tags, tags)")
    scheme: str = of_model(
        "auto", "how tags say where entities begin and end: as the train file does, which then is "
                "refused where its schemes are mixed; or given, so that illegal tags are repaired",
        choices=("auto", "iob1", "bio2", "bmes", "bioes", "bilou"))
    tagged_pieces: str = setting("first", "pieces of a word that are trained to tell its tag; the "
                                          "first one tells it", choices=("first", "all"))
    on_error: str = as_in(ClassifierSettings, "on_error")
    delimiter: Optional[str] = as_in(ClassifierSettings, "delimiter", help="between the columns of "
                                     "a line: a character, or tab; if not given tabs where there "
                                     "are some, or spaces")
    predict_form: Optional[str] = as_in(
        ClassifierSettings, "predict_form", help="form of predict_file: columns, JSON, or raw "
        "text, a sentence a line; if not given recognized by its content",
        choices=("conll", "jsonl", "text"))

    # What is a setting of other programs and fixed in this one.
    program: ClassVar[str] = "run_tagger.py"
    long_document: ClassVar[str] = "split"
    max_segments: ClassVar[int] = 1
    summary_type: ClassVar[str] = "last"
    use_summ_proj: ClassVar[bool] = True
    predict_threshold: ClassVar[float] = 0.5
    is_regression: ClassVar[bool] = False


QUESTION_SPECIAL_TOKENS = 3     # <sep> <sep> <cls> of a paragraph's window with its question


@dataclasses.dataclass(frozen=True)
class SpanSettings(TaskSettings):
    """run_squad.py: questions, what to do with them."""
    task_name: str = as_in(TaskSettings, "task_name", default="custom", help="a known task "
                           "(squad1, squad2, cmrc2018), whose files are in data_dir, or custom for "
                           "your own files")
    data_dir: str = as_in(TaskSettings, "data_dir", default="", help="directory with the task's "
                          "files; custom: train, dev and test as SQuAD's .json, or as .tsv, "
                          ".csv or .jsonl with a question in each row; or one file to train on")
    predict_file: Optional[str] = as_in(
        TaskSettings, "predict_file", help="the file to be predicted, with or without answers; "
        "with answers do_eval and eval_steps look at it too")
    do_prepro: bool = setting(False, "make the records of the files, as training and evaluation "
                                     "do by themselves")
    model_dir: str = as_in(TaskSettings, "model_dir", default="")
    context_column: str = of_model("context", "tables: column of the text with the answer")
    question_column: str = of_model("question", "tables: column of the question")
    answer_column: str = of_model("answer", "tables: column of the answer, empty where there is "
                                            "none; in JSON lines a text or a list of them")
    answer_start_column: Optional[str] = of_model(
        None, "tables: column of the answer's first character in the context, from 0 on; if not "
              "given answers are searched for, which stand there once")
    id_column: str = as_in(ClassifierSettings, "id_column", default="id", help="tables: column of "
                           "the question's name; row number without it")
    on_error: str = as_in(ClassifierSettings, "on_error")
    delimiter: Optional[str] = as_in(ClassifierSettings, "delimiter")

    max_seq_length: int = as_in(TaskSettings, "max_seq_length", default=512,
                                help="tokens of a window, question and special ones included")
    doc_stride: int = of_model(128, "tokens from one window of a long paragraph to the next",
                               minimum=1)
    max_query_length: int = of_model(64, "tokens of a question that are kept", minimum=1)
    long_document: str = as_in(
        ClassifierSettings, "long_document", default="sliding", choices=("sliding", "memory"),
        help="windows of a long paragraph: each by itself, or with memories of the text before it, "
             "which is read together with the question")
    max_segments: int = as_in(
        ClassifierSettings, "max_segments", default=2, help="long_document=memory: segments of "
        "max_seq_length that are read for a window, itself included")
    max_answer_length: int = of_model(64, "tokens of the longest answer", minimum=1)
    start_n_top: int = of_model(5, "beginnings of an answer that are looked at", minimum=1)
    end_n_top: int = of_model(5, "ends that are looked at for each of them", minimum=1)
    n_best_size: int = setting(5, "answers that are written of each question", minimum=1)
    span_head: str = of_model(
        "joint", "output layer: joint looks for the end beside each start and judges whether there "
                 "is an answer, as in the authors' code; separate finds both by themselves, as "
                 "Hugging Face's simple form", choices=("joint", "separate"))
    scoring: Optional[str] = of_model(
        None, "how answers are compared: words as SQuAD's script of that version, or characters as "
              "CMRC's, for languages without spaces; if not given 2.0 where some questions have no "
              "answer, else 1.1", choices=("squad1.1", "squad2.0", "characters"))
    predict_threshold: float = as_in(ClassifierSettings, "predict_threshold", help="probability "
                                     "that there is no answer above which none is given")
    predict_form: Optional[str] = as_in(
        ClassifierSettings, "predict_form", help="form of predict_file; from its extension if not "
        "given", choices=("json", "jsonl", "tsv", "csv"))

    # What is a setting of other programs and fixed in this one.
    program: ClassVar[str] = "run_squad.py"
    summary_type: ClassVar[str] = "last"
    use_summ_proj: ClassVar[bool] = True
    is_regression: ClassVar[bool] = False

    @property
    def named_file(self) -> Optional[str]:
        """`predict_file` where it is a file, which can be read more than once."""
        return None if self.predict_file == "-" else self.predict_file

    @property
    def needs_data_dir(self) -> bool:
        """As in other programs; but `predict_file` alone can be evaluated too."""
        return self.do_train and not self.train_file \
            or not self.named_file and super().needs_data_dir

    @property
    def does_run(self) -> bool:
        """Whether more is asked for than records."""
        return self.do_train or self.do_eval or self.do_predict or self.do_export

    def check(self) -> None:
        if self.does_run or not self.do_prepro:
            super().check()
            if not self.model_dir:
                raise UserError("model_dir is missing; only --do_prepro=True does without it")
        else:
            Settings.check(self)
        to_predict = self.predict_file if self.does_run else self.named_file
        if not (self.data_dir or self.named_files or to_predict):
            raise UserError("no questions: give data_dir, or train_file and predict_file")
        room = self.max_seq_length - self.max_query_length - QUESTION_SPECIAL_TOKENS
        if room < 1:
            raise UserError("max_query_length is %d: with %d special tokens it leaves nothing of "
                            "max_seq_length %d for the paragraph" % (
                                self.max_query_length, QUESTION_SPECIAL_TOKENS,
                                self.max_seq_length))
        if self.doc_stride > room:
            raise UserError("doc_stride is %d, expected at most max_seq_length - max_query_length "
                            "- 3 = %d: windows would leave out parts of a paragraph"
                            % (self.doc_stride, room))


# The settings of any program that fine-tunes.
FineTuningSettings = Union[ClassifierSettings, TaggerSettings, SpanSettings]
