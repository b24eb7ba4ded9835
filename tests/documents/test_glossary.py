"""The field's words: house words that README.md, docs/ and xlnet/ had, and what to write."""

import io
import re
import tokenize

import notebooks
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
    path = ROOT / page
    text = notebooks.as_markdown(notebooks.read(path)) if path.suffix == ".ipynb" else \
        path.read_text(encoding="utf-8")
    text = re.sub(r"^( *)(```+).*?^ *\2`* *$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(?<=\])\([^()\s]+\)|`[^`]*`|src=\"[^\"]*\"", " ", text)
    for allowed, around in ALLOWED:
        text = text.replace(around, " ") if allowed == page else text
    return re.sub(r"\s+", " ", text)


def house_words(text):
    return ["'%s' in '...%s...': write %s" % (
        hit[0], text[max(hit.start() - 30, 0):hit.end() + 30], right)
        for pattern, right in HOUSE_WORDS
        for hit in re.finditer(r"(?<![\w-])(%s)(?![\w-])" % pattern, text, re.IGNORECASE)]


@pytest.mark.parametrize("page", PAGES)
def test_words_are_those_of_the_field(page):
    found = house_words(words_of(page))
    assert not found, "\n".join(["%s, see docs/reference/glossary.md" % page, *found])


def texts_of(source):
    """(line, text) of comments, docstrings, messages and helps: strings of several words."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or token.type == tokenize.STRING and " " in token.string:
            text = re.sub(r"`[^`]*`|\\n", " ", token.string)
            yield token.start[0], re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("package", sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "xlnet").iterdir()
    if path.suffix == ".py" or path.is_dir() and path.name != "__pycache__"))
def test_code_has_the_words_of_the_field(package):
    """Comments, docstrings, helps and messages."""
    path = ROOT / package
    found = ["%s:%d: %s" % (file.relative_to(ROOT), line, word)
             for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
             for line, text in texts_of(file.read_text()) for word in house_words(text)]
    assert not found, "\n".join(["see docs/reference/glossary.md", *found])
