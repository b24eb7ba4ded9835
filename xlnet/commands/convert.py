"""Converts a folder that Hugging Face's library saved to a checkpoint of ours, or back.

A folder with a config.json is theirs. Neither that library nor PyTorch is needed. A fine-tuned
model becomes a model directory, with which xlnet classify --do_predict needs no other file; the
columns are those of the files to predict.
"""

import dataclasses
from typing import Optional

from xlnet.commands import cli
from xlnet.settings.data import TextSettings
from xlnet.settings.fields import required, same_as, setting
from xlnet.settings.finetuning import ClassifierSettings
from xlnet.settings.network import DTYPES, PRECISIONS
from xlnet.support import quiet


@dataclasses.dataclass(frozen=True)
class ConversionSettings(TextSettings):
    """xlnet convert: from where, to where."""

    input: str = required(
        "that library's folder; or a checkpoint's prefix or directory: of a model directory the "
        "best one, of DIRECTORY/latest the newest",
    )
    output: str = required("directory to write, new or empty")
    precision: str = setting(
        "fp32", "to theirs: dtype of the weights", choices=PRECISIONS
    )
    spiece_model_file: Optional[str] = setting(
        None, "SentencePiece model; default: the one next to the input"
    )
    text_a_column: str = same_as(
        ClassifierSettings,
        "text_a_column",
        help="to ours: column of the text; a,b joins two",
    )
    text_b_column: Optional[str] = same_as(
        ClassifierSettings, "text_b_column", help="to ours: column of the second text"
    )
    choice_columns: Optional[str] = same_as(
        ClassifierSettings,
        "choice_columns",
        help="to ours: columns of the answers of a multiple-choice model",
    )
    max_seq_length: Optional[int] = same_as(
        ClassifierSettings,
        "max_seq_length",
        default=None,
        help="to ours: tokens of an example, special ones included; default: their "
        "model_max_length, or 512",
    )


def main(settings: ConversionSettings) -> None:
    quiet.import_tensorflow()
    from xlnet.convert import conversion, huggingface_task
    from xlnet.engine import devices

    devices.set_up_process()
    # These settings, of both directions, decide how text is cut into pieces.
    vocabulary = (settings.spiece_model_file, settings.uncased, settings.keep_accents)
    if conversion.is_theirs(settings.input):
        columns = huggingface_task.Columns(
            settings.text_a_column,
            settings.text_b_column,
            settings.choice_columns,
            settings.max_seq_length,
        )
        conversion.from_huggingface(
            settings.input, settings.output, columns, *vocabulary
        )
    else:
        dtype = DTYPES[settings.precision]
        conversion.to_huggingface(settings.input, settings.output, dtype, *vocabulary)


def run() -> None:
    cli.run(
        main,
        ConversionSettings,
        about=__doc__,
        examples=(
            "--input=folder_of_hugging_face --output=model",
            "--input=model --output=folder_for_hugging_face",
        ),
    )
