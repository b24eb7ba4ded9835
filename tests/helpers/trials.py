"""Fault injection: programs are killed at random moments (by a seed) and started again.

Checked are the files after the first start, and the result of the next one. Each
start is a fork of this process, which has imported TensorFlow but has no session.
"""

import collections
import contextlib
import functools
import gc
import importlib
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

from helpers import command, pretraining
from helpers.paths import ROOT
from helpers.programs import PROGRAMS, faults_of
from xlnet.support import errors

SAME = "the same result"
SIGNALS = (signal.SIGKILL, signal.SIGTERM)
_STARTS = 5  # of a trial, at most
_PATIENCE = 400  # [s] until a start counts as hanging
_LAUNCHERS_PATIENCE = 90  # [s] with the other hosts, when one has ended
_SECONDS_TO_STOP = 30


# ---- starts


def begin(what, log=os.devnull):
    """Starts a function in a fork of this process; returns the fork's number."""
    gc.freeze()  # the fork must not collect garbage of this process, such as sessions
    child = os.fork()
    if child:
        gc.unfreeze()
        return child
    os.setpgid(0, 0)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = sys.stderr = open(1, "w", encoding="utf-8")  # pytest has others
    status = 1
    try:
        what()
        status = 0
    except BaseException as e:
        print(errors.reason(e) if isinstance(e, Exception) else e)
    finally:
        sys.stdout.flush()
        os._exit(status)


def end(child):
    """Waits for a fork, kills it if it hangs; returns its status as `os.waitpid` does."""
    with _killed_when_late(child):
        return os.waitpid(child, 0)[1]


@contextlib.contextmanager
def _killed_when_late(child):
    late = threading.Timer(_PATIENCE, os.killpg, (child, signal.SIGKILL))
    late.start()
    try:
        yield
    finally:
        late.cancel()


def end_together(children):
    """Waits for the forks that are the hosts of a run; returns the status of each.

    Some time after one has ended, the others get SIGTERM, as from launchers: a host waits for a
    lost one without a limit. A host that this signal ends counts as ended well.
    """
    statuses, signalled, late = {}, False, time.monotonic() + _PATIENCE
    while len(statuses) < len(children):
        for child in set(children) - set(statuses):
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                statuses[child] = (
                    0 if signalled and status == signal.SIGTERM else status
                )
                late = min(late, time.monotonic() + _LAUNCHERS_PATIENCE)
        if time.monotonic() > late:
            for child in set(children) - set(statuses):
                _tell(
                    child,
                    signal.SIGTERM if statuses and not signalled else signal.SIGKILL,
                )
            signalled, late = True, time.monotonic() + _SECONDS_TO_STOP
        time.sleep(0.05)
    return [statuses[child] for child in children]


def _tell(child, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)


# ---- moments


class Seconds:
    """Some seconds after the start."""

    def __init__(self, seconds):
        self._seconds = seconds

    def prepare(self):
        """In the process, before all else."""

    @contextlib.contextmanager
    def awaited(self, children):
        time.sleep(self._seconds)
        yield


class Call:
    """Before the `number`-th call about files of the first process, which waits there until it has
    been disturbed."""

    def __init__(self, number):
        self._left = number

    def prepare(self):
        watch_calls(self._stop)

    def _stop(self, place):
        if not self._left:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGSTOP)
        self._left -= 1

    @contextlib.contextmanager
    def awaited(self, children):
        with _killed_when_late(children[0]):
            os.waitid(os.P_PID, children[0], os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        try:
            yield
        finally:
            _tell(children[0], signal.SIGCONT)


_FILE_CALLS = {
    "open",
    "stat",
    "access",
    "mkdir",
    "rmdir",
    "remove",
    "unlink",
    "replace",
    "rename",
    "listdir",
    "scandir",
    "utime",
    "fsync",
    "read",
    "write",
    "writelines",
    "flush",
    "close",
    "__exit__",
}


def watch_calls(what):
    """Calls `what(place)` before each call about files that the library makes in this thread;
    place: the function's name and the lines of the library that lead to it."""

    def watch(frame, event, function):
        if (
            event == "c_call"
            and function.__name__ in _FILE_CALLS
            and _is_about_files(function)
        ):
            lines = _lines_of_the_library(frame)
            if lines:
                what((function.__name__, *lines))

    sys.setprofile(watch)


def _is_about_files(function):
    owner = type(getattr(function, "__self__", None))
    return function.__module__ in ("posix", "io") or (
        owner.__module__ == "_io" and owner.__name__ not in ("BytesIO", "StringIO")
    )


def _lines_of_the_library(frame):
    """None during imports, which depend on whether modules are compiled."""
    lines = []
    while frame:
        file = frame.f_code.co_filename
        if "importlib" in file:
            return None
        if file.startswith(str(ROOT / "xlnet")):
            lines.append(f"{os.path.basename(file)}:{frame.f_lineno}")
        frame = frame.f_back
    return lines


# ---- trials


class Kills:
    """Trials of a program in its own folder: SIGKILL or SIGTERM at its first start; of two hosts to
    the first, the second, or both.

    Args:
      at_calls: moments are calls about files, not seconds; the trials go through the places of the
        library that make such calls.
    """

    def __init__(self, program, folder, seed=0, at_calls=False):
        self._program, self._seed = program, seed
        self._inputs, self._folder = (
            pathlib.Path(folder) / "inputs",
            pathlib.Path(folder),
        )
        self._inputs.mkdir(parents=True)
        importlib.import_module(program.module)
        # In another process: this one must have no session.
        assert end(begin(lambda: program.make(self._inputs), self._log)) == 0, (
            self._printed()
        )
        began = time.time()
        whole = self._new("whole")
        assert not any(self._run(whole)), self._printed()[-2000:]
        self._seconds = time.time() - began
        self._expected = program.results(whole)
        self.places = self._find_places() if at_calls else ()

    def _find_places(self):
        """For each place the numbers of its calls."""
        calls, found = [], self._folder / "calls"

        def work():
            watch_calls(calls.append)
            self._work(self._new("calls_of"), self._addresses(), 0)
            sys.setprofile(None)
            found.write_text(json.dumps(calls))

        assert end(begin(work, self._log)) == 0, self._printed()[-2000:]
        numbers = collections.defaultdict(list)
        for number, place in enumerate(json.loads(found.read_text())):
            numbers[tuple(place)].append(number)
        return list(numbers.values())

    def trial(self, number):
        """The outcome of the `number`-th trial, `SAME` if all is well."""
        rng = random.Random(repr((self._program.name, self._seed, number)))
        folder = self._new("trial")
        wrong = self._killed(folder, rng, number)
        faults = faults_of(folder)
        if faults:
            return f"a final name held a partial file: {faults[0]}"
        return wrong or self._gone_on(folder)

    def _killed(self, folder, rng, number):
        """The first start; returns what is wrong, or None."""
        sent, hosts = SIGNALS[number % len(SIGNALS)], self._program.hosts
        chosen = rng.choice([range(hosts), *([index] for index in range(hosts))])
        statuses = self._run(
            folder,
            self._moment(rng, number),
            lambda children: [_tell(children[index], sent) for index in chosen],
        )
        ended = [
            statuses[index]
            for index in range(hosts)
            if index not in chosen and os.WIFSIGNALED(statuses[index])
        ]
        return (
            f"a host that nobody killed ended by signal, or hung: {ended} {self._printed()[-1000:]}"
            if ended
            else None
        )

    def _gone_on(self, folder):
        for _ in range(_STARTS):
            # a start may keep a complete result
            if self._results(folder) == self._expected:
                return SAME
            if not any(self._run(folder)):  # 0 only of a run that has all of its steps
                break
        else:
            return f"does not go on: {self._printed()[-1000:]}"
        return SAME if self._results(folder) == self._expected else "another result"

    def _new(self, name):
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    @property
    def _log(self):
        return self._folder / "log"

    def _printed(self):
        return self._log.read_text() if self._log.exists() else ""

    def _run(self, folder, moment=None, disturb=None):
        """Starts the program, disturbs it and waits; returns the status of each process.

        Args:
          moment: when to disturb.
          disturb: function of the list of processes; None: nothing is disturbed.
        """
        self._log.unlink(missing_ok=True)
        addresses = self._addresses()

        def start(index):
            if moment and index == 0:
                moment.prepare()
            self._work(folder, addresses, index)

        children = [
            begin(functools.partial(start, index), self._log)
            for index in range(self._program.hosts)
        ]
        if disturb:
            with moment.awaited(children):
                disturb(children)
        return end_together(children) if len(children) > 1 else [end(children[0])]

    def _addresses(self):
        return [
            f"127.0.0.1:{port}" for port in pretraining.free_ports(self._program.hosts)
        ]

    def _work(self, folder, addresses, index):
        if len(addresses) > 1:
            os.environ["TF_CONFIG"] = json.dumps(
                {
                    "cluster": {"worker": addresses},
                    "task": {"type": "worker", "index": index},
                }
            )
        name, *flags = self._program.arguments(self._inputs, folder)
        done = command.run(name, *flags)
        print(done.stdout, done.stderr, sep="\n", flush=True)
        if done.returncode:
            os._exit(done.returncode)

    def _moment(self, rng, number):
        if self.places:
            return Call(rng.choice(self.places[number % len(self.places)]))
        return Seconds(rng.uniform(0, 1.05) * self._seconds)

    def _results(self, folder):
        """None where there are none yet."""
        try:
            return self._program.results(folder)
        except (IndexError, FileNotFoundError):
            return None


def try_all(names, times, seed=0, at_calls=False):
    """Kills the programs `times` times, or once at each place (times=0, `at_calls`); prints the
    outcomes, returns the number of bad ones."""
    wrong = 0
    for program in PROGRAMS:
        if program.name not in names:
            continue
        began, counts = time.time(), collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            trials = Kills(program, pathlib.Path(folder) / "trials", seed, at_calls)
            for number in range(times or len(trials.places)):
                what = trials.trial(number)
                counts[what.split(":")[0]] += 1
                if what != SAME:
                    wrong += 1
                    print("WRONG", program.name, number, what, flush=True)
        print(
            "| {} | {} | {} | {:.0f} s |".format(
                program.name,
                sum(counts.values()),
                ", ".join("{} {}".format(*item) for item in counts.items()),
                time.time() - began,
            ),
            flush=True,
        )
    return wrong
