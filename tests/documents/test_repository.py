"""Files around the code: citation, container, templates."""

import collections
import json
import re
import shutil
import subprocess
import sys

import prepare_release
import pytest
from helpers.paths import ROOT

import xlnet

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


yaml = pytest.importorskip("yaml", reason="PyYAML comes with scripts/setup.sh --dev")


def test_the_version_is_said_everywhere_alike():
    """The citation is of the newest release; after it the library is .dev0 of a later one."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    released = re.search(r"^## \[(\d+\.\d+\.\d+)\]", CHANGELOG, re.MULTILINE)[1]
    assert citation["version"] == released
    ours, dev, _ = xlnet.__version__.partition(".dev0")
    if dev:
        assert "## [Unreleased]" in CHANGELOG
        assert [*map(int, ours.split("."))] > [*map(int, released.split("."))]
    else:
        assert ours == released
    paper = citation["preferred-citation"]
    assert paper["url"] == "https://arxiv.org/abs/1906.08237"
    assert len(paper["authors"]) == 6


def test_workflows_are_read_and_what_they_run_is_there():
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        for job in workflow["jobs"].values():
            for step in job["steps"]:
                # An action by the commit that was looked at: a tag may be another one tomorrow.
                action, run = step.get("uses", "a/b@" + 40 * "0"), step.get("run", "")
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)
                # A file that is written into the checkout would be in the archives.
                assert not re.search(r" > \w", run), run
                for script in re.findall(r"(?:scripts|\.ci)/[\w.]+", run):
                    assert (ROOT / script).is_file(), script
    dependabot = (ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8")
    updates = yaml.safe_load(dependabot)["updates"]
    found = [each["package-ecosystem"] for each in updates]
    assert found == ["github-actions", "docker"]


def test_a_release_checks_versions_and_makes_links_absolute(tmp_path):
    """On a copy: it writes into README.md and pyproject.toml."""
    for name in ("README.md", "pyproject.toml", "CITATION.cff", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "xlnet").mkdir()
    (tmp_path / "xlnet" / "__init__.py").write_text('__version__ = "9.9.9"\n')
    with pytest.raises(SystemExit, match=r"CITATION\.cff is not of version 9\.9\.9"):
        prepare_release.check_version(tmp_path, "9.9.9")
    (tmp_path / "xlnet" / "__init__.py").write_text('__version__ = "1.0.0"\n')
    notes = prepare_release.check_version(tmp_path, "1.0.0")
    assert "What 1.x keeps" in notes and "## [" not in notes
    prepare_release.write_addresses(tmp_path, "1.0.0", "https://example.org/a/xlnet")
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(r'(?:<img src="|!\[[^]]*\]\()([^")]+)', text)
    assert pictures
    for each in pictures:
        path = each.replace("https://example.org/a/xlnet/raw/v1.0.0/", "")
        assert path != each and (ROOT / path).is_file(), each
    assert "(https://example.org/a/xlnet/blob/v1.0.0/docs/how_to/install.md)" in text
    assert not re.search(r"\]\((?!https://|#)|(src|href)=\"(?!https://)", text)
    metadata = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    assert '\n[project.urls]\nRepository = "https://example.org/a/xlnet"\n' in metadata


def test_the_container_is_made_of_what_is_there():
    """As far as that can be seen without building it."""
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    found = collections.defaultdict(list)
    for line in re.sub(r"\\\n\s*", " ", dockerfile).splitlines():
        name, _, rest = line.partition(" ")
        found[name].append(rest)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    copied = []
    for words in map(str.split, found["COPY"]):
        copied += [word for word in words[:-1] if not word.startswith("--")]
    assert all((ROOT / path).exists() and path not in ignored for path in copied)
    for rest in found["RUN"]:
        command = re.sub(r"^(--mount=\S+ +)+", "", rest)
        subprocess.run(["bash", "-n", "-c", command], check=True)
    first, *others = found["FROM"]
    assert re.fullmatch(
        r"python:3\.13-slim-bookworm@sha256:[0-9a-f]{64} AS base", first
    )
    assert others == ["base AS serve", "base AS programs"]
    (serve, _), (flags, programs) = (
        map(json.loads, found[name]) for name in ("ENTRYPOINT", "CMD")
    )
    for words, named in ((serve[1:4], serve[4:] + flags), (programs[:1], programs[1:])):
        words = [sys.executable, *words, "--help"]
        done = subprocess.run(
            words, capture_output=True, text=True, cwd=ROOT, check=True
        )
        assert all(flag.split("=")[0] in done.stdout for flag in named)
    assert programs[0] in copied
    (pinned,) = re.findall(r"'tensorflow\[and-cuda\](==[\d.]+)'", dockerfile)
    locked = (ROOT / "scripts/locked/programs-2.21.txt").read_text(encoding="utf-8")
    assert f"tensorflow{pinned} " in locked
    # Neither root, nor one whose number an image may change.
    assert found["USER"] == ["10001"]
