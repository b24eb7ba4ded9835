"""Runs the commands of the documents: README.md, docs/, examples/.

Each page gets a scratch copy of the repository, in which its blocks are run one after the other.
"""

import dataclasses
import fnmatch
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import blocks
from place import ROOT

from xlnet import cli
from xlnet.errors import UserError
from xlnet.settings.fields import setting

PAGES = ("README.md", "docs/**/*.md", "examples/**/*.md")
FOLDERS = ("benchmarks", "configs", "docs", "documents", "examples", "scripts", "xlnet")
SAMPLE = "sample_run"       # what `given sample_run` copies
SAMPLE_STEPS = ("--pretrain_steps=30", "--finetune_steps=10")
SHOWN = 5                   # lines of a block that differ
TIMEOUT = 1800              # of a block [s]

ABOUT = """runs the commands of README.md, docs/ and examples/, each page in a scratch copy of the
repository, and says which fail. CONTRIBUTING.md says how blocks are marked.
"""
EXAMPLES = ("python scripts/documents/try_commands.py --pages='docs/tutorials/*'",)

# Replaces a program: adds what the block's mark says to its command line.
_STAND_IN = """#!/bin/bash
name=$(basename -- "${1:-}")
[ "$name" != -m ] || name=$2
more=()
for name in "$name" "${name}_${3:-}" "${name}_${3:-}_${4:-}"; do
    [ ! -f "$ADDED_FLAGS/$name" ] || mapfile -t more < "$ADDED_FLAGS/$name"
done
exec %s "$@" "${more[@]}"
"""
# A pipe fails with any of its programs; `head` reads to the end, lest they fail of writing to it.
_PRELUDE = """set -eo pipefail
trap 'pwd > %s' EXIT
head() { command head "$@"; cat > /dev/null; }
"""


@dataclasses.dataclass(frozen=True)
class TrySettings:
    """try_commands.py: which pages, and what with them."""
    pages: str = setting(",".join(PAGES), "pages, or patterns of them, with commas between")
    only_list: bool = setting(False, "say of each block how it is tried, and run none")
    keep: str = setting("", "directory that keeps the scratch copies; dropped if not given")


def pages(patterns):
    """The Markdown files of the repository that fit one of the patterns, README.md first."""
    found = [path.relative_to(ROOT).as_posix() for pattern in patterns
             for path in sorted(ROOT.glob(pattern))]
    return list(dict.fromkeys(found))


def main(settings):
    patterns = settings.pages.split(",")
    chosen = [page for page in pages(PAGES)
              if any(fnmatch.fnmatch(page, pattern) for pattern in patterns)] or pages(patterns)
    if not chosen:
        raise UserError("pages is '%s', but no page is called so" % settings.pages)
    of_pages = {page: list(blocks.of_page(page, (ROOT / page).read_text(encoding="utf-8")))
                for page in chosen}
    faults = ["%s: %s" % (block.place, wrong) for page in of_pages.values() for block in page
              for wrong in [blocks.fault(block, ROOT)] if wrong]
    if faults:
        raise UserError("blocks that are not marked as CONTRIBUTING.md says:\n  "
                        + "\n  ".join(faults))
    if settings.only_list:
        show(of_pages)
        return
    with tempfile.TemporaryDirectory() as scratch:
        failed = try_pages(of_pages, pathlib.Path(settings.keep or scratch).resolve())
    show_counts(of_pages)
    if failed:
        raise UserError("%d blocks did not do what they should: %s"
                        % (len(failed), ", ".join(failed)))


def show(of_pages):
    for page in of_pages.values():
        for block in page:
            if block.mark:
                print("%s  %s%s" % (block.place, block.mark.kind, ": " + " ".join(
                    block.mark.detail.split()) if block.mark.detail else ""))
    show_counts(of_pages)


def show_counts(of_pages):
    kinds = [block.mark.kind for page in of_pages.values() for block in page if block.mark]
    print(", ".join("%s %d" % (kind, kinds.count(kind)) for kind in blocks.KINDS if kind in kinds))


def try_pages(of_pages, scratch):
    """Runs the blocks of all pages; returns the places of those that failed."""
    failed = []
    for page, of_page in of_pages.items():
        if not any(is_run(block) and block.language for block in of_page):
            continue
        place = Place(scratch / re.sub(r"\W", "_", page))
        try:
            failed += [block.place for block in of_page
                       if is_run(block) and not try_block(block, place, scratch)]
        finally:
            place.end()
    return failed


def is_run(block):
    return block.mark is not None and block.mark.kind in ("run", "fails", "given")


def try_block(block, place, scratch):
    """Whether a block ends as it should; shows what it printed if not."""
    began = time.time()
    if block.mark.kind == "given" and block.mark.detail == SAMPLE:
        shutil.copytree(sample(scratch), place.tree / SAMPLE)
        return True
    flags = block.mark.flags if block.mark.kind in ("run", "fails") else {}
    status, output = place.run(block, flags)
    is_right = (status != 0) == (block.mark.kind == "fails")
    print("%s  %s  status %d, %.0f s" % (block.place, "as it should" if is_right else "FAILED",
                                         status, time.time() - began), flush=True)
    if not is_right:
        print("  | " + "\n  | ".join(output.splitlines()[-15:]), flush=True)
    elif not flags:
        for line in block.not_printed(output)[:SHOWN]:
            print("  note: shown there, but not printed here: " + line, flush=True)
    return is_right


def sample(scratch):
    """The directory of the sample's run, in few steps; made the first time."""
    directory = scratch / SAMPLE
    if not directory.exists():
        place = Place(scratch / "sample")
        command = [sys.executable, "scripts/run_sample.py", *SAMPLE_STEPS]
        done = subprocess.run(command, cwd=place.tree, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise UserError("the sample ended with status %d: %s" % (
                done.returncode, "\n".join(done.stdout.splitlines()[-15:])))
        os.rename(place.tree / SAMPLE, directory)
        place.end()
    return directory


class Place:
    """A scratch copy of the repository, in which the blocks of a page are run."""

    def __init__(self, directory: pathlib.Path):
        self.tree, self._aside = directory / "repository", directory / "aside"
        self._where, self._groups = self.tree, []
        if directory.exists():
            shutil.rmtree(directory)
        _copy_repository(self.tree)
        self._stand_ins(self._aside / "bin")
        _stand_in_environment(self.tree / ".venv", self._aside / "bin")

    def _stand_ins(self, directory):
        directory.mkdir(parents=True)
        programs = {"python": sys.executable, "python3": sys.executable, "bash": "/bin/bash"}
        written = {name: _STAND_IN % path for name, path in programs.items()}
        written["xlnet"] = "#!/bin/bash\nexec python -m xlnet \"$@\"\n"
        for name, text in written.items():
            (directory / name).write_text(text)
            (directory / name).chmod(0o755)

    def run(self, block, flags):
        """Runs a block; returns its status and what it printed."""
        added = self._aside / "flags"
        shutil.rmtree(added, ignore_errors=True)
        added.mkdir()
        for program, words in flags.items():
            (added / program).write_text("\n".join(words.split()) + "\n")
        script, log = self._aside / "block", self._aside / "log"
        if block.language == "python":
            script.write_text(block.text, encoding="utf-8")
            command = [sys.executable, str(script)]
        else:
            script.write_text(_PRELUDE % (self._aside / "where") + block.script(),
                              encoding="utf-8")
            command = ["/bin/bash", str(script)]
        environment = dict(os.environ, ADDED_FLAGS=str(added), PYTHONPATH=str(self.tree),
                           PATH="%s:%s:%s" % (self._aside / "bin", pathlib.Path(
                               sys.executable).parent, os.environ["PATH"]))
        with open(log, "wb") as f:
            process = subprocess.Popen(
                command, cwd=self._where, env=environment, stdin=subprocess.DEVNULL, stdout=f,
                stderr=subprocess.STDOUT, start_new_session=True)
            self._groups.append(process.pid)
            try:
                status = process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                status = 124
        if (self._aside / "where").exists():
            self._where = pathlib.Path((self._aside / "where").read_text().strip())
        return status, log.read_text(encoding="utf-8", errors="replace")

    def end(self):
        """Ends what the blocks have left running."""
        for group in self._groups:
            try:
                os.killpg(group, signal.SIGTERM)
            except ProcessLookupError:
                pass


def _copy_repository(directory):
    """What a clone has, without the tests."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in FOLDERS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, directory / name, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, directory)


def _stand_in_environment(directory, programs):
    """A .venv for commands that name it: the stand-ins, and what setup.sh takes for complete."""
    (directory / "bin").mkdir(parents=True)
    for program in programs.iterdir():
        (directory / "bin" / program.name).symlink_to(program)
    (directory / "bin" / "activate").write_text("")
    for stamp in (ROOT / ".venv").glob("*.cksum"):
        shutil.copy(stamp, directory)


if __name__ == "__main__":
    cli.run(main, TrySettings, about=ABOUT)
