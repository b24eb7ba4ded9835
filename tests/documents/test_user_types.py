"""What a type checker of users sees: complete annotations of `xlnet.load` and its results."""

import os
import subprocess
import sys

import pytest
import typed_script
from helpers.paths import ROOT

SCRIPT = ROOT / "examples" / "typed_script.py"


def mypy(path, folder):
    pytest.importorskip("mypy", reason="mypy comes with scripts/setup.sh --dev")
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--follow-imports=silent",
            "--config-file=",
            "--cache-dir",
            folder / "cache",
            path,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        env=dict(os.environ, MYPYPATH=str(ROOT)),
    )


def test_a_users_script_passes_strict_checks(tmp_path):
    done = mypy(SCRIPT, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_does_not_fit_is_found(tmp_path):
    """So the types are there, but those of results, which depend on what is given."""
    wrong = {
        "model.clasify('a')": "clasify",
        "model.explain()": 'Missing positional argument "texts"',
        "model.attention('a', layers=1)": 'incompatible type "int"',
        "xlnet.load('a', device=3)": '"load" has incompatible type "int"',
    }
    path = tmp_path / "wrong.py"
    path.write_text(
        "import xlnet\nmodel = xlnet.load('model')\n{}\n".format("\n".join(wrong))
    )
    found = mypy(path, tmp_path).stdout
    for line, (code, words) in enumerate(wrong.items(), 3):
        assert any(
            each.startswith(f"wrong.py:{line}: error: ") and words in each
            for each in found.splitlines()
        ), (code, found)


def test_the_script_runs(model_of, permuted, quick_start):
    texts = ["Pack a button.", "Log a level."]
    labels = typed_script.labels_of(str(model_of("imdb")), texts)
    assert list(labels) == texts
    text, probability = typed_script.filled(str(permuted.folder), "kamat ___ telok")
    assert "___" not in text and 0 < probability < 1
