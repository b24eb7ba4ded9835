"""Predicts with a fine-tuned model, whatever task it was trained for."""

import dataclasses
import os
from typing import Optional, get_args

from xlnet import cli
from xlnet.errors import UserError
from xlnet.settings import finetuning
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings, as_in, required, setting
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import OptimizationSettings


@dataclasses.dataclass(frozen=True)
class PredictionSettings(Settings):
    """Which model, which file."""
    model_dir: str = required("directory of the fine-tuned model")
    input: str = required("file to predict, in the form of the training data, with or without "
                          "labels; -: standard input")
    output: str = setting("-", "file for the predictions; -: standard output", is_result=True)
    encoding: Optional[str] = as_in(finetuning.TaskSettings, "encoding")
    predict_form: Optional[str] = as_in(
        finetuning.ClassifierSettings, "predict_form", choices=(
            "tsv", "csv", "json", "jsonl", "text", "run", "qrels", "conll"), help="form of the "
        "input, if neither its extension nor its content shows it; conll: a word a line")
    batch_size: int = as_in(finetuning.TaskSettings, "eval_batch_size")
    device: str = as_in(DeviceSettings, "device")
    precision: Optional[str] = as_in(NetworkSettings, "precision")


def main(settings: PredictionSettings) -> None:
    from xlnet import files
    from xlnet.finetuning import program
    from xlnet.models import settled
    from xlnet.tasks.types.registry import TASK_TYPES
    home = settled.home_of(settings.model_dir)
    if home is None:
        raise UserError("model_dir: no %s in %s, expected a directory that a fine-tuning program "
                        "wrote" % (settled.TASK_NAME, settings.model_dir))
    stored = files.read_json(os.path.join(home, settled.TASK_NAME), "model_dir")
    trained = TASK_TYPES.get(str(stored.get("kind")), TASK_TYPES["classification"])
    given = {"model_dir": settings.model_dir, "do_predict": True, "predict_file": settings.input,
             "predict_output": settings.output, "encoding": settings.encoding,
             "eval_batch_size": settings.batch_size, "predict_form": settings.predict_form}
    given = {name: value for name, value in given.items() if value is not None}
    group, = [each for each in get_args(finetuning.FineTuningSettings)
              if each.program == trained.program]
    chosen = group(**given)
    chosen.check()
    program.run(chosen, NetworkSettings(precision=settings.precision), OptimizationSettings(),
                DeviceSettings(device=settings.device), frozenset(given), lambda name: None)


EXAMPLES = (
    "--model_dir=model --input=new.csv --output=predictions.tsv",
)


def run() -> None:
    cli.run(main, PredictionSettings, examples=EXAMPLES,
            about="predicts with a fine-tuned model: labels, scores, entities or answers")
