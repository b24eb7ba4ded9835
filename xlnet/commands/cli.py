"""Command lines: flags from settings, --help, errors of one line."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NoReturn, Union

from absl import flags

from xlnet.commands import help
from xlnet.settings import presets
from xlnet.settings.fields import (
    REQUIRED,
    Settings,
    check_value,
    default_of,
    setting_type,
)
from xlnet.support import errors, files
from xlnet.support.errors import UserError, did_you_mean, escape_control_characters

FLAGS = (
    flags.FlagValues()
)  # of the latest call of `run`: a notebook calls several programs
_log = logging.getLogger(__name__)

# Flags without effect that were switches: a value is optional.
_SWITCHES = ("high_only", "middle_only", "track_mean", "init_global_vars", "use_tpu")

_HELP = {"-h", "-help", "--help", "--helpfull"}
_DEFINE: dict[type, Callable[..., object]] = {
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}


def run(
    main: Callable[..., object],
    *groups: type,
    unused: Sequence[str] = (),
    about: str = "",
    examples: Sequence[str] = (),
    positional: str = "",
    elsewhere: Sequence[type] = (),
) -> None:
    """Parses the command line into settings, calls `main(*settings)`; exits unless all went well.

    Log lines of the library are shown as bare text: INFO on stdout, WARNING and above on stderr.

    Args:
      main: called with one object per group.
      groups: settings dataclasses; names shared by two groups are one flag.
      unused: flags of the original implementation that are accepted and have no effect.
      about: the text above the flags in `--help`, the program's docstring.
      examples: command lines at the end of the help, without the program's name.
      positional: the setting that has the arguments without a flag, joined by commas; "": none.
      elsewhere: groups of other programs, whose settings a preset may have, without effect.

    Exit status: 0 done, 1 bad input (`UserError`) or a file that cannot be read or written, 2 bad
    flags, 75 a run that a signal stopped (`Unfinished`), 130 Ctrl-C elsewhere, 141 the reader of
    the output is gone (`| head`).
    """
    global FLAGS
    FLAGS = flags.FlagValues()
    program = os.path.basename(sys.argv[0])
    if hasattr(sys.stdout, "reconfigure"):  # shows any text, by its codes if need be
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _showing_log() as console, errors.translated_errors():
            _define(groups, unused)
            if _HELP & set(sys.argv[1:]):
                command = "python " + sys.argv[0] if ".py" in program else program
                print(help.text(program, about, settings_of(groups), command, examples))
            else:
                _parse(groups, unused, positional, elsewhere)
                console.has_stdout = not _has_result_on_stdout(groups)
                main(*[_collect(group) for group in groups])
            sys.stdout.flush()
    except flags.Error as e:
        _end(program, " ".join(str(e).split()), 2)
    except BrokenPipeError:
        # The reader of the output has gone, as in `| head`. The interpreter would fail at its end
        # on what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (UserError, OSError) as e:
        _end(program, e, getattr(e, "status", 1), getattr(e, "ends_at_once", False))
    except KeyboardInterrupt:
        _end(program, "stopped", 130)


def _end(
    program: str, message: Union[str, Exception], status: int, at_once: bool = False
) -> NoReturn:
    text = escape_control_characters(str(message))
    print(f"{program}: {text}", file=sys.stderr, flush=True)
    # without clean-up, which would wait for a thread that is still in TensorFlow
    if at_once:
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


class _Console(logging.Handler):
    """Shows records as bare text: below WARNING on stdout, the rest on stderr; all on stderr where
    stdout has the program's result."""

    has_stdout = True

    def emit(self, record: logging.LogRecord) -> None:
        # The streams are looked up at each call, as tests and programs may have replaced them.
        to_stderr = record.levelno >= logging.WARNING or not self.has_stdout
        stream = sys.stderr if to_stderr else sys.stdout
        print(
            escape_control_characters(self.format(record), kept="\n\t"),
            file=stream,
            flush=True,
        )


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


# ---- flags, of the latest call of `run`


def given(name: str) -> bool:
    """Whether the flag was given on the command line; False if the program does not have it."""
    return name in FLAGS and bool(FLAGS[name].present)


def given_names() -> frozenset[str]:
    """The names of the flags on the command line or in the preset."""
    return frozenset(
        name
        for name in FLAGS
        if FLAGS[name].present or not FLAGS[name].using_default_value
    )


def settings_of(groups: Sequence[type]) -> dict[str, dataclasses.Field[Any]]:
    """The settings of all groups by name; names shared by two groups once."""
    fields: dict[str, Any] = {}
    for group in groups:
        for field in dataclasses.fields(group):
            fields.setdefault(field.name, field)
    return fields


def _define(groups: Sequence[type], unused: Sequence[str]) -> None:
    for name, field in settings_of(groups).items():
        limits, meaning = field.metadata, field.metadata["help"]
        default: Any = None if default_of(field) is REQUIRED else field.default
        # Absl checks the range of flags, `Settings.check` that of all values.
        bound = {} if limits["minimum"] is None else {"lower_bound": limits["minimum"]}
        if limits["choices"]:
            flags.DEFINE_enum(
                name, default, limits["choices"], meaning, flag_values=FLAGS
            )
        else:
            _DEFINE[setting_type(field)](
                name, default, meaning, flag_values=FLAGS, **bound
            )
        for alias in limits["aliases"]:
            flags.DEFINE_alias(alias, name, flag_values=FLAGS)
    for name in unused:
        define = flags.DEFINE_boolean if name in _SWITCHES else flags.DEFINE_string
        define(name, None, "no effect", flag_values=FLAGS)
    flags.DEFINE_string("config", None, help.CONFIG, flag_values=FLAGS)


def _parse(
    groups: Sequence[type],
    unused: Sequence[str],
    positional: str,
    elsewhere: Sequence[type],
) -> None:
    """Gives the flags their values: of the command line, then of the file `--config`."""
    fields = settings_of(groups)
    for argument in sys.argv[1:]:
        files.require_utf8(argument, "argument")
    stray = FLAGS(sys.argv)[1:]
    if stray and positional and not given(positional):
        FLAGS[positional].value = ",".join(stray)
    elif stray:
        raise flags.Error(
            f"unexpected argument '{stray[0]}'; flags are written --name=value"
        )
    if FLAGS.config:
        FLAGS.config = os.path.expanduser(FLAGS.config)
        _take_preset(fields, unused, settings_of(elsewhere))
    ignored = [f"--{name}" for name in unused if FLAGS[name].present]
    if ignored:
        _log.warning("note: not used: %s", ", ".join(ignored))
    for name, field in fields.items():
        value: Any = FLAGS[name].value
        if default_of(field) is REQUIRED and not value:
            raise flags.Error(
                "flag --{} is required: {}".format(name, field.metadata["help"])
            )
        other = field.metadata["instead_of"]
        if other in fields and given(name) and given(other):
            raise UserError(f"{name} and {other} are both given; give one of them")
        # no shell does it after a flag's =
        if isinstance(value, str) and value.startswith("~/"):
            FLAGS[name].value = os.path.expanduser(value)


def _take_preset(
    fields: help.Fields, unused: Sequence[str], elsewhere: help.Fields
) -> None:
    """Gives flags the values of the JSON file `--config`, unless they, or alternatives to them,
    are on the command line."""
    source = f"config {FLAGS.config}"
    values, _ = presets.read(FLAGS.config, "config", presets.OF_RUNS)
    for name, value in values.items():
        if (
            name == "about"
            or name in unused
            or name in elsewhere
            and name not in fields
        ):
            continue
        if name not in fields:
            raise UserError(
                f"{source}: unknown setting '{name}'{did_you_mean(name, fields)}"
            )
        check_value(fields[name], value, source)
        # The document of a run has both alternatives, one of them at its default.
        other = _alternative(fields, name)
        both = [each for each in (name, other) if each in values]
        if len(both) == 2 and all(
            values[each] != default_of(fields[each]) for each in both
        ):
            raise UserError(
                f"{source}: {name} is {value} and {other} is {values[other]}; give one of them"
            )
        if not given(name) and not given(other):
            # JSON's 1 is a float where the setting is one: TensorFlow refuses integers in formulas.
            FLAGS[name].value = setting_type(fields[name])(value)
            FLAGS[name].using_default_value = False


def _alternative(fields: help.Fields, name: str) -> str:
    """The other name of the same thing, such as epochs for train_steps; "": there is none."""
    for each, field in fields.items():
        other = field.metadata["instead_of"]
        if name == each and other in fields:
            return other
        if name == other:
            return each
    return ""


def _has_result_on_stdout(groups: Sequence[type]) -> bool:
    """Whether the result goes to the standard output, so that the log goes to standard error."""
    return any(
        field.metadata["is_result"] and files.is_standard_output(FLAGS[name].value)
        for name, field in settings_of(groups).items()
    )


def _collect(group: type) -> object:
    """The settings of a group, checked if the group has `check`."""
    settings = group(
        **{
            field.name: getattr(FLAGS, field.name)
            for field in dataclasses.fields(group)
        }
    )
    if isinstance(settings, Settings):
        try:
            settings.check()
        except UserError as e:
            e.status = 2  # bad flags
            raise
    return settings
