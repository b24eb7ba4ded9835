"""Fills blanks in texts with a pretrained model (infilling).

A blank is a word of one or several pieces. The likeliest fillings come first, with the joint
probability of all their pieces in a factorization order.
"""

from xlnet.commands import cli, text_inputs
from xlnet.inference.settings import FillingSettings, LoadSettings


def main(
    model_settings: LoadSettings, settings: text_inputs.TextInputs, how: FillingSettings
) -> None:
    text_inputs.check_files(settings)
    with text_inputs.load(model_settings) as model:
        filled = text_inputs.results(settings, model, "fill", vars(how))
        if settings.output:
            objects = (
                {"text": text, "fillings": [filling._asdict() for filling in found]}
                for text, found in filled
            )
            text_inputs.write(settings, objects)
            return
        for text, found in filled:
            print(text)
            for filling in found:
                print(
                    f"{100 * filling.probability:10.4f} %  {filling.text}", flush=True
                )


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
