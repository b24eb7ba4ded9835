"""Writes a vector of each text of a file, or of each of its tokens.

The extension of the output sets its form: .jsonl (an object a line: id, vector) or .npy (one array
[texts, layers, width], without the layers if there is one). Run the same command again to resume a
stopped run. Bad texts are named and left out.
"""

import contextlib
import dataclasses
from typing import Optional

from xlnet import cli, quiet
from xlnet.errors import UserError
from xlnet.programs import text_inputs
from xlnet.serving.settings import LoadSettings, VectorSettings
from xlnet.settings.fields import as_in, required, setting
from xlnet.settings.finetuning import ClassifierSettings, TaskSettings


@dataclasses.dataclass(frozen=True)
class FeatureSettings:
    """xlnet features: which texts, which vectors."""
    input: str = required("texts: .txt (a text a line; with --text_b_column tabs between a "
                          "pair), .tsv, .csv or .jsonl, paths and patterns with commas between; "
                          "-: standard input, as .txt",
                          aliases=("input_file",))
    output: str = required("file to write: .jsonl or .npy", aliases=("output_file",))
    text_a_column: str = as_in(ClassifierSettings, "text_a_column", help="tables: column of the "
                               "text; a,b joins two")
    text_b_column: Optional[str] = as_in(ClassifierSettings, "text_b_column",
                                         help="tables: column of the second text")
    id_column: Optional[str] = as_in(ClassifierSettings, "id_column")
    encoding: Optional[str] = as_in(TaskSettings, "encoding")
    layers: str = setting("-1", "layers, with commas; 0: embeddings, 1: first, -1: last")
    pooling: str = as_in(VectorSettings, "pooling", help="mean of the tokens, the first or last "
                         "one (<cls>), or none: a vector of each token")
    batch_size: int = setting(32, "number of texts in a batch", minimum=1)
    rows_per_part: int = setting(1000, "texts after which a stopped run can resume",
                                 minimum=1)


def main(model_settings: LoadSettings, settings: FeatureSettings) -> None:
    quiet.import_tensorflow()
    from xlnet.serving import features
    from xlnet.tasks.files import row_store
    layers = _layers(settings.layers)
    features.check_output(settings.output, settings.pooling)
    rows = _rows(settings)
    good = row_store.kept(row for row in rows if row.pairs)
    with text_inputs.load(model_settings, batch_size=settings.batch_size, progress=False) as model:
        features.extract(model, good, settings.output, layers, settings.pooling,
                         settings.rows_per_part)
    if len(good) < len(rows):
        raise UserError("input %s: %d of %d texts are bad and have no vector" % (
            settings.input, len(rows) - len(good), len(rows)))


def _layers(text):
    """An int, or a list of several."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError("layers is '%s', expected numbers with commas between" % text) from None
    return found if len(found) > 1 else found[0]


def _rows(settings):
    """The texts as examples of a task without labels; bad ones have no `pairs`."""
    from xlnet.tasks.files import parsing
    from xlnet.tasks.types import custom
    path = text_inputs.input_of(settings.input)
    task = custom.get_task(ClassifierSettings(
        task_name="custom", data_dir="", model_dir="", is_regression=True,
        **{name: getattr(settings, name) for name in (
            "text_a_column", "text_b_column", "id_column", "encoding")}))
    # Without errors blank rows of tables are no texts.
    if parsing.form_to_predict(task, path, None) is None:
        with contextlib.suppress(UserError):
            return parsing.read_to_predict(task, path)
    return parsing.read_to_predict(dataclasses.replace(task, skips_faults=True), path)


def run() -> None:
    cli.run(main, LoadSettings, FeatureSettings, about=__doc__, examples=(
        "--model_dir=model --input=texts.txt --output=vectors.npy",
        "--model_dir=model --input=news.csv --text_a_column=title,text --layers=-1,-2 "
        "--output=vectors.jsonl"))
