"""Ctrl-C on a program with worker processes is one line."""

import os
import signal
import subprocess
import sys
import time

import pytest
from helpers.paths import ROOT

PROGRAM = """
import dataclasses, time
from xlnet.commands import cli
from xlnet.settings.fields import setting
from xlnet.corpus.processes import in_processes

@dataclasses.dataclass(frozen=True)
class Settings:
    seconds: float = setting(1.0, "seconds that a worker takes")

def work(index):
    time.sleep(1)

def main(settings):
    for index, _ in in_processes(work, range(8), 2):
        print("began", flush=True)

if __name__ == "__main__":
    cli.run(main, Settings, about="works")
"""


@pytest.mark.slow
def test_ctrl_c_is_one_line(tmp_path):
    """As a terminal sends it: to all processes of the group."""
    (tmp_path / "program.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "began\n"
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    stderr = process.communicate(timeout=60)[1]
    assert stderr == "program.py: stopped\n" and process.returncode in (
        130,
        -signal.SIGINT,
    )
