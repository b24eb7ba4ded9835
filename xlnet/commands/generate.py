"""Generates text with a pretrained model, causal or permutation: sampled, greedy or by beam search.

The text is shown as it is generated; --output generates in batches.
"""

from typing import Any

from xlnet.commands import cli, text_inputs
from xlnet.inference.settings import GenerationSettings, LoadSettings, stop_texts
from xlnet.support.errors import UserError


def main(
    model_settings: LoadSettings,
    settings: text_inputs.TextInputs,
    how: GenerationSettings,
) -> None:
    text_inputs.check_files(settings)
    chosen: dict[str, Any] = dict(vars(how), stop=stop_texts(how.stop) or None)
    with text_inputs.load(model_settings) as model:
        if settings.output:
            generated = text_inputs.results(settings, model, "generate", chosen)
            text_inputs.write(
                settings,
                (dict(prompt=text, **one._asdict()) for text, one in generated),
            )
            return
        for place, text in settings.texts():
            print(text, end="", flush=True)
            try:
                for part in model.stream(text, **chosen):
                    print(part.text, end="", flush=True)
            except UserError as e:
                raise UserError(f"{place}: {e}") from None
            print(flush=True)


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
