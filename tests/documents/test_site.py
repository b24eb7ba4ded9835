"""The site of the documents, as mkdocs builds it; its own links are checked by --strict."""

import os
import re
import subprocess
import sys

import pytest
from helpers import command_lines
from helpers.paths import ROOT

pytest.importorskip("mkdocs", reason="mkdocs comes with scripts/setup.sh --dev")
if not (ROOT / ".site").is_dir():
    pytest.skip("the site is built in a checkout", allow_module_level=True)

REPOSITORY = "https://example.org/repository"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    command += ["--site-dir", str(folder)]
    urls = dict(SITE_URL="https://example.org/", REPO_URL=REPOSITORY)
    environment = {**os.environ, **urls, "EDIT_URI": "edit/main/"}
    environment["NO_MKDOCS_2_WARNING"] = "1"
    subprocess.run(command, cwd=ROOT, check=True, env=environment)
    return folder


def test_it_has_pages_and_pictures_but_no_code(site):
    assert not (site / "xlnet").exists() and not (site / "tests").exists()
    assert not list(site.rglob("*.py"))


def test_links_to_code_lead_to_files_of_the_repository(site):
    found = set()
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        found.update(re.findall(rf'"{REPOSITORY}/(?:blob|tree)/main/([^"#]+)', text))
    assert len(found) > 10
    assert not [path for path in found if not (ROOT / path).exists()]


def test_each_flag_has_its_place(site):
    page = (site / "docs/reference/programs.html").read_text(encoding="utf-8")
    there = set(re.findall(r'id="([^"]+)"', page))
    for program in command_lines.all_programs():
        if program.name.startswith("xlnet "):
            name = program.name[len("xlnet ") :].replace(" ", "-")
            assert there >= {f"{name}--{flag}" for flag in program.settings}, name
    assert there >= {"pretrain--train_steps", "classify--train_steps", "tag--scheme"}
