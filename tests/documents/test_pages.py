"""The documents: links that lead somewhere, flags and modules that are there."""

import re

from helpers import command_lines
from helpers.paths import ROOT

import xlnet
from xlnet.inference.model import Model

_LINK = re.compile(r"(?<!`)(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCED = re.compile(r"^( *)(```+).*?^ *\2`* *$", re.DOTALL | re.MULTILINE)
PAGES = [
    "README.md",
    *(
        path.relative_to(ROOT).as_posix()
        for folder in ("docs", "examples")
        for path in sorted((ROOT / folder).rglob("*.md"))
    ),
]
# Flags of docker, pip, SLURM, Beam, mkdocs, our scripts and absl.
OTHERS_FLAGS = """
build gpus rm target no na runner dask_client_address dask_partition_size logdir dev full help
helpfull config huggingface strict nodes ntasks signal
"""
MARKDOWN = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [
        *ROOT.glob("*.md"),
        *ROOT.glob(".github/**/*.md"),
        *(
            path
            for folder in ("docs", "benchmarks", "examples")
            for path in (ROOT / folder).rglob("*.md")
        ),
    ]
)


def anchors(text):
    """The places of a page that links may name, as GitHub and the site make them of headings."""
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", text), re.MULTILINE)
    return {
        re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", heading.strip().lower()))
        for heading in headings
    } | set(re.findall(r'id="([^"]+)"', text))


def targets(text):
    """Where links lead, and the pictures that they stand on."""
    for _, label, target in _LINK.findall(text):
        yield from (target, *targets(label))


def test_links_lead_to_what_is_there_and_pictures_have_a_text():
    """On the site `mkdocs build --strict` says so; these pages are read on GitHub too."""
    for page in MARKDOWN:
        text = _FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))
        assert "![](" not in text, page
        assert all("alt=" in tag for tag in re.findall(r"<img[^>]*>", text)), page
        for target in targets(text):
            path, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                assert target.startswith(("https://", "mailto:")), target
                continue
            led = (ROOT / page).parent / path if path else ROOT / page
            assert led.exists(), f"{page} links to {target}"
            assert not anchor or anchor in anchors(led.read_text(encoding="utf-8")), (
                target
            )


def test_pages_are_few_and_short():
    """A page answers one question, and others link to it."""
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    assert len(texts) <= 25
    texts.append((ROOT / "README.md").read_text(encoding="utf-8"))
    words = [word for text in texts for word in text.split() if re.search(r"\w", word)]
    assert len(words) <= 16000


def test_flags_that_the_documents_name_are_there():
    """None that is only accepted for the sake of older command lines."""
    known = set(OTHERS_FLAGS.split())
    for file in command_lines.all_files():
        for program in file.programs:
            known.update(program.settings)
    named = set()
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for flag in re.findall(r"(?<![\w-])--(\w+)", text):
            if flag not in known:
                named.add(f"{page}: --{flag}")
    assert not named


def test_methods_that_newcomers_are_led_to_are_there():
    """In the right column: of a loaded model, or of the library."""
    page = (ROOT / "docs" / "how_to" / "come_from.md").read_text(encoding="utf-8")
    ours = "\n".join(re.findall(r"^\| .* \| (.*) \|$", page, re.MULTILINE))
    named = re.findall(r"\b(model|xlnet)\.(\w+)", ours)
    assert len(named) > 15
    missing = {
        name
        for of, name in named
        if not hasattr(Model if of == "model" else xlnet, name)
    }
    assert not missing


def test_the_files_of_the_code_map_are_there():
    page = (ROOT / "docs" / "explanation" / "code.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\d+\. ", page, re.MULTILINE)) == 10
    for path, name in re.findall(r"\]\(\.\./\.\./xlnet/(\S+\.py)\) `(\w+)`", page):
        text = (ROOT / "xlnet" / path).read_text(encoding="utf-8")
        assert re.search(rf"(def|class) {name}\b", text), (path, name)
