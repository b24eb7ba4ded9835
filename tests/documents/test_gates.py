"""The checks of .ci/run fail when they should: each is run on a copy with a fault in it."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from helpers.paths import ROOT

GATES = re.findall(r"^(?:\w+=\S+ )?check (.*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", "build", "dist", "site", "sample_run", "*.egg-info"
)

# Gate: the file that gets a fault at its end, the fault, and what the gate says of it.
FAULTS = {
    "ruff check": ("xlnet/errors.py", "\n\nimport os\n", "F401"),
    "ruff format --check": ("xlnet/errors.py", "\n\nx   =  1\n", "xlnet/errors.py:"),
    "mypy": ("xlnet/errors.py", '\n\n_COUNT: int = "one"\n', "Incompatible types in assignment"),
    "mkdocs build --strict": ("docs/how_to/gpu.md", "\n[here](nowhere.md)\n", "nowhere.md"),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gates") / "copy"
    shutil.copytree(ROOT, folder, symlinks=True, ignore=NOT_COPIED)
    return folder


def run(gate, folder):
    """A gate as .ci/run starts it: its status and what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(gate)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ, NO_MKDOCS_2_WARNING="1"),
    )
    return done.returncode, done.stdout


def test_each_gate_has_a_fault_here():
    assert set(GATES) == set(FAULTS)


@pytest.mark.parametrize("gate", GATES)
def test_a_gate_passes_and_fails_with_a_fault(gate, copy):
    module = gate.split()[0]
    pytest.importorskip(module, reason=f"{module} comes with scripts/setup.sh --dev")
    path, fault, said = FAULTS[gate]
    status, output = run(gate, copy)
    assert status == 0, output
    before = (copy / path).read_bytes()
    (copy / path).write_bytes(before + fault.encode())
    status, output = run(gate, copy)
    (copy / path).write_bytes(before)
    assert status != 0 and said in output, output


SIZES = ("C901", "PLR0912", "PLR0913", "PLR0915")


def test_exceptions_for_large_functions_only_shrink():
    """Each that pyproject.toml lists is needed."""
    ruff = pytest.importorskip("ruff", reason="ruff comes with scripts/setup.sh --dev")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = {
        (path, rule)
        for path, rules in re.findall(r'^"([\w/]+\.py)" = \[(.*)\]', text, re.MULTILINE)
        for rule in re.findall(r'"(\w+)"', rules)
        if rule in SIZES
    }
    arguments = re.search(r"^pylint\.max-args = (\d+)$", text, re.MULTILINE)[1]
    done = subprocess.run(
        [
            ruff.find_ruff_bin(),
            "check",
            "--isolated",
            "--select=" + ",".join(SIZES),
            "--config=lint.pylint.max-args=" + arguments,
            "--output-format=concise",
            *sorted({path for path, _ in listed}),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    found = set(re.findall(r"^(\S+?):\d+:\d+: (\w+) ", done.stdout, re.MULTILINE))
    assert listed - found == set(), "take these out of pyproject.toml"
