"""Data preparation goes on when killed; `tests/engine/test_resume.py` kills training."""

import random
import signal
import subprocess
import sys
import time

import pytest
from helpers import command, finetuning, pretraining
from helpers.paths import ROOT

from xlnet.support import files


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disturbed")
    pretraining.make_text(folder / "text.txt", seed=0, sentences=6000)
    finetuning.make_vocabulary(folder / "sp.model", 37)
    return folder


def start(inputs, target):
    flags = dict(seq_len=32, reuse_len=16, num_streams=4, num_passes=3, num_workers=2)
    flags.update(input_glob=inputs / "text.txt", sp_path=inputs / "sp.model")
    words = [ROOT / "data_utils.py", *command.flags(flags), f"--save_dir={target}"]
    return subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)


def finish(process):
    began = time.monotonic()
    assert process.wait(300) == 0
    return time.monotonic() - began


def digests(folder):
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder): files.sha256(str(path)) for path in paths}


def test_killed_data_preparation_goes_on(inputs, tmp_path):
    seconds = finish(start(inputs, tmp_path / "whole"))
    expected, rng = digests(tmp_path / "whole"), random.Random(0)
    for number, sent in enumerate((signal.SIGKILL, signal.SIGTERM)):
        target = tmp_path / str(number)
        process = start(inputs, target)
        time.sleep(rng.uniform(0.3, 0.9) * seconds)
        process.send_signal(sent)
        process.wait(60)
        finish(start(inputs, target))
        assert digests(target) == expected
