"""Small runs of data_utils.py: a folder of texts and a vocabulary for them."""

import dataclasses
import os
import pathlib
import random

from helpers import command, vocabulary

SEQ_LEN, REUSE_LEN = 64, 24
SHAPE = [f"--seq_len={SEQ_LEN}", f"--reuse_len={REUSE_LEN}"]


def make_documents(seed=0, count=12):
    """Returns documents as lists of sentences of invented words, some with an accent."""
    rng = random.Random(seed)
    syllables = "ka lo mi ré sun tor ve x".split()
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(120)]
    sentence = lambda: " ".join(rng.choices(words, k=rng.randint(4, 12))).capitalize()
    return [[sentence() + "." for _ in range(rng.randint(5, 15))] for _ in range(count)]


def files_of(directory):
    """The content of each file, by its name."""
    paths = pathlib.Path(directory).iterdir()
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


@dataclasses.dataclass
class Workspace:
    directory: str
    documents: list

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def run(self, *arguments, **names):
        """Runs data_utils.py; names: of a text, a vocabulary, a directory for the records."""
        default = dict(input_glob="text.txt", save_dir="out", sp_path="sp.model")
        paths = {flag: self.path(name) for flag, name in {**default, **names}.items()}
        return command.run("data_utils.py", *arguments, **paths)


def make_workspace(directory):
    """A `Workspace` with a vocabulary and texts, good and bad."""
    place = Workspace(directory, make_documents())
    texts = ["\n".join(sentences) for sentences in place.documents]
    lines = "\n".join(texts).replace("é", "e").split("\n")
    vocabulary.train(place.path("sp.model"), lines, 80)
    for name, content in {
        "text.txt": "\n\n".join(text + " <eop>" for text in texts).encode(),
        "latin.txt": "première\nvoilà\n".encode("latin-1"),
        "nul.txt": b"a\n\0\n",
        "blank.txt": b" \n\n",
    }.items():
        with open(place.path(name), "wb") as f:
            f.write(content)
    return place
