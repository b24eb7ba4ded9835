"""What a type checker of users sees: complete annotations of `xlnet.load` and its results."""

import os
import subprocess
import sys

import pytest
import typed_script
from helpers.paths import ROOT


def test_a_users_script_passes_strict_checks(tmp_path):
    pytest.importorskip("mypy", reason="mypy comes with scripts/setup.sh --dev")
    words = "-m mypy --strict --follow-imports=silent --config-file= --cache-dir=cache"
    done = subprocess.run(
        [sys.executable, *words.split(), ROOT / "examples" / "typed_script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=dict(os.environ, MYPYPATH=str(ROOT)),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_runs(model_of, permuted, quick_start):
    texts = ["Pack a button.", "Log a level."]
    labels = typed_script.labels_of(str(model_of("imdb")), texts)
    assert list(labels) == texts
    text, probability = typed_script.filled(str(permuted.folder), "kamat ___ telok")
    assert "___" not in text and 0 < probability < 1
