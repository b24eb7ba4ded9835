"""Training on several hosts: the environment names them, they wait for each other at the start, and
when one of them is lost, the others end too.

TensorFlow would wait at the start too, but it holds Python's lock meanwhile: signals have no
effect, and no message names the missing host. It would wait for a lost host forever: interrupted
sums over hosts do not recover until the program is restarted.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow.python.distribute.cluster_resolver import slurm_cluster_resolver
from tensorflow.python.eager import context

from xlnet.support import errors
from xlnet.support.errors import wrong

_log = logging.getLogger(__name__)

# TensorFlow's name of a host, by its job and its index there.
_TASK = "/job:%s/replica:0/task:%s"
_TF_CONFIG = '{"cluster": {"worker": ["host0:port", ...]}, "task": {"type": "worker", "index": N}}'
_SECONDS_TO_CONNECT = 2  # to one host, in one try
_SECONDS_BETWEEN_TRIES = 0.2  # to reach all hosts
_SECONDS_BETWEEN_LINES = 60  # of the log, while it waits
SECONDS_BETWEEN_LOOKS = 5  # checks of `HostMonitor`
MISSES = 3  # in a row, after which a host counts as lost
_SECONDS_FOR_AN_ANSWER = 10
SECONDS_TO_CONNECT_ALL = 120


# ---- which hosts there are


def find_hosts(num_hosts: int | None) -> tuple[int, int]:
    """(number of hosts, index of this one), as the environment says.

    TF_CONFIG comes first. Where SLURM names the hosts, TF_CONFIG is set here, as TensorFlow reads
    nothing else. Where there is one host, TF_CONFIG is removed.

    Args:
      num_hosts: expected number; None: as many as are named; 1: the environment is ignored.

    Raises:
      UserError: what names them is not valid, or names another number of hosts.
    """
    environment = os.environ
    if num_hosts == 1:  # given; also in fine-tuning and where a model is loaded
        if environment.pop("TF_CONFIG", None):  # MirroredStrategy would read it, too
            _log.info("note: TF_CONFIG is ignored: this runs on one machine")
        return 1, 0
    processes = int(environment.get("SLURM_STEP_NUM_TASKS", 1))
    if processes > 1 and not environment.get("TF_CONFIG"):
        environment["TF_CONFIG"] = json.dumps(_of_slurm(processes))

    # Are they as many as expected, and is this one of them?
    names = [name for name, _ in all_hosts()]
    count = max(len(names), 1)  # without TF_CONFIG: no names, and this host alone
    if num_hosts and count != num_hosts:
        named = f"{count}, as TF_CONFIG or SLURM names"
        raise wrong("num_hosts", num_hosts, named, f"or set {_TF_CONFIG}")
    if count == 1:
        environment.pop("TF_CONFIG", None)
        return 1, 0
    _, task = _tf_config()
    own_name = _TASK % (task.get("type"), task.get("index"))
    if own_name not in names:
        listed = f"one of the cluster: {_TF_CONFIG}"
        raise wrong("TF_CONFIG", f"the task {json.dumps(task)}", listed)
    return count, names.index(own_name)


def _of_slurm(processes: int) -> dict[str, Any]:
    """The content of TF_CONFIG for one of the `processes` that `srun` starts, the step of a SLURM
    job. In a batch script itself there is no step.

    TensorFlow's SlurmClusterResolver is not used, as it sorts node10 before node9 and fails without
    GPUs; only its reader of lists such as `rack[08-10],login` is, a private function of TensorFlow
    2.15.1 to 2.21.0.
    """
    environment = os.environ
    try:
        nodes = environment["SLURM_STEP_NODELIST"]
        names = slurm_cluster_resolver.expand_hostlist(nodes)  # ["rack08", ...]
        index = int(environment["SLURM_PROCID"])
        # All processes of a job get the same port, 10000 to 29999, and different jobs mostly
        # different ones, as they may share a machine.
        port = 10000 + int(environment.get("SLURM_JOB_ID", 0)) % 20000
    except (KeyError, ValueError) as e:
        remedy = f"set TF_CONFIG: {_TF_CONFIG}"
        raise wrong("SLURM", f"no hosts: {e}", "those of a step", remedy) from e
    if len(names) != processes:
        found = f"{processes} processes on {len(names)} machines"
        raise wrong("SLURM", found, "one on each")
    workers = [f"{name}:{port}" for name in names]
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}


def all_hosts() -> list[tuple[str, str]]:
    """TensorFlow's name and the address of each host in TF_CONFIG; the first is the chief."""
    jobs, _ = _tf_config()
    hosts = []
    for job in ("chief", "worker"):
        for index, address in enumerate(jobs.get(job, [])):
            hosts.append((_TASK % (job, index), address))
    return hosts


def _tf_config() -> tuple[dict[str, Any], dict[str, Any]]:
    """The cluster and the task of TF_CONFIG, see `_TF_CONFIG`: the addresses of each job, and which
    of them is this host's; {} each where it is not set. All hosts train: none is a parameter server
    or an evaluator."""
    text = os.environ.get("TF_CONFIG") or "{}"
    # ValueError: not JSON; the others: not an object of objects.
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        content = json.loads(text)
        jobs, task = content.get("cluster", {}), content.get("task", {})
        if isinstance(task, dict) and set(jobs) <= {"chief", "worker"}:
            return jobs, task
    raise wrong("TF_CONFIG", f"{text:.200}", _TF_CONFIG)


# ---- the start


def wait_for_all(addresses: Sequence[str], own: int) -> None:
    """Waits, without a limit, until all other hosts listen at their addresses, "name:port". `own`
    is the index of this host. Logs every minute which hosts are missing, and why.

    Raises:
      UserError: an address has no port, or another program listens at this host's.
    """
    endpoints = []  # (name, port) of each host
    for address in addresses:
        name, _, port = address.rpartition(":")
        if not name or not port.isdecimal():
            raise wrong("TF_CONFIG", f"'{address}'", "addresses name:port")
        endpoints.append((name.strip("[]"), int(port)))  # as in "[::1]:2222"
    # While it waits, this host listens at its own address, where TensorFlow will listen later: at
    # all addresses of this machine, IPv4 and, if it can, IPv6.
    _, own_port = endpoints[own]
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        server = socket.create_server(
            ("", own_port), family=family, dualstack_ipv6=both
        )
    except OSError as e:
        found = f"{addresses[own]}: {e.strerror}"
        raise wrong("TF_CONFIG", found, "a port that is free here") from e
    last_line = time.monotonic()  # when it was logged
    with server:
        while True:
            # Every round calls all hosts: one that has answered may have been restarted since. An
            # unknown name may belong to a container that is not up yet.
            silent = []
            for index, endpoint in enumerate(endpoints):
                try:
                    if index != own:
                        socket.create_connection(endpoint, _SECONDS_TO_CONNECT).close()
                except (OSError, UnicodeError) as e:  # UnicodeError: not a host name
                    silent.append(f"host {index} ({addresses[index]}: {e})")
            if not silent:
                return
            if time.monotonic() > last_line + _SECONDS_BETWEEN_LINES:
                last_line = time.monotonic()
                _log.info("note: waiting for %s", ", ".join(silent))
            time.sleep(_SECONDS_BETWEEN_TRIES)


def connect(own: int) -> tf2.distribute.Strategy:
    """Waits for all hosts of TF_CONFIG, then connects them; returns their strategy. `own` is the
    index of this host."""
    wait_for_all([address for _, address in all_hosts()], own)
    # Where a host is lost from here on, TensorFlow waits for it without end, and holds Python's
    # lock: only a timer outside of Python can end the program.
    _log.info(
        "note: all hosts are there, connecting them: %d s at most",
        SECONDS_TO_CONNECT_ALL,
    )
    handler = signal.getsignal(signal.SIGTERM)
    with open(os.devnull, "w") as nowhere:
        # The timer also prints a traceback, which would not help a user.
        faulthandler.dump_traceback_later(
            SECONDS_TO_CONNECT_ALL, exit=True, file=nowhere
        )
        try:
            strategy = tf2.distribute.MultiWorkerMirroredStrategy()
        finally:
            faulthandler.cancel_dump_traceback_later()
    # TensorFlow has installed a handler that waits for the other hosts; it is removed.
    signal.signal(signal.SIGTERM, handler)
    return strategy


# ---- lost hosts


def missing_host() -> str | None:
    """The first host that does not answer, as "host 1 (node1:2222)"; None if all answer.

    Private TensorFlow (2.15.1 to 2.21.0): only its context knows the hosts of a collective
    operation, and no public function checks one of them.
    """
    for index, (name, address) in enumerate(all_hosts()):
        try:
            context.context().check_collective_ops_peer_health(
                name, timeout_in_ms=1000 * _SECONDS_FOR_AN_ANSWER
            )
        except tf.errors.OpError:
            return f"host {index} ({address})"
    return None


class HostMonitor:
    """Checks that all hosts answer while this one waits for them, and ends the program if one does
    not: a step would wait in TensorFlow, where no interrupt ends it. Nothing is checked between
    steps: others may have finished while this host saves.

    Attributes:
      is_waiting: whether this host waits for the others, in a step or for their files; set by the
        code that waits.
    """

    def __init__(self) -> None:
        self.is_waiting = False
        self._ended = threading.Event()  # of the block of `running`
        # It needs a thread of its own: the thread of the step waits in TensorFlow.
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        """Checks the hosts regularly until the block of `running` has ended. Ends the program when
        some host did not answer in `MISSES` checks in a row."""
        # A host may fail to answer once: its machine is busy, or it has just ended a step.
        misses = 0
        while misses < MISSES:
            if self._ended.wait(SECONDS_BETWEEN_LOOKS):
                return
            host = missing_host() if self.is_waiting else None
            # The wait may have ended meanwhile.
            misses = misses + 1 if host and self.is_waiting else 0
        if not self._ended.is_set():
            _end_program(host)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Checks the hosts while the block runs; ends the program, too, if TensorFlow is the first
        to notice a lost host. Raises UserError if the tensors of the hosts differ in shape, as
        where they were started with different commands."""
        self._thread.start()
        try:
            yield
        except (tf.errors.UnavailableError, tf.errors.AbortedError):
            _end_program(missing_host() or "the connection to another host")
        except tf.errors.InvalidArgumentError as error:
            if "collective" not in error.message:
                raise
            reason = errors.reason(error)
            expected = "the same command as on the first one"
            raise wrong("this host", reason, expected) from error
        finally:
            # Waits for a running check: a thread that returns from TensorFlow while the interpreter
            # exits would abort the program.
            self._ended.set()
            self._thread.join()


def _end_program(lost: str | None) -> NoReturn:
    """Exits with the line that a host is lost, at once and from any thread: without clean-up, which
    would wait for a thread that is in TensorFlow."""
    name = os.path.basename(sys.argv[0])
    remedy = "start the same command again on all hosts"
    _log.error("%s: lost %s; %s", name, lost, remedy)
    sys.stdout.flush()
    os._exit(1)
