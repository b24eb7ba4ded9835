"""The examples of --help are run as they are written, on small files of the names in them."""

import random
import shlex
import shutil

import pytest
from helpers import command
from helpers.finetuning import make_vocabulary
from helpers.paths import RELEASED

from xlnet.commands import classify as run_classifier
from xlnet.commands import fine_tuning, predict

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_start")]
WORDS = ("kamat", "telok", "solkit", "laskit")


def examples_of(module, monkeypatch):
    """The examples that a program gives to its command line."""
    found = []
    place = fine_tuning.cli if module is run_classifier else module.cli
    with monkeypatch.context() as patched:
        patched.setattr(
            place, "run", lambda *groups, examples, **more: found.extend(examples)
        )
        module.run()
    return [shlex.split(example) for example in found]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with the files that the examples name, and in it."""
    rng = random.Random(0)
    (tmp_path / "glue" / "SST-2").mkdir(parents=True)
    for split in ("train", "dev", "test"):
        labels = [rng.randrange(2) for _ in range(12)]
        rows = [f"{WORDS[label]} ka\t{label}" for label in labels]
        (tmp_path / "glue" / "SST-2" / (split + ".tsv")).write_text(
            "\n".join(["sentence\tlabel", *rows]) + "\n"
        )
    for name, count in (("news.csv", 40), ("new.csv", 4)):
        topics = [rng.randrange(2) for _ in range(count)]
        (tmp_path / name).write_text(
            "title,text,topic\n"
            + "".join(
                "{},{} ka {},{}\n".format(
                    WORDS[topic], WORDS[topic + 2], i, ("art", "law")[topic]
                )
                for i, topic in enumerate(topics)
            )
        )
    for name in ("xlnet", "pretrained"):
        shutil.copytree(RELEASED, tmp_path / name)
        make_vocabulary(tmp_path / name / "spiece.model", 37)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_example_of_run_classifier_runs(folder, monkeypatch):
    known, own, predicts = examples_of(run_classifier, monkeypatch)
    done = command.succeed(
        "run_classifier.py",
        *known,
        "--train_steps=2",
        "--warmup_steps=0",
        "--train_batch_size=4",
        "--max_seq_length=16",
    )
    assert "eval sst-2 dev  step 2" in done.stdout
    assert list(
        (folder / "model" / "records").glob("*.tfrecord")
    )  # the default of output_dir
    shutil.rmtree(folder / "model")
    command.succeed("run_classifier.py", *own, "--max_seq_length=16")
    assert list((folder / "model" / "records").glob("*.tfrecord"))
    done = command.succeed("run_classifier.py", *predicts)
    assert done.stdout.splitlines()[0] == "id\tlabel\tp_art\tp_law\tgold"
    assert len(done.stdout.splitlines()) == 5

    one, several = examples_of(predict, monkeypatch)
    command.succeed("xlnet predict", *one)
    assert len((folder / "predictions.tsv").read_text().splitlines()) == 5
    (folder / "new").mkdir()
    for name in ("a.csv", "b.csv"):
        shutil.copy(folder / "new.csv", folder / "new" / name)
    command.succeed("xlnet predict", *several)
    assert len(list((folder / "predictions").iterdir())) == 2
