"""One program at a time in a directory."""

import errno
import os
import signal
import socket
import subprocess
import sys

import pytest
from helpers.paths import ROOT

from xlnet.support import system
from xlnet.support.errors import UserError

pytestmark = pytest.mark.slow

HOLD = """
import sys, time
from xlnet.support import system
with system.locked(sys.argv[1], "x"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model" / "training.lock"


def held(path):
    return system.locked(str(path), "model_dir: a run trains in X")


def test_a_second_run_is_refused(path):
    with held(path):
        with pytest.raises(
            UserError,
            match=rf"^model_dir: a run trains in X already, on host {socket.gethostname()} as "
            rf"process {os.getpid()} since \d.*; stop it",
        ):
            with held(path):
                pass
    with pytest.raises(KeyError):
        with held(path):
            raise KeyError
    with held(path):
        pass


def test_the_lock_of_a_killed_process_is_taken_over(path):
    how = dict(stdout=subprocess.PIPE, text=True, cwd=ROOT)
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], **how)
    assert process.stdout.readline() == "held\n"
    with pytest.raises(UserError, match=f"as process {process.pid} since"):
        with held(path):
            pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with held(path):
        (line,) = path.read_text().splitlines()
        assert f"process {os.getpid()} " in line


def test_a_file_system_without_locks_is_noted(path, monkeypatch, caplog):
    def lacking(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(system.fcntl, "flock", lacking)
    with held(path):
        assert "has no locks" in caplog.text
