"""One program at a time in a directory."""

import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from xlnet import lock
from xlnet.errors import UserError


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    for name, seconds in (("_BEAT", 0.02), ("_SILENCE", 0.4), ("_SETTLED", 0.2)):
        monkeypatch.setattr(lock, name, seconds)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model" / "training.lock"


def held(path):
    return lock.held(str(path), "model_dir: a run trains in X")


def owner(**changes):
    return json.dumps(dict(dict(host=socket.gethostname(), pid=os.getpid(), start="2020-01-01",
                                process_start=lock._process_start(os.getpid())), **changes))


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_a_second_run_is_refused(path):
    with held(path):
        with pytest.raises(UserError, match=r"^model_dir: a run trains in X already, on host %s as "
                           r"process %d since \d.*; if it is gone, remove %s$" % (
                               socket.gethostname(), os.getpid(), path)):
            with held(path):
                pass
    assert not list(path.parent.iterdir())
    with pytest.raises(KeyError):
        with held(path):
            raise KeyError
    assert not list(path.parent.iterdir())


def test_the_lock_of_a_dead_process_is_taken_over(path):
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True)
    for gone in (owner(pid=int(child.stdout)), owner(process_start="another process's")):
        write(path, gone)
        with held(path):
            assert json.loads(path.read_text())["pid"] == os.getpid()
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize("written", ("", '{"host": "el', "[1]", "null", '{"host": "here"}'))
def test_a_lock_that_a_kill_left_half_written_is_taken_over(path, written):
    write(path, written)
    with held(path):
        assert json.loads(path.read_text())["pid"] == os.getpid()


def test_a_lock_that_is_being_written_is_waited_for(path):
    write(path, "")
    writer = threading.Timer(0.05, path.write_text, [owner()])
    writer.start()
    with pytest.raises(UserError, match="as process %d since 2020-01-01" % os.getpid()):
        with held(path):
            pass
    writer.join()


# ---- another host

def test_a_lock_of_another_host_that_is_silent_is_taken_over(path):
    """Whatever its clock says."""
    write(path, owner(host="elsewhere", pid=1))
    os.utime(path, (4e9, 4e9))
    with held(path):
        assert json.loads(path.read_text())["host"] == socket.gethostname()


def test_one_that_lives_is_left_alone(path):
    write(path, owner(host="elsewhere", pid=1))
    is_over = threading.Event()
    beating = threading.Thread(target=lock._beat, args=(str(path), json.loads(path.read_text()),
                                                        is_over))
    beating.start()
    with pytest.raises(UserError, match="on host elsewhere as process 1 since 2020-01-01; if it is "
                                        "gone, remove "):
        with held(path):
            pass
    is_over.set()
    beating.join()
    assert path.read_text() == owner(host="elsewhere", pid=1)


def test_one_that_ends_meanwhile_is_taken(path):
    write(path, owner(host="elsewhere", pid=1))
    remover = threading.Timer(0.1, path.unlink)
    remover.start()
    with held(path):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    remover.join()


def test_signs_of_life(path):
    with held(path):
        times = set()
        for _ in range(10):
            times.add(os.stat(path).st_mtime_ns)
            time.sleep(0.03)
        assert len(times) > 3
        path.unlink()                       # by hand: nothing is written again, and nothing fails
        time.sleep(0.1)
        assert not path.exists()


def test_of_several_that_take_over_one_holds_it(path):
    """Each in a process of its own, all at once."""
    write(path, owner(host="elsewhere", pid=1))
    code = ("import sys, time; from xlnet import lock; from xlnet.errors import UserError\n"
            "lock._BEAT, lock._SILENCE = .02, .5\n"
            "try:\n"
            "    with lock.held(sys.argv[1], 'x'): print('held', flush=True); time.sleep(3)\n"
            "except UserError: print('refused')")
    several = [subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE,
                                text=True) for _ in range(4)]
    found = sorted(process.communicate()[0].strip() for process in several)
    assert found == ["held", "refused", "refused", "refused"]


def test_who_was_taken_for_gone_is_told(path, caplog):
    with held(path):
        path.write_text(owner(host="elsewhere"))
        time.sleep(0.2)
    assert "another process took over %s" % path in caplog.text
    assert path.read_text() == owner(host="elsewhere")      # it is the other's
