"""The sample: made, trained on by scripts/run_sample.sh; vocabularies of it."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import recipes
import run_sample
from helpers import command
from helpers.paths import ROOT

SHA256 = "1e5cb66a3304e01c5b4442f13b61d732cf9706e8f3667e1af95a59fbab4c7c7e"
SPECIAL = "<unk> <s> </s> <cls> <sep> <pad> <mask> <eod> <eop>".split()


def run(command, *arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "xlnet", *command.split(), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=ROOT),
    )


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """The directory of the sample, made from somewhere else than the repository root."""
    directory = tmp_path_factory.mktemp("sample")
    done = run("sample", "--output=made", cwd=directory)
    assert done.returncode == 0, done.stderr
    assert "train.txt\n" in done.stdout and "test.tsv\n" in done.stdout
    return directory / "made"


def read_rows(path):
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    return [line.split("\t") for line in lines]


def test_the_sample_is_the_same_everywhere(sample):
    """Its texts do not depend on the Python that writes them; the licence is with them. Nothing
    held out is trained on, and no text says its label."""
    digest = hashlib.sha256()
    for path in sorted(sample.rglob("*.t*")):
        digest.update(path.read_bytes())
    assert digest.hexdigest() == SHA256
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in (sample / "LICENSE.txt").read_text()
    texts = (sample / "pretrain").glob("*.txt")
    train, held_out = (set(path.read_text("utf-8").split("\n")) for path in texts)
    assert train & held_out == {""}
    rows = read_rows(sample / "classify" / "train.tsv")[1:]
    assert len(rows) == 160
    assert not any(label in text.lower() for _, text, label in rows)


def test_vocabulary_has_the_special_ids_and_repeats(sample):
    """Of a part of the sample with paragraph ends, small enough to train on in a second."""
    import sentencepiece

    text = (sample / "pretrain" / "heldout.txt").read_text(encoding="utf-8")
    ended = text.rstrip("\n").replace("\n\n", " <eop>\n\n") + " <eop>"
    (sample / "short.txt").write_text(ended, encoding="utf-8")
    flags = ["--input_glob=short.txt", "--vocab_size=400", "--uncased"]
    for name in ("a.model", "b.model"):
        done = run("data vocabulary", "--sp_path=" + name, *flags, cwd=sample)
        assert done.returncode == 0 and not done.stderr, done.stderr
    assert (sample / "a.model").read_bytes() == (sample / "b.model").read_bytes()
    model = sentencepiece.SentencePieceProcessor(model_file=str(sample / "a.model"))
    pieces = [model.id_to_piece(i) for i in range(model.vocab_size())]
    assert len(pieces) == 400 and pieces[:9] == SPECIAL
    assert model.is_control(3) and not model.is_control(8)
    assert 8 in model.encode("an end <eop>") and 3 not in model.encode("a <cls>")
    assert not any(piece != piece.lower() for piece in pieces)


# ---- the scripts that run everything on it


@pytest.fixture(scope="module")
def small_sample(sample):
    """The sample with a part of its text, and of the rows to measure by."""
    folder = shutil.copytree(sample, sample.parent / "small")
    for name, size in (("train.txt", 200000), ("heldout.txt", 20000)):
        text = (folder / "pretrain" / name).read_bytes()[:size]
        (folder / "pretrain" / name).write_bytes(text[: text.rindex(b"\n") + 1])
    for name in ("dev", "test", "test_labels"):
        path = folder / "classify" / (name + ".tsv")
        path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:41]) + b"\n")
    return folder


@pytest.fixture
def stages(small_sample, monkeypatch, quick_start):
    """The programs that a script has run: in this process, on that sample."""
    done = []

    def stage(title, program, *arguments, **flags):
        done.append(program)
        if program == "xlnet sample":
            shutil.copytree(small_sample, flags["output"])
            return
        if program == "data_utils.py":
            # Forking copies the locks of TensorFlow's threads.
            arguments = ("--num_workers=1",)
        ended = command.run(program, *arguments, **flags)
        assert ended.returncode == 0, (title, ended.stderr)
        if program == "run_classifier.py":
            check_short(ended.stdout, flags["model_dir"])

    monkeypatch.setattr(run_sample, "stage", stage)
    monkeypatch.chdir(ROOT)
    return done


def check_short(output, model_dir):
    """What a newcomer reads before the first step, and finds in the directory."""
    before, has_steps, _ = output.partition("\nstep ")
    assert has_steps and before.count("\n") < 15, before
    names = {name.partition(".ckpt-")[0] for name in os.listdir(model_dir)}
    assert len(names - {"checkpoint"}) <= 10, names


def test_the_main_job(stages, tmp_path, capsys):
    steps = dict(pretrain_steps=2, finetune_steps=2)
    settings = run_sample.SampleSettings(out_dir=str(tmp_path / "run"), **steps)
    run_sample.main(settings)
    prepared = ["xlnet sample", "xlnet data vocabulary", *2 * ["data_utils.py"]]
    trained = ["train_gpu.py", *2 * ["run_classifier.py"]]
    assert stages == prepared + trained
    table = json.loads((tmp_path / "run" / "results.json").read_text())
    printed = capsys.readouterr().out
    for name, value in table.items():
        line = f"^{re.escape(name)} +{re.escape(value)}( |$)"
        assert re.search(line, printed, re.MULTILINE), name
    assert set(run_sample.EXPECTED) - set(table) == {"held-out perplexity, step 2000"}
    assert "expected" not in printed  # which is of the default steps
    # Two steps of training have hardly moved it away from guessing one of a thousand pieces.
    assert 800 < float(table["held-out perplexity, step 2"]) < 2500
    assert float(table["held-out perplexity, unigram frequencies"]) < 500
    assert 0 < float(table["dev accuracy, majority class"]) < 0.5
    tested = read_rows(tmp_path / "run" / "text" / "classify" / "test.tsv")
    predicted = read_rows(ROOT / table["predictions"])
    assert [row[0] for row in predicted] == [row[0] for row in tested]
    labels = read_rows(tmp_path / "run" / "text" / "classify" / "test_labels.tsv")
    right = np.mean([dict(labels)[row[0]] == row[1] for row in predicted[1:]])
    measured = table["test accuracy, fine-tuned from the pretrained model"]
    assert measured == f"{right:.3f}"


# ---- the shell script for newcomers


@pytest.fixture
def clone(tmp_path):
    """The repository under another name, without its environment."""
    for path in ROOT.iterdir():
        if path.name != ".venv":
            (tmp_path / path.name).symlink_to(path)
    return tmp_path


@pytest.mark.parametrize("words", (["train_gpu.py", "--help"], ["-m", "xlnet", "fill"]))
def test_a_program_without_the_environment_ends_in_one_line(words):
    done = subprocess.run(
        [sys.executable, "-S", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1 and not done.stdout
    assert "has no absl: in the clone, run" in done.stderr
    assert done.stderr.count("\n") == 1


def setup(clone, tmp_path, versions, **environment):
    """The stderr of setup.sh if PATH only has these Pythons, which only print their version: "3.9"
    is python3.9, "3=3.10" is python3 of version 3.10."""
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname", "rm"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    for name, _, version in (each.partition("=") for each in versions.split()):
        python = tmp_path / "bin" / ("python" + name)
        python.write_text(f'#!/bin/bash\n[ "$1" = -c ] && echo {version or name}\n')
        python.chmod(0o755)
    done = subprocess.run(
        ["bash", "scripts/run_sample.sh"],
        cwd=clone,
        capture_output=True,
        text=True,
        env=dict(environment, PATH=str(tmp_path / "bin")),
    )
    assert done.returncode in (1, 2, 4) and not done.stdout
    assert not (clone / ".venv").exists()
    return done.stderr


ANY = "setup.sh: TensorFlow 2.15 to 2.21 needs Python 3.9 to 3.13; found: "
NEWEST = "setup: making .venv with python"


@pytest.mark.parametrize(
    "versions, environment, said",
    (
        ("", {}, ANY + "none; get one (uv python install 3.13, conda, pyenv) or set "),
        ("3=3.14", {}, ANY + "python3 (3.14); get one"),
        (
            "3.13",
            {"TENSORFLOW": "2.15"},
            "setup.sh: TensorFlow 2.15 needs Python 3.9 to 3.11; found: none; get one",
        ),
        ("", {"TENSORFLOW": "2.16"}, "setup.sh: TENSORFLOW is '2.16', expected 2.15 o"),
        ("3.13 3.12", {}, NEWEST + "3.13\n"),
        ("3.14 3=3.14 3.9", {}, NEWEST + "3.9\n"),
        ("3.13 3.10", {"TENSORFLOW": "2.15"}, NEWEST + "3.10\n"),
    ),
)
def test_setup_chooses_a_python(clone, tmp_path_factory, versions, environment, said):
    printed = setup(clone, tmp_path_factory.mktemp("path"), versions, **environment)
    assert printed.startswith(said) and (printed.count("\n") == 1 or said[-1] == "\n")
