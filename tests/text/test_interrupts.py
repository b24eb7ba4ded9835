"""Ctrl-C on a program with worker processes: one line, whatever the workers do at that moment."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from helpers.paths import ROOT

from xlnet.text import processes

PROGRAM = """
import dataclasses, time
import xlnet.text.preparation       # takes a while, in the workers too
from xlnet import cli
from xlnet.settings.fields import setting
from xlnet.text.processes import in_processes

@dataclasses.dataclass(frozen=True)
class Settings:
    seconds: float = setting(1.0, "seconds that a worker takes")

def work(index):
    time.sleep(1)

def main(settings):
    print("began", flush=True)
    for _ in in_processes(work, range(8), 2):
        pass

if __name__ == "__main__":
    cli.run(main, Settings, about="works")
"""


def test_ctrl_c_that_another_thread_takes_is_delayed(monkeypatch):
    """Such as one of NumPy's or of the pool: the mask of the main thread is not theirs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    release, done = threading.Event(), []
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt), processes.uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            done.append(True)
        assert done and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.signal(signal.SIGINT, before)
        release.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("delays", ([0.05], [0.3], [0.8], [0.3, 0.2], [1.5, 0.1]))
def test_ctrl_c_is_one_line(tmp_path, delays):
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
    for delay in delays:
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)
    stderr = process.communicate(timeout=60)[1]
    assert stderr == "program.py: stopped\n" and process.returncode in (130, -signal.SIGINT)
