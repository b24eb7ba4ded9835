"""Writes a sample to try everything on: text to pretrain on, and a classification set.

Both are the documentation of Python 3.11.7, which `sample.zip` next to this file contains with its
licence, so that all computers have the same text. pretrain/: the language reference and the
docstrings of the standard library, 5 % of the documents in heldout.txt. classify/: docstrings with
their package as the label; few to train on, so that pretraining matters, and many to evaluate on.

Examples:
  xlnet sample --output=text
"""

import os
import zipfile

from xlnet.commands import cli
from xlnet.settings.fields import Settings, required
from xlnet.support import files

SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sample.zip")


class SampleSettings(Settings):
    """xlnet sample: where to."""

    output: str = required("directory for the sample")


def run() -> None:
    with cli.command(SampleSettings, about=__doc__) as line:
        settings: SampleSettings = line.settings[0]
        with zipfile.ZipFile(SAMPLE) as archive:
            for name in archive.namelist():
                path = os.path.join(settings.output, name)
                files.write_text(path, archive.read(name).decode("utf-8"))
                print(f"written: {path}")
