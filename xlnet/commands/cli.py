"""Command lines: flags from settings, --help, errors of one line.

A group of settings is a frozen dataclass (`settings.fields.Settings`), and each of its fields is a
flag. Flags are absl's; each command line has a `FlagValues` of its own. The `metadata` of a field
are the arguments of `settings.fields.setting`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, NoReturn

from absl import flags

from xlnet.settings.fields import (
    REQUIRED,
    HelpGroup,
    Settings,
    check_value,
    read_settings,
    setting_type,
)
from xlnet.support import errors, files
from xlnet.support.errors import UserError, escape_control_characters, wrong

_PRESETS = "Presets"  # title of the help of --config
# Flags of the original implementation that a program accepts, without effect, unless it has a
# setting of this name.
UNUSED = tuple(
    """d_embed eval_all_ckpt gcp_project init_global_vars iterations mask_alpha mask_beta master
    max_qa_length max_seq_length num_core_per_host num_hosts num_passes num_predict num_proc
    overwrite_data pass_id predict_batch_size proc_id shuffle_buffer summary_type target_eval_key
    tpu tpu_job_name tpu_name tpu_zone track_mean use_tpu""".split()
)
# Those of `UNUSED` that are switches: a value is optional.
_SWITCHES = ("eval_all_ckpt", "track_mean", "init_global_vars", "use_tpu")
_NO_EFFECT = "no effect"  # the help of unused flags, by which they are found again
_CONFIG = (  # the help of --config
    "JSON file of settings, names without dashes, or the name of a preset, if any (configs/); "
    'flags override it, "about" is a comment'
)
_DEFINE: dict[type, Callable[..., object]] = {  # absl's function by type of a setting
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}

_log = logging.getLogger(__name__)
Fields = Mapping[str, "dataclasses.Field[Any]"]  # of settings, by name


@dataclasses.dataclass(frozen=True)
class CommandLine:
    """A command line once it is parsed.

    Attributes:
      settings: an object of each group, in the order of the groups of `command`.
      given: the names of the flags on the command line or in the preset.
      is_for_tpu: whether `--use_tpu` is on, also where it is no setting: fine-tuning reads it here.
    """

    settings: Sequence[Any]
    given: frozenset[str]
    is_for_tpu: bool


@contextlib.contextmanager
def command(
    *groups: type[Settings],
    about: str | None,
    unused: Sequence[str] = (),
    positional: str = "",
    preset_table: str = "",
    elsewhere: Sequence[type] = (),
) -> Iterator[CommandLine]:
    """A context manager whose block is the program: parses the command line and yields it. `--help`
    ends the process, and so does an error of the block, which is shown in one line.

    Log lines of the library are shown as bare text: INFO on stdout, WARNING and above on stderr.

    Args:
      groups: settings dataclasses; names shared by two groups are one flag.
      about: the text above the flags in `--help`, with examples.
      unused: flags of the original implementation that are accepted; they have no effect unless a
        group has them.
      positional: the setting that has the arguments without a flag, joined by commas; "": none.
      preset_table: the file of `configs/`, without ".json", in which `--config` finds a name.
      elsewhere: groups of other programs, whose settings a preset may have, without effect.

    Exit status: 0 done, 1 bad input (`UserError`) or a file that cannot be read or written, 2 bad
    flags, 75 a run that a signal stopped (`Unfinished`), 130 Ctrl-C elsewhere, 141 the reader of
    the output is gone (`| head`).
    """
    flag_values = flags.FlagValues()
    program_name = os.path.basename(sys.argv[0])
    # Characters that the terminal's encoding lacks are shown as escapes. Tests may have replaced
    # stdout by an object that cannot do this.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        # Known errors of TensorFlow and of the operating system become a `UserError`.
        with _showing_log() as console, errors.translated_errors():
            fields = fields_of(groups)
            _define(flag_values, fields, unused)
            if {"-h", "-help", "--help", "--helpfull"} & set(sys.argv[1:]):
                text = _help_text(flag_values, program_name, about, fields)
                print(text, flush=True)
                sys.exit(0)
            given = _parse(flag_values, fields, positional)
            if flag_values.config:
                path = os.path.expanduser(flag_values.config)
                preset = read_settings(path, "config", preset_table)
                given |= _take_preset(flag_values, preset, given, fields, elsewhere)
            # Where the result goes to the standard output, the log does not.
            if "output" in flag_values and files.is_standard_output(flag_values.output):
                console.uses_stdout = False
            settings = [_collect(flag_values, group) for group in groups]
            is_for_tpu = "use_tpu" in flag_values and bool(flag_values.use_tpu)
            yield CommandLine(settings, frozenset(given), is_for_tpu)
            sys.stdout.flush()  # what cannot be written is an error here, not at exit
    except flags.Error as e:
        # absl's message may have several lines.
        _end(program_name, " ".join(str(e).split()), 2)
    except BrokenPipeError:
        # The reader of the output has gone, as in `| head`. The interpreter would fail at its end
        # on what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    # UnicodeEncodeError: a file name whose bytes are not UTF-8. Only a UserError has a status.
    except (UserError, OSError, UnicodeEncodeError) as e:
        _end(program_name, e, getattr(e, "status", 1))
    except KeyboardInterrupt:
        _end(program_name, "stopped", 130)


def program(
    *groups: type[Settings], **options: Any
) -> Callable[..., Callable[[], None]]:
    """A decorator that turns a function of settings into a program, a function without parameters.

    The program parses the command line and calls the function with an object of each group. The
    docstring of the function is the text of `--help`. A program that needs to know which flags are
    given uses `command` itself.

    Args:
      groups: settings dataclasses, in the order of the function's parameters.
      options: other arguments of `command`, but for `about`.
    """

    def decorate(main: Callable[..., None]) -> Callable[[], None]:
        def run() -> None:
            with command(*groups, about=main.__doc__, **options) as line:
                main(*line.settings)

        return run

    return decorate


def _end(program_name: str, reason: str | Exception, status: int) -> NoReturn:
    """Ends the process with this exit status, after one line on stderr."""
    text = escape_control_characters(str(reason))
    print(f"{program_name}: {text}", file=sys.stderr, flush=True)
    sys.exit(status)


class _Console(logging.Handler):
    """Shows log records as bare text: those below WARNING on stdout, the others on stderr.

    Attributes:
      uses_stdout: False where stdout has the program's result; then stderr has all records.
    """

    uses_stdout = True

    def emit(self, record: logging.LogRecord) -> None:
        # The streams are looked up at each call, as tests and programs may have replaced them.
        to_stderr = record.levelno >= logging.WARNING or not self.uses_stdout
        stream = sys.stderr if to_stderr else sys.stdout
        text = escape_control_characters(self.format(record), kept="\n\t")
        print(text, file=stream, flush=True)


@contextlib.contextmanager
def _showing_log() -> Iterator[_Console]:
    """A context manager in which this library's log records from INFO on are shown, by the handler
    that it yields. Those of other libraries are not."""
    log, console = logging.getLogger("xlnet"), _Console()
    level, propagates = log.level, log.propagate
    log.addHandler(console)
    log.setLevel(logging.INFO)
    log.propagate = False  # to the root logger, which may show records a second time
    try:
        yield console
    finally:
        log.removeHandler(console)
        log.setLevel(level)
        log.propagate = propagates


# ---- flags


def fields_of(groups: Sequence[type]) -> dict[str, dataclasses.Field[Any]]:
    """The dataclass fields of all groups by name; of a name that two groups share that of the first
    one."""
    fields: dict[str, Any] = {}
    for group in groups:
        for field in dataclasses.fields(group):
            fields.setdefault(field.name, field)
    return fields


def by_help_group(fields: Fields) -> dict[str, list[str]]:
    """The names of settings by the title of their help group, in the order of `--help`; titles
    without settings are left out."""
    groups: dict[str, list[str]] = {}
    for group in HelpGroup:
        for name, field in fields.items():
            if field.metadata["help_group"] is group:
                groups.setdefault(group.value, []).append(name)
    return groups


def _define(
    flag_values: flags.FlagValues, fields: Fields, unused: Sequence[str]
) -> None:
    """Defines the flags of settings, their aliases, unused flags and --config in `flag_values`.

    absl shows the help of a module at a time: here a "module" is the title of a help group. Unused
    flags have none, so `--help` does not show them.
    """
    for name, field in fields.items():
        title = field.metadata["help_group"].value
        section: dict[str, Any] = {"flag_values": flag_values, "module_name": title}
        default, meaning = field.default, field.metadata["help"]
        if default is REQUIRED:  # `_collect` raises the error if there is no value
            default, meaning = None, f"(required) {meaning}"
        # absl checks choices and minimum, and shows them in the help. `Settings.check` checks all.
        define, limits = _DEFINE[setting_type(field)], {}
        if field.metadata["choices"]:
            define = flags.DEFINE_enum
            limits["enum_values"] = field.metadata["choices"]
        elif field.metadata["minimum"] is not None:
            limits["lower_bound"] = field.metadata["minimum"]
        define(name=name, default=default, help=meaning, **limits, **section)
        for alias in field.metadata["aliases"]:
            flags.DEFINE_alias(alias, name, **section)
    for name in unused:
        if name not in flag_values:
            define = _DEFINE[bool if name in _SWITCHES else str]
            define(name, None, _NO_EFFECT, flag_values=flag_values)
    flags.DEFINE_string(
        "config", None, _CONFIG, flag_values=flag_values, module_name=_PRESETS
    )


def _parse(flag_values: flags.FlagValues, fields: Fields, positional: str) -> set[str]:
    """Gives the flags their values on the command line; returns the names of the flags that
    are given. positional: as of `command`."""
    # absl returns the program's name and the arguments that are not flags.
    without_flag = flag_values(sys.argv)[1:]
    present = {name for name in flag_values if flag_values[name].present}
    # The setting `positional` is given by its flag or without it, not in both ways.
    if without_flag and positional and positional not in present:
        flag_values[positional].value = ",".join(without_flag)
    elif without_flag:
        raise flags.Error(
            f"unexpected argument '{without_flag[0]}'; flags are written --name=value"
        )
    # Of two settings for the same thing, such as epochs and train_steps, one may be given.
    for name, field in fields.items():
        alternative = field.metadata["instead_of"]
        if alternative and {name, alternative} <= present:
            raise wrong(name, f"{alternative}, too", "one of them")
    ignored = []
    for name in flag_values:
        if name in present and flag_values[name].help == _NO_EFFECT:
            ignored.append("--" + name)
    if ignored:
        _log.warning("note: not used: %s", ", ".join(ignored))
    return present


def _take_preset(
    flag_values: flags.FlagValues,
    preset: Mapping[str, Any],
    present: set[str],
    fields: Fields,
    elsewhere: Sequence[type],
) -> set[str]:
    """Gives flags the values of a preset, but for those that the command line has.

    Args:
      flag_values: the flags.
      preset: the values of --config by name.
      present: the flags on the command line. They keep their values, and so do settings for the
        same thing (`instead_of`).
      fields: the settings of the program.
      elsewhere: as of `command`.

    Returns:
      the names of the flags that have got a value.
    """
    source = f"config {flag_values.config}"
    # num_streams is a setting of xlnet data make alone, which has the presets of xlnet pretrain.
    ignored = {"about", "num_streams", *UNUSED, *fields_of(elsewhere)}
    taken = set()
    for name, value in preset.items():
        if name not in fields:
            if name in ignored:
                continue
            raise wrong(source, f"'{name}'", "settings of this program")
        check_value(fields[name], value, source)
        alternative = fields[name].metadata["instead_of"]  # None: there is none
        if alternative in preset:
            raise wrong(f"{source}: {name}", f"{alternative}, too", "one of them")
        if not present & {name, alternative}:
            # JSON writes 1.0 as 1, but TensorFlow refuses an int in a formula of floats.
            flag_values[name].value = setting_type(fields[name])(value)
            taken.add(name)
    return taken


def _collect(flag_values: flags.FlagValues, group: type[Settings]) -> Settings:
    """The object of a group with the values of its flags, checked."""
    arguments = {}
    for field in dataclasses.fields(group):
        value: Any = flag_values[field.name].value
        # A shell expands ~ at the beginning of a word, not after the = of a flag.
        if isinstance(value, str) and value.startswith("~/"):
            value = os.path.expanduser(value)
        arguments[field.name] = value
        if field.default is REQUIRED and not arguments[field.name]:  # None or ""
            meaning = field.metadata["help"]
            raise flags.Error(f"flag --{field.name} is required: {meaning}")
    settings = group(**arguments)
    try:
        settings.check()
    except UserError as e:
        e.status = 2  # the exit status of bad flags
        raise
    return settings


# ---- --help


def _help_text(
    flag_values: flags.FlagValues, program_name: str, about: str | None, fields: Fields
) -> str:
    """The help of a program: its name, what it does, and its flags by help group."""
    about = inspect.cleandoc(about or "")
    # After the name and a colon, the sentence begins with a small letter.
    text = f"{program_name}: {about[:1].lower()}{about[1:]}\n"
    for title in (*by_help_group(fields), _PRESETS):
        text += "\n" + flag_values.module_help(title).strip() + "\n"
    return text
