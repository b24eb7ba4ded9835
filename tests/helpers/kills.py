"""Programs that are killed at moments drawn from a seed, and started again: what is left of the
first start, what comes of the next.

Each start is a copy of this process, which has TensorFlow loaded but no session: a kill costs what
the program itself takes, and not TensorFlow's import.
"""

import collections
import dataclasses
import hashlib
import importlib
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
from typing import Callable

from helpers import command, finetuning, pretraining
from helpers.paths import GOLDEN
from xlnet import failures

SIGNALS = (signal.SIGKILL, signal.SIGTERM)
_STARTS = 5             # of one trial, before it counts as one that never ends


@dataclasses.dataclass(frozen=True)
class Program:
    """module: what the program imports, imported once for all starts. make: function of a folder,
    fills it with what the program reads. arguments: function of (that folder, the folder of the
    results). results: function of the folder of the results: what is compared with that of a run
    that nothing interrupted."""
    name: str
    module: str
    make: Callable
    arguments: Callable
    results: Callable


# ---- what must be whole wherever it stands, and what is compared

def files_of(folder):
    """Checksums by name of all that has its final name."""
    return {str(path.relative_to(folder)): _digest(path) for path in sorted(folder.rglob("*"))
            if path.is_file() and not _is_unfinished(path.relative_to(folder))}


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


# Names that say themselves that they are not final, and journals, to which lines are added.
def _is_unfinished(path):
    return any(".partial-" in part or part in ("unfinished", "training.lock", "training.csv")
               or "tfevents" in part for part in path.parts) or path.suffix == ".parts"


def faults_of(folder):
    """What is not whole among the files that have their final names."""
    from xlnet.engine import checkpoint
    found = []
    for path in sorted(folder.rglob("*")) if folder.exists() else ():
        if not path.is_file() or _is_unfinished(path.relative_to(folder)):
            continue
        if path.suffix == ".json":
            try:
                json.loads(path.read_text())
            except ValueError as e:
                found.append("%s: %s" % (path, e))
        elif path.suffix == ".index" and "variables" not in path.parts:
            fault = checkpoint.fault_of(str(path)[:-len(".index")])
            found += [fault] if fault else []
        elif path.suffix == ".tfrecord":
            from xlnet.records import tfrecord
            damage = tfrecord.damage(str(path)) or (not path.stat().st_size and "is empty")
            found += ["%s: %s" % (path, damage)] if damage else []
        elif not path.stat().st_size:
            found.append("%s is empty" % path)
    return found


def _weights_and_losses(folder):
    """Of the last checkpoint, and of each step."""
    from helpers.damage import fingerprint
    from xlnet.engine import checkpoint
    step, prefix = checkpoint.all_prefixes(str(folder / "m"))[-1]
    names = sorted(checkpoint.names(prefix))
    curve = pretraining.curve(folder, "m").tolist() if (folder / "m" / "training.csv").exists() \
        else []
    evaluations = folder / "m" / "evaluations.json"
    return [step, fingerprint(list(checkpoint.arrays(prefix, names))), curve,
            evaluations.read_text() if evaluations.exists() else None]


def _saved_model(folder):
    """All of a SavedModel but its graph, in which nodes may come in another order."""
    return {name: digest for name, digest in files_of(folder).items()
            if not name.endswith(("saved_model.pb", "versions.json", "fingerprint.pb"))}


# ---- the programs

def make_sentences(folder, sentences=6000):
    pretraining.make_text(folder / "text.txt", seed=0, sentences=sentences)
    finetuning.make_vocabulary(folder / "sp.model", 37)


def _data_flags(inputs, folder):
    return ["data_utils.py", "--input_glob=%s" % (inputs / "text.txt"), "--seq_len=32",
            "--save_dir=%s" % (folder / "records"), "--sp_path=%s" % (inputs / "sp.model"),
            "--reuse_len=16", "--num_streams=4", "--num_workers=1", "--num_passes=3"]


def _pretraining_flags(inputs, folder):
    return ["train_gpu.py", *pretraining.flags_of(
        inputs, folder / "m", train_steps=12, save_steps=3, max_save=0, n_layer=1,
        eval_record_info_dir=inputs / "heldout", eval_steps=6)]


def _finetuning_flags(inputs, folder, *verbs, **changes):
    place = finetuning.Workspace(inputs)
    return ["run_classifier.py", *place.arguments(*(verbs or ("--do_train=True",)), **dict(dict(
        model_dir=folder / "m", output_dir=folder / "records", train_steps=12, save_steps=3,
        eval_steps=6), **changes))]


def _make_tuned(folder):
    finetuning.make_workspace(folder)
    done = command.run(*_finetuning_flags(folder, folder, train_steps=2))
    assert done.returncode == 0, done.stderr


def _make_tuned_apart(folder):
    """In a process of its own: this one must have no session."""
    assert run(lambda: _make_tuned(folder)) == 0


def _prediction_flags(inputs, folder):
    return _finetuning_flags(
        inputs, folder, "--do_predict=True", model_dir=inputs / "m", predict_dir=folder / "answers")


def _export_flags(inputs, folder):
    return ["scripts/export.py", "--model_dir=%s" % (inputs / "m"),
            "--export_dir=%s" % (folder / "served")]


def _make_theirs(folder):
    shutil.copytree(GOLDEN / "hf" / "sequence_classification", folder / "theirs")


def _conversion_flags(inputs, folder):
    return ["scripts/convert_checkpoint.py",
            "--source=%s" % (inputs / "theirs"), "--target=%s" % (folder / "ours")]


PROGRAMS = (
    Program("data preparation", "xlnet.text.preparation", make_sentences, _data_flags, files_of),
    Program("pretraining", "xlnet.pretraining.run", pretraining.make_place, _pretraining_flags,
            _weights_and_losses),
    Program("fine-tuning", "xlnet.finetuning.run", finetuning.make_workspace, _finetuning_flags,
            _weights_and_losses),
    Program("prediction", "xlnet.finetuning.run", _make_tuned_apart, _prediction_flags,
            lambda folder: files_of(folder / "answers")),
    Program("export", "xlnet.serving.export", _make_tuned_apart, _export_flags, _saved_model),
    Program("conversion", "xlnet.exchange.conversion", _make_theirs, _conversion_flags, files_of),
)


# ---- runs, and trials

def run(what, kill_after=None, number=signal.SIGKILL, log=os.devnull):
    """Runs a function in a copy of this process; returns how it ended, as `os.waitpid` does.

    kill_after: seconds after which the copy, and what it has started, gets the signal `number`.
    """
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        status = 1
        try:
            what()
            status = 0
        except BaseException as e:
            print(failures.reason(e) if isinstance(e, Exception) else e)
        finally:
            sys.stdout.flush()
            os._exit(status)
    if kill_after is not None:
        time.sleep(kill_after)
        try:
            os.kill(child, number)
        except ProcessLookupError:
            pass
    return os.waitpid(child, 0)[1]


class Trials:
    """Kills of a program in a folder of its own."""

    def __init__(self, program, folder, seed=0):
        self._program, self._seed = program, seed
        self._inputs, self._folder = pathlib.Path(folder) / "inputs", pathlib.Path(folder)
        self._inputs.mkdir(parents=True)
        importlib.import_module(program.module)
        program.make(self._inputs)
        began = time.time()
        whole = self._new("whole")
        status = self._run(whole)
        assert not status, (self._folder / "log").read_text()[-2000:]
        self._seconds = time.time() - began
        self._expected = program.results(whole)

    def _new(self, name):
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def _run(self, folder, **kill):
        name, *flags = self._program.arguments(self._inputs, folder)

        def start():
            done = command.run(name, *flags)
            print(done.stdout, done.stderr)
            if done.returncode:
                raise SystemExit(done.returncode)
        return run(start, log=self._folder / "log", **kill)

    def kill(self, number):
        """The `number`-th kill: what came of it, "the same result" if all is well."""
        rng = random.Random(repr((self._program.name, self._seed, number)))
        folder, sent = self._new("trial"), SIGNALS[number % len(SIGNALS)]
        self._run(folder, kill_after=rng.uniform(0, 1.05) * self._seconds, number=sent)
        faults = faults_of(folder)
        if faults:
            return "a final name held a partial file: %s" % faults[0]
        for _ in range(_STARTS):
            if self._results(folder) == self._expected:     # what is whole may be kept from a start
                return "the same result"
            if not self._run(folder) and self._is_done(folder):
                break
        else:
            return "does not go on: %s" % (self._folder / "log").read_text()[-1000:]
        return "the same result" if self._results(folder) == self._expected else "another result"

    def _results(self, folder):
        """None where there are none yet."""
        try:
            return self._program.results(folder)
        except (IndexError, FileNotFoundError):
            return None

    def _is_done(self, folder):
        """A run that was told to stop ends well, too, without all of its steps."""
        found = self._results(folder)
        return not isinstance(found, list) or found[0] == self._expected[0]


def try_all(times, seed=0, only=None):
    """Kills each program so many times; prints what came of it, returns how often it was wrong."""
    wrong = 0
    for program in PROGRAMS:
        if only not in (None, program.name):
            continue
        began, counts = time.time(), collections.Counter()
        with tempfile.TemporaryDirectory() as folder:
            trials = Trials(program, pathlib.Path(folder) / "kills", seed)
            for number in range(times):
                what = trials.kill(number)
                counts[what.split(":")[0]] += 1
                if what != "the same result":
                    wrong += 1
                    print("WRONG", program.name, number, what, flush=True)
        print("| %s | %d | %s | %.0f s |" % (program.name, times, ", ".join(
            "%s %d" % item for item in counts.items()), time.time() - began), flush=True)
    return wrong
