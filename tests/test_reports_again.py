"""Inputs of public reports: each command of tests/reports/*/case.json ends as its reporter may
expect. A file that is refused with a flag is read right with that flag.

Tables are read as a training run reads them, without the network; text becomes records.
"""

import collections
import json
import logging
import re
import shlex
from typing import NamedTuple

import pytest
from helpers import command, tasks
from helpers.paths import ROOT
from helpers.tasks import read_rows

from xlnet.settings.finetuning import ClassifierSettings, TaggerSettings
from xlnet.support import errors, files, system
from xlnet.tasks import known

REPORTS = ROOT / "tests" / "reports"
GROUPS = {"classify": ClassifierSettings, "tag": TaggerSettings}


class Refused(NamedTuple):
    """A file that is refused: a part of the error, which names a flag; the flag with its value; and
    the number of rows with each label that the file then has."""

    error: str
    flags: dict
    counts: dict


# By folder, for each of its first commands: the number of rows with each label, and a part of the
# log or None; or a part of the error; or `Refused`.
CASES = {
    "rows_rejected_in_prodigy": [({"bad": 8, "good": 16}, None)],
    "snli_wider_rows": ["no such file: .*snli_1.0_train.jsonl"],
    "brackets_in_paths": ["input_glob: found no file that matches"],
    "zip_files": [
        "found the form zip",
        "found the form zip",
        "named.csv: found no column 'text'",
    ],
    "json_by_columns": [
        "default.json: found another JSON",
        "split.json: item 1: found list, expected a JSON object",
        ({"neg": 6, "pos": 6}, None),
    ],
    "nan_in_json": [
        "text.jsonl:1: the text is empty",
        "label.jsonl:1: column 'label' is empty",
    ],
    "tables_without_names": [
        "tweets.csv: found no column 'text' .*--header",
        Refused("sms.tsv: .*--header", dict(header="none"), {"ham": 13, "spam": 7}),
    ],
    "labels_joined_by_doccano": [({("A",): 8, ("A#B",): 8, ("B",): 8}, None)],
    "git_lfs_pointers": [
        ({"0": 6, "1": 6}, None),
        "train.csv: found no column 'text'",
        "corpus.txt.*a Git LFS pointer.*git lfs pull",
    ],
    "byte_order_marks_in_settings": [({"0": 6, "1": 6}, None)] * 2,
    "end_of_text_marks": [
        "text.txt, line 3: .*expected a blank line between documents"
    ],
    "columns_by_number_first_row": [
        "train.csv: found the number of a column.*--header"
    ],
    "csv_quotation_over_rows": [
        Refused(
            "train.csv:7: found a quotation over 2 lines.*--quoting",
            dict(quoting="none"),
            {"a": 34, "b": 32},
        )
    ],
    "multi_label_tuples": ["train.csv:2: .*--label_form"],
    "errors_of_spreadsheets": [({"0": 9, "1": 9, "#N/A": 2}, None)],
    "german_csv_without_names": ["train.csv: .*--header"],
    "joined_csv_spaced_header": ["train.csv:22: the names of the columns again"],
    "joined_csv_with_marks": ["train.csv:22: the names of the columns again"],
    "jsonl_blank_first_line": [({"a": 24, "b": 16}, "without 1 empty rows")],
    "labels_as_lists_of_objects": ["train.jsonl:1: column 'label' has an object"],
    "multi_label_escaped_emoji": ["train.csv:2: .*--label_form"],
    "multi_label_postgres": ["train.csv:2: .*--label_form"],
    "three_thousand_labels": [(6000, None)],
    "tsv_saved_by_excel": [({("old",): 11, ("sad",): 14, ("old", "sad"): 15}, None)],
}
IS_TRUE_OR_FALSE = {"multi_label", "is_regression"}
OF_FILES = set(
    "data_dir task_name text_a_column label_column input_format delimiter quoting header "
    "encoding on_error label_form".split()
)


def commands_of(folder):
    """(verb, flags as a dict) of each command."""
    text = json.loads((REPORTS / folder / "case.json").read_text())["command"]
    for part in text.split("; "):
        verb, _, flags = part.partition("xlnet ")[2].partition(" --")
        given = [word[2:].partition("=") for word in shlex.split("--" + flags)]
        yield verb, {name: value if sign else "True" for name, sign, value in given}


def read(verb, flags):
    """The rows of the train file of a command."""
    if "config" in flags:
        assert files.read_json(flags["config"], "config") == {"train_batch_size": 2}
    values = {name: flags[name] for name in OF_FILES & set(flags)}
    for name in IS_TRUE_OR_FALSE & set(flags):
        values[name] = flags[name] == "True"
    settings = tasks.settings(group=GROUPS[verb], dev_share=0.0, **values)
    return read_rows(known.resolve_task(settings), flags["data_dir"], "train")


@pytest.mark.parametrize(
    "folder, index, expected",
    [(name, *each) for name, cases in CASES.items() for each in enumerate(cases)],
)
def test_a_report(folder, index, expected, monkeypatch, caplog, tmp_path):
    caplog.set_level(logging.INFO, "xlnet")
    monkeypatch.chdir(REPORTS / folder)
    verb, flags = list(commands_of(folder))[index]
    if isinstance(expected, Refused):
        with pytest.raises(errors.UserError, match=expected.error):
            read(verb, flags)
        rows = read(verb, {**flags, **expected.flags})
        assert collections.Counter(row.label for row in rows) == expected.counts
    elif verb not in GROUPS:
        flags["save_dir"] = tmp_path / "records"
        assert re.search(expected, command.refused("xlnet " + verb, **flags))
    elif isinstance(expected, str):
        with pytest.raises(errors.UserError, match=expected) as e:
            read(verb, flags)
        assert "\n" not in str(e.value)
    else:
        counts, log = expected
        rows = read(verb, flags)
        found = collections.Counter(row.label for row in rows)
        assert (found if isinstance(counts, dict) else len(rows)) == counts
        assert log is None or re.search(log, caplog.text)


# ---- fewer_cores: fewer cores than the machine has


@pytest.mark.parametrize(
    "content, expected",
    [("max 100000", 64), ("150000 100000", 2), ("1000 100000", 1)],
)
def test_cores_of_a_job_and_of_a_container(tmp_path, monkeypatch, content, expected):
    (tmp_path / "cpu.max").write_text(content + "\n")
    monkeypatch.setattr(system, "_QUOTA", str(tmp_path / "cpu.max"))
    all_cores = set(range(64))
    monkeypatch.setattr(system.os, "sched_getaffinity", lambda _: all_cores, False)
    assert system.available_cores() == expected
