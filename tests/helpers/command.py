"""Entry points run inside the test's process: as from a shell, without the wait for TensorFlow."""

import collections
import contextlib
import io
import runpy
import sys

from helpers.paths import ROOT
from xlnet.commands import main as commands


class Done(collections.namedtuple("Done", "returncode stdout stderr")):
    """How a program ended, and what it wrote."""

    @property
    def errors(self):
        """The lines on stderr that are no notes."""
        return [
            line for line in self.stderr.splitlines() if not line.startswith("note: ")
        ]


def flags(values):
    """Arguments "--name=value"; a value of None leaves a flag out."""
    return ["--{}={}".format(*item) for item in values.items() if item[1] is not None]


def run(program, *arguments, **values):
    """Runs `program`, a file name in the repository or "xlnet" with its subcommand, as `__main__`.

    Args:
      arguments: of the command line.
      values: more flags by name.

    Returns:
      `Done`.
    """
    stdout, stderr, before = io.StringIO(), io.StringIO(), sys.argv
    words = program.split() if program.startswith("xlnet ") else [program]
    sys.argv, status = [*words, *arguments, *flags(values)], 0
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            if len(words) > 1:
                commands.main()
            else:
                runpy.run_path(str(ROOT / program), run_name="__main__")
    except SystemExit as e:
        status = e.code or 0
    finally:
        sys.argv = before
    return Done(status, stdout.getvalue(), stderr.getvalue())


def succeed(program, *arguments, **values):
    """`run`, which must end with status 0."""
    done = run(program, *arguments, **values)
    assert done.returncode == 0, done.stderr
    return done


def refused(program, *arguments, status=1, **values):
    """`run`, which must end with this status and one line, besides notes; returns the line."""
    done = run(program, *arguments, **values)
    (line,) = done.errors
    assert done.returncode == status, line
    return line
