"""Entities are counted as seqeval counts them."""

from xlnet.tasks.files import schemes
from xlnet.tasks.metrics import entity_metrics


def counts(found, true):
    return entity_metrics.by_label(
        *([schemes.spans(line.split()) for line in lines] for lines in (found, true))
    )


def test_the_example_of_seqevals_description():
    """One of two entities has another beginning; F1 is 0.50, accuracy 0.80 there."""
    true = ["O O O B-MISC I-MISC I-MISC O", "B-PER I-PER O"]
    found = ["O O B-MISC I-MISC I-MISC I-MISC O", "B-PER I-PER O"]
    by_label = counts(found, true)
    assert entity_metrics.total(by_label).f1 == 0.5
    assert (by_label["MISC"].f1, by_label["PER"].f1) == (0, 1)
    assert (
        entity_metrics.accuracy([line.split() for line in found], [line.split() for line in true])
        == 0.8
    )


def test_no_entity_at_all():
    assert "micro avg" in entity_metrics.table(counts(["O"], ["O"]))


def test_the_table():
    lines = entity_metrics.table(counts(["B-A B-B B-B"], ["B-A B-A B-B"])).split("\n")
    assert [line.split() for line in lines] == [
        ["label", "precision", "recall", "f1", "entities"],
        ["A", "1.0000", "0.5000", "0.6667", "2"],
        ["B", "0.5000", "1.0000", "0.6667", "1"],
        ["micro", "avg", "0.6667", "0.6667", "0.6667", "3"],
        ["macro", "avg", "0.7500", "0.7500", "0.6667", "3"],
        ["weighted", "avg", "0.8333", "0.6667", "0.6667", "3"],
    ]
