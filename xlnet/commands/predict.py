"""What a fine-tuned model does on a file: xlnet predict and xlnet evaluate.

Both run `fine_tune`, the function of the programs that fine-tune, with do_predict or do_eval.
"""

import dataclasses
import os
from typing import Any, Optional

from xlnet.commands import cli
from xlnet.settings.fields import required, same_as, setting
from xlnet.settings.finetuning import ClassifierSettings, FormSettings, TaskSettings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import RUN_NAME, DeviceSettings, OptimizationSettings
from xlnet.support import system
from xlnet.support.errors import wrong


class FileSettings(FormSettings):
    """Which model, how a file is read, and where the model runs."""

    model_dir: str = required("directory of the fine-tuned model")
    own_module: Optional[str] = same_as(TaskSettings, "own_module")
    # Columns of the file that are not called as in training.
    text_a_column: Optional[str] = same_as(
        ClassifierSettings, "text_a_column", default=None
    )
    text_b_column: Optional[str] = same_as(ClassifierSettings, "text_b_column")
    label_column: Optional[str] = same_as(
        ClassifierSettings, "label_column", default=None
    )
    id_column: Optional[str] = same_as(
        ClassifierSettings,
        "id_column",
        help="tables: column of a row's name, if not that of the training data; empty: the number "
        "of the row",
    )
    eval_batch_size: int = same_as(TaskSettings, "eval_batch_size")
    device: str = same_as(DeviceSettings, "device")
    precision: Optional[str] = same_as(NetworkSettings, "precision")


class PredictionSettings(FileSettings):
    """xlnet predict: which file, where to."""

    input: str = required(
        "files to predict, with or without labels: paths and patterns with commas between, also "
        "without the flag; -: standard input",
    )
    output: str = setting(
        "-",
        "file for the predictions, in a directory that exists, such as .tsv or .csv; for those of "
        "several files a directory (a name that ends in /), which is made; -: standard output",
    )


class EvaluationSettings(FileSettings):
    """xlnet evaluate: which file."""

    input: Optional[str] = setting(
        None,
        "files with labels: paths and patterns with commas between, also without the flag; the dev "
        "split of the training if not given",
    )


@cli.program(PredictionSettings, positional="input")
def predict(settings: PredictionSettings) -> None:
    """Predicts a file with a fine-tuned model: labels, scores, entities or answers.

    Examples:
      xlnet predict --model_dir=model --input=new.csv --output=predictions.tsv
      xlnet predict --model_dir=model --input='new/*.csv' --output=predictions/
    """
    from xlnet.tasks.files.forms import each_path

    paths = input_paths(settings.input)
    # The programs that fine-tune have a setting for a file, and one for a directory.
    target = "output"
    if settings.output.endswith(os.sep) or os.path.isdir(settings.output):
        target = "predict_dir"
    elif len(each_path(paths)) > 1:
        expected = "a directory (a name that ends in /) for several files"
        raise wrong("output", f"'{settings.output}'", expected)
    run(settings, do_predict=True, predict_file=paths, **{target: settings.output})


@cli.program(EvaluationSettings, positional="input")
def evaluate(settings: EvaluationSettings) -> None:
    """Evaluates a fine-tuned model: on the dev split that chose its best checkpoint, or on a file
    with labels.

    Examples:
      xlnet evaluate --model_dir=model
      xlnet evaluate --model_dir=model labelled.csv
    """
    if settings.input:
        run(settings, do_eval=True, dev_file=input_paths(settings.input))
    else:
        run(settings, do_eval=True)


def run(settings: FileSettings, **task_values: Any) -> None:
    """Predicts or evaluates as the program that trained the model does, such as xlnet classify.

    Args:
      settings: the flags that `predict` and `evaluate` share.
      task_values: the other settings of the training program that are given, such as
        `do_predict`, by name.
    """
    system.import_tensorflow()
    from xlnet.finetuning.fine_tune import fine_tune
    from xlnet.runs.task_settings import finetuned_document, group_of
    from xlnet.tasks import known

    # The document of the model, None if there is no fine-tuned one with weights, names the task
    # type, and each type is trained by one program. `group` has the settings of this program.
    document = finetuned_document(settings.model_dir)
    if document is None:
        found = f"no {RUN_NAME} with a task in {settings.model_dir}"
        raise wrong("model_dir", found, "a directory that a fine-tuning program wrote")
    known.load_own_types(settings.own_module)
    group = group_of(document)
    # Settings that are not given are those of the model. The module is imported already, and the
    # other two are not settings of a task.
    for field in dataclasses.fields(FileSettings):
        value = getattr(settings, field.name)
        if value is None or field.name in ("own_module", "device", "precision"):
            continue
        if field.name not in group.__dataclass_fields__:
            expected = f"nothing: {group.program} has no such setting"
            raise wrong(field.name, f"'{value}'", expected)
        task_values[field.name] = value
    given = set(task_values)
    if settings.precision:
        given.add("precision")
    task_settings = group(**task_values)
    task_settings.check()
    fine_tune(
        task_settings,
        NetworkSettings(precision=settings.precision),
        OptimizationSettings(),
        DeviceSettings(device=settings.device, num_hosts=1),
        given,
    )


def input_paths(patterns: str) -> str:
    """The files that --input names, their absolute paths with commas between; "-", the standard
    input, stays.

    Args:
      patterns: "-", or paths and glob patterns with commas between, whose order is kept.
    """
    from xlnet.tasks.files.forms import expand_paths

    return patterns if patterns == "-" else expand_paths(patterns, "input")
