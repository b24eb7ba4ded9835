"""Writes a trained model as a SavedModel, for TensorFlow Serving and any process with it."""

import dataclasses
from typing import Optional

from xlnet import cli, quiet
from xlnet.serving.settings import LoadSettings
from xlnet.settings.fields import Settings, as_in, required, setting

ABOUT = """writes a trained model as a SavedModel: a model directory, or a released checkpoint with
its files. The README inside says how to serve and to ask it.

Signatures: ids takes what the record files hold; text takes raw text, cleaned and cut into pieces
in the graph, for which tensorflow-text must be installed; vectors takes raw text and answers with
the mean of the last layer over its tokens.
"""


@dataclasses.dataclass(frozen=True)
class ExportSettings(Settings):
    """xlnet export: from where, to where."""
    model_dir: str = required("model directory, or directory or prefix of a checkpoint")
    output: str = required("directory to write to: its next free number, 1 at first",
                           aliases=("export_dir",))
    signatures: Optional[str] = setting(None, "those to write, with commas: ids, text, vectors; if "
                                        "not given ids and text of a fine-tuned model, vectors of "
                                        "any other")
    dtype: str = setting("float32", "number format of the weights of the layers and of products",
                         choices=("float32", "bfloat16"))
    use_checkpoint: str = as_in(LoadSettings, "use_checkpoint")
    model_config_path: Optional[str] = as_in(LoadSettings, "model_config_path")
    spiece_model_file: Optional[str] = as_in(LoadSettings, "spiece_model_file")


def main(settings: ExportSettings) -> None:
    quiet.import_tensorflow()
    from xlnet.serving.export.exporter import export
    export(settings.model_dir, settings.output,
           names=settings.signatures.split(",") if settings.signatures else None,
           dtype=settings.dtype, use_checkpoint=settings.use_checkpoint,
           model_config_path=settings.model_config_path,
           spiece_model_file=settings.spiece_model_file)


EXAMPLES = (
    "--model_dir=model --output=exported",
    "--model_dir=model --output=exported --dtype=bfloat16 --signatures=ids",
)


def run() -> None:
    cli.run(main, ExportSettings, about=ABOUT, examples=EXAMPLES)
