"""Release notes of a version: `python scripts/documents/release_notes.py --version=0.1.0`.

They are what CHANGELOG.md says of it, as Markdown; the workflow of a release takes them.
"""

import dataclasses
import re

from place import ROOT

from xlnet import cli
from xlnet.errors import UserError, did_you_mean
from xlnet.settings.fields import Settings, setting


@dataclasses.dataclass(frozen=True)
class NotesSettings(Settings):
    """release_notes.py: of which version."""
    version: str = setting("Unreleased", "version, with or without a v before it, or Unreleased")


def notes(changelog: str, version: str) -> str:
    """The part of a changelog about a version, without its heading.

    Raises:
      UserError: the changelog has no such version, or nothing about it.
    """
    parts = re.split(r"^## \[?([^\]\s]+)\]?.*\n", changelog, flags=re.MULTILINE)[1:]
    found = dict(zip(parts[::2], parts[1::2]))
    name = version[1:] if version.startswith("v") else version
    if name not in found:
        raise UserError("version: CHANGELOG.md has no '%s'%s (there are %s)" % (
            name, did_you_mean(name, found), ", ".join(found)))
    text = re.sub(r"^\[.*?\]: .*\n?", "", found[name], flags=re.MULTILINE).strip()
    if not text:
        raise UserError("version: CHANGELOG.md says nothing about %s" % name)
    return text


def main(settings):
    print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), settings.version))


if __name__ == "__main__":
    cli.run(main, NotesSettings, about="prints the release notes of a version")
