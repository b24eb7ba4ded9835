"""A stage of a script that runs several programs."""

import os
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from xlnet.support.errors import wrong

ROOT = sys.path[0]


def stage(title, program, *arguments, **flags):
    """Shows a command and runs it; stops everything if it fails."""
    words = ["-m", *program.split()] if program.startswith("xlnet ") else [program]
    flags = [f"--{name}={value}" for name, value in flags.items()]
    command = [*words, *arguments, *flags]
    print(f"\n== {title}\n$ python {shlex.join(command)}", flush=True)
    done = subprocess.run([sys.executable, *command], cwd=ROOT, check=False)
    if done.returncode:
        found = f"status {done.returncode}; its own message is above"
        raise wrong(program, found, "0")
