"""Rows that are evaluated although they were trained on, and labels that contradict each other."""

import json
import re

import pytest
from helpers.finetuning import make_workspace

from xlnet.errors import UserError
from xlnet.finetuning import repeated_texts
from xlnet.settings.training import TRAINED_TEXTS_NAME
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


def test_a_resumed_run_keeps_what_it_was_trained_on_before(tmp_path):
    assert repeated_texts.trained_in(str(tmp_path)) is None
    first, second = (repeated_texts.digests_of(rows_of(*texts)) for texts in ("abca", "cd"))
    repeated_texts.keep(str(tmp_path), first)
    assert len(repeated_texts.trained_in(str(tmp_path))) == 3
    repeated_texts.keep(str(tmp_path), second)
    assert set(repeated_texts.trained_in(str(tmp_path))) == {*first, *second}
    (tmp_path / TRAINED_TEXTS_NAME).write_bytes(b"\x93NUMPY")
    with pytest.raises(UserError, match=TRAINED_TEXTS_NAME):
        repeated_texts.trained_in(str(tmp_path))


@pytest.mark.slow
def test_rows_from_other_files_and_encodings_are_found(tmp_path, quick_start):
    """While training and later; a second evaluation does not replace the first one."""
    place = make_workspace(tmp_path)
    train = (tmp_path / "own" / "train.tsv").read_text().splitlines()
    dev = (tmp_path / "own" / "dev.tsv").read_text().splitlines()
    mixed = [dev[0], *train[2:5], *dev[1:3]]
    (tmp_path / "mixed.csv").write_text(
        "\n".join(line.replace("\t", ",") for line in mixed) + "\n", encoding="utf-16"
    )
    done = place.run("--do_train=True", eval_steps=2)
    assert done.returncode == 0 and "were trained on" not in done.stderr
    common = dict(data_dir=None, dev_file=tmp_path / "mixed.csv")
    found = f"note: dev ({tmp_path}/mixed.csv): 3 of 5 rows (60.0 %) were trained on"
    done = place.run("--do_eval=True", **common)
    assert done.returncode == 0 and found in done.stderr, done
    done = place.run("--do_eval=True")
    assert done.returncode == 0 and "were trained on" not in done.stderr
    # Nor does one of a run that has nothing left to train.
    again = dict(common, train_file=tmp_path / "own" / "train.tsv", eval_steps=0)
    done = place.run("--do_train=True", "--do_eval=True", **again)
    assert done.returncode == 0 and "has all of its" in done.stdout, done
    results = {
        path.name: json.loads(path.read_text())["rows"]
        for path in (tmp_path / "model").glob("eval_results_*.json")
    }
    (other,) = set(results) - {"eval_results_dev.json"}
    assert other.startswith("eval_results_mixed-")
    assert results == {"eval_results_dev.json": 7, other: 5}
    # In the directory of the best checkpoint too, which may be all that is copied.
    done = place.run("--do_eval=True", **common, model_dir=place.path("model", "best"))
    assert done.returncode == 0 and found in done.stderr, done
    done = place.run(
        "--do_train=True",
        eval_steps=2,
        **dict(common, model_dir=place.path("other"), train_file=tmp_path / "own" / "train.tsv"),
    )
    assert done.returncode == 0 and found in done.stderr, done


@pytest.mark.slow
def test_rows_of_the_same_file_that_are_chosen_otherwise_have_results_of_their_own(
    tmp_path, quick_start
):
    """Of the one file that was trained on, whose held-out rows `eval_results_dev.json` has."""
    place = make_workspace(tmp_path)
    file = tmp_path / "own" / "train.tsv"
    assert place.run("--do_train=True", "--do_eval=True", data_dir=file).returncode == 0
    of_training = (tmp_path / "model" / "eval_results_dev.json").read_text()
    counts = {"eval_results_dev.json": json.loads(of_training)["rows"]}

    for rows, changes in (
        (21, dict(data_dir=None, dev_file=file)),
        (21, dict(data_dir=file, dev_share=0)),
        (7, dict(data_dir=file, dev_share=0, keep_where="kind=animal")),
        (counts["eval_results_dev.json"], dict(data_dir=file)),
    ):
        assert place.run("--do_eval=True", **changes).returncode == 0
        found = {path.name: path for path in (tmp_path / "model").glob("eval_results_*.json")}
        for name in set(found) - set(counts):
            assert name.startswith("eval_results_train-")
            counts[name] = rows
        assert counts == {
            name: json.loads(path.read_text())["rows"] for name, path in found.items()
        }
    assert sorted(counts.values()) == sorted([counts["eval_results_dev.json"], 21, 7])
    assert (tmp_path / "model" / "eval_results_dev.json").read_text() == of_training
