"""Command lines: flags from settings, --help, errors of one line."""

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
    read_preset,
    setting_type,
)
from xlnet.support import errors, files
from xlnet.support.errors import UserError, escape_control_characters, wrong

_PRESETS = "Presets"  # title of the help of --config
# Flags of the original implementation that are accepted where they have no effect.
UNUSED = tuple(
    """d_embed gcp_project high_only init_global_vars iterations mask_alpha mask_beta master
    max_qa_length max_seq_length middle_only num_core_per_host num_hosts num_passes num_predict
    num_proc overwrite_data pass_id predict_batch_size predict_ckpt proc_id shuffle_buffer
    summary_type target_eval_key tpu tpu_job_name tpu_name tpu_zone track_mean use_tpu""".split()
)
# Those of them that are switches: a value is optional.
_SWITCHES = ("high_only", "middle_only", "track_mean", "init_global_vars", "use_tpu")
_NO_EFFECT = "no effect"
_CONFIG = (
    "JSON file of settings, names without dashes, or the name of a preset (configs/); "
    'flags override it, "about" is a comment'
)
_DEFINE: dict[type, Callable[..., object]] = {
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}

_log = logging.getLogger(__name__)
Fields = Mapping[str, "dataclasses.Field[Any]"]


@dataclasses.dataclass(frozen=True)
class CommandLine:
    """A command line once it is parsed.

    Attributes:
      settings: an object for each group.
      given: the names of the flags on the command line or in the preset.
    """

    settings: Sequence[Any]
    given: frozenset[str]


@contextlib.contextmanager
def command(
    *groups: type[Settings],
    about: str | None,
    unused: Sequence[str] = (),
    positional: str = "",
    preset_table: str = "",
    elsewhere: Sequence[type] = (),
) -> Iterator[CommandLine]:
    """Parses the command line for the block that is the program; `--help` and an error of the
    block, in one line, end the process.

    Log lines of the library are shown as bare text: INFO on stdout, WARNING and above on stderr.

    Args:
      groups: settings dataclasses; names shared by two groups are one flag.
      about: the text above the flags in `--help`, with examples.
      unused: flags of the original implementation that are accepted; they have no effect unless a
        group has them.
      positional: the setting that has the arguments without a flag, joined by commas; "": none.
      preset_table: the file of `configs/` in which `--config` finds a name.
      elsewhere: groups of other programs, whose settings a preset may have, without effect.

    Exit status: 0 done, 1 bad input (`UserError`) or a file that cannot be read or written, 2 bad
    flags, 75 a run that a signal stopped (`Unfinished`), 130 Ctrl-C elsewhere, 141 the reader of
    the output is gone (`| head`).
    """
    values = flags.FlagValues()
    program = os.path.basename(sys.argv[0])
    if hasattr(sys.stdout, "reconfigure"):  # shows any text, by its codes if need be
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _showing_log() as console, errors.translated_errors():
            fields = settings_of(groups)
            _define(values, fields, unused)
            if {"-h", "-help", "--help", "--helpfull"} & set(sys.argv[1:]):
                print(_help_text(values, program, about, fields), flush=True)
                sys.exit(0)
            given = _parse(values, fields, positional)
            if values.config:
                preset = read_preset(values.config, "config", preset_table)
                given |= _take_preset(values, preset, given, fields, elsewhere)
            # Where the result goes to the standard output, the log does not.
            if "output" in values and files.is_standard_output(values.output):
                console.has_stdout = False
            settings = [_collect(values, group) for group in groups]
            yield CommandLine(settings, frozenset(given))
            sys.stdout.flush()
    except flags.Error as e:
        _end(program, " ".join(str(e).split()), 2)
    except BrokenPipeError:
        # The reader of the output has gone, as in `| head`. The interpreter would fail at its end
        # on what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    # the latter of a name whose bytes are not UTF-8
    except (UserError, OSError, UnicodeEncodeError) as e:
        _end(program, e, getattr(e, "status", 1))
    except KeyboardInterrupt:
        _end(program, "stopped", 130)


def program(*groups: type[Settings], **how: Any) -> Callable[..., Callable[[], None]]:
    """A decorator that makes a function a program without parameters: it is called with an object
    of each group of settings, and its docstring is the text of `--help`. Functions that need more
    of the command line than its settings use `command`, which has the other arguments."""

    def decorate(main: Callable[..., None]) -> Callable[[], None]:
        def run() -> None:
            with command(*groups, about=main.__doc__, **how) as line:
                main(*line.settings)

        return run

    return decorate


def _end(program: str, reason: str | Exception, status: int) -> NoReturn:
    """Ends the process with one line on stderr."""
    text = escape_control_characters(str(reason))
    print(f"{program}: {text}", file=sys.stderr, flush=True)
    # without clean-up, which would wait for a thread that is still in TensorFlow
    if getattr(reason, "ends_at_once", False):
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
        text = escape_control_characters(self.format(record), kept="\n\t")
        print(text, file=stream, flush=True)


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


# ---- flags


def settings_of(groups: Sequence[type]) -> dict[str, dataclasses.Field[Any]]:
    """The settings of all groups by name; names shared by two groups once."""
    fields: dict[str, Any] = {}
    for group in groups:
        for field in dataclasses.fields(group):
            fields.setdefault(field.name, field)
    return fields


def by_help_group(fields: Fields) -> dict[str, list[str]]:
    """The names of settings by the title of their group; groups without settings are left out."""
    groups: dict[str, list[str]] = {}
    for group in HelpGroup:
        for name, field in fields.items():
            if field.metadata["help_group"] is group:
                groups.setdefault(group.value, []).append(name)
    return groups


def _define(values: flags.FlagValues, fields: Fields, unused: Sequence[str]) -> None:
    """Makes the flags, in absl's modules by the titles of their groups."""
    for name, field in fields.items():
        title = field.metadata["help_group"].value
        how: dict[str, Any] = {"flag_values": values, "module_name": title}
        default, meaning = field.default, field.metadata["help"]
        if default is REQUIRED:
            default, meaning = None, f"(required) {meaning}"
        define, limits = _DEFINE[setting_type(field)], {}
        if field.metadata["choices"]:
            define = flags.DEFINE_enum
            limits["enum_values"] = field.metadata["choices"]
        elif field.metadata["minimum"] is not None:
            limits["lower_bound"] = field.metadata["minimum"]
        define(name=name, default=default, help=meaning, **limits, **how)
        for alias in field.metadata["aliases"]:
            flags.DEFINE_alias(alias, name, **how)
    for name in unused:
        if name not in values:
            define = _DEFINE[bool if name in _SWITCHES else str]
            define(name, None, _NO_EFFECT, flag_values=values)
    flags.DEFINE_string(
        "config", None, _CONFIG, flag_values=values, module_name=_PRESETS
    )


def _parse(values: flags.FlagValues, fields: Fields, positional: str) -> set[str]:
    """Gives the flags their values on the command line; returns the names of those there."""
    stray = values(sys.argv)[1:]
    present = {name for name in values if values[name].present}
    if stray and positional and positional not in present:
        values[positional].value = ",".join(stray)
    elif stray:
        raise flags.Error(
            f"unexpected argument '{stray[0]}'; flags are written --name=value"
        )
    for name in ("config", *fields):
        value: Any = values[name].value
        # no shell does it after a flag's =
        if isinstance(value, str) and value.startswith("~/"):
            values[name].value = os.path.expanduser(value)
    for name, field in fields.items():
        other = field.metadata["instead_of"]
        if other and {name, other} <= present:
            raise wrong(name, f"{other}, too", "one of them")
    ignored = []
    for name in values:
        if name in present and values[name].help == _NO_EFFECT:
            ignored.append("--" + name)
    if ignored:
        _log.warning("note: not used: %s", ", ".join(ignored))
    return present


def _take_preset(
    values: flags.FlagValues,
    preset: Mapping[str, Any],
    present: set[str],
    fields: Fields,
    elsewhere: Sequence[type],
) -> set[str]:
    """Gives flags the values of the JSON file `--config`, unless they, or alternatives to them,
    are `present` on the command line; returns their names."""
    source = f"config {values.config}"
    # The streams are of records: xlnet data make takes them from a preset of pretraining.
    ignored = {"about", "num_streams", *UNUSED, *settings_of(elsewhere)}
    taken = set()
    for name, value in preset.items():
        if name not in fields:
            if name in ignored:
                continue
            raise wrong(source, f"'{name}'", "settings of this program")
        check_value(fields[name], value, source)
        other = fields[name].metadata["instead_of"]
        if other in preset:
            raise wrong(f"{source}: {name}", f"{other}, too", "one of them")
        if not present & {name, other}:
            # JSON's 1 is a float where the setting is one: TensorFlow refuses integers in formulas.
            values[name].value = setting_type(fields[name])(value)
            taken.add(name)
    return taken


def _collect(values: flags.FlagValues, group: type[Settings]) -> Settings:
    """The settings of a group, checked."""
    of_group = {}
    for field in dataclasses.fields(group):
        of_group[field.name] = values[field.name].value
        if field.default is REQUIRED and not of_group[field.name]:
            meaning = field.metadata["help"]
            raise flags.Error(f"flag --{field.name} is required: {meaning}")
    settings = group(**of_group)
    try:
        settings.check()
    except UserError as e:
        e.status = 2  # bad flags
        raise
    return settings


# ---- --help


def _help_text(
    values: flags.FlagValues, program: str, about: str | None, fields: Fields
) -> str:
    """The help of a program: its name, what it does, and its flags by group."""
    about = inspect.cleandoc(about or "")
    text = f"{program}: {about[:1].lower()}{about[1:]}\n"
    for title in (*by_help_group(fields), _PRESETS):
        text += "\n" + values.module_help(title).strip() + "\n"
    return text
