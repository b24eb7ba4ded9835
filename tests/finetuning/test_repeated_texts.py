"""Rows to evaluate that are trained on, and labels that contradict each other."""

from xlnet.finetuning.data import note_repeated_texts
from xlnet.tasks.fields import Row


def rows_of(*texts, labels=None):
    labels = labels or len(texts) * [0]
    return [
        Row(str(number), ((text, None),), label)
        for number, (text, label) in enumerate(zip(texts, labels))
    ]


def test_a_text_is_the_same_however_it_is_written(caplog):
    dev = rows_of("a  cafe\u0301 ", "C d", "b", "c", "b")
    note_repeated_texts(
        rows_of("a café", "b", "c d"), {"dev": dev, "test": rows_of("e", "f")}
    )
    assert caplog.messages == [
        "note: dev: 3 of 5 rows are trained on: their scores say little about other texts"
    ]


def test_contradictions_are_counted(caplog):
    note_repeated_texts(rows_of("a", "a ", "b", "b", labels=[0, 1, 2, 2]), {})
    assert caplog.messages == [
        "note: train: 1 of 4 rows give a text another label than a row before, such as the rows 0 "
        "and 1"
    ]
