"""Hosts that begin together: they wait for each other and hear signals meanwhile. Two processes as
two hosts: evaluated, told to stop, damaged, killed, gone on with elsewhere."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers.finetuning import assert_same
from helpers.paths import ROOT
from helpers.pretraining import (
    complete,
    curve,
    local_addresses,
    start_host,
    start_hosts,
    wait_for_step,
    weights,
)

from xlnet.engine import checkpoint, multi_host
from xlnet.engine.devices import connect
from xlnet.settings.training import DeviceSettings
from xlnet.support.errors import UserError

# Signals are sent right before an evaluation, so that they are there before many steps have passed.
RUN = dict(train_steps=60, save_steps=6, max_save=0, eval_steps=20, n_layer=1)


def interrupt_one(hosts, step, number, meanwhile=lambda: None):
    """Sends a signal to the second host after `step`; status and output of both."""
    printed = wait_for_step(hosts[0], step)
    hosts[1].send_signal(number)
    meanwhile()
    rest = [host.communicate(timeout=200)[0] for host in hosts]
    return [host.returncode for host in hosts], [printed + rest[0], rest[1]]


@pytest.fixture(scope="module")
def run(place):
    return dict(RUN, eval_record_info_dir=place / "heldout")


@pytest.fixture(scope="module")
def stopped(place, run):
    """Two hosts of which the second got SIGTERM: status, output."""
    return interrupt_one(start_hosts(place, "hosts", **run), 19, signal.SIGTERM)


@pytest.mark.slow
def test_sigterm_on_one_host_saves_and_ends_both(place, stopped):
    status, printed = stopped
    assert status == [75, 75], printed
    step = checkpoint.newest_step(str(place / "hosts"))
    assert 19 < step < 40
    for text in printed:
        assert f"stopped by SIGTERM at step {step}, saved" in text
    rows = sorted(path.name for path in (place / "hosts").glob(f"memory-{step}-*.npy"))
    assert rows == [f"memory-{step}-0.npy", f"memory-{step}-2.npy"]


@pytest.fixture(scope="module")
def killed(place, run, stopped):
    """The same hosts go on, and the second gets SIGKILL."""
    shutil.copytree(place / "hosts", place / "killed")

    def uninterrupted():  # the run of one process, dropout and memories on, for comparison
        complete(place, "whole", **run)

    hosts = start_hosts(place, "killed", **run)
    return interrupt_one(hosts, 39, signal.SIGKILL, meanwhile=uninterrupted)


@pytest.mark.slow
def test_a_lost_host_ends_the_other(killed):
    status, (chief, _) = killed
    assert status == [1, -signal.SIGKILL]
    lost = r"^train_gpu.py: lost host 1 \(127\.0\.0\.1:\d+\); start .*\n\Z"
    assert re.search(lost, chief, re.MULTILINE), chief
    assert "Traceback" not in chief


@pytest.mark.slow
def test_one_process_goes_on_where_hosts_were_lost(place, run, killed):
    """Stopped, killed, and the run is still the uninterrupted one of one device."""
    name = shutil.copytree(place / "killed", place / "alone").name
    done = complete(place, name, **run)
    assert re.search("^steps +(36|40) to 60", done.stdout, re.MULTILINE)
    np.testing.assert_allclose(curve(place, name), curve(place, "whole"), rtol=1e-5)
    held_out = []
    for folder in (name, "whole"):
        kept = json.loads((place / folder / "evaluations.json").read_text())
        held_out.append([(one["step"], one["loss"]) for one in kept["evaluations"]])
    assert [step for step, _ in held_out[0]] == [0, 20, 40, 60]
    np.testing.assert_allclose(*held_out, atol=2e-5)
    assert_same(weights(place, name), weights(place, "whole"), atol=1e-5)


def test_one_machine_ignores_the_cluster(monkeypatch, caplog):
    """As where a task is fine-tuned, or a model loaded."""
    caplog.set_level("INFO")
    monkeypatch.setenv("TF_CONFIG", OF_TFJOB["TF_CONFIG"])
    devices = connect(DeviceSettings(device="cpu", num_hosts=1))
    assert (devices.hosts, devices.replicas) == (1, 1) and "TF_CONFIG" not in os.environ
    assert caplog.messages == ["note: TF_CONFIG is ignored: this runs on one machine"]


# ---- what launchers put into the environment

OF_SLURM = {
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NODELIST": "gpu[8-10]",
    "SLURM_PROCID": "2",
    "SLURM_JOB_ID": "12345",
}


def of_cluster(**jobs):
    task = {"type": "worker", "index": 0}
    found = {"cluster": jobs, "task": task, "environment": "cloud"}
    return {"TF_CONFIG": json.dumps(found)}


OF_TFJOB = of_cluster(chief=["c-0.svc:2222"], worker=["w-0.svc:2222"])
ALONE = (1, 0), []
LAUNCHED = (
    (OF_SLURM, None, (3, 2), ["gpu8:22345", "gpu9:22345", "gpu10:22345"]),
    (OF_SLURM, 1, *ALONE),
    (dict(OF_SLURM, SLURM_STEP_NUM_TASKS="1"), None, *ALONE),
    (OF_TFJOB, None, (2, 1), ["c-0.svc:2222", "w-0.svc:2222"]),
)


@pytest.fixture
def launched(monkeypatch):
    """Sets the environment of a process that a launcher started."""
    for name in list(os.environ):
        if name.startswith(("SLURM_", "TF_CONFIG")):
            monkeypatch.delenv(name)

    def set_all(environment):
        monkeypatch.setenv("TF_CONFIG", "")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return set_all


@pytest.mark.parametrize("environment, num_hosts, found, addresses", LAUNCHED)
def test_launchers_name_the_hosts(launched, environment, num_hosts, found, addresses):
    launched(environment)
    assert multi_host.find_hosts(num_hosts) == found
    assert [address for _, address in multi_host.all_hosts()] == addresses
    if environment is OF_SLURM and found[0] > 1:
        task = json.loads(os.environ["TF_CONFIG"])["task"]
        assert task == {"type": "worker", "index": found[1]}


@pytest.mark.parametrize(
    "environment, num_hosts, message",
    (
        ({"TF_CONFIG": '{"cluster"'}, 2, "TF_CONFIG: found {"),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:2"]}}'}, 2, "the task {}"),
        (of_cluster(ps=["c:1"], worker=["a:1"]), 2, "TF_CONFIG: found {"),
        (OF_SLURM, 2, "num_hosts: found 2, expected 3, as TF_CONFIG or SLURM names"),
        (dict(OF_SLURM, SLURM_STEP_NUM_TASKS="24"), None, "24 processes on 3 machines"),
        (dict(OF_SLURM, SLURM_PROCID="3"), None, 'the task .*"index": 3'),
        (dict(OF_SLURM, SLURM_STEP_NODELIST="gpu[8-"), None, "no hosts: .*gpu.8-"),
    ),
)
def test_launchers_that_name_other_hosts_are_one_line(
    launched, environment, num_hosts, message
):
    launched(environment)
    with pytest.raises(UserError, match=message):
        multi_host.find_hosts(num_hosts)


# ---- the start, and lost hosts


@pytest.mark.slow
def test_all_wait_for_the_last(monkeypatch, caplog):
    monkeypatch.setattr(multi_host, "_SECONDS_BETWEEN_LINES", 0)
    caplog.set_level("INFO")
    addresses = local_addresses(3)
    places = [("127.0.0.1", int(address.rpartition(":")[2])) for address in addresses]
    given = dict(target=multi_host.wait_for_all, args=(addresses, 0), daemon=True)
    waiting = threading.Thread(**given)
    with socket.create_server(places[2]):
        waiting.start()
        time.sleep(1)
        said = caplog.messages[-1]
        assert waiting.is_alive() and f"waiting for host 1 ({addresses[1]}: " in said
        assert "Connection refused" in said and "host 2" not in said
        socket.create_connection(places[0]).close()  # others find it meanwhile
        with socket.create_server(places[1]):
            waiting.join(20)
            assert not waiting.is_alive()


def test_a_taken_port_is_one_line():
    with socket.create_server(("", 0)) as other:
        taken = f"localhost:{other.getsockname()[1]}"
        with pytest.raises(UserError, match=f"^TF_CONFIG: found {taken}: .*, expected"):
            multi_host.wait_for_all([taken, "localhost:1"], 0)


@pytest.mark.slow
def test_a_waiting_host_hears_signals(place):
    host = start_host(place, "waiting", local_addresses(2), 1)
    line = host.stdout.readline()
    assert line.endswith("waiting until all of them are there\n"), line
    time.sleep(0.5)
    host.send_signal(signal.SIGINT)
    rest = host.communicate(timeout=20)[0].strip()
    assert host.returncode == 130
    assert rest == "train_gpu.py: stopped"


@pytest.mark.slow
def test_hosts_with_other_settings_end(place):
    """After one step, of a run that has nothing to compare with before."""
    addresses, hosts = local_addresses(2), []
    for index in range(2):
        how = dict(learning_rate=0.01 + index, save_steps=1)
        hosts.append(start_host(place, "differ", addresses, index, **how))
    printed = [host.communicate(timeout=120)[0] for host in hosts]
    assert "learning_rate is 1.01, not 0.01, expected the same" in printed[1], printed
    assert not list((place / "differ").glob("model.ckpt-*"))


@pytest.mark.parametrize("ends", (False, True))
def test_a_step_that_does_not_end_ends_the_program(monkeypatch, ends):
    monkeypatch.setattr(multi_host, "SECONDS_BETWEEN_LOOKS", 0.01)
    said, watch, asked = [], multi_host.HostMonitor(), []

    def missing():
        asked.append(watch)
        if ends and len(asked) == multi_host.MISSES:
            watch._ended.set()
        return "host 0 (a:1)"

    monkeypatch.setattr(multi_host, "missing_host", missing)
    monkeypatch.setattr(multi_host, "_end_program", said.append)
    watch.is_waiting = True
    watch._thread.start()
    watch._thread.join(20)
    assert said == ([] if ends else ["host 0 (a:1)"])
    assert len(asked) == multi_host.MISSES


_STUCK = """
import ctypes
from xlnet.engine import multi_host
multi_host.SECONDS_TO_CONNECT_ALL = 1
multi_host.wait_for_all = lambda addresses, own: None
stuck = lambda: ctypes.PyDLL(None).sleep(60)  # holds Python's lock
multi_host.tf2.distribute.MultiWorkerMirroredStrategy = stuck
multi_host.connect(0)
"""


@pytest.mark.slow
def test_a_host_lost_while_they_are_connected_ends_the_program():
    """TensorFlow would wait for it without end, deaf to signals."""
    program = [sys.executable, "-c", _STUCK]
    done = subprocess.run(program, cwd=ROOT, stderr=subprocess.PIPE, timeout=50)
    assert done.returncode == 1, done.stderr
