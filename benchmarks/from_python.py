"""Start-up, first answer and further answers of a model from Python: a table for HISTORY.md.

    python benchmarks/from_python.py --model=DIRECTORY
    python benchmarks/from_python.py --spiece_model_file=spiece.model \
        --huggingface=.venv-benchmark/bin/python

Everything is measured in a process of its own. Without a model, one of XLNet-Base's size with
weights at random is made. Texts are made of words of the vocabulary. With --huggingface, the Python
of an environment that scripts/setup_benchmark.sh makes, that library's pipeline answers to the same
texts with the same weights, which xlnet convert writes for it.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from typing import Optional

import answering
from repository import ROOT
from untrained import make_model, make_texts

from xlnet import cli, files
from xlnet.errors import UserError
from xlnet.settings.fields import Settings, setting
from xlnet.tokenization.tokenizer import SPIECE_NAME


@dataclasses.dataclass(frozen=True)
class FromPythonBenchmark(Settings):
    """from_python.py: which model, which texts."""
    model: Optional[str] = setting(None, "directory of a model that classifies texts")
    spiece_model_file: Optional[str] = setting(
        None, "without a model: SentencePiece model of as many pieces as the network has")
    model_config_path: str = setting(os.path.join(ROOT, "configs/model/base.json"),
                                     "without a model: JSON with the architecture")
    length: int = setting(96, "pieces of a text, of which more than the model's length are cut",
                          minimum=1)
    seconds: float = setting(10.0, "for which answers of each batch size are counted", above=0.0)
    huggingface: Optional[str] = setting(None, "a Python that has torch and transformers: measure "
                                               "their pipeline, too")
    texts: Optional[str] = setting(None, "JSON file: measure these in this process and print JSON; "
                                         "what the program starts itself with")

    def check(self) -> None:
        super().check()
        if bool(self.model) == bool(self.spiece_model_file):
            raise UserError("expected one of model and spiece_model_file")
        if self.huggingface and not os.access(self.huggingface, os.X_OK):
            raise UserError("huggingface: %s is no program" % self.huggingface)


def main(settings):
    settings.check()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if settings.texts:
        print(json.dumps(answering.measure(
            lambda: load(settings.model), files.read_json(settings.texts, "texts")["texts"],
            settings.seconds)))
        return
    with tempfile.TemporaryDirectory(prefix="xlnet-from-python-") as directory:
        model = settings.model
        if not model:
            model = os.path.join(directory, "model")
            make_model(model, settings.model_config_path, settings.spiece_model_file)
        texts = os.path.join(directory, "texts.json")
        files.write_json(texts, {"texts": make_texts(
            os.path.join(model, SPIECE_NAME), settings.length, max(answering.BATCHES))})
        timed = {"xlnet.load": run(sys.executable, "benchmarks/from_python.py", "--model=" + model,
                                   "--texts=" + texts, "--seconds=%s" % settings.seconds)}
        if settings.huggingface:
            folder = os.path.join(directory, "theirs")
            subprocess.run([sys.executable, os.path.join(ROOT, "xlnet convert"),
                            "--source=" + model, "--target=" + folder], check=True,
                           stdout=subprocess.DEVNULL)
            timed["pipeline"] = run(settings.huggingface, "benchmarks/huggingface_pipeline.py",
                                    folder, texts, str(settings.seconds))
        show(timed)


def load(model):
    import xlnet
    loaded = xlnet.load(model, batch_size=max(answering.BATCHES))
    return lambda texts: [one.probabilities for one in loaded.classify(texts)]


def run(python, program, *arguments):
    """What a program prints last, JSON."""
    done = subprocess.run([python, os.path.join(ROOT, program), *arguments],
                          stdout=subprocess.PIPE)
    if done.returncode:
        raise UserError("%s %s failed, as it says above" % (python, program))
    return json.loads(done.stdout.splitlines()[-1])


def show(timed):
    """A line for each thing that was timed, by the clock and of processors, and how far apart the
    answers are. timed: what `answering.measure` returns, by what was measured."""
    print("| | %s |" % " | ".join("%s, %s" % (name, what) for name in timed
                                  for what in ("seconds", "processor seconds")))
    print("|---" * (1 + 2 * len(timed)) + "|")
    times, answers = zip(*timed.values())
    for name in times[0]:
        print("| %s | %s |" % (name, " | ".join(
            "%.3g" % seconds for each in times for seconds in each[name])))
    if len(answers) > 1:
        apart = max(abs(ours[label] - theirs[label])
                    for ours, theirs in zip(*answers) for label in ours)
        print("\nprobabilities of %d texts are at most %.2g apart" % (len(answers[0]), apart))


if __name__ == "__main__":
    cli.run(main, FromPythonBenchmark, about=__doc__)
