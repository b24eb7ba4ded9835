"""Fault injection into files: subjects are damaged and read, case by case."""

import contextlib
import dataclasses
import faulthandler
import hashlib
import json
import logging
import multiprocessing
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback

import numpy as np

from helpers import mutations
from xlnet.support import errors
from xlnet.support.errors import UserError

SECONDS_TO_START = 100
SECONDS = 20  # limit of a read, which takes a fraction of a second
MOST_BYTES = 2 << 30
GOOD = ("as written", "one line", "made anew", "other content", "other version")


@dataclasses.dataclass(frozen=True)
class Case:
    """The `number`-th damage of a kind, by a seed, to a file of a subject."""

    subject: str
    kind: str
    number: int
    seed: int


@dataclasses.dataclass(frozen=True)
class Outcome:
    """what: one of `GOOD`, or what is wrong. detail: the error line or the traceback."""

    case: Case
    file: str
    what: str
    detail: str = ""


class Laboratory:
    """A subject in two versions, of which copies are damaged.

    values: the fingerprints of both, if they have been made.
    """

    def __init__(self, subject, folder, seed=0, values=None):
        self._subject, self._folder, self._seed = subject, pathlib.Path(folder), seed
        self._values = values or self._make()

    def description(self):
        """The arguments for the same laboratory in another process."""
        return self._subject.name, str(self._folder), self._seed, self._values

    def _make(self):
        for version in (0, 1):
            place = self._folder / str(version)
            place.mkdir(parents=True)
            self._subject.make(place, version)
        with quiet():
            return [
                fingerprint(self._subject.read(self._copy(version, "whole")))
                for version in (0, 1)
            ]

    def _copy(self, version, name):
        target = self._folder / name
        shutil.rmtree(target, ignore_errors=True)
        return shutil.copytree(self._folder / str(version), target)

    def cases(self, count):
        """The first `count` cases, of all kinds in turn."""
        return [
            Case(
                self._subject.name,
                mutations.KINDS[i % len(mutations.KINDS)],
                i // len(mutations.KINDS),
                self._seed,
            )
            for i in range(count)
        ]

    def try_case(self, case):
        """Damages a copy and reads it."""
        rng = mutations.rng_of(*dataclasses.astuple(case))
        folder = self._copy(0, "case")
        victims = sorted(
            {
                path
                for pattern in self._subject.victims
                for path in folder.glob(pattern)
                if path.stat().st_size
            }
        )
        victim = rng.choice(victims)
        name = str(victim.relative_to(folder))
        other = self._folder / "1" / name
        content = victim.read_bytes()
        spoiled = mutations.mutate(
            case.kind, content, other.read_bytes() if other.exists() else b"", rng
        )
        victim.write_bytes(spoiled)
        what, detail = self._read(folder)
        if what == "read":
            what = self._judge(detail, case)
        elif what == "one line":
            what, detail = self._judge_line(detail, victim)
        return Outcome(case, name, what, detail)

    def _read(self, folder):
        """("read", fingerprint), ("one line", text), or what is wrong and its traceback."""
        before, began = _memory("VmRSS"), time.monotonic()
        _forget_peak()
        try:
            with quiet(), _limited(), errors.translated_errors():
                result = "read", fingerprint(self._subject.read(folder))
        except (UserError, OSError) as e:
            result = "one line", str(e)
        except _TooLong:
            result = "hangs", traceback.format_exc()
        except BaseException:
            result = "traceback", traceback.format_exc()
        if _memory("VmHWM") - before > MOST_BYTES:
            result = "takes too much memory", result[1]
        if time.monotonic() - began > SECONDS:
            result = "hangs", result[1]
        return result

    def _judge(self, found, case):
        if found == self._values[0]:
            return "as written"
        if found == self._values[1]:
            return "other version"
        if found == fingerprint(None):
            return "made anew"
        is_edited = case.kind == "other value"  # as with an editor
        is_other = (
            not self._subject.is_checked
            or is_edited
            or case.kind in self._subject.valid
        )
        return "other content" if is_other else "wrong in silence"

    def _judge_line(self, line, victim):
        """The error must be one line that names the damaged file, or one that it belongs to."""
        if "\n" in line.strip():
            return "more than a line", line
        names = {
            victim.name,
            victim.name.split(".data-")[0],
            victim.name.rpartition(".index")[0],
            victim.parent.name,
        }
        if not any(name and name in line for name in names):
            return "does not name the file", line
        return "one line", line


def fingerprint(value):
    """A short text, equal for equal values."""
    digest = hashlib.sha256()
    _feed(digest, value)
    return digest.hexdigest()[:16]


def _feed(digest, value):
    if isinstance(value, np.ndarray):
        digest.update(repr((value.dtype, value.shape)).encode())
        digest.update(
            np.ascontiguousarray(value).tobytes()
            if value.dtype != object
            else repr(value.tolist()).encode()
        )
    elif isinstance(value, dict):
        for name in sorted(value, key=repr):
            digest.update(repr(name).encode() + b":")
            _feed(digest, value[name])
    elif isinstance(value, (list, tuple)):
        digest.update(b"[%d" % len(value))
        for each in value:
            _feed(digest, each)
    else:
        digest.update(repr(value).encode("utf-8", "surrogatepass") + b";")


def _memory(name):
    with open("/proc/self/status", encoding="ascii") as f:
        return next(
            int(line.split()[1]) << 10 for line in f if line.startswith(name + ":")
        )


def _forget_peak():
    with (
        contextlib.suppress(OSError),
        open("/proc/self/clear_refs", "w", encoding="ascii") as f,
    ):
        f.write("5")


class _TooLong(BaseException):
    pass


@contextlib.contextmanager
def _limited():
    """Raises if Python code takes too long; ends the process if other code does."""

    def stop(signum, frame):
        raise _TooLong()

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    faulthandler.dump_traceback_later(3 * SECONDS, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


@contextlib.contextmanager
def quiet():
    """Without the log lines, which are many."""
    log = logging.getLogger("xlnet")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


# ---- many cases


def try_cases(laboratory, cases, is_native):
    """Yields the `Outcome` of each case; native code runs in child processes, as it may crash."""
    if not is_native:
        yield from map(laboratory.try_case, cases)
        return
    rest = list(cases)
    while rest:
        done = _in_child(laboratory, rest)
        yield from done
        rest = rest[len(done) :]


def _in_child(laboratory, cases):
    """Outcomes of the first cases, up to one that ends the child; at least one."""
    with tempfile.NamedTemporaryFile("r") as lines:
        child = multiprocessing.get_context("spawn").Process(
            target=_tell, args=(*laboratory.description(), cases, lines.name)
        )
        child.start()
        child.join(SECONDS_TO_START + SECONDS * len(cases))
        if child.is_alive():
            child.kill()
            child.join()
        found = [
            json.loads(line) for line in lines.read().split("\n") if line.endswith("}")
        ]
    done = [Outcome(**dict(each, case=Case(**each["case"]))) for each in found]
    if child.exitcode:
        done.append(
            Outcome(
                cases[len(done)], "", "ends the process", f"status {child.exitcode}"
            )
        )
    return done


def _tell(name, folder, seed, values, cases, path):
    """Writes the outcomes of cases as lines of JSON; for a child process."""
    from helpers.subjects import SUBJECTS

    (subject,) = (subject for subject in SUBJECTS if subject.name == name)
    laboratory = Laboratory(subject, folder, seed, values)
    if subject.needs_tensorflow:  # its import takes longer than a case may
        import tensorflow  # noqa: F401
    with open(path, "w", encoding="utf-8") as f:
        for case in cases:
            f.write(json.dumps(dataclasses.asdict(laboratory.try_case(case))) + "\n")
            f.flush()
