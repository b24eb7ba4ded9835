"""token_store: tokens are used again exactly where they would be the same."""

import collections
import os
import random
import types

import numpy as np
import pytest
from helpers.windows import TOKENIZER

from xlnet.errors import UserError
from xlnet.settings.data import CorpusSettings
from xlnet.text import corpus, reading, token_store

TEXT = "ab c\n\nde\nf\n\ng hi\n\n" * 3


@pytest.fixture
def made(monkeypatch):
    """The chunks of which tokens have been made."""
    chunks, tokenize = [], corpus.tokenize

    def noted(chunk, *arguments):
        chunks.append(chunk)
        return tokenize(chunk, *arguments)

    monkeypatch.setattr(corpus, "tokenize", noted)
    return chunks


def store(tmp_path, tokenizer=TOKENIZER, **values):
    return token_store.TokenStore(
        str(tmp_path / "tokens"),
        CorpusSettings(input_glob="-", save_dir="-", sp_path="-", **values),
        tokenizer,
    )


def tokens(kept, chunks):
    """All tokens and counts."""
    found = [kept.tokenize(chunk) for chunk in chunks]
    counts = sum((collections.Counter(each.counts) for each in found), collections.Counter())
    return np.concatenate(
        [kept.read(chunk, 0, each.tokens) for chunk, each in zip(chunks, found)]
    ).tolist(), counts


def chunks_of(tmp_path, text=TEXT, size=10):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    return reading.cut([str(path)], size)


def test_tokens_that_are_there_are_not_made_again(tmp_path, made):
    chunks = chunks_of(tmp_path)
    first = tokens(store(tmp_path), chunks)
    assert made == chunks
    os.utime(tmp_path / "a.txt", (1, 1))  # the time of a file says nothing
    for values in (
        dict(seq_len=64),
        dict(num_streams=2, bi_data=False),
        dict(num_passes=3, seed=9),
        dict(num_task=3),
    ):
        assert tokens(store(tmp_path, **values), chunks) == first
    assert made == chunks
    for number, values in enumerate(
        [
            dict(split="train"),
            dict(split="train", heldout_share=0.3),
            dict(use_eod=False),
            dict(text_format="paragraphs"),
            dict(on_error="skip"),
            dict(tokenizer=types.SimpleNamespace(**dict(vars(TOKENIZER), sha256="b"))),
        ],
        2,
    ):
        tokens(store(tmp_path, **values), chunks)
        assert len(made) == number * len(chunks), values


@pytest.mark.parametrize(
    "values",
    [
        dict(),
        dict(split="train", heldout_share=0.5),
        dict(text_format="paragraphs", split="heldout", heldout_share=0.5),
    ],
)
def test_tokens_of_edited_text_are_those_of_the_edited_text(tmp_path, values):
    rng = random.Random(0)
    for number in range(8):
        place = tmp_path / str(number)
        place.mkdir()
        text = "".join(rng.choices(["a", " bc", ".", "\n", "\n\n", "\f", "T. U\n\n"], k=30))
        size = rng.choice([8, 20])
        kept = store(place, **values)
        tokens(kept, chunks_of(place, text, size))
        for _ in range(3):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice("d.\n") + text[at + rng.choice([0, 1, 1, 1]) :]
            chunks = chunks_of(place, text, size)
            fresh = store(place / (f"fresh{rng.randrange(10**9)}"), **values)
            assert tokens(kept, chunks) == tokens(fresh, chunks), (number, text)


def test_what_was_not_finished_is_not_there(tmp_path, monkeypatch):
    def broken(chunk, *arguments):
        yield np.zeros(3, np.uint32)
        raise KeyboardInterrupt

    chunk = chunks_of(tmp_path)[0]
    (tmp_path / "tokens").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(corpus, "tokenize", broken)
        with pytest.raises(KeyboardInterrupt):
            store(tmp_path).tokenize(chunk)
    assert os.listdir(tmp_path / "tokens") == []


def test_a_file_that_has_vanished_is_named(tmp_path):
    chunk = chunks_of(tmp_path)[0]
    store(tmp_path).tokenize(chunk)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(UserError, match="cannot read .*a.txt: No such file"):
        store(tmp_path).tokenize(chunk)
