"""Command lines: flags made from settings, help, and errors of one line."""

import dataclasses
import logging
import os
import sys
import textwrap

from absl import flags

from xlnet import files
from xlnet.config import check_value, setting_type
from xlnet.errors import UserError, did_you_mean

FLAGS = flags.FLAGS

_CONFIG_HELP = ("JSON file of settings, their names without the dashes; a flag beside it goes "
                "before it, and \"about\" is for readers")

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
        _take_preset(groups)
        _require(groups)
    except flags.Error as e:
        print("%s: %s" % (program, " ".join(str(e).split())), file=sys.stderr)
        sys.exit(2)
    except UserError as e:
        print("%s: %s" % (program, e), file=sys.stderr)
        sys.exit(1)
    _show_logs()
    for name, why in dict(no_longer_needed).items():
        if FLAGS[name].present:
            print("note: --%s is not used: %s" % (name, why), file=sys.stderr)
    try:
        main(*[_collect(group) for group in groups])
    except (UserError, OSError) as e:
        print("%s: %s" % (program, e), file=sys.stderr, flush=True)
        if getattr(e, "ends_at_once", False):
            sys.stdout.flush()
            os._exit(1)
        sys.exit(1)
    except KeyboardInterrupt:
        print("%s: stopped" % program, file=sys.stderr)
        sys.exit(130)


def _show_logs():
    """Shows what the library logs: as bare text, what is worth a note on the standard error."""
    library = logging.getLogger("xlnet")
    library.setLevel(logging.INFO)
    library.propagate = False
    out, notes = logging.StreamHandler(sys.stdout), logging.StreamHandler(sys.stderr)
    out.addFilter(lambda record: record.levelno < logging.WARNING)
    notes.setLevel(logging.WARNING)
    library.handlers = [out, notes]


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
    for name, why in dict(no_longer_needed).items():
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
