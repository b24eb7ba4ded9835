"""The documents: links that lead somewhere, flags and modules that are there."""

import re

from helpers import command_lines
from helpers.paths import ROOT

import xlnet
from xlnet.inference.model import Model

_LINK = re.compile(r"(?<!`)(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCED = re.compile(r"^( *)(```+).*?^ *\2`* *$", re.DOTALL | re.MULTILINE)
DOCS, EXAMPLES, BENCHMARKS = (
    sorted((ROOT / folder).rglob("*.md"))
    for folder in ("docs", "examples", "benchmarks")
)
OF_PROJECT = [*ROOT.glob("*.md"), *ROOT.glob(".github/**/*.md")]
# Flags of docker, pip, SLURM, Beam, mkdocs, our scripts and absl.
OTHERS_FLAGS = """
build gpus rm target no na runner dask_client_address dask_partition_size logdir dev full help
helpfull config huggingface strict nodes ntasks signal
"""


def anchors(text):
    """The places of a page that links may name, as GitHub and the site make them of headings."""
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", text), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings]
    return {
        *(each.replace(" ", "-") for each in words),
        *re.findall(r'id="([^"]+)"', text),
    }


def targets(text):
    """Where links lead, and the pictures that they stand on."""
    for _, label, target in _LINK.findall(text):
        yield from (target, *targets(label))


def test_links_lead_to_what_is_there_and_pictures_have_a_text():
    """On the site `mkdocs build --strict` says so; these pages are read on GitHub too."""
    for page in (*OF_PROJECT, *DOCS, *EXAMPLES, *BENCHMARKS):
        text = _FENCED.sub("", page.read_text(encoding="utf-8"))
        assert "![](" not in text, page
        assert all("alt=" in tag for tag in re.findall(r"<img[^>]*>", text)), page
        for target in targets(text):
            path, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                assert target.startswith(("https://", "mailto:")), target
                continue
            led = page.parent / path if path else page
            assert led.exists(), f"{page} links to {target}"
            if anchor:
                assert anchor in anchors(led.read_text(encoding="utf-8")), target


def test_pages_are_few_and_short():
    """A page answers one question, and others link to it."""
    assert len(DOCS) <= 25
    pages = [*DOCS, ROOT / "README.md"]
    words = " ".join(page.read_text(encoding="utf-8") for page in pages).split()
    assert len([word for word in words if re.search(r"\w", word)]) <= 16000


def test_flags_that_the_documents_name_are_there():
    """None that is only accepted for the sake of older command lines."""
    known = set(OTHERS_FLAGS.split())
    for program in command_lines.all_programs():
        known.update(program.settings)
    for page in (ROOT / "README.md", *DOCS, *EXAMPLES):
        named = re.findall(r"(?<![\w-])--(\w+)", page.read_text(encoding="utf-8"))
        assert set(named) <= known, (page, set(named) - known)


def test_methods_that_newcomers_are_led_to_are_there():
    """In the right column: of a loaded model, or of the library."""
    page = (ROOT / "docs" / "how_to" / "come_from.md").read_text(encoding="utf-8")
    ours = "\n".join(re.findall(r"^\| .* \| (.*) \|$", page, re.MULTILINE))
    named = re.findall(r"\b(model|xlnet)\.(\w+)", ours)
    assert len(named) > 15
    for of, name in named:
        assert hasattr(Model if of == "model" else xlnet, name), name


def test_the_files_of_the_code_map_are_there():
    page = (ROOT / "docs" / "explanation" / "code.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\d+\. ", page, re.MULTILINE)) == 10
    for path, name in re.findall(r"\]\(\.\./\.\./xlnet/(\S+\.py)\) `(\w+)`", page):
        text = (ROOT / "xlnet" / path).read_text(encoding="utf-8")
        assert re.search(rf"(def|class) {name}\b", text), (path, name)
