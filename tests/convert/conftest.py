"""A vocabulary for the golden folders of Hugging Face's library, whose tables have 41 rows."""

import random

import pytest
from helpers import vocabulary as vocabularies

SYLLABLES = "ka mat tel ok rok mi sol kit dar las nok le".split()


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "spiece.model"
    rng = random.Random(1)
    sentences = []
    for _ in range(200):
        words = ["".join(rng.choices(SYLLABLES, k=2)) for _ in range(8)]
        sentences.append(" ".join(words))
    return vocabularies.train(path, sentences, 41, user_defined=("<eop>", "3,"))
