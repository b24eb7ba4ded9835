"""The task type tagging: from files to rows, windows, records, predictions and metrics."""

import dataclasses
import random

import numpy as np
import pytest
from helpers import tasks
from helpers.finetuning import make_vocabulary
from helpers.tasks import read_rows

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.finetuning import TaggerSettings
from xlnet.support.errors import UserError
from xlnet.tasks import known
from xlnet.tasks.contract import balanced_weights
from xlnet.tasks.encoding import Layout
from xlnet.tasks.fields import InlineExample, Row
from xlnet.tasks.tagging import sentences
from xlnet.tasks.tagging.tags import Tags

TRAIN = "EU I-ORG\nsaid O\n\nPeter I-PER\nBlackburn I-PER\nParis I-LOC\nRome B-LOC\n"


def settings(directory, **more):
    return tasks.settings(directory, TaggerSettings, **more)


def make_task(directory, train=TRAIN, name="train.txt", **more):
    (directory / name).write_text(train, encoding="utf-8")
    return known.resolve_task(settings(directory / name, dev_share=0.0, **more))


def read(task, directory, text):
    (directory / "dev.txt").write_text(text, encoding="utf-8")
    return task.read(str(directory / "dev.txt"), need_labels=True)


# --- Files to rows


def test_the_train_file_has_the_tags(tmp_path):
    task = make_task(tmp_path)
    assert task.labels == ("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER")
    assert task.options.is_spaced
    first, second = read_rows(task, tmp_path, "train")
    assert (first.label, first.pairs[0]) == (("B-ORG", "O"), ("EU said", None))
    assert second.label == ("B-PER", "I-PER", "B-LOC", "B-LOC")
    task = make_task(tmp_path, "中 B-X\n国 M-X\n人 E-X\n, O\n", scheme="bmes")
    assert task.labels == ("O", "B-X", "M-X", "E-X", "S-X")
    assert not task.options.is_spaced


def test_files_are_found_by_a_part_of_their_names(tmp_path):
    for name in ("x.train", "x.testa", "test.char.bmes", "notes.md", "retrain.txt"):
        (tmp_path / name).write_text("EU B-ORG\n")
    found = known.resolve_task(settings(tmp_path)).files.by_split
    assert found == {"train": "x.train", "dev": "x.testa", "test": "test.char.bmes"}
    (tmp_path / "valid.txt").write_text(TRAIN)
    with pytest.raises(UserError, match="found valid.txt and x.testa, expected one"):
        known.resolve_task(settings(tmp_path))


def test_the_labels_are_those_of_the_model(tmp_path):
    trained = make_task(tmp_path, "a B-X\nb I-X\nc O\n")
    options = dataclasses.asdict(trained.options)
    stored = dict(labels=list(trained.labels), kind_options=options)
    task = known.resolve_task(settings(tmp_path, do_train=False), stored)
    with pytest.raises(UserError, match="dev.txt:1: found tag 'B-Y', expected one of"):
        read(task, tmp_path, "a S-Y\n")
    (row,) = read(task, tmp_path, "a S-X\nc O\nb B-X\nb E-X\n")
    assert task.labels == trained.labels and row.label == ("B-X", "O", "B-X", "I-X")


@pytest.mark.parametrize(
    "train, text, expected",
    [
        # Columns do not say where the spaces are: each word has the mark, or none has it.
        ("中 B-X\n国 I-X\n人 O\n", "在 EU国", "在EU国"),
        ("EU B-X\nsays O\n. O\n", "Go to EU.", " Go to EU ."),
        # Texts do. The first word is like one from columns.
        ('{"text": "在 EU 国人", "entities": [[5, 6, "X"]]}', "中 AB国", "中 AB国"),
        ('{"text": "In EU.", "entities": [[3, 5, "X"]]}', "Go to EU.", " Go to EU."),
    ],
)
def test_which_words_come_after_a_space(tmp_path, train, text, expected):
    task = make_task(tmp_path, train, "a.jsonl" if "{" in train else "a.txt")
    asked = task.row(InlineExample(text))
    words = asked.source.words
    after_space = task.after_space(asked.source)
    spaced = [" " * after + word for word, after in zip(words, after_space)]
    assert "".join(spaced) == expected


# --- Windows and arrays


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "sp.model"
    make_vocabulary(path, 37)
    return Tokenizer(str(path))


def encode(tokenizer, length, *examples):
    """Of (words, whether each comes after a space, ids of their tags)."""
    labels = tuple("abcde")
    task = dataclasses.replace(known.TASKS["conll2003"], labels=labels)
    rows = []
    for words, after_space, ids in examples:
        text, places = "", []
        for word, is_after in zip(words, after_space):
            text += " " * is_after
            places.append((len(text), len(text) + len(word)))
            text += word
        source = sentences.Sentence(tuple(words), {}, text, tuple(places))
        label = None if ids is None else tuple(labels[id] for id in ids)
        rows.append(Row("0", ((text, None),), label, source=source))
    return task.encode(rows, tokenizer, Layout(length))


def test_labels_are_at_the_first_pieces_of_words(tokenizer):
    words, after_space = ["kamat", "mi", "telok"], [True, True, False]
    arrays, windows, counts = encode(tokenizer, 24, (words, after_space, [2, 0, 1]))
    pieces = tokenizer.encode_words(words, after_space)
    flat = sum(pieces, [])
    padding = 22 - len(flat)
    places = padding + np.cumsum([0, len(pieces[0]), len(pieces[1])])
    ids = [0] * padding + flat + [tokenizer.sep_id, tokenizer.cls_id]
    assert windows.tolist() == [1] and arrays["input_ids"].tolist() == [ids]
    assert np.flatnonzero(arrays["word_starts"][0]).tolist() == places.tolist()
    assert np.flatnonzero(arrays["label_ids"][0]).tolist() == places.tolist()
    assert arrays["label_ids"][0, places].tolist() == [3, 1, 2]
    assert (counts.read.tolist(), counts.total.tolist()) == ([len(flat)], [len(flat)])


def test_each_word_of_a_long_sentence_is_tagged_once_in_order(tokenizer):
    rng = random.Random(0)
    for length in (7, 9, 16):
        count = rng.randint(30, 60)
        words = rng.choices(["kamat", "mi", "telok", "la", "kamat" * 9], k=count)
        gold = [rng.randrange(5) for _ in words]
        sentence, other = (words, [1] * count, gold), (["mi"], [1], None)
        arrays, counts, _ = encode(tokenizer, length, sentence, other)
        assert counts[0] > 5 and counts[1] == 1
        is_start = arrays["word_starts"] > 0
        assert (arrays["label_ids"][is_start][:-1] - 1).tolist() == gold
        assert not arrays["label_ids"][-1].any() and is_start[-1].sum() == 1
        # A network that says what the records say has all tags.
        ids = np.where(is_start, arrays["label_ids"] - 1, -1)
        ones = np.ones(ids.shape, np.float32)
        outputs = dict(values=ids, probabilities=ones)
        said, _ = known.TASKS["conll2003"].join(outputs, counts)
        assert said.ids.tolist() == gold
        firsts = [ids[0] for ids in tokenizer.encode_words(words, [1] * count)]
        assert arrays["input_ids"][is_start][:-1].tolist() == firsts
        # There is context on both sides, but at the ends.
        if length == 16:
            inner = np.flatnonzero(is_start[1 : counts[0] - 1].any(axis=0))
            assert 3 <= inner.min() and inner.max() <= 11


# --- From records to predictions


def tags_of(*ids):
    """What the network says of a sentence, each tag with the probability 0.9."""
    return Tags(np.array(ids), np.full(len(ids), 0.9, np.float32))


@pytest.fixture
def small(tmp_path):
    """A task, its rows, and answers to them."""
    task = make_task(tmp_path)
    values = []
    for names in ("B-ORG O", "B-PER I-PER B-LOC I-LOC"):
        values.append(tags_of(*(task.labels.index(name) for name in names.split())))
    return task, read_rows(task, tmp_path, "train"), values


def test_metrics_and_entities(small):
    task, rows, values = small
    result = task.evaluate(values, task.gold(rows), 0.5)
    # Found: ORG, PER and one LOC of two words; true: ORG, PER and two LOC.
    expected = {"f1": 4 / 7, "precision": 2 / 3, "recall": 0.5, "accuracy": 5 / 6}
    assert result == pytest.approx(expected) and list(result) == list(expected)
    # Entities have the mean probability of their tags.
    values[1] = values[1]._replace(probabilities=np.array([0.5, 0.7, 0.9, 1.0]))
    _, found = task.results(rows, values, 0.5)
    assert [entity.text for entity in found.entities] == [
        "Peter Blackburn",
        "Paris Rome",
    ]
    assert [entity.score for entity in found.entities] == pytest.approx([0.6, 0.95])


def test_weights_of_tags(small):
    task, rows, _ = small
    weights = balanced_weights(task, rows)
    assert weights[task.labels.index("B-LOC")] == pytest.approx(6 / (7 * 2))
    assert weights[0] == pytest.approx(6 / 7)
