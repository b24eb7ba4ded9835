"""Makes a checkout ready to be built for a release: what only its home knows is written into it.

    python scripts/prepare_release.py 2.0.0 https://github.com/OWNER/xlnet > /tmp/notes.md

checks that the version is that of the library, the citation and the changelog, makes the links of
README.md absolute (package indexes show it by itself), adds the addresses to pyproject.toml, and
prints the changelog's part about the version. The changes are for the build, and not committed.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A link or picture in Markdown or HTML that leads to a path of the repository.
_LINK = re.compile(
    r"(?P<before>!?\]\(|(?:src|href)=\")(?!https?:|mailto:|#)(?P<path>[^)\"\s]+)"
)


def main() -> None:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    version, repository = sys.argv[1], sys.argv[2].rstrip("/")
    notes = check_version(ROOT, version)
    write_addresses(ROOT, version, repository)
    print(notes)


def check_version(root: pathlib.Path, version: str) -> str:
    """The changelog's part about the version; exits where a file has another version."""
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    part = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)",
        changelog,
        re.M | re.S,
    )
    wanted = {
        "xlnet/__init__.py": f'__version__ = "{version}"\n',
        "CITATION.cff": f"\nversion: {version}\n",
    }
    for path, line in wanted.items():
        if line not in (root / path).read_text(encoding="utf-8"):
            sys.exit(f"prepare_release: {path} is not of version {version}")
    if not part or not part[1].strip():
        sys.exit(f"prepare_release: CHANGELOG.md has no part about {version}")
    return part[1].strip()


def write_addresses(root: pathlib.Path, version: str, repository: str) -> None:
    """Writes absolute links into README.md, and the project's addresses into pyproject.toml."""
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(absolute(text, repository, "v" + version), encoding="utf-8")
    metadata = root / "pyproject.toml"
    text = metadata.read_text(encoding="utf-8")
    addresses = "\n".join(
        [
            "[project.urls]",
            f'Repository = "{repository}"',
            f'Documentation = "{repository}/blob/v{version}/docs/README.md"',
            f'Changelog = "{repository}/blob/v{version}/CHANGELOG.md"',
            f'Issues = "{repository}/issues"',
            'Paper = "https://arxiv.org/abs/1906.08237"',
        ]
    )
    before, heading, after = text.partition("[project.optional-dependencies]")
    metadata.write_text(f"{before}{addresses}\n\n{heading}{after}", encoding="utf-8")


def absolute(text: str, repository: str, tag: str) -> str:
    """A page of the root with links to the files of a tag."""

    def address(match: "re.Match[str]") -> str:
        path = match["path"]
        is_picture = path.endswith((".gif", ".jpg", ".png", ".svg", ".webp"))
        kind = "raw" if is_picture else "tree" if (ROOT / path).is_dir() else "blob"
        return f"{match['before']}{repository}/{kind}/{tag}/{path}"

    return _LINK.sub(address, text)


if __name__ == "__main__":
    main()
