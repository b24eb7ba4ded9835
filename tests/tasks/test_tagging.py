"""The task type tagging: from files to rows, records, predictions and metrics."""

import dataclasses

import numpy as np
import pytest
from helpers import tasks
from helpers.paths import DATA, FOLDERS, SPIECE
from helpers.tasks import read_rows

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.settings.finetuning import TaggerSettings
from xlnet.support.errors import UserError
from xlnet.tasks import custom, known
from xlnet.tasks.features.encoding import Layout
from xlnet.tasks.files import parsing, readers
from xlnet.tasks.tagging.tags import Tags
from xlnet.tasks.task import InlineExample
from xlnet.tasks.types.contract import class_weights

TRAIN = "EU I-ORG\nsaid O\n\nPeter I-PER\nBlackburn I-PER\nParis I-LOC\nRome B-LOC\n"


def write(directory, name, text):
    (directory / name).write_text(text, encoding="utf-8")


def settings(directory, **more):
    return tasks.settings(directory, TaggerSettings, **more)


def make_task(directory, train=TRAIN, scheme="bio2", **more):
    write(directory, "train.txt", train)
    return custom.resolve_task(settings(directory, scheme=scheme, **more))


def read(task, directory, text, name="dev.txt", need_labels=True):
    write(directory, name, text)
    return parsing.read_file(task, str(directory / name), need_labels)


# --- Files to rows


def test_the_train_file_has_the_tags(tmp_path):
    task = make_task(tmp_path, dev_share=0.0)
    assert task.labels == ("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER")
    assert task.options.is_spaced
    rows = read_rows(task, tmp_path, "train")
    assert [row.label for row in rows] == [
        ("B-ORG", "O"),
        ("B-PER", "I-PER", "B-LOC", "B-LOC"),
    ]
    assert [row.pairs[0] for row in rows] == [
        ("EU said", None),
        ("Peter Blackburn Paris Rome", None),
    ]
    task = make_task(tmp_path, "中 B-X\n国 M-X\n人 E-X\n, O\n", scheme="bmes")
    assert task.labels == ("O", "B-X", "M-X", "E-X", "S-X")
    assert not task.options.is_spaced


def test_files_are_found_by_a_part_of_their_names(tmp_path):
    for name in ("x.train", "x.testa", "test.char.bmes", "notes.md", "retrain.txt"):
        write(tmp_path, name, "EU B-ORG\n")
    task = custom.resolve_task(settings(tmp_path))
    assert task.files.by_split == {
        "train": "x.train",
        "dev": "x.testa",
        "test": "test.char.bmes",
    }
    for name in ("custom.train.1.tfrecord", "custom.dev.1.tfrecord"):
        write(tmp_path, name, "")
    assert custom.resolve_task(settings(tmp_path)).files.by_split == task.files.by_split
    write(tmp_path, "valid.txt", TRAIN)
    with pytest.raises(
        UserError, match="found valid.txt and x.testa, expected one of them"
    ):
        custom.resolve_task(settings(tmp_path))


def test_the_labels_are_those_of_the_model(tmp_path):
    trained = make_task(tmp_path, "a B-X\nb I-X\nc O\n")
    stored = dict(
        labels=list(trained.labels), kind_options=dataclasses.asdict(trained.options)
    )
    task = custom.resolve_task(settings(tmp_path, do_train=False), stored)
    with pytest.raises(
        UserError, match="dev.txt:1: found tag 'B-Y', expected one of O"
    ):
        read(task, tmp_path, "a S-Y\n")
    rows = read(task, tmp_path, "a S-X\nc O\nb B-X\nb E-X\n")
    assert task.labels == trained.labels and rows[0].label == ("B-X", "O", "B-X", "I-X")


def test_plain_labels(tmp_path):
    """Such as languages or parts of speech: entities of one word each."""
    task = make_task(
        tmp_path, "hoy SPA\nfriend ENG\ngo ENG\n! O\n", "plain", dev_share=0.0
    )
    assert task.labels == ("ENG", "O", "SPA")
    rows = read_rows(task, tmp_path, "train")
    values = [tags_of(2, 0, 2, 1)]
    result = task.scorer.evaluate(values, rows)
    assert (result["f1"], result["accuracy"]) == (pytest.approx(2 / 3), 0.75)
    (found,) = task.scorer.results(rows, values)
    assert [(one.label, one.text) for one in found.entities][1:] == [
        ("ENG", "friend"),
        ("SPA", "go"),
    ]


# --- Spaces between words


def spaced_words(task, rows):
    """The words of each row, with a space before those that are tokenized after one."""
    return [
        "".join(
            " " * after + word
            for word, after in zip(example.words, example.after_space)
        )
        for example in task.reader.examples(rows)
    ]


@pytest.mark.parametrize(
    "train, columns, text, expected",
    [
        ("中 B-X\n国 I-X\n人 O\n", "在\n中\n国\n", "在中国", "在中国"),
        ("中 B-X\n国 I-X\n人 O\n", "在\nEU\n国\n", "在 EU国", "在EU国"),
        ("EU B-X\nsays O\n. O\n", "Go\nto\nEU\n.\n", "Go to EU.", " Go to EU ."),
    ],
)
def test_a_model_of_columns_does_not_look_at_spaces(
    tmp_path, train, columns, text, expected
):
    """Columns do not say where the spaces are: each word has the space mark, or none has it."""
    task = make_task(tmp_path, train)
    from_columns = read(task, tmp_path, columns, need_labels=False)
    asked, _ = task.reader.row("0", InlineExample(text))
    for rows in (from_columns, [asked]):
        assert spaced_words(task, rows) == [expected]


@pytest.mark.parametrize(
    "train, text, expected",
    [
        ('{"text": "在 EU 国人", "entities": [[5, 6, "X"]]}', "中 AB国", "中 AB国"),
        ('{"text": "In EU.", "entities": [[3, 5, "X"]]}', "Go to EU.", " Go to EU."),
    ],
)
def test_a_model_of_texts_looks_at_their_spaces(tmp_path, train, text, expected):
    """The first word is like one from columns, whose sentences begin in the same way."""
    write(tmp_path, "train.jsonl", train)
    task = custom.resolve_task(settings(tmp_path / "train.jsonl", dev_share=0.0))
    asked, _ = task.reader.row("0", InlineExample(text))
    assert spaced_words(task, [asked]) == [expected]


# --- From records to predictions


def answers_of(task, arrays, counts):
    """The `Answers` of a network that says what the records say."""
    tags = np.where(arrays["word_starts"] > 0, arrays["label_ids"] - 1, -1)
    return task.head.join(
        dict(
            values=tags,
            probabilities=np.ones(tags.shape, np.float32),
            loss=np.zeros(len(tags), np.float32),
        ),
        counts,
    )


def tags_of(*ids):
    """What the network says of a sentence, each tag with the probability 0.9."""
    return Tags(np.array(ids), np.full(len(ids), 0.9, np.float32))


@pytest.fixture
def small(tmp_path):
    """A task, its rows, and answers to them."""
    task = make_task(tmp_path, TRAIN, dev_share=0.0)
    rows = read_rows(task, tmp_path, "train")
    return (
        task,
        rows,
        [
            tags_of(*(task.labels.index(tag) for tag in tags.split()))
            for tags in ("B-ORG O", "B-PER I-PER B-LOC I-LOC")
        ],
    )


def test_metrics_and_table(small):
    task, rows, values = small
    truth = task.scorer.gold_labels(rows)
    result = task.scorer.evaluate(values, truth)
    assert list(result) == ["f1", "precision", "recall", "accuracy"]
    # Found: ORG, PER and one LOC of two words; true: ORG, PER and two LOC.
    assert result["precision"] == pytest.approx(2 / 3) and result["recall"] == 0.5
    assert result["f1"] == pytest.approx(4 / 7) and result["accuracy"] == pytest.approx(
        5 / 6
    )
    table = task.scorer.table(values, truth, 0.5)
    assert "micro avg" in table


def test_entities_have_the_mean_probability_of_their_tags(small):
    task, rows, values = small
    values[1] = values[1]._replace(
        probabilities=np.array([0.5, 0.7, 0.9, 1.0], np.float32)
    )
    _, found = task.scorer.results(rows, values)
    assert [entity.text for entity in found.entities] == [
        "Peter Blackburn",
        "Paris Rome",
    ]
    assert [entity.score for entity in found.entities] == [
        pytest.approx(0.6),
        pytest.approx(0.95),
    ]


def test_weights_of_tags(small):
    task, rows, _ = small
    weights = class_weights(task, "balanced", rows)
    assert weights[task.labels.index("B-LOC")] == pytest.approx(6 / (7 * 2))
    assert weights[0] == pytest.approx(6 / 7)
    assert class_weights(task, "O:0.5", rows) == [0.5] + [1.0] * 6
    with pytest.raises(UserError, match="class_weights: found 'LOC', expected one of"):
        class_weights(task, "LOC:2", rows)


# --- The shared sets: every sentence, all of its words, each one tag

REAL = {
    "conll2003": (11297, 3250, 1696),
    "msra_ner": (1800, 300, 300),
    "resume_ner": (2865, 231, 238),
}


@pytest.mark.skipif(not SPIECE.exists(), reason="the data sets are not there")
@pytest.mark.parametrize("name", REAL)
@pytest.mark.slow
def test_real_files(name):
    folder = DATA / FOLDERS[name]
    task = known.TASKS[name]
    task = task.reader.from_train_file(
        readers.find_file(folder, task.files.by_split["train"])
    )
    assert ("M-LOC" in task.labels) is (name == "resume_ner")
    assert task.options.is_spaced is (name == "conll2003")
    tokenizer = Tokenizer(str(SPIECE))
    for split, count in zip(("train", "dev", "test"), REAL[name]):
        rows = read_rows(task, folder, split, need_labels=True)
        assert len(rows) == count
        rows = sorted(rows, key=lambda row: -len(row.label))[:300]
        arrays, counts = task.reader.encode(
            task.reader.examples(rows), tokenizer, Layout(64, long_document="split")
        )
        found = answers_of(task, arrays, counts).values
        assert task.scorer.evaluate(found, rows)["f1"] == 1
