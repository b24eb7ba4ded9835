"""scripts/compare_long_documents.py: passages of books, and no stretch on both sides."""

import json

import compare_long_documents as script
import pytest
from helpers import command
from helpers.vocabulary import train_tiny_model

from xlnet.tokenization import Tokenizer

LEAST = 60


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two books of numbered paragraphs, hard-wrapped."""
    directory = tmp_path_factory.mktemp("books")
    train_tiny_model(directory / "tiny.model")
    for book, count in (("one", 90), ("two", 60)):
        (directory / (book + ".txt")).write_text("\n\n\n".join(
            "the cat %d\nsat on the mat of %s" % (i, book) for i in range(count)) + "\n")
    return directory


def made(place, **changes):
    settings = script.ComparisonSettings(**dict(dict(
        books=str(place), spiece_model_file=str(place / "tiny.model"), passage_tokens=LEAST,
        out_dir=str(place / "out"), passages_per_book=100), **changes))
    sizes = script.write_set(settings, Tokenizer(settings.spiece_model_file))
    rows = {name: [json.loads(line) for line in open(
        place / "out" / "data" / (name + ".jsonl"), encoding="utf-8")] for name in sizes}
    return rows, sizes


def numbers(rows, book):
    return [int(word) for row in rows if row["label"] == book for word in row["text"].split()
            if word.isdigit()]


def test_passages_are_long_enough_and_as_long_as_they_are_said_to_be(place):
    rows, sizes = made(place)
    tokenizer = Tokenizer(str(place / "tiny.model"))
    for name in rows:
        assert len(rows[name]) == len(sizes[name]) and min(sizes[name]) >= LEAST
        for row, size in zip(rows[name], sizes[name]):
            # Paragraphs are counted one by one; joined, their ends may make other pieces.
            assert abs(len(tokenizer.ids(row["text"])) - size) <= size // 10


def test_the_end_of_a_book_is_held_out_with_a_gap_before_it(place):
    rows, _ = made(place)
    for book in ("one", "two"):
        train, dev = numbers(rows["train"], book), numbers(rows["dev"], book)
        assert train == list(range(len(train)))                      # in order, nothing twice
        assert dev == list(range(dev[0], dev[0] + len(dev)))
        per_passage = len(dev) / sum(row["label"] == book for row in rows["dev"])
        assert dev[0] - train[-1] - 1 == pytest.approx(per_passage, abs=1)
    ids = [row["id"] for row in rows["train"] + rows["dev"]]
    assert len(set(ids)) == len(ids)


def test_some_passages_are_taken_from_all_over_a_book(place):
    everything, _ = made(place)
    rows, _ = made(place, passages_per_book=3)
    for book in ("one", "two"):
        every = [row["id"] for row in everything["train"] if row["label"] == book]
        some = [row["id"] for row in rows["train"] if row["label"] == book]
        assert len(some) == 3 and some[0] == every[0]
        assert every.index(some[2]) >= len(every) // 2
        assert sum(row["label"] == book for row in rows["dev"]) == 1


@pytest.mark.parametrize("flags, message", [
    (dict(books="nowhere"), "books: 0 *.txt in nowhere, expected two books or more"),
    (dict(ways="truncate,all"), "ways: no long_document 'all' (there are truncate, head_tail"),
    (dict(passage_tokens=900), "passages, expected three or more"),
    (dict(spiece_model_file="none.model"), "none.model")])
def test_refused(place, monkeypatch, flags, message):
    monkeypatch.chdir(place)
    flags = dict(dict(books=place, spiece_model_file="tiny.model", out_dir="refused"), **flags)
    done = command.run("scripts/compare_long_documents.py",
                       *("--%s=%s" % item for item in flags.items()))
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done
    assert message in done.stderr and not (place / "refused").exists()


def test_another_book_of_the_author_is_half_right(tmp_path):
    (tmp_path / "predictions_custom_dev.tsv").write_text(
        "id\tlabel\tp_x\na_one-dev-0\ta_one\t1\na_one-dev-1\ta_two\t1\na_one-dev-2\tb_one\t1\n"
        "c-dev-0\tc\t1\n")
    assert script.author_accuracy(str(tmp_path)) == 3 / 4
