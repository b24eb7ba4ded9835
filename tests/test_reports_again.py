"""Inputs of public reports, second round: each command of tests/reports_t4/NN/case.json ends as its
reporter may expect.

Tables are read as a training run reads them, without the network; text becomes records.
"""

import collections
import json
import logging
import re
import shlex

import pytest
from helpers import command, tasks
from helpers.paths import ROOT

from xlnet import cores, errors, files
from xlnet.settings.finetuning import ClassifierSettings, TaggerSettings
from xlnet.tasks.files import parsing
from xlnet.tasks.types import custom
from xlnet.text import processes

REPORTS = ROOT / "tests" / "reports"
GROUPS = {"classify": ClassifierSettings, "tag": TaggerSettings}
# Of a model, a signal or a second call in one process: tested with what they concern.
ELSEWHERE = {
    "readonly_model",
    "called_twice",
    "backend_of_notebooks",
    "signal_usr1",
    "model_in_a_fork",
}

# By number, for each of its commands: the number of examples with each label, and a part of the log
# or None; or a part of the error.
CASES = {
    "label_studio": [(12, None), "full.json: item 1: Label Studio's complete JSON.*JSON-MIN"],
    "webanno": ["doc.tsv: WebAnno TSV"] * 2,
    "tagged_csv": [
        "kaggle.csv:.*--delimiter=,.*empty line between sentences",
        "kaggle.csv: no column 'Word'.*--delimiter=,",
        "simple.csv: .*--delimiter=,",
        "words.csv: .*--delimiter=,",
    ],
    "rows_rejected_in_prodigy": [
        ({"bad": 6, "good": 12}, "6 examples were rejected by their annotator")
    ],
    "snli_wider_rows": [({"contradiction": 6, "entailment": 6, "neutral": 6}, None)],
    "empty_last_column": ["train.tsv: the last column is empty, .*--tag_column=2"],
    "brackets_in_paths": [(0, "documents")],
    "zip_files": [
        "train.csv.zip: a zip file; unpack it",
        "train.zip: a zip file",
        "named.csv: a zip file",
    ],
    "json_by_columns": [
        "default.json: JSON of a table by columns.*orient='records'",
        "split.json: JSON of a table by columns",
        ({"neg": 6, "pos": 6}, None),
    ],
    "nan_in_json": [
        "text.jsonl:1: column 'text' is empty",
        "label.jsonl:1: column 'label' is empty",
    ],
    "tables_without_names": [
        "tweets.csv: no column 'text' .*give their numbers, from 1 on",
        ({"ham": 13, "spam": 7}, "its first line is an example"),
    ],
    "labels_joined_by_doccano": [
        ({("A",): 8, ("A#B",): 8, ("B",): 8}, "has 'A#B' and its parts.*--label_separator='#'")
    ],
    "git_lfs_pointers": [
        ({"0": 6, "1": 6}, None),
        "train.csv.*a Git LFS pointer.*git lfs pull",
        "corpus.txt.*a Git LFS pointer.*git lfs pull",
    ],
    "byte_order_marks_in_settings": [({"0": 6, "1": 6}, None)] * 2,
    "errors_of_spreadsheets": [
        ({"0": 9, "1": 9, "#N/A": 2}, "8 cells have an error of a spreadsheet")
    ],
}
# Tested below: they need a shell, or another machine.
BELOW = {"arguments_in_c_locale", "no_semaphores", "fewer_cores"}


def commands_of(number):
    """(verb, flags as a dict) of each command."""
    text = json.loads((REPORTS / number / "case.json").read_text())["command"]
    for part in text.split("; "):
        words = shlex.split(part)
        words = words[words.index("xlnet") + 1 :]
        yield (
            " ".join(word for word in words if not word.startswith("--")),
            dict(
                word[2:].split("=", 1) if "=" in word else (word[2:], True)
                for word in words
                if word.startswith("--")
            ),
        )


def read(verb, flags):
    """The rows of the train file of a command."""
    names = {
        "data_dir",
        "task_name",
        "text_a_column",
        "label_column",
        "multi_label",
        "word_column",
        "tag_column",
    }
    if "config" in flags:
        assert files.read_json(flags["config"], "config") == {"train_batch_size": 2}
    task = custom.known_or_own(
        tasks.settings(
            **{
                **{
                    name: value == "True" if name == "multi_label" else value
                    for name, value in flags.items()
                    if name in names
                },
                "group": GROUPS[verb],
                "dev_share": 0.0,
            }
        )
    )
    return parsing.read_rows(task, flags["data_dir"], "train")


@pytest.mark.parametrize(
    "number, index",
    [(number, index) for number, cases in CASES.items() for index in range(len(cases))],
)
def test_a_report(number, index, monkeypatch, caplog, tmp_path):
    caplog.set_level(logging.INFO, "xlnet")
    monkeypatch.chdir(REPORTS / number)
    verb, flags = list(commands_of(number))[index]
    expected = CASES[number][index]
    if verb not in GROUPS:
        done = command.run("xlnet " + verb, **{**flags, "save_dir": tmp_path / "records"})
        found, log = done.returncode, done.stdout + done.stderr
        if isinstance(expected, str):
            assert done.returncode == 1 and len(done.errors) == 1
            assert re.search(expected, done.errors[0])
            return
    elif isinstance(expected, str):
        with pytest.raises(errors.UserError, match=expected) as e:
            read(verb, flags)
        assert "\n" not in str(e.value)
        return
    else:
        rows = read(verb, flags)
        found = (
            dict(collections.Counter(row.label for row in rows))
            if verb == "classify"
            else len(rows)
        )
        log = caplog.text
    assert found == expected[0]
    assert expected[1] is None or re.search(expected[1], log)


def test_every_report_is_tried():
    numbers = {path.name for path in REPORTS.iterdir() if path.name.isdecimal()}
    assert numbers == {*CASES, *ELSEWHERE, *BELOW}
    assert all(len(list(commands_of(number))) == len(cases) for number, cases in CASES.items())


# ---- 70: a locale that is not UTF-8


def test_arguments_are_utf8_in_any_locale(monkeypatch, tmp_path):
    """Python then has half surrogates for them, and cannot write these into settings."""
    monkeypatch.chdir(REPORTS / "arguments_in_c_locale")
    ((_, flags),) = commands_of("arguments_in_c_locale")
    flags["label_column"] = flags["label_column"].encode().decode("ascii", "surrogateescape") + "x"
    flags.update(model_dir=tmp_path / "m", output_dir=tmp_path / "r")
    done = command.run("xlnet classify", **flags)
    assert done.returncode == 1
    assert "no column 'cat\xe9goriex'; did you mean 'cat\xe9gorie'?" in done.stderr


# ---- 109: a machine without semaphores; 111: fewer cores than the machine has


def test_without_semaphores_one_process_does_the_work(monkeypatch, caplog):
    def fail(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(cores.concurrent.futures, "ProcessPoolExecutor", fail)
    assert dict(processes.in_processes(str, range(3), 2)) == {0: "0", 1: "1", 2: "2"}
    assert "one process does the work" in caplog.text and "Read-only" in caplog.text


@pytest.mark.parametrize(
    "content, expected",
    [
        ({"cpu.max": "max 100000"}, 64),
        ({"cpu.max": "150000 100000"}, 2),
        ({}, 64),
        ({"cpu.max": "1000 100000"}, 1),
        ({"cpu.max": "9900000 100000"}, 64),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
    ],
)
def test_cores_of_a_job_and_of_a_container(tmp_path, monkeypatch, content, expected):
    (tmp_path / "cpu").mkdir()
    for name, text in content.items():
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(cores, "_GROUPS", str(tmp_path))
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert cores.available() == expected
