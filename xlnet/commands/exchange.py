"""Models for others: xlnet export (SavedModel) and xlnet convert (Hugging Face)."""

import os
from typing import Optional

from xlnet.commands import cli
from xlnet.inference.load import read_files
from xlnet.inference.settings import ModelSettings
from xlnet.settings.fields import Settings, required, setting
from xlnet.support import system


class ExportSettings(ModelSettings):
    """xlnet export: which model, to where."""

    output: str = required("directory to write to: its next free number, 1 at first")
    precision: str = setting(
        "fp32", "dtype of the layers' weights and of matmuls", choices=("fp32", "bf16")
    )


class ConversionSettings(Settings):
    """xlnet convert: from where, to where."""

    input: str = required(
        "that library's folder; or a checkpoint's prefix or directory: of a model directory the "
        "best one, of DIRECTORY/latest the newest",
    )
    output: str = required("directory to write, new or empty")
    spiece_model_file: Optional[str] = setting(
        None, "SentencePiece model; default: the one next to the input"
    )
    text_b_column: Optional[str] = setting(None, "to ours: column of the second text")
    choice_columns: Optional[str] = setting(
        None, "to ours: columns of the answers of a multiple-choice model"
    )


@cli.program(ExportSettings)
def export(settings: ExportSettings) -> None:
    """Writes a fine-tuned model as a SavedModel.

    Its signatures: ids takes what the record files hold; text takes raw text, which the graph
    cleans and cuts into pieces (tensorflow-text must be installed).

    Examples:
      xlnet export --model_dir=model --output=exported
      xlnet export --model_dir=model --output=exported --precision=bf16
    """
    # This comes first: it imports TensorFlow as `system.import_tensorflow` does.
    model = read_files(settings)
    from xlnet.inference import exporter

    exporter.export(model, settings.output)


@cli.program(ConversionSettings)
def convert(settings: ConversionSettings) -> None:
    """Converts a folder that Hugging Face's library saved to a checkpoint of ours, or back.

    A folder with a config.json is theirs. Neither that library nor PyTorch is needed. A fine-tuned
    model becomes a model directory, with which xlnet predict needs no other file; a model of pairs
    needs the name of the second text, one of multiple choice those of the answers.

    Examples:
      xlnet convert --input=folder_of_hugging_face --output=model
      xlnet convert --input=model --output=folder_for_hugging_face
    """
    system.import_tensorflow()
    from xlnet.convert import config_json, conversion
    from xlnet.engine import devices

    devices.set_up_process()
    # A folder of that library, or a checkpoint of ours?
    if os.path.exists(os.path.join(settings.input, config_json.NAME)):
        columns = {
            "text_b_column": settings.text_b_column,
            "choice_columns": settings.choice_columns,
        }
        conversion.from_huggingface(
            settings.input, settings.output, columns, settings.spiece_model_file
        )
    else:
        conversion.to_huggingface(
            settings.input, settings.output, settings.spiece_model_file
        )
