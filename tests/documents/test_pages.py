"""The documents: links that lead somewhere, blocks that are marked, pages made from the code."""

import re

import blocks
import hooks
import pages
import programs
import pytest
import try_commands
from helpers.paths import ROOT

from xlnet.settings.fields import REQUIRED, default_of

MARKDOWN = sorted(path.relative_to(ROOT).as_posix() for path in [
    *ROOT.glob("*.md"), *ROOT.glob(".github/**/*.md"),
    *(path for folder in ("docs", "benchmarks", "examples")
      for path in (ROOT / folder).rglob("*.md"))])


def anchors(text):
    """The places of a page that links may name, as GitHub and the site make them of headings."""
    headings = re.findall(r"^#+ (.*)$", hooks._FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", heading.strip().lower()))
            for heading in headings} | set(re.findall(r'id="([^"]+)"', text))


def targets(text):
    """Where links lead, and the pictures that they stand on."""
    for _, label, target in hooks._LINK.findall(text):
        yield from (target, *targets(label))


def test_links_lead_to_what_is_there():
    """On the site `mkdocs build --strict` says so; these pages are read on GitHub too."""
    for page in MARKDOWN:
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in targets(hooks._FENCED.sub("", text)):
            path, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                assert target.startswith(("https://", "mailto:")), target
                continue
            led = (ROOT / page).parent / path if path else ROOT / page
            assert led.exists(), "%s links to %s" % (page, target)
            assert not anchor or anchor in anchors(led.read_text(encoding="utf-8")), target


def test_every_block_is_run_or_says_why_not():
    faults = ["%s: %s" % (block.place, wrong) for page in try_commands.pages(try_commands.PAGES)
              for block in blocks.of_page(page, (ROOT / page).read_text(encoding="utf-8"))
              for wrong in [blocks.fault(block, ROOT)] if wrong]
    assert not faults, "\n".join(["see CONTRIBUTING.md, Commands in the documents", *faults])


@pytest.fixture(scope="module")
def made():
    return pages.all_pages()


def test_each_program_has_a_page_with_all_of_its_flags(made):
    started = {path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.py"),
                                                              *(ROOT / "scripts").glob("*.py")]
               if "__main__" in path.read_text(encoding="utf-8")}
    found = programs.all_files()
    assert {file.path for file in found if file.path.endswith(".py")} == started
    for file in found:
        page = made["programs/" + pages.page_of(file.path)]
        for program in file.programs:
            assert (file.more or pages.about_text(program.about)) in page
            assert not program.settings or program.examples, program.command
            for name, field in program.settings.items():
                row, = re.findall('^.*<a id="%s">.*$' % name, page, re.MULTILINE)
                assert "`--%s`" % name in row
                default = default_of(field)
                assert ("**required**" if default is REQUIRED else str(default or "")) in row
                assert "`--%s`" % name in made[pages.FLAGS_PAGE]


def test_flags_that_the_documents_name_are_there():
    """None that is only accepted for the sake of older command lines; others' are in the set."""
    others = {"build", "gpus", "rm", "target", "no", "runner", "project", "logdir", "na", "dev",
              "full", "help", "helpfull", "config", "huggingface", "works",
              "dask_client_address", "map", "nodes", "ntasks", "requeue"}
    for file in programs.all_files():
        for program in file.programs:
            others.update(program.settings, *(
                field.metadata["aliases"] for field in program.settings.values()))
    named = {"%s: --%s" % (page, flag) for page in try_commands.pages(try_commands.PAGES)
             for flag in re.findall(r"(?<![\w-])--(\w+)", (ROOT / page).read_text(encoding="utf-8"))
             if flag not in others}
    assert not named


def test_a_row_says_default_values_unit_and_meaning(made):
    assert ('| <a id="mem_len"></a>`--mem_len` | `384` | integer from 0 [tokens] | length of '
            'the memory of earlier sequences; 0: none |') in made["programs/train_gpu.md"]
    assert "| `relu`, `gelu`, `gelu\\_erf`" not in made["reference/model_config.md"]
    assert "`ff_activation` | **required** | `relu`, `gelu`, `gelu_erf` |" in made[
        "reference/model_config.md"]


def test_links_and_marks_as_the_site_shows_them():
    text = ("[a](../../README.md#install) [b](rank.md) "
            "[![c](../../docs/images/masks.png)](rank.md) [d](../../xlnet/errors.py)\n\n"
            "<!-- not run: two machines -->\n```bash\n[e](../x.md)\n```\nend")
    assert hooks.say_marks(hooks.with_links_of_the_site(
        text, "docs/how_to/tag.md", "how_to/tag.md")) == (
        "[a](../index.md#install) [b](rank.md) [![c](../images/masks.png)](rank.md) "
        "[d](../source/xlnet/errors.py.md)\n\n<!-- not run: two machines -->\n```bash\n[e](../x.md)"
        "\n```\n\n<small>Not run by the checks: two machines.</small>\n\nend")


def test_the_stops_of_the_code_map_are_there(made):
    """Each names a module and what to read in it; the site lists all modules."""
    page = (ROOT / "docs" / "explanation" / "code.md").read_text(encoding="utf-8")
    stops = re.findall(
        r"^\d\. \[`([\w/]+\.py)`: `(\w+)`\]\(\.\./\.\./xlnet/(.*?)\)", page, re.MULTILINE)
    assert len(stops) == len(re.findall(r"^\d\. ", page, re.MULTILINE)) > 8
    for module, name, path in stops:
        text = (ROOT / "xlnet" / path).read_text(encoding="utf-8")
        assert module == path and re.search(r"(def|class) %s\b" % name, text), (path, name)
    assert all("`%s`" % path.stem in made["reference/modules.md"]
               for path in (ROOT / "xlnet").rglob("*.py") if path.stem != "__init__")
