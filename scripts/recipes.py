"""What the scripts that run several programs share: stages, settings, names in flags, tables."""

import os
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from xlnet.support import files
from xlnet.support.errors import UserError

ROOT = sys.path[0]


def stage(title, program, *arguments, **flags):
    """Shows a command and runs it; stops everything if it fails."""
    words = ["-m", *program.split()] if program.startswith("xlnet ") else [program]
    command = (
        words + list(arguments) + ["--{}={}".format(*item) for item in flags.items()]
    )
    print(
        "\n== {}\n$ python {}".format(
            title, " ".join(shlex.quote(word) for word in command)
        ),
        flush=True,
    )
    status = subprocess.run(
        [sys.executable] + command, cwd=ROOT, check=False
    ).returncode
    if status:
        raise UserError(
            f"{program} failed with status {status}; its own message is above"
        )


def keep_settings(directory, **settings):
    """Writes the settings of a run beside its files.

    Stages leave alone what is there, so that the files of a run with other settings would stay.

    Raises:
      UserError: the directory is that of a run with other settings.
    """
    path = os.path.join(directory, "settings.json")
    if not os.path.exists(path):
        files.write_json(path, settings)
    kept = files.read_json(path, "settings")
    for name, value in settings.items():
        if kept.get(name) != value:
            raise UserError(
                f"{name}: {value}, but the files in {directory} are made with {kept.get(name)} "
                f"({path}); give that, or another out_dir"
            )
