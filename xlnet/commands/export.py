"""Writes a trained model, or a released checkpoint with its files, as a SavedModel.

The README in it says how to serve and query it. Signatures: ids takes what the record files hold;
text takes raw text, which the graph cleans and cuts into pieces (tensorflow-text must be
installed); vectors takes raw text and returns the mean of the last layer over its tokens. With
--weights_only it writes a checkpoint without the optimizer's state instead.
"""

import dataclasses
from typing import Optional

from xlnet.commands import cli
from xlnet.inference.settings import LoadSettings
from xlnet.settings.fields import Settings, required, same_as, setting
from xlnet.settings.network import DTYPES
from xlnet.support import quiet
from xlnet.support.errors import UserError


@dataclasses.dataclass(frozen=True)
class ExportSettings(Settings):
    """xlnet export: from where, to where."""

    model_dir: str = required(
        "model directory, its DIRECTORY/latest, or directory or prefix of a checkpoint"
    )
    output: str = required("directory to write to: its next free number, 1 at first")
    signatures: Optional[str] = setting(
        None,
        "with commas: ids, text, vectors; default: ids,text of a fine-tuned model, vectors of "
        "others",
    )
    weights_only: bool = setting(
        False,
        "write the weights alone, with the files to use them: a checkpoint as in best/, without "
        "the optimizer's state; output is then a new directory",
    )
    precision: str = setting(
        "fp32", "dtype of the layers' weights and of matmuls", choices=("fp32", "bf16")
    )
    model_config_path: Optional[str] = same_as(LoadSettings, "model_config_path")
    spiece_model_file: Optional[str] = same_as(LoadSettings, "spiece_model_file")
    own_module: Optional[str] = same_as(LoadSettings, "own_module")


# Settings of the network that a SavedModel holds: a checkpoint is copied as it is.
_OF_SAVED_MODELS = ("signatures", "precision", "model_config_path", "spiece_model_file")


def main(settings: ExportSettings) -> None:
    for name in _OF_SAVED_MODELS if settings.weights_only else ():
        if cli.given(name):
            raise UserError(
                f"{name}: weights_only copies the weights and their files as they are; leave it out"
            )
    quiet.import_tensorflow()
    from xlnet.inference.export.exporter import export, export_weights
    from xlnet.tasks.types import known

    # Own task types, before the model names one.
    known.load(settings.own_module)
    if settings.weights_only:
        export_weights(settings.model_dir, settings.output)
        return
    export(
        settings.model_dir,
        settings.output,
        names=[name.strip() for name in settings.signatures.split(",")]
        if settings.signatures
        else None,
        dtype=DTYPES[settings.precision],
        model_config_path=settings.model_config_path,
        spiece_model_file=settings.spiece_model_file,
    )


def run() -> None:
    cli.run(
        main,
        ExportSettings,
        about=__doc__,
        examples=(
            "--model_dir=model --output=exported",
            "--model_dir=model --output=exported --precision=bf16 --signatures=ids",
            "--model_dir=pretrained --output=to_share --weights_only",
        ),
    )
