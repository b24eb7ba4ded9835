"""Command lines: flags from settings, --help, errors of one line."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import io
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, NoReturn, Optional, Union

from absl import flags

from xlnet import errors, files, help, presets
from xlnet.errors import UserError, did_you_mean, escape_control_characters
from xlnet.settings.fields import REQUIRED, Settings, check_value, default_of, setting_type

FLAGS = flags.FlagValues()  # of the latest call of `run`: a notebook calls several programs
_log = logging.getLogger(__name__)

# New objects between garbage collections. Python's own 700 search TensorFlow's modules and graphs,
# which stay, again and again: a tenth of the time until a first step.
_OBJECTS_BETWEEN_COLLECTIONS = 20_000

_CONFIG_HELP = (
    "JSON file of settings, names without dashes, or the name of a preset (configs/); "
    'flags override it, "about" is a comment, paths may be relative to the file'
)

_FILES = ("model_config_path", "spiece_model_file")  # paths in presets, perhaps relative to them

# The ends of names of settings that are paths; in these ~ and $HOME are expanded.
_PATHS = re.compile(
    r"(.*_)?(dir|file|path|glob|checkpoints?|config|png|model|module"
    r"|input|output)"
)

# Flags without effect that were switches: a value is optional.
_SWITCHES = frozenset(("high_only", "middle_only", "track_mean", "init_global_vars", "use_tpu"))

# Names of settings in other programs: our names, of which the first that a program has is meant.
FLAG_SYNONYMS = {
    "batch_size": "train_batch_size",
    "per_device_train_batch_size": "train_batch_size",
    "per_device_eval_batch_size": "eval_batch_size",
    "lr": "learning_rate",
    "num_train_epochs": "epochs",
    "num_epochs": "epochs",
    "max_steps": "train_steps",
    "num_train_steps": "train_steps",
    "fp16": "precision=fp16",
    "bf16": "precision=bf16",
    "max_length": "max_seq_length max_tokens length seq_len",
    "max_len": "max_seq_length seq_len",
    "block_size": "seq_len",
    "validation_file": "dev_file eval_record_info_dir data_dir",
    "eval_file": "dev_file eval_record_info_dir data_dir",
    "dev_data": "dev_file data_dir",
    "model_name_or_path": "init_checkpoint model_dir input",
    "checkpoint": "init_checkpoint model_dir",
    "model": "model_dir",
    "input": "record_info_dir",
    "data_dir": "input record_info_dir",
    "input_file": "input record_info_dir",
    "record_info_dir": "input",
    **dict.fromkeys(
        (
            "output_file",
            "out",
            "out_dir",
            "output_dir",
            "predict_output",
            "png",
            "html",
            "export_dir",
            "save_dir",
            "zip_file",
        ),
        "output",
    ),
    "eval_batch_size": "batch_size",
    "gradient_accumulation_steps": "grad_accum_steps",
    "gradient_checkpointing": "recompute",
    "max_grad_norm": "clip",
    "lr_scheduler_type": "decay_method",
    "do_lower_case": "uncased",
    "vocab_file": "spiece_model_file sp_path",
    "tokenizer": "spiece_model_file sp_path",
    "save_total_limit": "max_save",
    "logging_steps": "log_steps",
    "early_stopping_patience": "patience",
    "num_gpus": "num_core_per_host",
    "n_gpu": "num_core_per_host",
    "gpus": "num_core_per_host",
    "model_name": "model_dir",
    "corpus": "input_glob",
    "text_column": "text_a_column json_field",
    "text_field": "json_field",
    # What other programs of ours, and of the original implementation, call it.
    "sp_path": "spiece_model_file",
    "spiece_model_file": "sp_path",
    "input_format": "text_format",
    "text_format": "input_format",
    "json_field": "text_a_column",
    "text_a_column": "json_field",
}

# The message of absl for a value that is not of the flag's type, and what was expected.
_NOT_OF_ITS_TYPE = (
    (r"\('Non-boolean argument to boolean flag', .*\)$", "expected True or False"),
    (r"invalid literal for int\(\) with base \d+: .*$", "expected an integer"),
    (r"could not convert string to float: .*$", "expected a number"),
)

_HELP = {"-h", "-help", "--help", "--helpfull"}
_DEFINE: dict[type, Callable[..., object]] = {
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}
_STDOUT = "standard output"
_STREAMS = ((1, "stdout"), (2, "stderr"))


def run(
    main: Callable[..., object],
    *groups: type,
    no_longer_needed: Mapping[str, str] = MappingProxyType({}),
    about: Optional[str] = "",
    first: Sequence[str] = (),
    examples: Sequence[str] = (),
    positional: str = "",
    elsewhere: Sequence[type] = (),
) -> None:
    """Parses the command line into settings, calls `main(*settings)`; exits unless all went well.

    Log lines of the library are shown as bare text: INFO on stdout, WARNING and above on stderr.

    Args:
      main: called with one object per group.
      groups: settings dataclasses; names shared by two groups are one flag.
      no_longer_needed: flags of the original implementation without effect, `{name: why}`.
      about: the text above the flags in `--help`, the program's docstring.
      first: names that `--help` explains, where `--helpfull` explains all; empty: both do.
      examples: command lines at the end of the help, without the program's name.
      positional: the setting that has the arguments without a flag, joined by commas; "": none.
      elsewhere: groups of other programs, whose settings a preset may have, without effect.

    Exit status: 0 done, 1 bad input (`UserError`) or a file that cannot be read or written, 2 bad
    flags, 75 a run that a signal stopped (`Unfinished`), 130 Ctrl-C elsewhere, 141 the reader of
    the output is gone (`| head`), 143 SIGTERM elsewhere in a container.
    """
    # A notebook calls several programs: each has its own flags.
    global FLAGS
    FLAGS = flags.FlagValues()
    program = os.path.basename(sys.argv[0])
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    is_own = _open_streams()
    _end_by_sigterm_in_containers()
    try:
        with _showing_log() as console, errors.translated_errors():
            _check_working_directory()
            _define(groups, no_longer_needed)
            if _HELP & set(sys.argv[1:]):
                _show_help(program, about, groups, first, examples)
            else:
                _run(main, groups, no_longer_needed, console, positional, settings_of(elsewhere))
            sys.stdout.flush()
    except flags.Error as e:
        text = " ".join(str(e).split())
        for pattern, expected in _NOT_OF_ITS_TYPE:
            text = re.sub(pattern, expected, text)
        _end(program, text, 2)
    # The reader of the output has gone, as in `| head`: no error of ours.
    except BrokenPipeError:
        _drop_output()
        sys.exit(141)
    except (UserError, OSError) as e:
        if str(e).startswith(_STDOUT):
            _drop_output()
        # Exit without clean-up, which would wait for a thread that is still in TensorFlow.
        if getattr(e, "ends_at_once", False):
            _say_end(program, e)
            sys.stdout.flush()
            os._exit(1)
        _end(program, e, getattr(e, "status", 1))
    except KeyboardInterrupt:
        if is_own:  # another one ends it at once, without a traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        _end(program, "stopped", 130)


def _open_streams() -> bool:
    """Prepares the standard streams; returns whether this process is the program's, not a
    notebook's or a test's."""
    # The null device takes the place of closed streams (`>&-`): the next file would get their
    # number, and whatever is written to them.
    for number, name in _STREAMS:
        if getattr(sys, name) is None:
            try:
                os.fstat(number)  # another file has the number already
                number = os.open(os.devnull, os.O_RDWR)
            except OSError:
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, "w", closefd=False))
    shown = sys.stdout
    if isinstance(shown, io.TextIOWrapper) and shown is sys.__stdout__:  # not of a notebook
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(shown.fileno(), "w", closefd=False)),
            encoding=shown.encoding,
            line_buffering=shown.line_buffering or shown.write_through,
        )
    if hasattr(sys.stdout, "reconfigure"):  # shows any text, by its codes if need be
        sys.stdout.reconfigure(errors="backslashreplace")
    return isinstance(getattr(getattr(sys.stdout, "buffer", None), "raw", None), _Output)


def _end_by_sigterm_in_containers() -> None:
    """Lets SIGTERM end the first process of a container, as it ends any other one."""
    # The kernel drops signals of process 1 that it has no handler for: `docker stop` would wait for
    # ten seconds while a model loads, then kill. Training and the server set handlers of their own
    # when they can end in order.
    if os.getpid() == 1 and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))


def _check_working_directory() -> None:
    """Raises UserError if the working directory was removed: relative paths lead nowhere."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UserError(
            "the working directory of this terminal or program was removed; change to one that "
            "exists, such as with cd"
        ) from None


def _drop_output() -> None:
    # The interpreter would fail at its end on what is still buffered.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Output(io.FileIO):
    """Standard output, which a failure to write names: errors have no file of their own there."""

    def write(self, data: Any) -> int:  # bytes, or another object that has a buffer
        try:
            return super().write(data)
        except OSError as e:
            e.filename = _STDOUT
            raise


def _end(program: str, message: Union[str, Exception], status: int) -> NoReturn:
    _say_end(program, message)
    sys.exit(status)


def _say_end(program: str, message: Union[str, Exception]) -> None:
    text = escape_control_characters(str(message))
    print(f"{program}: {text}", file=sys.stderr, flush=True)


def _run(
    main: Callable[..., object],
    groups: Sequence[type],
    no_longer_needed: Mapping[str, str],
    console: _Console,
    positional: str,
    elsewhere: help.Fields,
) -> None:
    # Parse the flags. The error for a flag that another program has names our flag.
    fields = settings_of(groups)
    try:
        stray = FLAGS(sys.argv)[1:]
    except flags.UnrecognizedFlagError as e:
        ours = next(
            (
                name
                for name in FLAG_SYNONYMS.get(e.flagname, "").split()
                if name.split("=")[0] in FLAGS and name.split("=")[0] not in no_longer_needed
            ),
            None,
        )
        if not ours:
            raise
        raise flags.Error(
            f"Unknown command line flag '{e.flagname}'; it is called --{ours} here"
        ) from None
    if stray and positional and not given(positional):
        FLAGS[positional].value = ",".join(stray)
    elif stray:
        raise flags.Error(f"unexpected argument '{stray[0]}'; flags are written --name=value")
    # Flags that are given under several names must agree; then the preset fills in what is not
    # given.
    _check_encoding()
    _check_aliases(fields)
    _expand("config")
    _take_preset(fields, no_longer_needed, elsewhere)
    # In paths ~ and $HOME are expanded. Other texts are UTF-8, whatever the locale.
    for name in fields:
        if _PATHS.fullmatch(name):
            _expand(name)
            continue
        value: Any = FLAGS[name].value
        if isinstance(value, str):  # UTF-8, also where the locale is not
            with contextlib.suppress(UnicodeError):
                FLAGS[name].value = os.fsencode(value).decode()
    # A preset may have given what is required, and alternatives.
    for name, field in fields.items():
        if default_of(field) is REQUIRED and not getattr(FLAGS, name):
            raise flags.Error("flag --{} is required: {}".format(name, field.metadata["help"]))
    for name, other in _alternatives(fields):
        if given(name) and given(other) and FLAGS[name].value and FLAGS[other].value:
            raise UserError(f"{name} and {other} are both given; give one of them")
    # If the result goes to standard output, the log goes to standard error.
    console.has_stdout = not any(
        field.metadata["is_result"] and files.is_standard_output(FLAGS[name].value)
        for name, field in fields.items()
    )
    for name, why in no_longer_needed.items():
        if FLAGS[name].present:
            _log.warning("note: --%s is not used: %s", name, why)
    main(*[_collect(group) for group in groups])


class _Console(logging.Handler):
    """Shows records as bare text: below WARNING on stdout, the rest on stderr; all on stderr where
    stdout has the program's result."""

    has_stdout = True

    def emit(self, record: logging.LogRecord) -> None:
        # The streams are looked up at each call, as tests and programs may have replaced them.
        to_stderr = record.levelno >= logging.WARNING or not self.has_stdout
        stream = sys.stderr if to_stderr else sys.stdout
        print(escape_control_characters(self.format(record), kept="\n\t"), file=stream, flush=True)


@contextlib.contextmanager
def _showing_log() -> Iterator[_Console]:
    """Shows the log of this library from INFO on, not that of others."""
    # Records do not reach the root logger, which may show them a second time.
    log, console = logging.getLogger("xlnet"), _Console()
    level, propagates = log.level, log.propagate
    log.addHandler(console)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield console
    finally:
        log.removeHandler(console)
        log.setLevel(level)
        log.propagate = propagates


def given(name: str) -> bool:
    """Whether the flag was given on the command line; False if the program does not have it."""
    return name in FLAGS and bool(FLAGS[name].present)


def given_names() -> frozenset[str]:
    """The names of the flags on the command line or in the preset."""
    return frozenset(
        name for name in FLAGS if FLAGS[name].present or not FLAGS[name].using_default_value
    )


def preset_of(name: str) -> Optional[str]:
    """The preset that gave a setting its value; None if it was given on the command line, by a file
    of the user's, or not at all."""
    if not FLAGS.config or os.path.isfile(FLAGS.config):
        return None
    is_from_preset = not FLAGS[name].present and not FLAGS[name].using_default_value
    return str(FLAGS.config) if is_from_preset else None


def settings_of(groups: Sequence[type]) -> dict[str, dataclasses.Field[Any]]:
    """The settings of all groups by name; names shared by two groups once."""
    fields: dict[str, Any] = {}
    for group in groups:
        for field in dataclasses.fields(group):
            fields.setdefault(field.name, field)
    return fields


def _define(groups: Sequence[type], no_longer_needed: Mapping[str, str]) -> None:
    for name, field in settings_of(groups).items():
        limits, meaning = field.metadata, field.metadata["help"]
        default: Any = None if default_of(field) is REQUIRED else field.default
        # Absl checks the range of flags, `Settings.check` that of all values.
        bound = {} if limits["minimum"] is None else {"lower_bound": limits["minimum"]}
        if limits["choices"]:
            flags.DEFINE_enum(name, default, limits["choices"], meaning, flag_values=FLAGS)
        else:
            _DEFINE[setting_type(field)](name, default, meaning, flag_values=FLAGS, **bound)
        for alias in limits["aliases"]:
            flags.DEFINE_alias(alias, name, flag_values=FLAGS)
    for name, why in no_longer_needed.items():
        flags.DEFINE_string(name, None, "not used: " + why, flag_values=FLAGS)
        FLAGS[name].boolean = name in _SWITCHES
    flags.DEFINE_string("config", None, _CONFIG_HELP, flag_values=FLAGS)


def _expand(name: str) -> None:
    """Replaces ~ and $HOME at the start of a path, or of each of several with commas between: a
    shell does not after a flag's =."""
    value = FLAGS[name].value
    if isinstance(value, str) and re.search(r"(^|,)\s*[~$]", value):
        FLAGS[name].value = ",".join(
            os.path.expanduser(os.path.expandvars(part.strip())) for part in value.split(",")
        )


def _check_encoding() -> None:
    for argument in sys.argv[1:]:
        # In a locale that is not UTF-8, Python reads UTF-8 as half surrogates.
        with contextlib.suppress(UnicodeError):
            argument = os.fsencode(argument).decode()
        name, has_value, value = argument.lstrip("-").partition("=")
        if not has_value or _PATHS.fullmatch(name):  # others are checked with their limits
            files.require_utf8(value if has_value else name, name if has_value else "argument")


def _check_aliases(fields: help.Fields) -> None:
    """Raises UserError for a setting given by two of its names."""
    for name, field in fields.items():
        names = [each for each in field.metadata["aliases"] if given(each)]
        if names and FLAGS[name].present > FLAGS[names[0]].present:  # it counts its aliases
            raise UserError(
                "{} are the same setting; give one of them".format(" and ".join([name, *names]))
            )


def _take_preset(
    fields: help.Fields, no_longer_needed: Mapping[str, str], elsewhere: help.Fields
) -> None:
    """Gives flags the values of the JSON file `--config`, unless they, or alternatives to them,
    are on the command line."""
    if not FLAGS.config:
        return
    # A preset may use any name of a setting, but only one of them.
    aliases = {alias: name for name, field in fields.items() for alias in field.metadata["aliases"]}
    values, path = presets.read(FLAGS.config, "config", presets.OF_RUNS)
    seen: dict[str, str] = {}
    for given_name, value in values.items():
        if given_name == "about":
            continue
        name = aliases.get(given_name, given_name)
        if seen.setdefault(name, given_name) != given_name:
            raise UserError(
                f"config {FLAGS.config}: {seen[name]} and {given_name} are the same "
                "setting; give one of them"
            )
        if name in no_longer_needed:
            _log.warning(
                "note: config %s: %s is not used: %s", FLAGS.config, name, no_longer_needed[name]
            )
            continue
        if name not in fields and name in elsewhere:
            continue
        if name not in fields:
            raise UserError(
                f"config {FLAGS.config}: unknown setting '{name}'{did_you_mean(name, fields)}"
            )
        # It is checked here, where the message can name the preset.
        check_value(fields[name], value, "config " + FLAGS.config)
        # JSON's 1 is a float where the setting is one: TensorFlow refuses integers in formulas.
        value = setting_type(fields[name])(value)
        if name in _FILES and not os.path.exists(value):  # perhaps relative to the preset
            nearby = os.path.normpath(os.path.join(os.path.dirname(path), value))
            value = nearby if os.path.exists(nearby) else value
        others = [a if b == name else b for a, b in _alternatives(fields) if name in (a, b)]
        if not given(name) and not any(map(given, others)):
            FLAGS[name].value = value
            FLAGS[name].using_default_value = False
    # The document of a run has both alternatives, but one of them at its default.
    for pair in _alternatives(fields):
        chosen = [
            f"{name} is {FLAGS[name].value}"
            for name in pair
            if name in seen and not given(name) and FLAGS[name].value != default_of(fields[name])
        ]
        if len(chosen) == 2:
            raise UserError(f"config {FLAGS.config}: {' and '.join(chosen)}; give one of them")


def _alternatives(fields: help.Fields) -> list[tuple[str, str]]:
    """Pairs of settings of which only one may be given."""
    return [
        (name, field.metadata["instead_of"])
        for name, field in fields.items()
        if field.metadata["instead_of"] in fields
    ]


def _collect(group: type) -> object:
    """The settings of a group, checked if the group has `check`."""
    settings = group(
        **{field.name: getattr(FLAGS, field.name) for field in dataclasses.fields(group)}
    )
    if isinstance(settings, Settings):
        settings.check()
    return settings


def _show_help(
    program: str,
    about: Optional[str],
    groups: Sequence[type],
    first: Sequence[str],
    examples: Sequence[str],
) -> None:
    about = "{}: {}".format(program, about[:1].lower() + about[1:] if about else "")
    fields = settings_of(groups)
    is_short = bool(first) and "--helpfull" not in sys.argv
    text = (
        help.short(about, fields, first, _CONFIG_HELP)
        if is_short
        else help.full(about, fields, () if first else groups, _CONFIG_HELP)
    )
    print(text)
    if examples:
        command = "python " + sys.argv[0] if ".py" in program else program
        print("\nExamples:\n" + help.commands(command, examples))
