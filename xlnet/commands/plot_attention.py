"""Plots what the heads of a network attend to in a text; of a pretrained one, in both streams."""

import dataclasses
from typing import Optional

from xlnet.commands import cli, text_inputs
from xlnet.inference.settings import AttentionSettings as ComputingSettings
from xlnet.inference.settings import LoadSettings
from xlnet.settings.fields import Settings, required, same_as, setting
from xlnet.support import files
from xlnet.support.errors import UserError, wrong

MOST_TOKENS = 512  # in a plot; its file grows with the square


@dataclasses.dataclass(frozen=True)
class AttentionSettings(Settings):
    """xlnet plot attention: of which text, which layers and heads, to which files."""

    text: str = required(f"the text, of at most {MOST_TOKENS} pieces")
    text_b: Optional[str] = setting(
        None, "the second text, for a model of pairs; for one of questions the context"
    )
    layers: Optional[str] = setting(
        None, "numbers of layers, from 1 on, with commas; all if not given"
    )
    order: Optional[str] = same_as(
        ComputingSettings,
        "order",
        help="factorization order of the pieces: random, left_to_right, their numbers as 2,1,3, or "
        "none: each sees all, the query stream all but itself; default: random; left_to_right of a "
        "causal model, none of a fine-tuned one, which have no other",
    )
    seed: int = same_as(ComputingSettings, "seed")
    output: str = required("image to write: FILE.png")

    def check(self) -> None:
        super().check()
        if not self.output.endswith(".png"):
            raise wrong("output", f"'{self.output}'", "a name that ends in .png")
        files.check_output(self.output, ())


def main(model_settings: LoadSettings, settings: AttentionSettings) -> None:
    with text_inputs.load(model_settings) as model:
        from xlnet.plots import attention

        # Numbers are checked before the attention is computed.
        layers = numbers("layers", settings.layers, model.n_layer)
        text = (
            settings.text
            if settings.text_b is None
            else (settings.text, settings.text_b)
        )
        found = model.attention(
            text,
            layers=layers,
            order=settings.order,
            seed=settings.seed,
            most_tokens=MOST_TOKENS,
        )
        attention.draw_attention(settings.output, found)
        print(f"written: {settings.output}")


def numbers(flag: str, text: Optional[str], most: int) -> list[int]:
    """The numbers of a flag, 1 to `most`; all of them where it is not given."""
    if not text:
        return list(range(1, most + 1))
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not word.isdecimal() or not 1 <= int(word) <= most:
            raise UserError(f"{flag}: '{word}', expected numbers from 1 to {most}")
    return [int(word) for word in words]


def run() -> None:
    cli.run(
        main,
        LoadSettings,
        AttentionSettings,
        about=__doc__,
        examples=(
            "--model_dir=model --text='A name is bound in a block.' --layers=1,2 "
            "--output=attention.png",
        ),
    )
