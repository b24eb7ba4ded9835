"""The exceptions of the linter only shrink."""

import re
import subprocess

import pytest
from helpers.paths import ROOT

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
