"""The commands of README.md, docs/ and examples/, run from top to bottom of each page as a reader
would: CONTRIBUTING.md says how. Without XLNET_TEST_ALL=1 those of one page."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

import pytest
from helpers.paths import ROOT
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, SkipParser

FOLDERS = [ROOT / "docs", ROOT / "examples"]
PAGES = sorted(page for folder in FOLDERS for page in folder.rglob("*.md"))
PAGES = ["README.md", *(page.relative_to(ROOT).as_posix() for page in PAGES)]
QUICK = ("docs/how_to/install.md",)
MAKE_THE_SAMPLE = ("README.md", "docs/tutorials/first_run.md")  # others find it
TIMEOUT = 1800  # of a block [s]
SAMPLE_STEPS = "--pretrain_steps=30 --finetune_steps=10"

# README.md has no comments: what comes before its blocks, by their beginning; None: it is not run.
README = {
    "git clone": None,
    "import xlnet": None,  # tests/inference/test_documentation.py runs it
    "bash scripts/run_sample.sh": "add run_sample.sh " + SAMPLE_STEPS,
    "xlnet data vocabulary": """
        mkdir text
        cp sample_run/text/pretrain/train.txt text
        add xlnet_data_vocabulary --vocab_size=1000
        add xlnet_pretrain --model_config_path=tiny --precision=fp32
        add xlnet_pretrain --train_steps=2 --warmup_steps=1""",
    "xlnet classify --config=custom-base": """
        rm -rf model; ln -s sample_run/pretrained model
        for file in train dev; do
            python -c 'import csv, sys
        rows = csv.DictReader(sys.stdin, delimiter="\\t")
        out = csv.writer(sys.stdout)
        out.writerow(["text", "topic"])
        out.writerows([row["text"], row["label"]] for row in rows)' \\
                < sample_run/text/classify/$file.tsv > $file.csv
        done
        mv train.csv news.csv; mv dev.csv new.csv""",
    "curl ": "for i in $(seq 60); do curl -s http://127.0.0.1:8501/health && break; sleep 1; done",
}

# In the place of a program: adds to its command line what `add` was given for the next block.
STAND_IN = """#!/bin/bash
name=$(basename -- "${1:-}")
[ "$name" != -m ] || name=$2
more=()
for each in "$name" "${name}_${3:-}" "${name}_${3:-}_${4:-}"; do
    [ ! -f "$ADDED/$each" ] || mapfile -t more < "$ADDED/$each"
done
exec %s "$@" "${more[@]}"
"""
# A pipe fails with any of its programs; `head` reads to the end, lest they fail of writing to it.
PRELUDE = """set -eo pipefail
trap 'pwd > "$ADDED.where"' EXIT
head() { command head "$@"; cat > /dev/null; }
add() { local name=$1; shift; printf '%s\\n' "$@" >> "$ADDED/$name"; }
"""


class Reader:
    """Runs the blocks of a page in a copy of the repository, each where the one before ended."""

    def __init__(self, directory: pathlib.Path):
        self.tree, self._added = directory / "repository", directory / "added"
        programs = directory / "bin"
        others = ".* tests site sample_run __pycache__ *.egg-info".split()
        ignored = shutil.ignore_patterns(*others)
        shutil.copytree(ROOT, self.tree, symlinks=True, ignore=ignored)
        self._added.mkdir()
        programs.mkdir()
        python, bash = STAND_IN % sys.executable, STAND_IN % "/bin/bash"
        for name, text in (("python", python), ("python3", python), ("bash", bash)):
            (programs / name).write_text(text)
        (programs / "xlnet").write_text('#!/bin/bash\nexec python -m xlnet "$@"\n')
        for path in programs.iterdir():
            path.chmod(0o755)
        (self.tree / ".venv").mkdir()  # for commands that name it
        (self.tree / ".venv" / "bin").symlink_to(programs)
        (programs / "activate").write_text("")
        for stamp in (ROOT / ".venv").glob("*.cksum"):  # setup.sh takes it for complete
            shutil.copy(stamp, self.tree / ".venv")
        self._environment = dict(
            os.environ,
            ADDED=str(self._added),
            PYTHONPATH=str(self.tree),
            PATH=f"{programs}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        )
        self._where, self._groups = self.tree, []

    def run(self, script, is_shown=True):
        """Runs a script, which must end with status 0; is_shown: to the reader."""
        log = self._added.with_suffix(".log")
        with open(log, "wb") as f:
            process = subprocess.Popen(
                ["/bin/bash", "-c", PRELUDE + script],
                cwd=self._where,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=f,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._groups.append(process.pid)
            status = process.wait(TIMEOUT)
        assert status == 0, script + "\n" + log.read_text(errors="replace")[-3000:]
        where = self._added.with_suffix(".where").read_text().strip()
        self._where = pathlib.Path(where)
        if is_shown:
            for path in self._added.iterdir():
                path.unlink()

    def end(self):
        """Ends what the blocks have left running."""
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)


@pytest.fixture
def reader(tmp_path):
    found = Reader(tmp_path)
    yield found
    found.end()


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Function that returns the directory of the sample's run, in few steps."""
    directory = tmp_path_factory.mktemp("sample")

    def made():
        if not (directory / "repository").exists():
            Reader(directory).run("python scripts/run_sample.py " + SAMPLE_STEPS)
        return directory / "repository" / "sample_run"

    return made


def commands(language, text):
    """What a shell is to run; of a console session the lines after `$`, without outputs."""
    if language == "python":
        return f"python << 'END_OF_BLOCK'\n{text}\nEND_OF_BLOCK\n"
    if language == "console":
        return "\n".join(re.findall(r"^\$ ((?:.*\\\n)*.*)", text, re.MULTILINE))
    return text


LANGUAGES = ("bash", "console", "python")


def read(page, evaluate, skipped=lambda why: None):
    """Calls `evaluate(language, text, is_shown)` with each block of a page that `sybil` finds, or
    `skipped` with the reason that the page gives."""

    def evaluator(example):
        is_shown = not example.document.text.startswith("<!--", example.start)
        evaluate(example.region.lexemes["arguments"], str(example.parsed), is_shown)

    parsers = [CodeBlockParser(language, evaluator) for language in LANGUAGES]
    for example in Sybil([*parsers, SkipParser()]).parse(ROOT / page).examples():
        try:
            example.evaluate()
        except unittest.SkipTest as e:
            skipped(str(e))


@pytest.mark.parametrize("page", PAGES)
def test_commands(page, reader, sample):
    if page not in QUICK and not os.environ.get("XLNET_TEST_ALL"):
        pytest.skip("XLNET_TEST_ALL=1 runs the commands of all pages")

    def evaluate(language, text, is_shown):
        scripts = README if page == "README.md" else {}
        for start, before in scripts.items():
            if text.startswith(start):
                if before is None:
                    return
                before = re.sub("^ {8}", "", before, flags=re.MULTILINE)
                reader.run(before, is_shown=False)
        reader.run(commands(language, text), is_shown)

    needs_sample = "sample_run" in (ROOT / page).read_text(encoding="utf-8")
    if needs_sample and page not in MAKE_THE_SAMPLE:
        shutil.copytree(sample(), reader.tree / "sample_run")
    read(page, evaluate)


def test_blocks_are_found_and_say_their_language():
    """A block without a language would not be run; each beginning in README.md is there once."""
    seen = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        fences = re.findall(r"^ *```(.*)$", text, re.MULTILINE)
        assert all(fences[::2]) and not any(fences[1::2]), page
        assert not set(fences[::2]) & {"sh", "shell", "py", "pycon"}, page
        shown = []
        note = lambda language, text, is_shown: shown.append(text) if is_shown else None
        read(page, note, skipped=shown.append)
        assert len(shown) == sum(language in LANGUAGES for language in fences[::2]), (
            page
        )
        seen += shown if page == "README.md" else []
    for start in README:
        assert sum(text.startswith(start) for text in seen) == 1, start
