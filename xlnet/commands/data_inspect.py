"""Pretraining records as text (xlnet data inspect), masks as a figure (xlnet plot masks)."""

import dataclasses
import os
import shutil
from typing import Optional, cast

from xlnet.commands import cli
from xlnet.commands.data import OF_PRETRAINING
from xlnet.commands.plot import check_png
from xlnet.settings.fields import Settings, required, same_as
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.support import own_modules, system
from xlnet.support.errors import wrong

_MOST_TOKENS = 40  # of a text in a plot; more would be too small to read
_PLOTTED_MEMORY = 4
_SHOWN = 2  # sequences as text, of the first streams: of both directions


@dataclasses.dataclass(frozen=True)
class TargetSettings(Settings):
    """Which targets and orders are sampled: those of training with the same settings."""

    seed: int = same_as(PretrainingSettings, "seed")
    objective: str = same_as(PretrainingSettings, "objective")
    num_predict: int = same_as(PretrainingSettings, "num_predict")
    perm_size: int = same_as(PretrainingSettings, "perm_size")
    factorization_order: str = same_as(PretrainingSettings, "factorization_order")
    own_module: Optional[str] = same_as(PretrainingSettings, "own_module")
    mask_mode: str = same_as(PretrainingSettings, "mask_mode")
    mask_alpha: int = same_as(PretrainingSettings, "mask_alpha")
    mask_beta: int = same_as(PretrainingSettings, "mask_beta")


@dataclasses.dataclass(frozen=True)
class InspectionSettings(TargetSettings):
    """xlnet data inspect: which records."""

    input: str = required("directory of records (its manifest is read)")


@dataclasses.dataclass(frozen=True)
class MaskSettings(TargetSettings):
    """xlnet plot masks: of what, to which file."""

    output: str = required("image to write, .png")
    text: str = required("text of the plot, all of it predicted by default")
    spiece_model_file: str = required("SentencePiece model")

    def check(self) -> None:
        super().check()
        check_png(self.output)
        if self.objective != "permutation":
            raise wrong("objective", self.objective, "permutation")
        if self.mask_mode == "legacy":
            found = "legacy, a rule for complete sequences"
            raise wrong("mask_mode", found, "another")


def inspect(settings: InspectionSettings) -> None:
    """Shows pretraining records as xlnet pretrain will see them.

    Targets and factorization orders are those that training samples with the same settings: seed,
    num_predict, perm_size, factorization_order, mask_mode, mask_alpha, mask_beta. An objective
    that chooses its own targets, such as causal, is refused.

    Examples:
      xlnet data inspect --input=records --num_predict=85
      xlnet data inspect --input=records --config=model/run.json
    """
    system.import_tensorflow()
    from xlnet.corpus.manifest import Manifest
    from xlnet.corpus.tokenizer import Tokenizer
    from xlnet.plots import inspection
    from xlnet.pretraining import objectives, resolve

    if settings.own_module:
        own_modules.load(settings.own_module, "own_module")
    if not objectives.find(settings.objective).samples_targets:
        found = f"{settings.objective}, which chooses its own targets"
        raise wrong("objective", found, "permutation")
    manifest = Manifest.read(settings.input, "input")
    # the settings have all of a run's that are read
    permutation = resolve.choose_permutation(
        cast(PretrainingSettings, settings), manifest
    )
    tokenizer = Tokenizer(os.path.join(settings.input, manifest.sp_model))
    records = inspection.Records(
        settings.input, manifest, tokenizer, permutation, settings.seed
    )
    # Sequences as text.
    print(inspection.LEGEND)
    width = shutil.get_terminal_size((100, 24)).columns
    for stream in range(min(_SHOWN, manifest.num_streams)):
        print(inspection.text(records, stream, width))


def masks(settings: MaskSettings) -> None:
    """Plots the attention masks of both streams for a text.

    Examples:
      xlnet plot masks --spiece_model_file=spiece.model --text='A name is bound in a block.' \\
          --output=masks.png
    """
    system.import_tensorflow()
    from xlnet.corpus.permutation import Permutation
    from xlnet.corpus.tokenizer import Tokenizer
    from xlnet.plots import masks as plots

    if settings.own_module:
        own_modules.load(settings.own_module, "own_module")
    tokenizer = Tokenizer(settings.spiece_model_file)
    permutation = Permutation(
        reuse_len=0,
        num_predict=settings.num_predict or _MOST_TOKENS,
        perm_size=settings.perm_size or _MOST_TOKENS,
        mask_alpha=settings.mask_alpha,
        mask_beta=settings.mask_beta,
        mask_mode=settings.mask_mode,
        factorization_order=settings.factorization_order,
    )
    permutation.check(2 * _MOST_TOKENS)
    excerpt = plots.of_text(
        settings.text, tokenizer, permutation, settings.seed, _MOST_TOKENS
    )
    plots.draw_masks(settings.output, excerpt, _PLOTTED_MEMORY)
    print(f"written: {settings.output}")


def run() -> None:
    with cli.command(
        InspectionSettings,
        about=inspect.__doc__,
        preset_table="pretrain",
        elsewhere=OF_PRETRAINING,
    ) as settings:
        inspect(*settings)


def run_masks() -> None:
    with cli.command(
        MaskSettings,
        about=masks.__doc__,
        preset_table="pretrain",
        elsewhere=OF_PRETRAINING,
    ) as settings:
        masks(*settings)
