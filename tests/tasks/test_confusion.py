"""What was confused with what: counts, text, a picture of bounded size, labels in any script."""

import os
import struct
import subprocess
import sys
import warnings

import numpy as np
import pytest
from helpers.paths import ROOT

from xlnet import figure
from xlnet.tasks.metrics import confusion
from xlnet.tasks.task import Columns, Task
from xlnet.tasks.types.known import TASK_TYPES


def test_a_table_of_few_labels(tmp_path):
    found = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    lines = confusion.text(("yes", "no"), *found).splitlines()
    assert [line.split() for line in lines] == [
        ["true", "yes", "no", "<-", "predicted"],
        ["yes", "1", "1"],
        ["no", "0", "2"],
    ]
    confusion.draw(tmp_path / "c.png", ("yes", "no"), *found)
    assert [file.name for file in tmp_path.iterdir()] == ["c.png"]


def confused(count, rows=3000):
    """Names of labels, and (labels, predictions): a quarter is predicted as another label, most
    often label 7 as label 3."""
    rng = np.random.default_rng(0)
    labels = rng.integers(count, size=rows)
    predictions = np.where(rng.random(rows) < 0.25, rng.integers(count, size=rows), labels)
    labels[:200], predictions[:200] = 7, 3
    return [f"label {i}" for i in range(count)], (labels, predictions)


def size_of(path):
    """Width and height of a PNG."""
    return struct.unpack(">II", path.read_bytes()[16:24])


def test_a_picture_of_many_labels_is_of_the_most_confused(tmp_path):
    sizes = []
    for count in (40, 1000):
        names, found = confused(count)
        confusion.draw(tmp_path / "c.png", names, *found)
        sizes.append(size_of(tmp_path / "c.png"))
    assert sizes[0] == sizes[1] and max(sizes[0]) < 2500
    shown = confusion.most_confused(*found, 1000).tolist()
    assert len(shown) == confusion.SHOWN and {3, 7} < set(shown) and shown == sorted(shown)
    # No label that is left out has more errors than one that is shown.
    wrong = found[0] != found[1]
    errors = sum(np.bincount(ids[wrong], minlength=1000) for ids in found)
    assert errors[shown].min() >= np.delete(errors, shown).max()


def test_a_table_of_many_labels_lists_what_was_confused_most_frequent_first():
    names, found = confused(1000)
    lines = confusion.text(names, *found).splitlines()
    assert lines[0].split() == ["rows", "true", "predicted"]
    assert lines[1].split() == ["200", "label", "7", "label", "3"]
    assert len(confusion.text(names, found[0], found[0]).splitlines()) == 1
    rows = [int(line.split()[0]) for line in lines[1:]]
    assert rows == sorted(rows, reverse=True)
    assert sum(rows) == (found[0] != found[1]).sum()


def test_answers_without_a_single_fault(tmp_path):
    names = [f"label {i}" for i in range(50)]
    found = np.arange(50), np.arange(50)
    assert confusion.text(names, *found).splitlines() == ["  rows  true      predicted"]
    confusion.draw(tmp_path / "c.png", names, *found)


def test_metrics_of_many_labels_hold_no_table_of_all_pairs():
    """10,000 labels: a table of all pairs would take 800 MB."""
    import tracemalloc

    task = Task(
        "mine",
        Columns(("t",), (), ("l",)),
        tuple(map(str, range(10000))),
        ("accuracy", "macro_f1"),
        TASK_TYPES["classification"],
    )
    truth = np.arange(50) * 7 % 10000
    values = np.zeros([50, 10000], np.float32)
    values[np.arange(50), truth] = 1
    tracemalloc.start()
    result = task.scorer.evaluate(values, truth)
    table = task.scorer.table(values, truth, 0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result["accuracy"] == 1
    assert len(table.splitlines()) == 10000 + 8 and peak < 60e6


@pytest.mark.parametrize("is_installed", [True, False])
def test_labels_in_any_script_are_drawn_without_a_warning(
    tmp_path, monkeypatch, caplog, is_installed
):
    caplog.set_level("INFO", "xlnet")
    if not is_installed:
        monkeypatch.setattr(figure, "_installed", lambda: [])
    names = ("财经", "体育", "$x^", "a very long name of a label that would push the picture aside")
    found = np.array([1, 1, 2, 3]), np.array([0, 1, 2, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        confusion.draw(tmp_path / "c.png", names, *found)
    assert max(size_of(tmp_path / "c.png")) < 1500
    shown = figure.Names.of(names, range(4))
    assert shown.shown[2:] == list(names[2:])
    if not is_installed:
        assert shown.shown[:2] == ["#0", "#1"]
        assert caplog.messages == [
            "note: no installed font shows 2 label(s) of the figure: #0 is 财经, #1 is 体育"
        ]


def test_the_backend_of_a_notebook_does_not_matter(tmp_path):
    """Jupyter sets it for every program that a cell starts; matplotlib refuses it on import."""
    program = (
        "import numpy as np, os, sys; from xlnet.tasks.metrics import confusion\n"
        "confusion.draw(sys.argv[1], ['a', 'b'], np.array([0, 1]), np.array([0, 1]))\n"
        "assert 'matplotlib.pyplot' not in sys.modules and os.environ['MPLBACKEND']"
    )
    path = tmp_path / "c.png"
    subprocess.run(
        [sys.executable, "-c", program, str(path)],
        check=True,
        cwd=ROOT,
        env=dict(os.environ, MPLBACKEND="module://matplotlib_inline.backend_inline"),
    )
    assert path.exists()


def test_a_figure_that_cannot_be_drawn_is_a_note(tmp_path, caplog):
    (tmp_path / "c.png").mkdir()
    confusion.draw(tmp_path / "c.png", ("yes", "no"), np.array([0, 1]), np.array([0, 1]))
    assert caplog.messages == [
        f"note: {tmp_path}/c.png is not plotted: IsADirectoryError: Is a directory"
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["c.png"]
