"""Writes embeddings as a folder for TensorBoard's projector: `tensorboard --logdir=OUTPUT`.

They are those of the vocabulary's pieces or, with --input, vectors of texts.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, Optional

from xlnet import cli
from xlnet.errors import UserError
from xlnet.programs import asking
from xlnet.serving.settings import LoadSettings
from xlnet.settings.fields import Settings, required, setting

if TYPE_CHECKING:
    import numpy as np

    from xlnet.serving.model import Model

    # Name of the table, vectors [count, width], columns that describe each vector.
    Vectors = tuple[str, np.ndarray, dict[str, list[Any]]]


@dataclasses.dataclass(frozen=True)
class ProjectorSettings(Settings):
    """xlnet plot projector: which vectors, where to."""
    output: str = required("directory to write, new or empty", aliases=("out_dir",))
    input: Optional[str] = setting(None, "files of texts, one a line: paths and patterns with "
                                   "commas between; the pieces of the vocabulary if not given",
                                   aliases=("input_file",))
    layer: int = setting(-1, "layer of the vectors of texts; 0: embeddings, -1: the last one")
    most: int = setting(10000, "number of pieces or texts at most; the projector takes about "
                        "10,000", minimum=2)


def main(model_settings: LoadSettings, settings: ProjectorSettings) -> None:
    with asking.load(model_settings) as model:
        from xlnet.plots import projector
        name, vectors, columns = (of_texts if settings.input else of_pieces)(model, settings)
        projector.write(settings.output, name, vectors, columns)
        count, width = vectors.shape
        print("%d vectors of width %d: tensorboard --logdir=%s"
              % (count, width, settings.output))


def of_pieces(model: "Model", settings: ProjectorSettings) -> "Vectors":
    table = model.embeddings()[:settings.most]
    ids = range(len(table))
    tokenizer = model.tokenizer
    return "pieces", table, {
        "piece": [tokenizer.id_to_piece(id) for id in ids], "id": list(ids),
        "kind": ["special" if tokenizer.is_special[id] else
                 "punctuation" if tokenizer.is_punctuation[id] else
                 "begins a word" if tokenizer.is_word_start[id] else "inside of a word"
                 for id in ids]}


def of_texts(model: "Model", settings: ProjectorSettings) -> "Vectors":
    texts = list(asking.texts_of(settings.input or ""))[:settings.most]
    if len(texts) < 2:
        raise UserError("input %s: %d texts, expected at least 2"
                        % (settings.input, len(texts)))
    return "texts", model.vectors(texts, layers=settings.layer), {"text": texts}


def run() -> None:
    cli.run(main, LoadSettings, ProjectorSettings, about=__doc__, examples=(
        "--model_dir=model --output=projector",
        "--model_dir=model --input=texts.txt --output=projector"))
