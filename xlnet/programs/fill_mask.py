"""Fills blanks in texts with a pretrained model (infilling).

A blank is a word of one or several pieces. The likeliest fillings come first, with the joint
probability of all their pieces in a factorization order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

from xlnet import cli
from xlnet.errors import UserError
from xlnet.programs import text_inputs
from xlnet.serving.settings import FillingSettings, LoadSettings

if TYPE_CHECKING:
    from xlnet.serving.filling import Filling


def main(
    model_settings: LoadSettings, settings: text_inputs.TextInputs, how: FillingSettings
) -> None:
    text_inputs.check_files(settings)
    chosen = vars(how)
    with text_inputs.load(model_settings) as model:

        def query(texts: Iterable[str]) -> Iterator[Union[list[Filling], UserError]]:
            return model.pipe(texts, "fill", errors="return", **chosen)

        def as_json(text: str, found: Sequence[Filling]) -> Iterator[dict[str, Any]]:
            yield {"text": text, "fillings": [filling._asdict() for filling in found]}

        def show(text: str) -> None:
            (found,) = query([text])
            if isinstance(found, UserError):
                raise found
            print(text)
            for filling in found:
                print(f"{100 * filling.probability:10.4f} %  {filling.text}", flush=True)

        text_inputs.run(settings, query, as_json, show)


def run() -> None:
    cli.run(
        main,
        LoadSettings,
        text_inputs.TextInputs,
        FillingSettings,
        about=__doc__,
        examples=(
            "--model_dir=model --text='Return the ___ of the ___.' --order=2,1",
            "--model_dir=model --input=texts.txt --output=fillings.jsonl",
        ),
    )
