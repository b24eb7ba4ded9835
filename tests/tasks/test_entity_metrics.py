"""Entities are counted as seqeval counts them."""

import random

import pytest

from xlnet.tasks.files import schemes
from xlnet.tasks.metrics import entity_metrics


def counts(found, true):
    return entity_metrics.by_label(*(
        [schemes.spans(line.split()) for line in lines] for lines in (found, true)))


def test_the_example_of_seqevals_description():
    """One of two entities has another beginning; F1 is 0.50, accuracy 0.80 there."""
    true = ["O O O B-MISC I-MISC I-MISC O", "B-PER I-PER O"]
    found = ["O O B-MISC I-MISC I-MISC I-MISC O", "B-PER I-PER O"]
    by_label = counts(found, true)
    assert entity_metrics.total(by_label).f1 == 0.5
    assert (by_label["MISC"].f1, by_label["PER"].f1) == (0, 1)
    assert entity_metrics.accuracy([line.split() for line in found],
                                   [line.split() for line in true]) == 0.8


def test_precision_and_recall_by_hand():
    """Three found, of which two are right; four true ones. Another label is another entity."""
    true = ["B-A O B-B O B-B O B-A"]
    found = ["B-A O B-B O B-A O O"]
    total = entity_metrics.total(counts(found, true))
    assert total == (2, 3, 4)
    assert (total.precision, total.recall) == (2 / 3, 0.5) and total.f1 == pytest.approx(4 / 7)


def test_no_entity_at_all():
    total = entity_metrics.total(counts(["O O"], ["O O"]))
    assert (total.precision, total.recall, total.f1) == (0, 0, 0)
    assert "micro avg" in entity_metrics.table(counts(["O"], ["O"]))


def test_the_table():
    lines = entity_metrics.table(counts(["B-A B-B B-B"], ["B-A B-A B-B"])).split("\n")
    assert [line.split() for line in lines] == [
        ["label", "precision", "recall", "f1", "entities"],
        ["A", "1.0000", "0.5000", "0.6667", "2"],
        ["B", "0.5000", "1.0000", "0.6667", "1"],
        ["micro", "avg", "0.6667", "0.6667", "0.6667", "3"],
        ["macro", "avg", "0.7500", "0.7500", "0.6667", "3"],
        ["weighted", "avg", "0.8333", "0.6667", "0.6667", "3"]]


@pytest.mark.filterwarnings("ignore")
def test_numbers_are_those_of_seqeval():
    library = pytest.importorskip("seqeval.metrics")
    rng = random.Random(0)
    tags = ["O", "B-X", "I-X", "B-Y", "I-Y"]
    for _ in range(50):
        true = [rng.choices(tags, k=rng.randint(1, 9)) for _ in range(6)]
        found = [[tag if rng.random() < .7 else rng.choice(tags) for tag in line] for line in true]
        by_label = entity_metrics.by_label(*(
            list(map(schemes.spans, lines)) for lines in (found, true)))
        total = entity_metrics.total(by_label)
        assert total.f1 == pytest.approx(library.f1_score(true, found))
        assert total.precision == pytest.approx(library.precision_score(true, found))
        assert total.recall == pytest.approx(library.recall_score(true, found))
        assert entity_metrics.accuracy(found, true) == pytest.approx(
            library.accuracy_score(true, found))
        report = library.classification_report(true, found, output_dict=True)
        for label, count in by_label.items():
            assert count.f1 == pytest.approx(report[label]["f1-score"])
