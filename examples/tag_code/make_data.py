"""Sentences of the sample in which names of Python are marked: data for run_tagger.py.

    python examples/tag_code/make_data.py names

A list of names marks them, as a gazetteer does. Half of the exceptions are left to the test file
alone, so that it shows whether the tagger has learned what an exception looks like, or the list.
"""

import builtins
import json
import os
import re
import sys
import zlib

SAMPLE = os.path.join("sample_run", "text", "pretrain")  # what run_sample.sh has made
MODULES = "asyncio ctypes json os re socket sys threading tkinter".split()
TYPES = "bytearray bytes dict float frozenset int str tuple".split()
EXCEPTIONS = [
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
]
_WORD = re.compile(r"\w+")


def label(word):
    """What a word is the name of; None for any other word."""
    if word in EXCEPTIONS:
        return "EXCEPTION"
    return "TYPE" if word in TYPES else "MODULE" if word in MODULES else None


def is_held_out(word):
    """Whether an exception is for the test file alone; the same ones on every run."""
    return word in EXCEPTIONS and zlib.crc32(word.encode()) % 2 == 0


def marked(sentence):
    """The entities of a sentence: [start, end, label], in characters."""
    return [
        [found.start(), found.end(), label(found[0])]
        for found in _WORD.finditer(sentence)
        if label(found[0])
    ]


def main(directory):
    files = {"train": [], "dev": [], "test": []}
    with open(os.path.join(SAMPLE, "train.txt"), encoding="utf-8") as f:
        sentences = sorted({line.strip() for line in f if 20 < len(line) < 200})
    for sentence in sentences:
        entities = marked(sentence)
        if not entities:
            continue
        if any(is_held_out(sentence[start:end]) for start, end, _ in entities):
            name = "test"
        else:
            name = "dev" if zlib.crc32(sentence.encode()) % 8 == 0 else "train"
        files[name].append({"text": sentence, "entities": entities})
    os.makedirs(directory, exist_ok=True)
    for name, rows in files.items():
        with open(os.path.join(directory, name + ".jsonl"), "w", encoding="utf-8") as f:
            f.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        print(
            "{}: {} sentences, {} names".format(
                name, len(rows), sum(len(row["entities"]) for row in rows)
            )
        )


if __name__ == "__main__":
    main(sys.argv[1])
