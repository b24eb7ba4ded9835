"""Fills blanks in texts with a pretrained model (infilling).

A blank is a word of one or several pieces. The likeliest fillings come first, with the joint
probability of all their pieces in a factorization order.
"""

from xlnet import cli
from xlnet.programs import asking
from xlnet.serving.settings import FillingSettings, LoadSettings


def main(model_settings: LoadSettings, settings: asking.AskingSettings,
         how: FillingSettings) -> None:
    with asking.load(model_settings) as model:
        def fill(text):
            return model.fill(text, **vars(how))

        def answer(text):
            yield {"text": text, "fillings": [filling._asdict() for filling in fill(text)]}

        def show(text):
            print("\n".join([text] + [
                "%10.4f %%  %s" % (100 * filling.probability, filling.text)
                for filling in fill(text)]), flush=True)
        asking.run(settings, answer, show)


def run() -> None:
    cli.run(main, LoadSettings, asking.AskingSettings, FillingSettings, about=__doc__, examples=(
        "--model_dir=model --text='Return the ___ of the ___.' --order=2,1",
        "--model_dir=model --input=texts.txt --output=fillings.jsonl"))
