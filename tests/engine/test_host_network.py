"""Two hosts as network namespaces of this machine: one is killed, the cable between them is cut for
20 seconds, it is slow, one host starts late. Needs Linux, root and `ip`.

Only the namespaces and devices that are made here are changed.
"""

import fcntl
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers.finetuning import assert_same
from helpers.paths import ROOT
from helpers.pretraining import curve, flags_of, make_place, wait_for_step, weights

RUN = dict(train_steps=400, save_steps=100, max_save=0, n_layer=1, num_hosts=2, log_steps=20)
ADDRESSES = ["10.213.77.%s" % (1 + host) for host in range(2)]
NAMES = [f"xlnet-{os.getpid()}-{host}" for host in range(2)]
_TUNSETIFF, _TUN, _NO_INFO = 0x400454CA, 0x1, 0x1000  # of linux/if_tun.h


def ip(*words):
    return subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True)


class Cable:
    """Carries packets between a device in each namespace.

    Attributes:
      delay: in each direction [s].
      is_cut: whether all packets are lost.
    """

    def __init__(self):
        self.delay, self.is_cut = 0.0, False
        self._ends = [self._plug(host) for host in range(2)]
        for end in range(2):
            packets = queue.Queue()
            for work in (self._receive, self._deliver):
                threading.Thread(target=work, args=(end, packets), daemon=True).start()

    def _plug(self, host):
        device = "xl%s" % (os.getpid() * 2 % 10**6 + host)
        end = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _TUN | _NO_INFO))
        ip("netns", "add", NAMES[host])
        ip("link", "set", device, "netns", NAMES[host])
        for words in (
            ["addr", "add", ADDRESSES[host] + "/24", "dev", device],
            ["link", "set", device, "up"],
            ["link", "set", "lo", "up"],
        ):
            ip("netns", "exec", NAMES[host], "ip", *words)
        return end

    def _receive(self, end, packets):
        while True:
            try:
                packet = os.read(self._ends[end], 1 << 16)
            except OSError:  # the namespace is removed
                return
            if not self.is_cut:
                packets.put((time.monotonic() + self.delay, packet))

    def _deliver(self, end, packets):
        while True:
            due, packet = packets.get()
            time.sleep(max(0, due - time.monotonic()))
            os.write(self._ends[1 - end], packet)


@pytest.fixture(scope="module")
def cable():
    try:
        made = Cable()
    except (OSError, subprocess.CalledProcessError) as e:
        remove()
        pytest.skip("no network namespaces here: %s" % (getattr(e, "stderr", None) or e))
    yield made
    remove()


def remove():
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory, cable):
    return make_place(tmp_path_factory.mktemp("network"))


def start(place, name, host, **changes):
    environment = {
        "PYTHONUNBUFFERED": "1",
        "TF_CONFIG": json.dumps(
            {
                "cluster": {"worker": [address + ":2222" for address in ADDRESSES]},
                "task": {"type": "worker", "index": host},
            }
        ),
    }
    return subprocess.Popen(
        [
            "ip",
            "netns",
            "exec",
            NAMES[host],
            sys.executable,
            "train_gpu.py",
            *flags_of(place, name, **dict(RUN, **changes)),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ, **environment),
    )


def start_both(place, name, **changes):
    return [start(place, name, host, **changes) for host in range(2)]


def ends(hosts, printed="", timeout=300):
    """Status and output of both hosts; `printed`: what was read from the first before."""
    rest = [host.communicate(timeout=timeout)[0] for host in hosts]
    return [host.returncode for host in hosts], [printed + rest[0], rest[1]]


def last_lines(texts):
    return [text.strip().split("\n")[-1] for text in texts]


@pytest.fixture(scope="module")
def whole(place):
    status, printed = ends(start_both(place, "whole"))
    assert status == [0, 0], printed
    return place / "whole"


def assert_equals_the_uninterrupted(place, name):
    np.testing.assert_allclose(curve(place, name), curve(place, "whole"), rtol=1e-5)
    assert_same(weights(place, name), weights(place, "whole"), atol=1e-5)


@pytest.mark.parametrize("killed", (0, 1))
@pytest.mark.slow
def test_a_killed_host_ends_the_other_and_both_resume(place, whole, killed):
    name = f"killed{killed}"
    hosts = start_both(place, name)
    printed = wait_for_step(hosts[0], 260)
    began = time.monotonic()
    hosts[killed].send_signal(signal.SIGKILL)
    status, printed = ends(hosts, printed)
    print("the other ended after %.0f s" % (time.monotonic() - began))
    assert status[killed] == -signal.SIGKILL and status[1 - killed] == 1, printed
    assert last_lines(printed)[1 - killed] == (
        f"train_gpu.py: lost host {killed} ({ADDRESSES[killed]}:2222); start the same "
        "command again on all hosts"
    ), printed
    status, printed = ends(start_both(place, name))
    assert status == [0, 0], printed
    assert_equals_the_uninterrupted(place, name)


@pytest.mark.slow
def test_a_cable_cut_for_20_seconds(place, cable, whole):
    """The run waits and goes on, or both hosts end with one line and resume."""
    hosts = start_both(place, "cut")
    printed = wait_for_step(hosts[0], 260)
    cable.is_cut = True
    time.sleep(20)
    cable.is_cut = False
    began = time.monotonic()
    status, printed = ends(hosts, printed)
    print(f"status {status} after {time.monotonic() - began:.0f} s: {last_lines(printed)}")
    if status != [0, 0]:
        assert status == [1, 1], printed
        for line in last_lines(printed):
            assert line.startswith("train_gpu.py: lost ") and line.endswith(
                "; start the same command again on all hosts"
            ), printed
        status, printed = ends(start_both(place, "cut"))
        assert status == [0, 0], printed
    assert_equals_the_uninterrupted(place, "cut")


@pytest.mark.slow
def test_a_slow_cable_changes_the_time_alone(place, cable):
    short = dict(train_steps=20, log_steps=5)
    status, printed = ends(start_both(place, "direct", **short))
    assert status == [0, 0], printed
    cable.delay = 0.1
    try:
        began = time.monotonic()
        status, printed = ends(start_both(place, "delayed", **short))
        print("20 steps at 200 ms there and back: %.0f s" % (time.monotonic() - began))
    finally:
        cable.delay = 0.0
    assert status == [0, 0], printed
    np.testing.assert_allclose(curve(place, "delayed"), curve(place, "direct"), rtol=1e-5)


@pytest.mark.slow
def test_a_host_that_starts_a_minute_late(place, whole):
    first = start(place, "late", 0)
    time.sleep(80)
    assert first.poll() is None
    hosts = [first, start(place, "late", 1)]
    status, printed = ends(hosts)
    assert status == [0, 0], printed
    assert f"note: waiting for host 1 ({ADDRESSES[1]}:2222: " in printed[0], printed[0]
    assert_equals_the_uninterrupted(place, "late")
