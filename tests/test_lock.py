"""One program at a time in a directory."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
from helpers.paths import ROOT

from xlnet import lock
from xlnet.errors import UserError

pytestmark = pytest.mark.slow

HOLD = (
    "import sys, time; from xlnet import lock; from xlnet.errors import UserError\n"
    "try:\n"
    "    with lock.held(sys.argv[1], 'x'): print('held', flush=True); time.sleep(%s)\n"
    "except UserError: print('refused')"
)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "_GRACE", 0.2)
    return tmp_path / "model" / "training.lock"


def held(path):
    return lock.held(str(path), "model_dir: a run trains in X")


def hold(path, seconds=60, before=""):
    process = subprocess.Popen(
        [sys.executable, "-c", before + HOLD % seconds, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    return process


def test_a_second_run_is_refused(path):
    with held(path):
        with pytest.raises(
            UserError,
            match=rf"^model_dir: a run trains in X already, on host {socket.gethostname()} as "
            rf"process {os.getpid()} since \d.*; stop it",
        ):
            with held(path):
                pass
    assert not list(path.parent.iterdir())
    with pytest.raises(KeyError):
        with held(path):
            raise KeyError
    assert not list(path.parent.iterdir())


def test_containers_that_share_a_host_name_and_numbers_of_processes(path):
    """Each sees itself as process 1 of the same host."""
    same = "import os, socket; os.getpid = lambda: 1; socket.gethostname = lambda: 'box'\n"
    first = hold(path, before=same)
    assert first.stdout.readline() == "held\n"
    second = hold(path, before=same)
    assert second.communicate()[0] == "refused\n"
    first.kill()
    first.communicate()


def test_the_lock_of_a_killed_process_is_taken_over(path):
    process = hold(path)
    assert process.stdout.readline() == "held\n"
    with pytest.raises(UserError, match=f"as process {process.pid} since"):
        with held(path):
            pass
    killer = threading.Timer(0.05, process.send_signal, [signal.SIGKILL])
    killer.start()  # while the other one waits
    with held(path):
        assert f"process {os.getpid()} " in path.read_text()
    process.communicate()


def test_of_several_that_start_at_once_one_holds_it(path):
    several = [hold(path, seconds=6) for _ in range(4)]
    found = sorted(process.communicate()[0].strip() for process in several)
    assert found == ["held", "refused", "refused", "refused"]


def test_a_file_system_without_locks_is_noted(path, monkeypatch, caplog):
    def lacking(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", lacking)
    with held(path):
        assert "has no locks" in caplog.text
    assert not path.exists()


def test_a_full_disk_names_the_lock_and_keeps_none(path):
    """A limit of file size in place of a full disk."""
    program = (
        "import resource, sys; from xlnet import errors\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "with errors.translated_errors():\n"
        "    from xlnet import lock\n"
        "    with lock.held(sys.argv[1], 'x'): print('held')\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, str(path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1].startswith(
        f"xlnet.errors.UserError: {path}: file too large"
    ), done
    assert not done.stdout and not path.exists()
