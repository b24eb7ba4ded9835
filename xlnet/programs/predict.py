"""Predicts with a fine-tuned model: labels, scores, entities or answers."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Optional, get_args

from xlnet import cli
from xlnet.errors import UserError
from xlnet.programs import text_inputs
from xlnet.settings import finetuning
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings, required, same_as, setting
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import OptimizationSettings


@dataclasses.dataclass(frozen=True)
class PredictionSettings(Settings):
    """Which model, which file."""

    model_dir: str = required("directory of the fine-tuned model")
    input: str = required(
        "files to predict, in the form of the training data, with or without "
        "labels: paths and patterns with commas between; -: standard input",
        aliases=("predict_file",),
    )
    output: str = setting(
        "-",
        "file for the predictions, for those of several files a directory "
        "(a name that ends in /); -: standard output",
        is_result=True,
    )
    task_module: Optional[str] = same_as(finetuning.TaskSettings, "task_module")
    encoding: Optional[str] = same_as(finetuning.TaskSettings, "encoding")
    delimiter: Optional[str] = same_as(finetuning.TaskSettings, "delimiter")
    quoting: Optional[str] = same_as(finetuning.TaskSettings, "quoting")
    header: Optional[str] = same_as(finetuning.TaskSettings, "header")
    on_error: str = same_as(finetuning.TaskSettings, "on_error")
    predict_form: Optional[str] = same_as(
        finetuning.ClassifierSettings,
        "predict_form",
        choices=(
            *("csv", "tsv", "json", "jsonl", "parquet", "text", "fasttext", "run", "qrels"),
            *("conll", "conllu"),
        ),
        aliases=("input_format",),
        help="form of the input, if it is not that of the training data or of its extension; "
        "conll: a word a line",
    )
    id_column: Optional[str] = same_as(
        finetuning.ClassifierSettings,
        "id_column",
        help="tables: column of a row's name, if not "
        "that of the training data; empty: the number of the row",
    )
    batch_size: int = same_as(finetuning.TaskSettings, "eval_batch_size")
    device: str = same_as(DeviceSettings, "device")
    precision: Optional[str] = same_as(NetworkSettings, "precision")


def main(settings: PredictionSettings) -> None:
    from xlnet import files
    from xlnet.finetuning import start
    from xlnet.model_directory import task_settings
    from xlnet.tasks.files import readers
    from xlnet.tasks.types import known

    # What the model is: task.json names its type, which has a program of its own.
    home = task_settings.home_of(settings.model_dir)
    if home is None:
        raise UserError(
            f"model_dir: no {finetuning.TASK_NAME} in {settings.model_dir}, expected a "
            "directory that a fine-tuning program "
            "wrote"
        )
    stored = files.read_json(os.path.join(home, finetuning.TASK_NAME), "model_dir")
    known.load(settings.task_module)
    trained = known.type_of(stored, os.path.join(home, finetuning.TASK_NAME))
    (group,) = [
        each for each in get_args(finetuning.FineTuningSettings) if each.program == trained.program
    ]
    # Where predictions go, before anything is computed.
    start.check_output_name(trained, "output", settings.output)
    path = settings.input if os.path.isdir(settings.input) else text_inputs.input_of(settings.input)
    is_directory = settings.output.endswith(os.sep) or os.path.isdir(settings.output)
    check_outputs(readers.each_path(path), settings.output, is_directory)
    # The same settings as of that program; those that are not given are the model's.
    given = {
        "model_dir": settings.model_dir,
        "do_predict": True,
        "predict_file": path,
        "predict_dir" if is_directory else "predict_output": settings.output,
        "encoding": settings.encoding,
        "delimiter": settings.delimiter,
        "quoting": settings.quoting,
        "header": settings.header,
        "on_error": settings.on_error,
        "eval_batch_size": settings.batch_size,
        "predict_form": settings.predict_form,
        "id_column": settings.id_column,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if not given.keys() <= group.__dataclass_fields__.keys():
        raise UserError(
            f"id_column: '{settings.id_column}', but {trained.name} has no tables with "
            "such a column"
        )
    chosen = group(**given)
    chosen.check()
    start.run(
        chosen,
        NetworkSettings(precision=settings.precision),
        OptimizationSettings(),
        DeviceSettings(device=settings.device),
        frozenset(given),
        lambda name: None,
    )


def check_outputs(paths: Sequence[str], output: str, is_directory: bool) -> None:
    """Raises UserError where predictions of a file would replace it, or those of another."""
    from xlnet import files
    from xlnet.tasks.files import readers

    if len(paths) > 1 and not is_directory:
        raise UserError(
            f"output: '{output}', expected a directory (a name that ends in /) for the "
            f"predictions of {len(paths)} files"
        )
    if not is_directory:
        files.check_output(output, paths)
    # Predictions are named after their files.
    seen: dict[str, str] = {}
    for path in paths:
        name = readers.stem(os.path.basename(path))
        if seen.setdefault(name, path) != path:
            raise UserError(
                f"input: {seen[name]} and {path} have the same name, expected "
                f"predictions_*_{name} of one "
                "of them; predict them into two directories"
            )


def run() -> None:
    cli.run(
        main,
        PredictionSettings,
        about=__doc__,
        examples=(
            "--model_dir=model --input=new.csv --output=predictions.tsv",
            "--model_dir=model --input='new/*.csv' --output=predictions/",
        ),
    )
