"""Small runs of data_utils.py: a folder of texts and a vocabulary for them."""

import dataclasses
import os
import random

from helpers import command, vocabulary

SEQ_LEN, REUSE_LEN = 64, 24
SHAPE = [f"--seq_len={SEQ_LEN}", f"--reuse_len={REUSE_LEN}"]


def make_documents(seed=0, count=12):
    """Returns documents as lists of sentences of invented words, some with an accent."""
    rng = random.Random(seed)
    words = [
        "".join(
            rng.choice(["ka", "lo", "mi", "ré", "sun", "tor", "ve", "x"])
            for _ in range(rng.randint(1, 4))
        )
        for _ in range(120)
    ]
    return [
        [
            " ".join(rng.choices(words, k=rng.randint(4, 12))).capitalize() + "."
            for _ in range(rng.randint(5, 15))
        ]
        for _ in range(count)
    ]


@dataclasses.dataclass
class Workspace:
    directory: str
    documents: list

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def run(
        self, *arguments, save_dir="out", input_glob="text.txt", sp_path="sp.model"
    ):
        return command.run(
            "data_utils.py",
            *arguments,
            input_glob=self.path(input_glob),
            save_dir=self.path(save_dir),
            sp_path=self.path(sp_path),
        )


def make_workspace(directory):
    """A `Workspace` with a vocabulary and texts, good and bad."""
    place = Workspace(directory, make_documents())
    vocabulary.train(
        place.path("sp.model"),
        (s.replace("é", "e") for d in place.documents for s in d),
        80,
    )
    for name, content in {
        "text.txt": "\n\n".join(
            "\n".join(d) + " <eop>" for d in place.documents
        ).encode(),
        "latin.txt": "première\nvoilà\n".encode("latin-1"),
        "nul.txt": b"a\n\0\n",
        "blank.txt": b" \n\n",
    }.items():
        with open(place.path(name), "wb") as f:
            f.write(content)
    return place
