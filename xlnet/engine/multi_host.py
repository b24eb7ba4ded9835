"""Training on several hosts: the environment names them, they wait for each other at the start, and
when one of them is lost, the others end too.

TensorFlow would wait at the start too, but it holds Python's lock meanwhile: signals have no
effect, and no message names the missing host. It would wait for a lost host forever: interrupted
sums over hosts do not recover until the program is restarted.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import itertools
import json
import logging
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional

import tensorflow.compat.v1 as tf
from tensorflow.python.eager import context

from xlnet import files
from xlnet.errors import Unfinished, UserError

_log = logging.getLogger(__name__)

_TASK = "/job:%s/replica:0/task:%s"  # TensorFlow's name of a host
_TF_CONFIG = '{"cluster": {"worker": ["host0:port", ...]}, "task": {"type": "worker", "index": N}}'
_PORT = 2222  # if the launcher names no port
# What a launcher says: the names of the machines, the number of this process, the number of
# processes, a port.
_Found = tuple[list[str], int, int, int]
_MOST_HOSTS = 65536
_SECONDS_FOR_SCONTROL = 20
_HOSTFILES = ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile")
# The number of a process by PMI (MPICH, Intel MPI) and PMIx, which name no machines.
_MPI_RANKS = ("PMI_RANK", "PMIX_RANK")
# Of these, the innermost launcher first.
_NUMBERS_OF_PROCESSES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
_SECONDS_FOR_A_CONNECTION = 2
_SECONDS_BETWEEN_TRIES = 0.2
_SECONDS_BETWEEN_LINES = 60
_SECONDS_BETWEEN_LOOKS = 5
_MISSES = 3  # in a row, after which a host counts as lost
_SECONDS_FOR_AN_ANSWER = 10
_SECONDS_TO_END = 10  # for a step, when its session is closed
_ERROR = "error-of-host-"  # the start of the name of a host's file in the model directory


# ---- which hosts there are


def cluster(num_hosts: Optional[int]) -> tuple[int, int, str]:
    """(number of hosts, index of this one, what named them), as the environment says.

    TF_CONFIG comes first, which Kubeflow's TFJob sets too. Where a launcher names the hosts, it is
    set here, as TensorFlow reads nothing else.

    Args:
      num_hosts: expected number; None: as many as are named; 1: the environment is ignored.

    Raises:
      UserError: what names them is not valid, or names another number of hosts.
    """
    # TensorFlow reads TF_CONFIG on its own, so it is removed where there is one host.
    source = "TF_CONFIG"
    if num_hosts == 1:  # also in fine-tuning and where a model is loaded
        if os.environ.pop(source, None):  # MirroredStrategy would read it, too
            _log.info("note: TF_CONFIG is ignored: this runs on one machine")
        return 1, 0, source

    # Find who names the hosts.
    if not os.environ.get(source):
        launched = _launched_by(num_hosts)
        if launched is None:
            _refuse_unnamed_hosts()
        else:
            source, (names, index, processes, port) = launched
            if len(names) != processes:
                raise UserError(
                    f"num_hosts: {source} started {processes} processes on {len(names)} machines, "
                    "expected one on each, which uses num_core_per_host GPUs"
                )
            if not 0 <= index < processes:
                raise UserError(
                    f"num_hosts: {source} says that this is process {index} of {processes}, "
                    f"expected 0 to {processes - 1}"
                )
            os.environ["TF_CONFIG"] = json.dumps(
                {
                    "cluster": {"worker": [f"{name}:{port}" for name in names]},
                    "task": {"type": "worker", "index": index},
                }
            )

    # Are they as many as expected, all different, and is this one of them?
    hosts = [name for name, _ in all_hosts()]
    _check_different([address.lower() for _, address in all_hosts()], source)
    if num_hosts and max(len(hosts), 1) != num_hosts:
        raise UserError(
            "num_hosts is {}, but {} names {} host{}; leave it out, or set TF_CONFIG "
            "on each host to {}".format(
                num_hosts, source, len(hosts), "" if len(hosts) == 1 else "s", _TF_CONFIG
            )
        )
    _, task = _tf_config()
    this = _TASK % (task.get("type"), task.get("index"))
    if hosts and this not in hosts:
        raise UserError(
            f"TF_CONFIG: the task is {json.dumps(task)}, which is not in the cluster; "
            f"expected {_TF_CONFIG}"
        )
    if len(hosts) < 2:
        os.environ.pop("TF_CONFIG", None)
    return max(len(hosts), 1), hosts.index(this) if hosts else 0, source


def _launched_by(num_hosts: Optional[int]) -> Optional[tuple[str, _Found]]:
    """(the name of the launcher that started this process among others, what it says); None: there
    is none."""
    for name, find in _LAUNCHERS.items():
        try:
            found = find(num_hosts)
        except (KeyError, ValueError, OSError) as e:
            reason = f"{e.args[0]} is not set" if isinstance(e, KeyError) else str(e)
            raise UserError(
                f"num_hosts: the environment of {name} names no hosts: {reason}; "
                f"set TF_CONFIG on each host to {_TF_CONFIG}"
            ) from None
        if found:
            return name, found
    return None


# The launchers: (names of the machines, index of this process, number of processes, port); None if
# it did not start this process, or started it alone.


def _from_open_mpi(_: Optional[int]) -> Optional[_Found]:
    """mpirun tells its processes their number, but not the machines: those are in SLURM's
    allocation, or in the file that the variable of its default hostfile names."""
    environment = os.environ
    processes = int(environment.get("OMPI_COMM_WORLD_SIZE", 1))
    if processes == 1:
        return None
    if "SLURM_JOB_NODELIST" in environment:
        names = expand_nodes(environment["SLURM_JOB_NODELIST"])
    else:
        path = next((environment[name] for name in _HOSTFILES if name in environment), None)
        if path is None:
            raise ValueError(
                "give the hostfile to mpirun as {}, not as an option".format(
                    " or ".join(_HOSTFILES)
                )
            )
        with open(path, encoding="utf-8") as f:
            lines = [line.partition("#")[0].split() for line in f]
        names = list(dict.fromkeys(words[0] for words in lines if words))
    return names, int(environment["OMPI_COMM_WORLD_RANK"]), processes, _PORT


def _from_slurm(_: Optional[int]) -> Optional[_Found]:
    """srun: the variables of a job's step. In a batch script itself there are none."""
    environment = os.environ
    processes = int(environment.get("SLURM_STEP_NUM_TASKS", 1))
    if processes == 1:
        return None
    # TensorFlow's SlurmClusterResolver sorts node10 before node9, and fails without GPUs.
    names = expand_nodes(environment["SLURM_STEP_NODELIST"])
    # Different jobs get different ports, as they may share a machine.
    port = 10000 + int(environment.get("SLURM_JOB_ID", 0)) % 20000
    return names, int(environment["SLURM_PROCID"]), processes, port


def expand_nodes(nodes: str) -> list[str]:
    """The names in a list of SLURM's, such as `rack[0-1]_blade[08-10],login`; by SLURM's own
    program where it is installed.

    Raises:
      ValueError: it is not such a list.
    """
    if shutil.which("scontrol"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            listed = subprocess.run(
                ["scontrol", "show", "hostnames", nodes],
                capture_output=True,
                check=True,
                text=True,
                timeout=_SECONDS_FOR_SCONTROL,
            )
            if listed.stdout.split():
                return listed.stdout.split()
    # A name consists of texts and lists of numbers in turn: rack, [0-1], _blade, [08-10]. Every
    # number of one list is combined with every number of the others; the last list changes fastest.
    names: list[str] = []
    for word in re.split(r",(?![^\[]*\])", nodes):
        if not re.fullmatch(r"([^\[\],\s]|\[[^\[\]\s]+\])+", word):
            raise ValueError(f"'{word}' in the list of nodes '{nodes}' is not a name")
        parts = []
        for part in re.findall(r"\[[^\]]*\]|[^\[]+", word):
            parts.append(_numbers(part[1:-1]) if part.startswith("[") else [part])
        if len(names) + math.prod(map(len, parts)) > _MOST_HOSTS:
            raise ValueError(f"the list of nodes '{nodes}' has more than {_MOST_HOSTS} names")
        names += ["".join(each) for each in itertools.product(*parts)]
    return names


def _numbers(text: str) -> list[str]:
    """The numbers of "8-10,12", with the digits of the first of a range: 08-10 is 08, 09, 10."""
    numbers = []
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        if not found:
            raise ValueError(f"'[{text}]' is not a list of numbers")
        first, last = int(found.group(1)), int(found.group(2) or found.group(1))
        if not first <= last < first + _MOST_HOSTS:
            raise ValueError(f"'[{text}]' is not a list of numbers")
        width = len(found.group(1))
        numbers += [f"{number:0{width}}" for number in range(first, last + 1)]
    return numbers


def _from_kubernetes(num_hosts: Optional[int]) -> Optional[_Found]:
    """An Indexed Job with a headless service, as JobSet makes: pods are NAME-INDEX.SERVICE... Their
    number is not in the environment."""
    index = os.environ.get("JOB_COMPLETION_INDEX")
    if index is None or num_hosts is None:
        return None
    name, dot, domain = socket.getfqdn().partition(".")
    stem, dash, last = name.rpartition("-")
    if not dash or last != index:
        raise ValueError(f"the pod is called {name}, expected NAME-{index}")
    names = [f"{stem}-{host}{dot}{domain}" for host in range(num_hosts)]
    return names, int(index), num_hosts, _PORT


def _refuse_unnamed_hosts() -> None:
    """Raises UserError for one of several processes of an MPI launcher, where nothing names their
    machines: each would train alone, all of them into one directory."""
    environment = os.environ
    ranks = [name for name in _MPI_RANKS if name in environment]
    if not ranks:
        return
    # An interactive job of SLURM's is a step of one process, which may start several by MPI; each
    # of them has the variables of the step, too.
    rank = next((name for name in ranks if environment[name] != "0"), ranks[0])
    sizes = [environment[name] for name in _NUMBERS_OF_PROCESSES if name in environment]
    if sizes[:1] == ["1"] and environment[rank] == "0":
        return
    size = environment.get("PMI_SIZE")
    raise UserError(
        f"num_hosts: {rank} is {environment[rank]}{f', PMI_SIZE {size}' if size else ''}: a "
        "launcher of MPI started this process among others, and nothing names their machines; "
        f"set TF_CONFIG on each host to {_TF_CONFIG}, or give --num_hosts=1 if this process trains "
        "alone"
    )


_LAUNCHERS = {"Open MPI": _from_open_mpi, "SLURM": _from_slurm, "Kubernetes": _from_kubernetes}


def all_hosts() -> list[tuple[str, str]]:
    """TensorFlow's name and the address of each host in TF_CONFIG; the first is the chief."""
    jobs, _ = _tf_config()
    return [
        (_TASK % (job, index), address)
        for job in ("chief", "worker")
        for index, address in enumerate(jobs.get(job, []))
    ]


def _tf_config() -> tuple[dict[str, list[str]], dict[str, Any]]:
    """(the addresses of each job of TF_CONFIG, its task)."""
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        found = files.parse_json(text)
    except ValueError as e:
        raise UserError(f"TF_CONFIG is not valid JSON: {e}; expected {_TF_CONFIG}") from None
    if not isinstance(found, dict):
        raise UserError(f"TF_CONFIG is {text:.200}, expected {_TF_CONFIG}")
    jobs, task = found.get("cluster", {}), found.get("task", {})
    if not isinstance(jobs, dict) or not isinstance(task, dict):
        raise UserError(f"TF_CONFIG is {text:.200}, expected {_TF_CONFIG}")
    for job, addresses in jobs.items():
        if job not in ("chief", "worker"):
            raise UserError(
                f"TF_CONFIG: the cluster has the job '{job:.50}', expected 'worker', and perhaps "
                "'chief': all hosts train, none is a parameter server or an evaluator"
            )
        if not isinstance(addresses, list) or not all(isinstance(each, str) for each in addresses):
            raise UserError(
                f"TF_CONFIG: '{job}' is {json.dumps(addresses):.200}, expected a list of addresses "
                "name:port"
            )
    if len(jobs.get("chief", [])) > 1:
        raise UserError(f"TF_CONFIG: {len(jobs['chief'])} hosts are 'chief', expected at most one")
    return jobs, task


def _check_different(addresses: Sequence[object], source: str, words: Sequence[str] = ()) -> None:
    """Raises UserError if two hosts have the same address.

    They would never meet: one cannot listen there, and the others reach the other one twice.

    Args:
      addresses: of all hosts, in a form that can be compared.
      source: what named them.
      words: the addresses as they were given, where that is another form.
    """
    first: dict[object, int] = {}
    for index, address in enumerate(addresses):
        before = first.setdefault(address, index)
        if before != index:
            given = words or addresses
            raise UserError(
                f"{source}: the hosts {before} and {index} have the same address, {given[before]}"
                + (f" and {given[index]}" if given[index] != given[before] else "")
                + "; expected another machine or port for each"
            )


# ---- the start


def wait_for_all(addresses: Sequence[str], own: int) -> None:
    """Waits, without a limit, until all other hosts listen at their addresses, "name:port". This
    host is number `own`. Logs every minute which hosts are missing, and why.

    Raises:
      UserError: an address has no port, another program listens at this host's, or two of them
        are the same.
    """
    places = [_place(address) for address in addresses]
    others = [index for index in range(len(addresses)) if index != own]
    said = time.monotonic()
    # While it waits, this host listens at its own address, where TensorFlow will listen later.
    with _listening(addresses[own], places[own][1]):
        while True:
            # Every round asks all hosts: one that has answered may have been restarted since.
            silent = {index: _why_silent(places[index]) for index in others}
            silent = {index: why for index, why in silent.items() if why}
            if not silent:
                _check_different([_resolved(each) for each in places], "TF_CONFIG", addresses)
                return
            if time.monotonic() > said + _SECONDS_BETWEEN_LINES:
                said = time.monotonic()
                _log.info(
                    "note: waiting for %s",
                    ", ".join(
                        f"host {index} ({addresses[index]}: {why})" for index, why in silent.items()
                    ),
                )
            time.sleep(_SECONDS_BETWEEN_TRIES)


def _place(address: str) -> tuple[str, int]:
    """The name and the port of an address, "name:port"."""
    name, _, port = address.rpartition(":")
    is_name = name and not re.search(r"[\s/,]", name)
    if not is_name or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"TF_CONFIG: the address of a host is '{address}', expected name:port")
    return name.strip("[]"), int(port)


def _resolved(place: tuple[str, int]) -> tuple[object, int]:
    """(the first IP address of a host, or its name if it has none; its port)."""
    name, port = place
    try:
        return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0][4][0], port
    except (OSError, UnicodeError):
        return name, port


@contextlib.contextmanager
def _listening(address: str, port: int) -> Iterator[None]:
    """Listens at all addresses of this machine, as TensorFlow's server does."""
    both = socket.has_dualstack_ipv6()
    try:
        server = socket.create_server(
            ("", port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both
        )
    except OSError as e:
        why = "is taken by another program" if e.errno == errno.EADDRINUSE else str(e)
        raise UserError(
            f"TF_CONFIG: this host is {address}, but port {port} {why}; stop what listens there, "
            "or give all hosts another"
        ) from e
    with server:
        yield


def _why_silent(place: tuple[str, int]) -> Optional[str]:
    """Why the host does not answer; None if it does. An unknown name may belong to a container that
    is not up yet."""
    try:
        socket.create_connection(place, _SECONDS_FOR_A_CONNECTION).close()
    except OSError as e:
        return e.strerror or str(e)
    except UnicodeError:  # of a name with an empty part
        return "not the name of a host"
    return None


# ---- lost hosts


class Lost(UserError):
    """Another host died, was started again, or cannot be reached.

    Args:
      host: its name.
      reasons: what hosts said that stopped with an error, by their numbers, see `errors_of_hosts`.
    """

    ends_at_once = True  # the thread that closes the session may still be in TensorFlow

    def __init__(self, host: str, reasons: Optional[Mapping[int, str]] = None):
        self.host = host
        message = f"lost {host}; start the same command again on all hosts"
        if reasons:
            first = min(reasons)
            message = f"host {first} stopped with an error: {reasons[first]}"
        super().__init__(message)


# A host that stops with an error writes the reason to the model directory, which all hosts share.
# Otherwise the first host, whose output people read, would only see that the other one is gone.


def forget_errors(model_dir: str) -> None:
    """Removes the errors that hosts reported in an earlier start. Call it before the hosts connect:
    no host of this start can have reported an error until then."""
    for path in _error_files(model_dir):
        with contextlib.suppress(FileNotFoundError):  # another host was faster
            os.remove(path)


@contextlib.contextmanager
def reporting_errors(model_dir: str, host: int) -> Iterator[None]:
    """Writes an error of the block to the model directory, unless this is the first host."""
    try:
        yield
    except (Lost, Unfinished):
        raise
    except Exception as e:
        if host > 0:
            with contextlib.suppress(OSError):  # the error itself is what counts
                files.write_text(
                    os.path.join(model_dir, f"{_ERROR}{host}.txt"),
                    str(e) if isinstance(e, UserError) else f"{type(e).__name__}: {e}",
                )
        raise


def errors_of_hosts(model_dir: str) -> dict[int, str]:
    """The errors that hosts have reported since this start with `reporting_errors`: one line each,
    by the number of the host."""
    said = {}
    for path in _error_files(model_dir):
        number = os.path.basename(path)[len(_ERROR) : -len(".txt")]
        with contextlib.suppress(OSError):
            with open(path, encoding="utf-8", errors="replace") as f:
                said[int(number)] = " ".join(f.read(2000).split())
    return said


def _error_files(model_dir: str) -> list[str]:
    return glob.glob(os.path.join(glob.escape(model_dir), _ERROR + "[0-9]*.txt"))


def missing() -> Optional[str]:
    """The name of a host that does not answer; None if all answer.

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


def lost(
    is_watched: Callable[[], bool], wait: Callable[[float], Optional[bool]] = time.sleep
) -> Optional[str]:
    """The name of a host that does not answer several times in a row; None if all answer.
    is_watched: whether the hosts have to answer just now. wait: returns True to end the checks."""
    # A host may fail to answer once: its machine is busy, or it has just ended a step.
    for miss in range(_MISSES):
        if miss and wait(_SECONDS_BETWEEN_LOOKS):
            return None
        host = missing() if is_watched() else None
        if not host or not is_watched():
            return None
    return host


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Waits until `condition()` holds; returns False if it does not within that time. Raises `Lost`
    if a host is."""
    begun = last_look = time.time()
    while not condition():
        time.sleep(0.02)
        if time.time() > begun + seconds:
            return False
        if time.time() > last_look + _SECONDS_BETWEEN_LOOKS:
            host, last_look = lost(lambda: not condition()), time.time()
            if host:
                raise Lost(host)
    return True


@contextlib.contextmanager
def monitored(hosts: int, model_dir: str) -> Iterator[list[HostMonitor]]:
    """Yields the first hooks of the training inside: a `HostMonitor` if there are several hosts.
    Raises `Lost` if a host is lost, with the error that it reported in `model_dir`."""
    if hosts == 1:
        yield []
        return
    monitor = HostMonitor(model_dir)
    try:
        yield [monitor]
    except Lost as e:
        raise Lost(e.host, errors_of_hosts(model_dir)) from None
    except tf.errors.OpError as e:
        # The connection of this host may break before the monitor notices that the other host is
        # lost.
        if not monitor.lost and not isinstance(
            e, (tf.errors.UnavailableError, tf.errors.AbortedError)
        ):
            raise
        host = monitor.lost or missing() or "the connection to another host"
        raise Lost(host, errors_of_hosts(model_dir)) from None
    finally:
        monitor.stop()


class HostMonitor(tf.train.SessionRunHook):
    """Checks that all hosts answer while the session is created and during each step, and
    interrupts these if one does not. Not between steps: others may have finished while this host
    saves."""

    def __init__(self, model_dir: str):
        self._model_dir = model_dir
        self._session: Optional[tf.Session] = None  # once it is made, of all hosts
        self._in_step = True
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)
        self.lost: Optional[str] = None  # the name of the lost host

    def begin(self) -> None:
        self._looking.start()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._session, self._in_step = session, False

    def before_run(self, run_context: tf.train.SessionRunContext) -> None:
        self._in_step = True

    def after_run(
        self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues
    ) -> None:
        self._in_step = False

    def end(self, session: tf.Session) -> None:
        self.stop()

    def _look(self) -> None:
        # The monitor needs a thread of its own: the thread of the step waits in TensorFlow for the
        # lost host.
        while not self.lost:
            if self._ended.wait(_SECONDS_BETWEEN_LOOKS):
                return
            self.lost = lost(lambda: self._in_step, self._ended.wait)
        if self._session:  # the step ends with an error, except a first step, which may still wait
            threading.Thread(target=self._session.close, daemon=True).start()
        if not self._ended.wait(_SECONDS_TO_END):
            _end_program(Lost(self.lost, errors_of_hosts(self._model_dir)))

    def stop(self) -> None:
        """Ends the checks. Waits for a running one: a thread that returns from TensorFlow while the
        interpreter exits would abort the program."""
        self._ended.set()
        if self._looking.is_alive():
            self._looking.join()


def _end_program(error: BaseException) -> None:
    """Exits at once: other threads wait for the lost host in TensorFlow, beyond any interrupt."""
    _log.error("%s: %s", os.path.basename(sys.argv[0]), error)
    sys.stdout.flush()
    os._exit(1)
