"""Zips the prediction files of all GLUE tasks into one submission for the GLUE server."""

import dataclasses
import math
import os
import sys
import zipfile

from xlnet import cli, files
from xlnet.errors import UserError
from xlnet.settings.fields import required, setting

# Number of examples in the official test files.
ROWS = {"CoLA.tsv": 1063, "SST-2.tsv": 1821, "MRPC.tsv": 1725, "STS-B.tsv": 1379,
        "QQP.tsv": 390965, "MNLI-m.tsv": 9796, "MNLI-mm.tsv": 9847, "QNLI.tsv": 5463,
        "RTE.tsv": 3000, "WNLI.tsv": 146, "AX.tsv": 1104}


@dataclasses.dataclass(frozen=True)
class ZipSettings:
    """xlnet zip-glue: where the prediction files are."""
    input: str = required("files that run_classifier.py --do_predict=True wrote: 'model/*/*.tsv'; "
                          "other files are ignored", aliases=("predictions_glob",))
    output: str = setting("submission.zip", "file to write", aliases=("zip_file",))


def main(settings: ZipSettings) -> None:
    from xlnet.text import reading
    found: dict[str, str] = {}      # by official name
    for path in reading.find_files(settings.input, "input"):
        name = os.path.basename(path)
        if name in found:
            raise UserError("input: both %s and %s; expected one of them"
                            % (found[name], path))
        if name in ROWS:
            check(path)
            found[name] = path
    if not found:
        raise UserError("input: no file for the GLUE server (%s)" % ", ".join(ROWS))
    with files.replacing(settings.output) as temporary:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ROWS:
                if name in found:
                    archive.write(found[name], name)
    print("%s: %s" % (settings.output, ", ".join(name for name in ROWS if name in found)))
    missing = [name for name in ROWS if name not in found]
    if missing:
        print("note: missing: %s; the server wants all files" % ", ".join(missing),
              file=sys.stderr)


def check(path: str) -> None:
    """Raises UserError unless a file has the official columns and labels; prints a note about a
    wrong length."""
    from xlnet.tasks.types import known
    name = os.path.basename(path)
    with open(path, "rb") as f:
        lines = [_cells(path, number, line) for number, line in enumerate(f, 1)]
    if not lines or lines[0] != ["index", "prediction"]:
        raise UserError("%s:1: expected the columns index and prediction" % path)
    labels = next(task.labels for task in known.GLUE.values()
                  if name in task.submissions.values())
    for number, cells in enumerate(lines[1:], 2):
        if len(cells) != 2 or not _is_answer(cells[1], labels):
            raise UserError("%s:%d: '%s', expected an index and %s" % (
                path, number, " ".join(cells), "one of " + ", ".join(labels) if labels
                else "a score"))
    if len(lines) - 1 != ROWS[name]:
        print("note: %s has %d rows, the official file %d" % (path, len(lines) - 1, ROWS[name]),
              file=sys.stderr)


def _cells(path, number, line):
    text = files.utf8(line, "%s:%d" % (path, number), "a file that run_classifier.py wrote")
    return text.rstrip("\r\n").split("\t")


def _is_answer(text, labels):
    """Whether a prediction is one of the labels or, for a task without labels, a score."""
    if labels:
        return text in labels
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def run() -> None:
    cli.run(main, ZipSettings, about=__doc__, examples=(
        "--input='model/*/*.tsv'",))
