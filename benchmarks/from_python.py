"""Start-up, first answer and further answers of a model from Python: a table for README.md here.

    python benchmarks/from_python.py --model=DIRECTORY

Everything is measured in a process of its own. Texts are made of random pieces of the vocabulary.
"""

import dataclasses
import json
import os
import subprocess
import sys
import time

import numpy as np
from repository import ROOT

from xlnet import cli
from xlnet.config import required, setting
from xlnet.tokenization import SPIECE_NAME, Tokenizer

BATCHES = (1, 32)


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings:
    """from_python.py: which model, which texts."""
    model: str = required("directory of a model that classifies texts")
    length: int = setting(96, "pieces of a text, of which more than the model's length are cut",
                          minimum=1)
    seconds: float = setting(10.0, "for which answers of each batch size are counted", above=0.0)
    in_process: bool = setting(False, "measure in this process; what the program starts itself "
                                      "with")


def main(settings):
    if settings.in_process:
        print(json.dumps(measure(settings)))
        return
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "benchmarks", "from_python.py"), "--in_process=True",
         *("--%s=%s" % (name, getattr(settings, name)) for name in ("model", "length", "seconds"))],
        stdout=subprocess.PIPE, check=True)
    show(json.loads(done.stdout.splitlines()[-1]))


def show(found):
    """A line for each thing that was timed: by the clock, and of processors."""
    print("| | seconds | processor seconds |")
    print("|---|---|---|")
    for name, (seconds, busy) in found.items():
        print("| %s | %.3g | %.3g |" % (name, seconds, busy))


class Clock:
    """Seconds since it was made: by the clock, and of the processors in this process."""

    def __init__(self):
        self._began = time.time(), time.process_time()

    def __call__(self):
        return time.time() - self._began[0], time.process_time() - self._began[1]


def measure(settings):
    """dict from what was timed to its `Clock`."""
    texts = made_up(os.path.join(settings.model, SPIECE_NAME), settings.length)
    clock = Clock()
    import xlnet
    model = xlnet.load(settings.model, batch_size=max(BATCHES))
    found = {"import and load": clock()}
    clock = Clock()
    model.classify(texts[0])
    found["first answer"] = clock()
    for size in BATCHES:
        model.classify(texts[:size])
        clock, done = Clock(), 0
        while clock()[0] < settings.seconds:
            model.classify([texts[(done + i) % len(texts)] for i in range(size)])
            done += size
        found["an answer, in batches of %d" % size] = tuple(one / done for one in clock())
    return found


def made_up(vocabulary, length):
    """Texts of about so many pieces."""
    tokenizer, random = Tokenizer(vocabulary), np.random.default_rng(0)
    words = np.flatnonzero(tokenizer.is_word_start & ~tokenizer.is_punctuation)
    words = [id for id in words.tolist() if id > 10]
    return [tokenizer.decode(random.choice(words, length)) for _ in range(max(BATCHES))]


if __name__ == "__main__":
    cli.run(main, BenchmarkSettings, about="measures a model from Python")
