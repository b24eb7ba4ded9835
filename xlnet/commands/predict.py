"""Predicts with a fine-tuned model: labels, scores, entities or answers."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, Optional, get_args

from xlnet.commands import cli, text_inputs
from xlnet.settings import finetuning
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings, required, same_as, setting
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import RUN_NAME, OptimizationSettings
from xlnet.support.errors import UserError

# Names of columns, if they are not those of the training data.
_COLUMNS = (
    "text_a_column",
    "text_b_column",
    "choice_columns",
    "query_id_column",
    "word_column",
    "comment",
    "id_column",
)


def _column(group: type, name: str) -> Any:
    """The setting of a column, which is that of the training data where it is not given."""
    return same_as(group, name, default=None)


@dataclasses.dataclass(frozen=True)
class PredictionSettings(Settings):
    """Which model, which file."""

    model_dir: str = required("directory of the fine-tuned model")
    input: str = required(
        "files to predict, with or without labels: paths and "
        "patterns with commas between; -: standard input",
    )
    output: str = setting(
        "-",
        "file for the predictions, in a directory that exists, such as .tsv or .csv; for those of "
        "several files a directory (a name that ends in /), which is made; -: standard output",
        is_result=True,
    )
    own_module: Optional[str] = same_as(finetuning.TaskSettings, "own_module")
    encoding: Optional[str] = same_as(finetuning.TaskSettings, "encoding")
    delimiter: Optional[str] = same_as(finetuning.TaskSettings, "delimiter")
    quoting: Optional[str] = same_as(finetuning.TaskSettings, "quoting")
    header: Optional[str] = same_as(finetuning.TaskSettings, "header")
    input_format: Optional[str] = same_as(
        finetuning.TaskSettings,
        "input_format",
        help="form of the input, if it is not that of its extension; text: a text a line; conll: a "
        "word a line",
    )
    # Columns of the file that are not called as in training.
    text_a_column: Optional[str] = _column(
        finetuning.ClassifierSettings, "text_a_column"
    )
    text_b_column: Optional[str] = _column(
        finetuning.ClassifierSettings, "text_b_column"
    )
    choice_columns: Optional[str] = _column(
        finetuning.ClassifierSettings, "choice_columns"
    )
    query_id_column: Optional[str] = _column(
        finetuning.ClassifierSettings, "query_id_column"
    )
    word_column: Optional[str] = _column(finetuning.TaggerSettings, "word_column")
    comment: Optional[str] = same_as(finetuning.TaggerSettings, "comment")
    id_column: Optional[str] = same_as(
        finetuning.ClassifierSettings,
        "id_column",
        help="tables: column of a row's name, if not that of the training data; empty: the number "
        "of the row",
    )
    eval_batch_size: int = same_as(finetuning.TaskSettings, "eval_batch_size")
    device: str = same_as(DeviceSettings, "device")
    precision: Optional[str] = same_as(NetworkSettings, "precision")


def main(settings: PredictionSettings) -> None:
    from xlnet.finetuning import start
    from xlnet.runs import task_settings
    from xlnet.tasks.files import readers
    from xlnet.tasks.types import known

    # What the model is: its document names its type, which has a program of its own.
    run = task_settings.read_model(settings.model_dir)
    if run is None or run.task is None:
        raise UserError(
            f"model_dir: no {RUN_NAME} with a task in {settings.model_dir}, expected a directory "
            "that a fine-tuning program wrote"
        )
    known.load(settings.own_module)
    trained = known.type_of(run.task, run.path)
    (group,) = [
        each
        for each in get_args(finetuning.FineTuningSettings)
        if each.program == trained.program
    ]
    # Check where predictions go before anything is computed.
    path = (
        settings.input
        if os.path.isdir(settings.input)
        else text_inputs.input_of(settings.input)
    )
    is_directory = settings.output.endswith(os.sep) or os.path.isdir(settings.output)
    check_outputs(readers.each_path(path), settings.output, is_directory)
    # The settings are those of that program; the model's are used for those that are not given.
    given = {
        "model_dir": settings.model_dir,
        "do_predict": True,
        "predict_file": path,
        "predict_dir" if is_directory else "output": settings.output,
        "encoding": settings.encoding,
        "delimiter": settings.delimiter,
        "quoting": settings.quoting,
        "header": settings.header,
        "eval_batch_size": settings.eval_batch_size,
        "input_format": settings.input_format,
        **{name: getattr(settings, name) for name in _COLUMNS},
    }
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in group.__dataclass_fields__:
            raise UserError(
                f"{name} is '{given[name]}', but models of the type {trained.name} have no such "
                "setting"
            )
    chosen = group(**given)
    chosen.check()
    resolved = task_settings.resolve_run(
        chosen,
        NetworkSettings(precision=settings.precision),
        OptimizationSettings(),
        frozenset(given),
    )
    start.run(resolved, DeviceSettings(device=settings.device).on_one_machine())


def check_outputs(paths: Sequence[str], output: str, is_directory: bool) -> None:
    """Raises UserError where predictions of a file would replace it, or those of another."""
    from xlnet.support import files
    from xlnet.tasks.files import readers

    if len(paths) > 1 and not is_directory:
        raise UserError(
            f"output: '{output}', expected a directory (a name that ends in /) for the "
            f"predictions of {len(paths)} files"
        )
    if not is_directory:
        files.check_output(output, paths)
    elif os.path.isfile(output.rstrip(os.sep)):
        raise UserError(f"output: {output} is a file, expected a directory")
    else:
        files.require_writable(output, "output")
    # Predictions are named after their files.
    seen: dict[str, str] = {}
    for path in paths:
        name = readers.stem(os.path.basename(path))
        if seen.setdefault(name, path) != path:
            raise UserError(
                f"input: {seen[name]} and {path} have the same name, expected predictions_*_{name} "
                "of one of them; predict them into two directories"
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
