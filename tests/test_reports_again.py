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

from xlnet import errors
from xlnet.settings.finetuning import ClassifierSettings, TaggerSettings
from xlnet.tasks.files import parsing
from xlnet.tasks.types import custom

REPORTS = ROOT / "tests" / "reports_t4"
GROUPS = {"classify": ClassifierSettings, "tag": TaggerSettings}
# Of a model, a signal or a second call in one process: tested with what they concern.
ELSEWHERE = {"65", "67", "68", "73", "115"}

# By number, for each of its commands: the number of examples with each label, and a part of the log
# or None; or a part of the error.
CASES = {
    "57": [({"bad": 6, "good": 12}, "6 examples were rejected by their annotator")],
    "59": [({"contradiction": 6, "entailment": 6, "neutral": 6}, None)],
    "85": ["text.jsonl:1: column 'text' is empty", "label.jsonl:1: column 'label' is empty"],
    "105": [({"0": 6, "1": 6}, None), "train.csv.*a Git LFS pointer.*git lfs pull",
            "corpus.txt.*a Git LFS pointer.*git lfs pull"],
}


def commands_of(number):
    """(verb, flags as a dict) of each command."""
    text = json.loads((REPORTS / number / "case.json").read_text())["command"]
    for part in text.split("; "):
        words = shlex.split(part)
        words = words[words.index("xlnet") + 1:]
        yield " ".join(word for word in words if not word.startswith("--")), dict(
            word[2:].split("=", 1) if "=" in word else (word[2:], True)
            for word in words if word.startswith("--"))


def read(verb, flags):
    """The rows of the train file of a command."""
    names = {"data_dir", "task_name", "text_a_column", "label_column", "multi_label",
             "word_column", "tag_column"}
    task = custom.get_task(tasks.settings(**{
        **{name: value == "True" if name == "multi_label" else value
           for name, value in flags.items() if name in names}, "group": GROUPS[verb],
        "dev_share": 0.0}))
    return parsing.read_rows(task, flags["data_dir"], "train")


@pytest.mark.parametrize("number, index", [
    (number, index) for number, cases in CASES.items() for index in range(len(cases))])
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
        found = dict(collections.Counter(row.label for row in rows)) if verb == "classify" \
            else len(rows)
        log = caplog.text
    assert found == expected[0]
    assert expected[1] is None or re.search(expected[1], log)


def test_every_report_is_tried():
    numbers = {path.name for path in REPORTS.iterdir() if path.name.isdecimal()}
    assert {*CASES, *ELSEWHERE} <= numbers
    assert all(len(list(commands_of(number))) == len(cases) for number, cases in CASES.items())
