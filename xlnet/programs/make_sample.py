"""Makes a sample to try everything on, from the documentation that comes with this Python.

Pretraining text (pretrain/train.txt, heldout.txt): the language reference (`pydoc_data.topics`) and
the docstrings of the standard library. Classification (classify/train.tsv, dev.tsv, test.tsv,
test_labels.tsv): docstrings with their package as the label. Nothing is downloaded.
"""

import ast
import collections
import dataclasses
import hashlib
import itertools
import os
import random
import re
import sysconfig
from collections.abc import Iterable

from xlnet import cli, files
from xlnet.errors import UserError
from xlnet.settings.fields import required, setting

MOST_LABELS, FEWEST_LABELS = 8, 3
# Examples per label: few to train on, so that pretraining matters, and many to evaluate on.
MOST_ROWS = {"train": 20, "dev": 40, "test": 100}
FEWEST_ROWS = 90
HELDOUT_PERCENT = 5

# Not documentation of the standard library.
_SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "turtledemo",
            "__pycache__", "pydoc_data", "_pyrepl"}
_CODE = re.compile(r"^\s*(\.\.\.|\$ |[-=~^*#+|.\s]*$)|>>>|::=|\|.*\||\s{3,}\S+\s{3,}")
_BULLET = re.compile(r"^\s*([*+-]|\d+[.)])\s+")
_SENTENCE_END = re.compile(r"(?<=[a-z)\"'][.!?])\s+(?=[A-Z\"'(])")

Docstring = collections.namedtuple("Docstring", "module text")


@dataclasses.dataclass(frozen=True)
class SampleSettings:
    """xlnet sample: where to, and the seed of the split."""
    output: str = required("directory for the sample", aliases=("save_dir",))
    seed: int = setting(0, "seed of the choice and order of the examples")


def main(settings: SampleSettings) -> None:
    docstrings = read_docstrings(sysconfig.get_paths()["stdlib"])
    write_pretraining(documents(docstrings), os.path.join(settings.output, "pretrain"))
    write_classification(labelled(docstrings), os.path.join(settings.output, "classify"),
                         random.Random(settings.seed))


# Docstrings and prose.

def read_docstrings(directory: str) -> list[Docstring]:
    """Returns a `Docstring` for every module, class and function below `directory`, sorted by file.

    Files are parsed, never imported: importing the standard library has effects.
    """
    found = []
    for folder, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and "-" not in name)
        for name in sorted(name for name in names if name.endswith(".py")):
            path = os.path.join(folder, name)
            module = os.path.relpath(path, directory)[:-3].replace(os.sep, ".")
            found += [Docstring(module, text) for text in _docstrings_of(path)]
    return found


def _docstrings_of(path):
    with open(path, "rb") as f:
        try:
            tree = ast.parse(f.read())
        except (SyntaxError, ValueError):    # templates and samples of bad code
            return []
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    return [text for text in texts if text]


def sentences(text: str) -> list[str]:
    """Returns the sentences of the prose in `text`: no code, tables, headings or underlines."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [_BULLET.sub("", line) for line in paragraph.split("\n") if not _CODE.search(line)]
        found += _SENTENCE_END.split(" ".join(" ".join(lines).split()))
    return [sentence for sentence in found if _is_prose(sentence)]


def _is_prose(sentence):
    words = [word.strip("*`.,;:()\"'!?") for word in sentence.split()]
    plain = sum(word.replace("-", "").replace("'", "").isalpha() for word in words)
    return len(words) >= 4 and plain >= 0.75 * len(words) and sentence[-1] in ".!?:)\"'" \
        and sentence.isprintable()


# Pretraining text.

def documents(docstrings: Iterable[Docstring]) -> list[list[str]]:
    """Returns documents, lists of sentences: one for each topic of pydoc, one for each module."""
    try:
        from pydoc_data.topics import topics
        texts = [[topics[name]] for name in sorted(topics)]
    except ImportError:                      # left out of trimmed installations
        texts = []
    modules: dict[str, list[str]] = collections.defaultdict(list)
    for docstring in docstrings:
        modules[docstring.module].append(docstring.text)
    texts += modules.values()
    # A sentence is kept where it appears first: topics quote each other, and a held-out document
    # must not repeat the training text.
    seen: set[str] = set()
    found = []
    for group in texts:
        whole = dict.fromkeys(sentence for text in group for sentence in sentences(text))
        found.append([sentence for sentence in whole if sentence not in seen])
        seen.update(whole)
    return [document for document in found if document]


def write_pretraining(all_documents: Iterable[list[str]], directory: str) -> None:
    """Writes train.txt and heldout.txt; the split is by a hash of each document."""
    parts: dict[str, list[str]] = {"train": [], "heldout": []}
    for document in all_documents:
        text = "\n".join(document)
        digest = int(hashlib.sha256(text.encode("utf-8")).hexdigest(), 16)
        parts["heldout" if digest % 100 < HELDOUT_PERCENT else "train"].append(text)
    for name, texts in parts.items():
        if not texts:
            raise UserError("this Python carries too little documentation: no text for %s.txt; use "
                            "another Python" % name)
        path = os.path.join(directory, name + ".txt")
        files.write_text(path, "\n\n".join(texts) + "\n")
        joined = " ".join(texts)
        print("%s: %d documents, %d sentences, %d words" % (
            path, len(texts), sum(text.count("\n") + 1 for text in texts), len(joined.split())))


# Classification set.

def labelled(docstrings: Iterable[Docstring]) -> dict[str, list[str]]:
    """Returns `{label: texts}`: the first sentences of docstrings, by top-level package.

    Docstrings that name their package are left out: the name would give the label away. The texts
    may also be in the pretraining text, without labels, as in practice.
    """
    texts: dict[str, dict[str, bool]] = collections.defaultdict(dict)
    for module, docstring in docstrings:
        label, dot, _ = module.partition(".")
        text = " ".join(sentences(docstring)[:3])
        if dot and len(text.split()) >= 6 and label.strip("_") not in text.lower():
            texts[text][label] = True
    rows: dict[str, list[str]] = collections.defaultdict(list)
    for text, labels in texts.items():
        if len(labels) == 1:                 # the same text in two packages has no label
            rows[next(iter(labels))].append(text)
    return rows


def write_classification(rows: dict[str, list[str]], directory: str,
                         rng: random.Random) -> None:
    """Writes the packages with most texts as train, dev and test, and the labels of test."""
    labels = sorted((label for label in rows if len(rows[label]) >= FEWEST_ROWS),
                    key=lambda label: (-len(rows[label]), label))[:MOST_LABELS]
    if len(labels) < FEWEST_LABELS:
        raise UserError("this Python's standard library has %d packages with at least %d usable "
                        "docstrings, expected at least %d; use a full installation of Python"
                        % (len(labels), FEWEST_ROWS, FEWEST_LABELS))
    parts: dict[str, list[tuple[str, str]]] = {name: [] for name in MOST_ROWS}
    for label in labels:
        texts = iter(rng.sample(rows[label], len(rows[label])))
        for name, most in MOST_ROWS.items():
            parts[name] += [(text, label) for text in itertools.islice(texts, most)]
    for name, chosen in parts.items():
        rng.shuffle(chosen)
        _write_split([("%s-%d" % (name, i), text, label)
                      for i, (text, label) in enumerate(chosen)], directory, name)


def _write_split(rows, directory, name):
    header = ("id", "text", "label")
    path = os.path.join(directory, name + ".tsv")
    if name == "test":
        _write_tsv(path, header[:2], [row[:2] for row in rows])
        _write_tsv(os.path.join(directory, "test_labels.tsv"), (header[0], header[2]),
                   [(row[0], row[2]) for row in rows])
    else:
        _write_tsv(path, header, rows)
    counts = collections.Counter(row[2] for row in rows)
    print("%s: %d rows (%s)" % (path, len(rows), ", ".join(
        "%s %d" % item for item in sorted(counts.items()))))


def _write_tsv(path, header, rows):
    files.write_text(path, "".join("\t".join(row) + "\n" for row in [header, *rows]))


def run() -> None:
    cli.run(main, SampleSettings, about=__doc__, examples=(
        "--output=text",))
