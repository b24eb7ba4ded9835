"""Shows pretraining records as xlnet pretrain will see them.

Targets and factorization orders are those that training samples with the same settings: seed,
num_predict, perm_size, factorization_order, mask_mode, mask_alpha, mask_beta. An objective
that chooses its own targets, such as causal, is refused. With --output the attention masks of both
streams are plotted in place of the text.
"""

import dataclasses
import os
import shutil
import sys
from typing import Optional, cast

from xlnet.commands import cli
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings, required, same_as, setting
from xlnet.settings.network import ArchitectureSettings, NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.support import files, own_modules, quiet
from xlnet.support.errors import wrong

_MOST_TOKENS = 40  # of a text in a plot; more would be too small to read
_PLOTTED_TOKENS, _PLOTTED_MEMORY = 20, 4  # of a sequence
_SHOWN = 2  # sequences as text, of the first streams: of both directions
_COUNTED = 2000  # sequences for the counts, the first ones of every text stream


@dataclasses.dataclass(frozen=True)
class InspectionSettings(Settings):
    """Which sequences, and how they are shown."""

    input: str = required("directory of records (its manifest is read)")
    output: Optional[str] = setting(
        None,
        "image to write, .png: the attention masks of both streams, in place of text",
    )
    text: Optional[str] = setting(
        None,
        "text of the masks plot, all of it predicted unless num_predict is smaller; the first "
        "tokens of the sequence if not given",
    )
    seed: int = same_as(PretrainingSettings, "seed")
    objective: str = same_as(PretrainingSettings, "objective")
    num_predict: int = same_as(PretrainingSettings, "num_predict")
    perm_size: int = same_as(PretrainingSettings, "perm_size")
    factorization_order: str = same_as(PretrainingSettings, "factorization_order")
    own_module: Optional[str] = same_as(PretrainingSettings, "own_module")
    mask_mode: str = same_as(PretrainingSettings, "mask_mode")
    mask_alpha: int = same_as(PretrainingSettings, "mask_alpha")
    mask_beta: int = same_as(PretrainingSettings, "mask_beta")


def main(settings: InspectionSettings) -> None:
    from xlnet.corpus.manifest import Manifest

    files.check_output(settings.output, ())
    manifest = Manifest.read(settings.input, "input")
    check(settings)
    quiet.import_tensorflow()
    from xlnet.corpus.tokenizer import Tokenizer
    from xlnet.plots import inspection
    from xlnet.pretraining import data

    if settings.own_module:
        own_modules.load(settings.own_module, "own_module")
    check_objective(settings)
    permutation = data.choose_permutation(
        cast(PretrainingSettings, settings), manifest
    )  # the plot has all that is read
    tokenizer = Tokenizer(
        os.path.join(settings.input, manifest.sp_model),
        manifest.uncased,
        manifest.keep_accents,
    )

    def read(stream: Optional[int], count: int) -> inspection.Sequences:
        return inspection.read_sequences(
            settings.input,
            manifest,
            stream=stream,
            count=count,
            seed=settings.seed,
            permutation=permutation,
            special_ids=[tokenizer.sep_id, tokenizer.cls_id],
            legacy_word_start=tokenizer.is_legacy_word_start,
        )

    if settings.output:
        from xlnet.plots import masks

        if settings.text is not None:
            excerpt = masks.of_text(
                settings.text, tokenizer, permutation, settings.seed, _MOST_TOKENS
            )
        else:
            title = "The first tokens of a sequence"
            excerpt = masks.of_sequence(
                read(stream=0, count=1), 0, _PLOTTED_TOKENS, tokenizer, title
            )
        masks.draw_masks(settings.output, excerpt, _PLOTTED_MEMORY)
        print(f"masks: {settings.output}")
        return

    # Sequences as text.
    print(inspection.LEGEND)
    for stream in range(min(_SHOWN, manifest.num_streams)):
        text = inspection.text(
            read(stream, count=1),
            0,
            f"stream {stream}, sequence 0",
            tokenizer=tokenizer,
            reuse_len=manifest.reuse_len,
            width=shutil.get_terminal_size((100, 24)).columns,
        )
        print(text)
    # Counts over the first sequences of every text stream.
    count = min(-(-_COUNTED // manifest.num_streams), manifest.windows_per_stream)
    print(f"Sequences 0 to {count - 1} of all {manifest.num_streams} streams")
    for line in inspection.summary(read(None, count), manifest.reuse_len):
        print("  " + line)


def check(settings: InspectionSettings) -> None:
    """Raises UserError for plots that cannot be made."""
    if settings.text is not None and not settings.output:
        raise wrong("output", "no file for the plot of a text", "--output=FILE.png")
    if settings.output is not None and not settings.output.endswith(".png"):
        raise wrong("output", settings.output, "a name that ends in .png")


def check_objective(settings: InspectionSettings) -> None:
    """Raises UserError for an objective that is not trained on what would be shown."""
    from xlnet.pretraining import objectives

    # The objective of a run comes with --config=run.json.
    objective = settings.objective
    if not objectives.find(objective).samples_targets:
        raise wrong(
            "objective", f"{objective}, which chooses its own targets", "permutation"
        )
    if settings.output and objective != "permutation":
        raise wrong(
            "output", f"a plot of objective {objective}", "--objective=permutation"
        )


_PLOT = "--input=records --num_predict=85 --output=masks.png"


def run() -> None:
    # Another subcommand is this program with --output, and has help of its own.
    about, examples = __doc__, ("--input=records --config=model/run.json", _PLOT)
    if sys.argv[0] == "xlnet plot masks":
        about = "Plots the attention masks of both streams for a sequence or a text."
        examples = (_PLOT, _PLOT + " --text='A name is bound in a block.'")
    cli.run(
        main,
        InspectionSettings,
        about=about,
        examples=examples,
        elsewhere=(
            PretrainingSettings,
            ArchitectureSettings,
            NetworkSettings,
            OptimizationSettings,
            DeviceSettings,
        ),
    )
