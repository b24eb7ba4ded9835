"""Command lines: flags made from settings, help, and errors of one line."""

import contextlib
import dataclasses
import logging
import os
import sys
import textwrap
from types import MappingProxyType
from typing import Callable, Mapping

from absl import flags

from xlnet import files
from xlnet.config import check_value, setting_type
from xlnet.errors import UserError, did_you_mean

FLAGS = flags.FLAGS
_log = logging.getLogger(__name__)

_CONFIG_HELP = ("JSON file of settings, their names without the dashes; a flag beside it goes "
                "before it, and \"about\" is for readers")

_DEFINE = {bool: flags.DEFINE_boolean, int: flags.DEFINE_integer, float: flags.DEFINE_float,
           str: flags.DEFINE_string}


def run(main: Callable[..., object], *groups: type,
        no_longer_needed: Mapping[str, str] = MappingProxyType({}), about: str = "") -> None:
    """Parses the command line into settings, calls `main(*settings)` and exits.

    What the library logs is shown as bare text: INFO on stdout, WARNING and above on stderr.

    Args:
      main: called with one object per group; its return value is ignored.
      groups: settings dataclasses (see `config`); names shared by two groups are one flag.
      no_longer_needed: flags of the reference's command line `{name: why}` that are noted only.
      about: the text above the flags in `--help`.

    Exit status: 0 done, 1 bad input (`UserError`) or a file that cannot be read or written, 2 bad
    flags, 130 stopped by Ctrl-C, 141 the reader of the output has gone (`| head`).
    """
    program = os.path.basename(sys.argv[0])
    try:
        with _showing_log():
            _run(program, main, groups, no_longer_needed, about)
            sys.stdout.flush()
    except flags.Error as e:
        _end(program, " ".join(str(e).split()), 2)
    except BrokenPipeError:
        # What is still buffered goes nowhere, or the interpreter would fail on it as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (UserError, OSError) as e:
        if getattr(e, "ends_at_once", False):
            print("%s: %s" % (program, e), file=sys.stderr, flush=True)
            sys.stdout.flush()
            os._exit(1)
        _end(program, e, 1)
    except KeyboardInterrupt:
        _end(program, "stopped", 130)


def _end(program, message, status):
    print("%s: %s" % (program, message), file=sys.stderr, flush=True)
    sys.exit(status)


def _run(program, main, groups, no_longer_needed, about):
    _define(groups, no_longer_needed)
    if {"-h", "-help", "--help", "--helpfull"} & set(sys.argv[1:]):
        print(_help(program, about, groups))
        return
    stray = FLAGS(sys.argv)[1:]
    if stray:
        raise flags.Error("unexpected argument '%s'; flags are written --name=value" % stray[0])
    _take_preset(groups)
    _require(groups)
    for name, why in no_longer_needed.items():
        if FLAGS[name].present:
            _log.warning("note: --%s is not used: %s", name, why)
    main(*[_collect(group) for group in groups])


class _Console(logging.Handler):
    """Shows records as bare text: below WARNING on stdout, the rest on stderr."""

    def emit(self, record):
        # Looked up now: tests and programs may have replaced them.
        stream = sys.stderr if record.levelno >= logging.WARNING else sys.stdout
        print(self.format(record), file=stream, flush=True)


@contextlib.contextmanager
def _showing_log():
    """Shows what the library logs, from INFO on, and nothing of other libraries."""
    log, console = logging.getLogger("xlnet"), _Console()
    before = log.level, log.propagate
    log.addHandler(console)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(console)
        log.level, log.propagate = before


def given(name):
    """Whether the flag stood on the command line."""
    return bool(FLAGS[name].present)


def _define(groups, no_longer_needed):
    for group in groups:
        for field in dataclasses.fields(group):
            if field.name in FLAGS:
                continue
            default = None if field.default is dataclasses.MISSING else field.default
            minimum = field.metadata["minimum"]
            bound = {} if minimum is None else {"lower_bound": minimum}
            if field.metadata["choices"]:
                flags.DEFINE_enum(field.name, default, field.metadata["choices"],
                                  field.metadata["help"])
            else:
                _DEFINE[setting_type(field)](field.name, default, field.metadata["help"], **bound)
    for name, why in no_longer_needed.items():
        flags.DEFINE_string(name, None, "not used: " + why)
    flags.DEFINE_string("config", None, _CONFIG_HELP)


def _take_preset(groups):
    """Gives flags the values of the JSON file `--config`, unless they stood on the command line."""
    if not FLAGS.config:
        return
    fields = {field.name: field for group in groups for field in dataclasses.fields(group)}
    for name, value in files.read_json(FLAGS.config, "config").items():
        if name == "about":
            continue
        if name not in fields:
            raise UserError("config %s: unknown setting '%s'%s"
                            % (FLAGS.config, name, did_you_mean(name, fields)))
        check_value(fields[name], value, "config " + FLAGS.config)
        minimum = fields[name].metadata["minimum"]
        if minimum is not None and value < minimum:
            raise UserError("config %s: %s is %r, expected at least %r"
                            % (FLAGS.config, name, value, minimum))
        if not given(name):
            FLAGS[name].value = value


def _require(groups):
    for group in groups:
        for field in dataclasses.fields(group):
            if field.default is dataclasses.MISSING and not getattr(FLAGS, field.name):
                raise flags.Error("flag --%s is required: %s"
                                  % (field.name, field.metadata["help"]))


def _collect(group):
    return group(**{field.name: getattr(FLAGS, field.name) for field in dataclasses.fields(group)})


def _help(program, about, groups):
    lines = ["%s: %s" % (program, about), ""]
    for group in groups:
        lines.append(" ".join(group.__doc__.split()))
        for field in dataclasses.fields(group):
            default = "required" if field.default is dataclasses.MISSING else field.default
            name = "  --%s=%s" % (field.name, "" if default is None else default)
            choices = " (%s)" % ", ".join(field.metadata["choices"]) \
                if field.metadata["choices"] else ""
            lines += textwrap.wrap(field.metadata["help"] + choices, 96, initial_indent=name + "  ",
                                   subsequent_indent=" " * 6)
        lines.append("")
    lines += textwrap.wrap(_CONFIG_HELP, 96, initial_indent="  --config=  ",
                           subsequent_indent=" " * 6)
    return "\n".join(lines + [""])
