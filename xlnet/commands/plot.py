"""Figures: xlnet plot masks, curves and attention."""

from typing import Any, Optional

from xlnet.commands import cli
from xlnet.inference.load import open_model
from xlnet.inference.settings import AttentionSettings, LoadSettings
from xlnet.settings.fields import Settings, required, same_as, setting
from xlnet.settings.pretraining import PretrainingSettings, SamplingSettings
from xlnet.support import files, system
from xlnet.support.errors import wrong

_MOST_TOKENS = 40  # of a text in a plot of masks; more would be too small to read


class FigureSettings(Settings):
    """The file to which a figure is written."""

    output: str = required("image to write: FILE.png")

    def check(self) -> None:
        super().check()
        if not self.output.endswith(".png"):
            raise wrong("output", f"'{self.output}'", "a name that ends in .png")
        files.check_output(self.output, ())  # no input files


class MaskSettings(SamplingSettings, FigureSettings):
    """xlnet plot masks: of what, with which targets and order, to which file."""

    text: str = required("text of the plot, all of it predicted by default")
    spiece_model_file: str = required("SentencePiece model")
    own_module: Optional[str] = same_as(PretrainingSettings, "own_module")
    seed: int = same_as(PretrainingSettings, "seed")

    def check(self) -> None:
        super().check()
        if self.mask_mode == "legacy":
            found = "legacy, a rule for complete sequences"
            raise wrong("mask_mode", found, "another")


class CurveSettings(FigureSettings):
    """xlnet plot curves: of which runs, to which file."""

    model_dir: str = required(
        "model directories of the runs, with commas; or without the flag, with spaces"
    )
    output: str = setting("curves.png", "image to write, .png")


class PlottedSettings(AttentionSettings, FigureSettings):
    """xlnet plot attention: of which text, which layers and heads, to which files."""

    text: str = required("the text, of at most 512 pieces")
    layers: Optional[str] = setting(
        None, "numbers of layers, from 1 on, with commas; all if not given"
    )


@cli.program(MaskSettings)
def masks(settings: MaskSettings) -> None:
    """Plots the attention masks of both streams for a text.

    Examples:
      xlnet plot masks --spiece_model_file=spiece.model --text='A name is bound in a block.' \\
          --output=masks.png
    """
    system.import_tensorflow()
    from xlnet.corpus.tokenizer import Tokenizer
    from xlnet.plots import masks as plots
    from xlnet.pretraining import resolve

    system.import_own_module(settings.own_module)
    tokenizer = Tokenizer(settings.spiece_model_file)
    # By default all tokens of the text are predicted. `choose_sampling` checks that a sequence has
    # so many tokens besides its special ones; one of twice the length of the text has.
    num_predict = settings.num_predict or _MOST_TOKENS
    sampling = resolve.choose_sampling(
        settings, num_predict, 2 * _MOST_TOKENS, reuse_len=0
    )
    excerpt = plots.sample_excerpt(
        settings.text, tokenizer, sampling, settings.seed, _MOST_TOKENS
    )
    plots.draw_masks(settings.output, excerpt)
    print(f"written: {settings.output}")


@cli.program(CurveSettings, positional="model_dir")
def curves(settings: CurveSettings) -> None:
    """Plots the learning curves of runs: training losses and evaluations, by step.

    Examples:
      xlnet plot curves model other_model --output=curves.png
    """
    # Curves are not TensorFlow's, but what this imports is; imported first, it writes no lines.
    system.import_tensorflow()
    from xlnet.plots import curves as plots

    runs = []
    # Directories without the flag are joined by commas, too (`positional`).
    for directory in settings.model_dir.split(","):
        runs.append(plots.read(directory.strip()))
    plots.plot(settings.output, runs)
    print(f"written: {settings.output}")


@cli.program(LoadSettings, PlottedSettings)
def attention(model_settings: LoadSettings, settings: PlottedSettings) -> None:
    """Plots what the heads of a pretrained network attend to in a text, in both streams.

    Examples:
      xlnet plot attention --model_dir=model --text='A name is bound in a block.' --layers=1,2 \\
          --output=attention.png
    """
    with open_model(model_settings) as model:
        from xlnet.plots import masks as plots

        layers: list[Any] = list(range(1, model.n_layer + 1))
        if settings.layers:
            layers = []
            for word in map(str.strip, settings.layers.split(",")):
                # A word that is not a number is left to the error of `model.attention`.
                layers.append(int(word) if word.isdecimal() else word)
        result = model.attention(
            settings.text,
            layers=layers,
            order=settings.order,
            seed=settings.seed,
        )
        plots.draw_attention(settings.output, result)
        print(f"written: {settings.output}")
