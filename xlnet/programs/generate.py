"""Generates text with a pretrained model, causal or permutation: sampled, greedy or by beam search.

The text is shown as it is generated; --output generates in batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Union

from xlnet import cli
from xlnet.programs import text_inputs
from xlnet.serving.settings import GenerationSettings, LoadSettings, stop_texts

if TYPE_CHECKING:
    from xlnet.errors import UserError
    from xlnet.serving.generation import GeneratedText


def main(
    model_settings: LoadSettings, settings: text_inputs.TextInputs, how: GenerationSettings
) -> None:
    text_inputs.check_files(settings)
    chosen = dict(vars(how), stop=stop_texts(how.stop) or None)
    with text_inputs.load(model_settings) as model:

        def query(texts: Iterator[str]) -> Iterator[Union[GeneratedText, UserError]]:
            return model.pipe(texts, "generate", errors="return", **chosen)

        def as_json(text: str, found: GeneratedText) -> Iterator[dict[str, Any]]:
            yield {"prompt": text, **found._asdict()}

        def show(text: str) -> None:
            print(text, end="", flush=True)
            for part in model.stream(text, **chosen):
                print(part.text, end="", flush=True)
            print(flush=True)

        text_inputs.run(settings, query, as_json, show)


def run() -> None:
    cli.run(
        main,
        LoadSettings,
        text_inputs.TextInputs,
        GenerationSettings,
        about=__doc__,
        examples=(
            "--model_dir=model --text='Once upon' --top_p=0.9 --seed=1",
            "--model_dir=model --input=prompts.txt --output=texts.jsonl --beams=4",
        ),
    )
