"""Command lines: flags made from settings, help, and errors of one line."""

import dataclasses
import os
import sys
import textwrap

from absl import flags

from xlnet.config import setting_type
from xlnet.errors import UserError

FLAGS = flags.FLAGS

_DEFINE = {bool: flags.DEFINE_boolean, int: flags.DEFINE_integer, float: flags.DEFINE_float,
           str: flags.DEFINE_string}


def run(main, *groups, no_longer_needed=(), about=""):
    """Parses the command line into settings, calls `main(*settings)` and exits.

    Args:
      main: called with one object per group; its return value is ignored.
      groups: settings dataclasses (see `config`); names shared by two groups are one flag.
      no_longer_needed: flags of the reference's command line `{name: why}` that are noted only.
      about: the text above the flags in `--help`.

    Exit status: 0 done, 1 bad input (`UserError`) or a file that cannot be read or written, 2 bad
    flags.
    """
    program = os.path.basename(sys.argv[0])
    _define(groups, no_longer_needed)
    if {"-h", "-help", "--help", "--helpfull"} & set(sys.argv[1:]):
        print(_help(program, about, groups))
        sys.exit(0)
    try:
        stray = FLAGS(sys.argv)[1:]
        if stray:
            raise flags.Error("unexpected argument '%s'; flags are written --name=value" % stray[0])
        _require(groups)
    except flags.Error as e:
        print("%s: %s" % (program, " ".join(str(e).split())), file=sys.stderr)
        sys.exit(2)
    for name, why in dict(no_longer_needed).items():
        if FLAGS[name].present:
            print("note: --%s is not used: %s" % (name, why), file=sys.stderr)
    try:
        main(*[_collect(group) for group in groups])
    except (UserError, OSError) as e:
        print("%s: %s" % (program, e), file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("%s: stopped" % program, file=sys.stderr)
        sys.exit(130)


def given(name):
    """Whether the flag stood on the command line."""
    return bool(FLAGS[name].present)


def _define(groups, no_longer_needed):
    for group in groups:
        for field in dataclasses.fields(group):
            if field.name in FLAGS:
                continue
            default = None if field.default is dataclasses.MISSING else field.default
            least = field.metadata["least"]
            bound = {} if least is None else {"lower_bound": least}
            if field.metadata["choices"]:
                flags.DEFINE_enum(field.name, default, field.metadata["choices"],
                                  field.metadata["help"])
            else:
                _DEFINE[setting_type(field)](field.name, default, field.metadata["help"], **bound)
    for name, why in dict(no_longer_needed).items():
        flags.DEFINE_string(name, None, "not used: " + why)


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
    return "\n".join(lines)
