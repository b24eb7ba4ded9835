"""The field's words: house words that README.md and docs/ had until 0.3, and what to write."""

import re

import hooks
import pytest
from helpers.paths import ROOT

PAGES = ["README.md", "benchmarks/README.md", *sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*")
    if path.suffix in (".md", ".ipynb"))]

# A pattern, without regard to case, and the right word. Only what ordinary English has no use for.
HOUSE_WORDS = (
    (r"anew|made again", "again, regenerated"),
    (r"at hand", "available"),
    (r"beside", "alongside, next to, compared with"),
    (r"collapsed?", "degenerate"),
    (r"draws?|drawn|drawing", "sample (targets, orders); plot (curves)"),
    (r"faults?(?! injection)", "error, bug"),
    (r"go(es|ing)? on|taken up", "resume, continue"),
    (r"grades?|graded", "relevance, label"),
    (r"kinds? of (task|run|file)s?", "task type, type"),
    (r"made[- ]up", "generated (data); run on resume (an evaluation)"),
    (r"noise", "dropout mask, random bits"),
    (r"number formats?", "precision, dtype"),
    (r"pictures?", "plot, figure, image"),
    (r"products", "matmuls"),
    (r"settle[sd]?", "resolve, resolved"),
    (r"shares? of|as large a share", "fraction of, ratio"),
    (r"stands?|stood", "is, appears"),
    (r"streams of text", "text streams"),
    (r"told", "signalled, reported"),
    (r"truth", "references, gold labels"),
    (r"wholes?(?![- ](word|n-gram))", "complete, intact"),
    (r"whole numbers?", "integer"),
    (r"writ(e|es|ing|ten) on", "continue, generate text"),
    (r"(the )?authors' (code|program|repository)|the reference('s)?(?! (pages?|manual))",
     "the original implementation"),
)
# Where a house word has another meaning: (page, the words around it).
ALLOWED = ()


def words_of(page):
    """The prose of a page: without commands and outputs, inline code, and where links lead."""
    text = hooks._FENCED.sub("", hooks.text_of(ROOT / page))
    text = re.sub(r"(?<=\])\([^()\s]+\)|`[^`]*`|src=\"[^\"]*\"", " ", text)
    for allowed, around in ALLOWED:
        text = text.replace(around, " ") if allowed == page else text
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("page", PAGES)
def test_words_are_those_of_the_field(page):
    text = words_of(page)
    found = ["'%s' in '...%s...': write %s" % (
        hit[0], text[max(hit.start() - 30, 0):hit.end() + 30], right)
        for pattern, right in HOUSE_WORDS
        for hit in re.finditer(r"(?<![\w-])(%s)(?![\w-])" % pattern, text, re.IGNORECASE)]
    assert not found, "\n".join(["%s, see docs/reference/glossary.md" % page, *found])
