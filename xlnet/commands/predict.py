"""What a fine-tuned model does on a file: xlnet predict and xlnet evaluate."""

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

    path = input_of(settings.input)
    to = "output"
    if settings.output.endswith(os.sep) or os.path.isdir(settings.output):
        to = "predict_dir"
    elif len(each_path(path)) > 1:
        expected = "a directory (a name that ends in /) for several files"
        raise wrong("output", f"'{settings.output}'", expected)
    run(settings, do_predict=True, predict_file=path, **{to: settings.output})


@cli.program(EvaluationSettings, positional="input")
def evaluate(settings: EvaluationSettings) -> None:
    """Evaluates a fine-tuned model: on the dev split that chose its best checkpoint, or on a file
    with labels.

    Examples:
      xlnet evaluate --model_dir=model
      xlnet evaluate --model_dir=model labelled.csv
    """
    if settings.input:
        run(settings, do_eval=True, dev_file=input_of(settings.input))
    else:
        run(settings, do_eval=True)


def run(settings: Any, **given: Any) -> None:
    """Runs the program that trained a model: it predicts or evaluates.

    Args:
      settings: a `FileSettings`.
      given: further settings of that program, such as `do_predict`.
    """
    system.import_tensorflow()
    from xlnet.finetuning.fine_tune import fine_tune
    from xlnet.runs import task_settings
    from xlnet.tasks import known

    # What the model is: its document names its type, which has a program of its own.
    document = task_settings.read_model(settings.model_dir)
    if document is None:
        found = f"no {RUN_NAME} with a task in {settings.model_dir}"
        raise wrong("model_dir", found, "a directory that a fine-tuning program wrote")
    known.load(settings.own_module)
    group = task_settings.group_of(document)
    # The settings are those of that program; those that are not given are the model's. The module
    # is imported already, and the last two are not settings of a task.
    for field in dataclasses.fields(FileSettings):
        value = getattr(settings, field.name)
        if value is None or field.name in ("own_module", "device", "precision"):
            continue
        if field.name not in group.__dataclass_fields__:
            expected = f"nothing: {group.program} has no such setting"
            raise wrong(field.name, f"'{value}'", expected)
        given[field.name] = value
    names = set(given)
    if settings.precision:
        names.add("precision")
    chosen = group(**given)
    chosen.check()
    fine_tune(
        chosen,
        NetworkSettings(precision=settings.precision),
        OptimizationSettings(),
        DeviceSettings(device=settings.device, num_hosts=1),
        names,
    )


def input_of(patterns: str) -> str:
    """The input that --input names: "-", the standard input, or files: paths and glob patterns with
    commas between, in this order."""
    from xlnet.tasks.files.forms import expanded

    return patterns if patterns == "-" else expanded(patterns, "input")
