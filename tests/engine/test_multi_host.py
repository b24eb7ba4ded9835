"""Two processes as two hosts: evaluated, told to stop, damaged, killed, gone on with elsewhere."""

import json
import re
import shutil
import signal

import numpy as np
import pytest
from helpers.pretraining import curve, start_hosts, train, wait_for_step, weights

pytestmark = pytest.mark.slow

# Signals are sent right before an evaluation, so that they are there before many steps have passed.
RUN = dict(train_steps=60, save_steps=6, max_save=0, eval_steps=20, n_layer=1)


def interrupt_one(hosts, step, number, meanwhile=lambda: None):
    """Sends a signal to the second host after `step`; status and output of both."""
    printed = wait_for_step(hosts[0], step)
    hosts[1].send_signal(number)
    meanwhile()
    rest = [host.communicate(timeout=200)[0] for host in hosts]
    return [host.returncode for host in hosts], [printed + rest[0], rest[1]]


def newest(folder):
    return max(int(path.stem.split("-")[1]) for path in folder.glob("model.ckpt-*.index"))


@pytest.fixture(scope="module")
def run(place):
    return dict(RUN, eval_record_info_dir=place / "heldout")


@pytest.fixture(scope="module")
def stopped(place, run):
    """Two hosts of which the second got SIGTERM: status, output."""
    return interrupt_one(start_hosts(place, "hosts", **run), 19, signal.SIGTERM)


def test_sigterm_on_one_host_saves_and_ends_both(place, stopped):
    status, printed = stopped
    assert status == [0, 0], printed
    step = newest(place / "hosts")
    assert 19 < step < 40
    for text in printed:
        assert "stopped by SIGTERM at step %d, saved" % step in text
    rows = sorted(path.name for path in (place / "hosts").glob("memory-%d-*.npy" % step))
    assert rows == ["memory-%d-0.npy" % step, "memory-%d-2.npy" % step]


@pytest.fixture(scope="module")
def killed(place, run, stopped):
    """The same hosts go on: the newest checkpoint is damaged, the second gets SIGKILL."""
    shutil.copytree(place / "hosts", place / "killed")
    damaged = newest(place / "killed")
    data = place / "killed" / ("model.ckpt-%d.data-00000-of-00001" % damaged)
    data.write_bytes(data.read_bytes()[:-100])

    def uninterrupted():    # the run of one process, dropout and memories on, for comparison
        done = train(place, "whole", **run)
        assert done.returncode == 0, done.stderr
    status, printed = interrupt_one(start_hosts(place, "killed", **run), 39, signal.SIGKILL,
                                    meanwhile=uninterrupted)
    return damaged, status, printed


def test_hosts_pass_over_a_damaged_checkpoint(place, killed):
    damaged, _, (chief, _) = killed
    assert re.search("note: checkpoint .*model.ckpt-%d cannot be read: .*; the one before it is "
                     "used" % damaged, chief)
    first = int(re.search(r"^steps +(\d+) to 60", chief, re.MULTILINE).group(1))
    assert damaged - 6 <= first < damaged


def test_a_lost_host_ends_the_other(killed):
    _, status, (chief, _) = killed
    assert status == [1, -signal.SIGKILL]
    assert re.fullmatch(r"train_gpu.py: lost host 1 \(127\.0\.0\.1:\d+\); start the same command "
                        "again on all hosts", chief.strip().split("\n")[-1]), chief
    assert "Traceback" not in chief


def test_one_process_goes_on_where_hosts_were_lost(place, run, killed):
    """Stopped, damaged, killed, and the run is still the uninterrupted one of one device."""
    name = shutil.copytree(place / "killed", place / "alone").name
    done = train(place, name, **run)
    assert done.returncode == 0, done.stderr
    assert re.search("^steps +(36|40) to 60", done.stdout, re.MULTILINE)
    np.testing.assert_allclose(curve(place, name), curve(place, "whole"), rtol=1e-5)
    held_out = [np.loadtxt(place / folder / "held_out.tsv", skiprows=1)
                for folder in (name, "whole")]
    assert held_out[0][:, 0].tolist() == [0, 20, 40, 60]
    np.testing.assert_allclose(*held_out, atol=2e-5)
    ours = weights(place, name)
    for variable, value in weights(place, "whole").items():
        np.testing.assert_allclose(ours[variable], value, rtol=0, atol=1e-5, err_msg=variable)


BAD = {
    "no JSON": ('{"cluster"', "TF_CONFIG is not valid JSON: "),
    "no object": ("[]", "TF_CONFIG is [], expected {"),
    "no cluster": ('{"cluster": null}', 'TF_CONFIG is {"cluster": null}, expected {'),
    "no list": ('{"cluster": {"worker": "a:1"}}', "expected {"),
    "a number": ('{"cluster": {"worker": [1, 2]}}', "expected {"),
    "no task": ('{"cluster": {"worker": ["a:1", "b:2"]}}', "TF_CONFIG: the task is {}, which is"),
    "other task": ('{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", '
                   '"index": 2}}', "which is not in the cluster; expected "),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_tf_config_is_one_line(place, monkeypatch, case):
    value, message = BAD[case]
    monkeypatch.setenv("TF_CONFIG", value)
    done = train(place, "refused", num_hosts=2)
    errors = done.stderr.strip().split("\n")
    assert done.returncode == 1 and len(errors) == 1, done.stderr
    assert errors[0].startswith("train_gpu.py: ") and message in errors[0]


def test_a_cluster_of_one_host(place, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({
        "cluster": {"worker": ["localhost:2222"]}, "task": {"type": "worker", "index": 0}}))
    done = train(place, "only", train_steps=1, warmup_steps=0)
    assert done.returncode == 0, done.stderr
