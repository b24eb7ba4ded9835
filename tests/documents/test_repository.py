"""Files around the code: citation, container, templates."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from helpers.paths import ROOT

import xlnet

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture
def yaml():
    return pytest.importorskip("yaml", reason="PyYAML comes with scripts/setup.sh --dev")


def test_the_version_is_said_everywhere_alike(yaml):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == xlnet.__version__
    assert f"## [{xlnet.__version__}]" in CHANGELOG
    paper = citation["preferred-citation"]
    assert paper["url"] == "https://arxiv.org/abs/1906.08237" and len(paper["authors"]) == 6


def test_workflows_and_templates_are_read(yaml):
    workflows = [
        yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    ]
    assert all(job["steps"] for workflow in workflows for job in workflow["jobs"].values())
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"):
        _, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
        assert {"name", "about", "labels"} == set(yaml.safe_load(head)) and body.strip()


@pytest.mark.parametrize(
    "setup_of_other, smoke, tests, changes, status, said",
    (
        (0, 0, 0, {}, 0, ""),
        (0, 1, 0, {}, 1, "smoke suite on TensorFlow 2.15 failed"),
        (0, 0, 1, {}, 1, ""),
        (4, 0, 0, {}, 0, "left out: no Python fits"),
        (4, 0, 0, {"CI_OTHER": "2.15"}, 1, "setup for TensorFlow 2.15 failed"),
        (1, 0, 0, {}, 1, "setup for TensorFlow 2.15 failed"),
        (1, 1, 0, {"CI_OTHER": "no"}, 0, ""),
    ),
)
def test_the_status_of_ci_is_that_of_all_and_its_last_line_the_tests(
    tmp_path, setup_of_other, smoke, tests, changes, status, said
):
    """With programs that do nothing in the places of those that it starts."""
    for path, text in {
        "scripts/setup.sh": f'[ -z "$VENV" ] || exit {setup_of_other}',
        "scripts/run_tests.sh": f"case $* in *@*) exit {smoke} ;; esac\necho all $*; exit {tests}",
        ".venv/bin/python": '[ "$1" != -c ] || echo 2.21',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / path).chmod(0o755)
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    done = subprocess.run(
        [tmp_path / ".ci" / "run", "-x"],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], **changes},
    )
    assert done.returncode == status and said in done.stdout, done.stdout
    assert ".ci/run: " not in done.stdout or said
    assert done.stdout.endswith("\nall --full -x\n")


def instructions():
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    return [line.split(" ", 1) for line in text.splitlines() if line and line[0] != "#"]


def test_the_container_is_made_of_what_is_there():
    """As far as that can be seen without building it."""
    allowed = {
        "FROM",
        "ARG",
        "RUN",
        "USER",
        "WORKDIR",
        "COPY",
        "ENV",
        "CMD",
        "EXPOSE",
        "HEALTHCHECK",
        "ENTRYPOINT",
    }
    assert {name for name, _ in instructions()} == allowed
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for name, rest in instructions():
        if name == "COPY":
            for source in [word for word in rest.split() if not word.startswith("--")][:-1]:
                assert (ROOT / source).exists() and source not in ignored
        if name == "RUN":
            assert subprocess.run(["bash", "-n", "-c", rest], check=False).returncode == 0
    assert [rest for name, rest in instructions() if name == "FROM"] == [
        "python:3.13-slim-bookworm AS base",
        "base AS serve",
        "base AS programs",
    ]
    (serve,), (flags, _) = (
        [json.loads(rest) for name, rest in instructions() if name == wanted]
        for wanted in ("ENTRYPOINT", "CMD")
    )
    done = subprocess.run(
        [sys.executable, *serve[1:4], "--help"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert all(flag.split("=")[0] in done.stdout for flag in serve[4:] + flags)
    pinned = re.search(r"'tensorflow\[and-cuda\](==[\d.]+)'", (ROOT / "Dockerfile").read_text())[1]
    locked = (ROOT / "scripts" / "locked" / "programs-2.21.txt").read_text(encoding="utf-8")
    assert f"tensorflow{pinned} " in locked
    for command in re.findall(
        r"(?:bash|python) ((?:scripts/)?\w+\.(?:sh|py))",
        (ROOT / "Dockerfile").read_text(encoding="utf-8"),
    ):
        assert (ROOT / command).is_file()
