"""Compares pretraining records with the checksums of their manifest."""

import dataclasses

from xlnet.commands import cli
from xlnet.settings.fields import Settings, required


@dataclasses.dataclass(frozen=True)
class VerificationSettings(Settings):
    """xlnet data verify: which records."""

    input: str = required("directory of records")


def main(settings: VerificationSettings) -> None:
    from xlnet.corpus.manifest import Manifest

    Manifest.read(settings.input, "input").verify(settings.input, "input")
    print(f"records in {settings.input} agree with their checksums")


def run() -> None:
    cli.run(main, VerificationSettings, about=__doc__, examples=("--input=records",))
