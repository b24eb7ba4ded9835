"""Rows that are evaluated although they were trained on, and labels that contradict each other."""

import json
import re

import pytest
from helpers.finetuning import make_workspace

from xlnet.finetuning import repeated_texts
from xlnet.tasks.task import Row


def rows_of(*texts, labels=None):
    labels = labels or len(texts) * [0]
    return [
        Row(str(number), ((text, None),), label)
        for number, (text, label) in enumerate(zip(texts, labels))
    ]


def test_a_text_is_the_same_however_it_is_written(caplog):
    trained = repeated_texts.digests_of(rows_of("a café", "b", "c d"))
    seen = repeated_texts.digests_of(rows_of("a  cafe\u0301 ", "C d", "b", "c", "b"))
    repeated_texts.note_trained_on("dev (x.csv)", seen, trained)
    (message,) = caplog.messages
    assert message.startswith("note: dev (x.csv): 3 of 5 rows (60.0 %) were trained on")
    caplog.clear()
    repeated_texts.note_trained_on("dev", repeated_texts.digests_of(rows_of("e", "f")), trained)
    assert not caplog.messages


def test_both_texts_count_and_no_names():
    one, other, named, swapped = (
        repeated_texts.digests_of([row])[0]
        for row in (
            Row("1", (("a", "b"),), 0),
            Row("1", (("a", "c"),), 0),
            Row("2", (("a", "b"),), 0, "q"),
            Row("1", (("b", "a"),), 0),
        )
    )
    assert one == named and len({one, other, swapped}) == 3


@pytest.mark.parametrize(
    "labels, expected",
    (
        ([0, 1, 0, 0, None], "2 of 5 rows .* \\(1 texts\\), such as the rows 0 and 1"),
        ([None, None, 1, 1, 2], "3 of 5 rows .* \\(1 texts\\), such as the rows 2 and 4"),
        ([0.5, 2.5, 0.5, 0.5, 9.0], "5 of 5 rows .* \\(2 texts\\)"),
        ([0, 0, 1, 1, 1], None),
        ([None, None, None, None, 1], None),
    ),
)
def test_contradictions_are_counted(caplog, labels, expected):
    rows = rows_of("a", "a ", "b", "b", "b", labels=labels)
    repeated_texts.note_contradictions("train", rows, repeated_texts.digests_of(rows))
    if expected is None:
        assert not caplog.messages
    else:
        (message,) = caplog.messages
        assert re.search("note: train: " + expected, message), message


@pytest.mark.slow
def test_rows_that_a_run_trains_on_are_found_among_those_to_evaluate(tmp_path, quick_start):
    """From other files and encodings. A later evaluation of them replaces no other one."""
    place = make_workspace(tmp_path)
    train = (tmp_path / "own" / "train.tsv").read_text().splitlines()
    dev = (tmp_path / "own" / "dev.tsv").read_text().splitlines()
    mixed = [dev[0], *train[2:5], *dev[1:3]]
    (tmp_path / "mixed.csv").write_text(
        "\n".join(line.replace("\t", ",") for line in mixed) + "\n", encoding="utf-16"
    )
    done = place.run("--do_train=True", "--do_eval=True", eval_steps=2)
    assert done.returncode == 0 and "were trained on" not in done.stderr
    common = dict(data_dir=None, dev_file=tmp_path / "mixed.csv")
    assert place.run("--do_eval=True", **common).returncode == 0
    results = {
        path.name: json.loads(path.read_text())["rows"]
        for path in (tmp_path / "model").glob("eval_results_*.json")
    }
    assert results == {"eval_results_dev.json": 7, "eval_results_mixed.json": 5}
    done = place.run(
        "--do_train=True",
        eval_steps=2,
        **dict(common, model_dir=place.path("other"), train_file=tmp_path / "own" / "train.tsv"),
    )
    found = f"note: dev ({tmp_path}/mixed.csv): 3 of 5 rows (60.0 %) were trained on"
    assert done.returncode == 0 and found in done.stderr, done
