"""Settings and files of tasks, for tests of how files are read."""

from xlnet.finetuning.data import TaskData
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.tasks.fields import expand_split
from xlnet.tasks.files import parsing
from xlnet.tasks.known import TASKS


def settings(data_dir, group=ClassifierSettings, **changes):
    """Those of a run that trains on own files; the other files that it names do not exist."""
    names = dict(model_dir="m", output_dir="o", spiece_model_file="s")
    names.update(task_name="custom", model_config_path="c", do_train=True)
    return group(**{"data_dir": str(data_dir), **names, **changes})


def write(directory, name, *lines):
    """A file of lines; their half surrogates are bytes that are not UTF-8."""
    content = "".join(line + "\n" for line in lines)
    (directory / name).write_bytes(content.encode("utf-8", "surrogateescape"))


def read_rows(task, data_dir, split, need_labels=None):
    """The rows of a split, of its file or files, as a list.

    need_labels: whether a row without a label is an error; None: except in test splits.
    """
    if need_labels is None:
        need_labels = not split.startswith("test")
    rows = []
    for part in expand_split(task, split):
        rows += parsing.read_parts(task, data_dir, part, need_labels)[part]
    return rows


def write_records(directory, rows, tokenizer, layout, task=TASKS["cola"]):
    """The records of rows, in a file."""
    of_run = settings(
        directory,
        output_dir=str(directory),
        max_seq_length=layout.max_seq_length,
    )
    return TaskData(FineTunedTask(task, of_run), tokenizer).write_records(rows)
