"""Entry points run inside the test's process: as from a shell, without the wait for TensorFlow."""

import collections
import contextlib
import io
import runpy
import sys

from absl import flags

from helpers.paths import ROOT
from xlnet import commands


class Done(collections.namedtuple("Done", "returncode stdout stderr")):
    """How a program ended, and what it wrote."""

    @property
    def errors(self):
        """The lines on stderr that are no notes."""
        return [line for line in self.stderr.splitlines() if not line.startswith("note: ")]


def run(program, *arguments):
    """Runs `program`, a file name in the repository or "xlnet" with its subcommand, as `__main__`;
    returns `Done`."""
    stdout, stderr, before = io.StringIO(), io.StringIO(), sys.argv
    words = program.split() if program.startswith("xlnet ") else [program]
    sys.argv, status = [*words, *arguments], 0
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
        for flag in list(flags.FLAGS.flags_by_module_dict().get("xlnet.cli", ())):
            delattr(flags.FLAGS, flag.name)     # the next run defines its own
    return Done(status, stdout.getvalue(), stderr.getvalue())
