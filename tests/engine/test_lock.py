"""One run in a model directory at a time."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from xlnet.engine import lock
from xlnet.errors import UserError


def owner(**changes):
    return json.dumps(dict(dict(host=socket.gethostname(), pid=os.getpid(), start="2020-01-01",
                                process_start=lock._process_start(os.getpid())), **changes))


def test_a_second_run_is_refused(tmp_path):
    with lock.held(str(tmp_path / "model")):
        with pytest.raises(UserError, match=r"a run trains in \S+model already, on host %s as "
                           r"process %d since \d" % (socket.gethostname(), os.getpid())):
            with lock.held(str(tmp_path / "model")):
                pass
    assert not list((tmp_path / "model").iterdir())
    with pytest.raises(KeyError):
        with lock.held(str(tmp_path / "model")):
            raise KeyError
    assert not list((tmp_path / "model").iterdir())


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                           capture_output=True, text=True)
    path = tmp_path / lock.NAME
    for gone in (owner(pid=int(child.stdout)), owner(process_start="another process's")):
        path.write_text(gone)
        with lock.held(str(tmp_path)):
            assert json.loads(path.read_text())["pid"] == os.getpid()
    assert not path.exists()


@pytest.mark.parametrize("written", ("", '{"host": "el'))
def test_a_lock_that_a_kill_left_half_written_is_taken_over(tmp_path, written):
    (tmp_path / lock.NAME).write_text(written)
    with lock.held(str(tmp_path)):
        assert json.loads((tmp_path / lock.NAME).read_text())["pid"] == os.getpid()


def test_a_lock_that_is_being_written_is_waited_for(tmp_path):
    path = tmp_path / lock.NAME
    path.write_text("")
    writer = threading.Timer(0.2, path.write_text, [owner()])
    writer.start()
    with pytest.raises(UserError, match="as process %d since 2020-01-01" % os.getpid()):
        with lock.held(str(tmp_path)):
            pass
    writer.join()


def test_a_lock_of_another_host_is_left_alone(tmp_path):
    (tmp_path / lock.NAME).write_text(owner(host="elsewhere", pid=1))
    with pytest.raises(UserError, match="on host elsewhere as process 1 since 2020-01-01; if it is "
                                        "gone, remove "):
        with lock.held(str(tmp_path)):
            pass
    assert (tmp_path / lock.NAME).read_text() == owner(host="elsewhere", pid=1)
