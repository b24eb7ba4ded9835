"""Shows pretraining records as xlnet pretrain will see them.

Targets and factorization orders are those that training samples with the same settings: seed,
epoch, num_predict, perm_size, factorization_order, mask_mode, mask_alpha, mask_beta. An objective
that chooses its own targets, such as causal, is refused.
"""

import dataclasses
import functools
import os
import shutil
import sys
from typing import TYPE_CHECKING, Optional, cast

from xlnet import cli, files, own_modules, quiet
from xlnet.errors import wrong
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings, required, same_as, setting
from xlnet.settings.network import ArchitectureSettings, NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings

if TYPE_CHECKING:
    from xlnet.records.manifest import Manifest

_MOST_TOKENS = 40  # of a text in a plot; more would be too small to read
_PLOTTED_TOKENS, _PLOTTED_MEMORY = 20, 4  # of a sequence
_COUNTED = 2000  # sequences for the counts, the first ones of every text stream


@dataclasses.dataclass(frozen=True)
class InspectionSettings(Settings):
    """Which sequences, and how they are shown."""

    input: str = required("directory of records (its manifest is read)")
    verify: bool = setting(False, "only compare all records with their checksums")
    stream: int = setting(0, "text stream to show", minimum=0)
    window: int = setting(0, "index of the first sequence shown", minimum=0)
    num_windows: int = setting(
        2, "number of sequences shown as text; 0: none, and no counts", minimum=0
    )
    output: Optional[str] = setting(
        None, "image to write, .png: the attention masks of both streams"
    )
    sentence: Optional[str] = setting(
        None,
        "text of the masks plot, all of it predicted unless num_predict is smaller; the first "
        "tokens of the sequence if not given",
    )
    epoch: int = setting(0, "epoch whose targets and orders are shown", minimum=0)
    seed: int = same_as(PretrainingSettings, "seed")
    objective: str = same_as(PretrainingSettings, "objective")
    num_predict: int = same_as(PretrainingSettings, "num_predict")
    perm_size: int = same_as(PretrainingSettings, "perm_size")
    factorization_order: str = same_as(PretrainingSettings, "factorization_order")
    objective_module: Optional[str] = same_as(PretrainingSettings, "objective_module")
    mask_mode: str = same_as(PretrainingSettings, "mask_mode")
    mask_alpha: int = same_as(PretrainingSettings, "mask_alpha")
    mask_beta: int = same_as(PretrainingSettings, "mask_beta")


def main(settings: InspectionSettings) -> None:
    from xlnet.records.manifest import Manifest

    files.check_output(settings.output, ())
    manifest = Manifest.read(settings.input, "input")
    if settings.verify:
        manifest.verify(settings.input, "input")
        print(f"records in {settings.input} agree with their checksums")
        return
    check(settings, manifest)
    quiet.import_tensorflow()
    from xlnet.plots import inspection
    from xlnet.pretraining import sources
    from xlnet.tokenization.tokenizer import Tokenizer

    if settings.objective_module:
        own_modules.load(settings.objective_module, "objective_module")
    check_objective(settings)
    permutation = sources.choose_permutation(
        cast(PretrainingSettings, settings), manifest
    )  # the plot has all that is read
    tokenizer = Tokenizer(
        os.path.join(settings.input, manifest.sp_model), manifest.uncased, manifest.keep_accents
    )
    read = functools.partial(
        inspection.read_windows,
        settings.input,
        manifest,
        epoch=settings.epoch,
        seed=settings.seed,
        permutation=permutation,
        special_ids=[tokenizer.sep_id, tokenizer.cls_id],
        legacy_word_start=tokenizer.is_legacy_word_start,
    )
    # The records of the plot are read first, so that errors come before all output.
    excerpt = None
    if settings.output and settings.sentence is not None:
        excerpt = inspection.sentence_excerpt(
            settings.sentence, tokenizer, permutation, settings.seed, _MOST_TOKENS
        )
    elif settings.output:
        windows = read(stream=settings.stream, first=settings.window, count=1)
        excerpt = inspection.window_excerpt(
            windows,
            0,
            _PLOTTED_TOKENS,
            tokenizer,
            f"The first tokens of stream {settings.stream}, window {settings.window}, "
            f"epoch {settings.epoch} ({inspection.DIRECTIONS[windows.direction[0]]})",
        )

    # Sequences as text, and counts.
    if settings.num_windows:
        count = min(settings.num_windows, manifest.windows_per_stream - settings.window)
        windows = read(stream=settings.stream, first=settings.window, count=count)
        print(inspection.LEGEND)
        for row in range(len(windows)):
            title = (
                f"stream {settings.stream}, window {settings.window + row}, epoch {settings.epoch}"
            )
            print(
                inspection.window_text(
                    windows,
                    row,
                    title,
                    tokenizer=tokenizer,
                    reuse_len=manifest.reuse_len,
                    width=columns(),
                )
            )

        # Counts over the first sequences of every text stream.
        count = min(-(-_COUNTED // manifest.num_streams), manifest.windows_per_stream)
        streams = f"all {manifest.num_streams} streams"
        print(f"Windows 0 to {count - 1} of {streams}, epoch {settings.epoch}")
        for line in inspection.summary(read(stream=None, first=0, count=count), manifest.reuse_len):
            print("  " + line)

    if settings.output and excerpt:
        from xlnet.plots import figures

        figures.draw_masks(settings.output, excerpt, _PLOTTED_MEMORY)
        print(f"masks: {settings.output}")


def check(settings: InspectionSettings, manifest: "Manifest") -> None:
    """Raises UserError for sequences that do not exist and plots that cannot be made."""
    for name, count in (("stream", manifest.num_streams), ("window", manifest.windows_per_stream)):
        if getattr(settings, name) >= count:
            raise wrong(name, getattr(settings, name), f"at most {count - 1} in {settings.input}")
    if settings.sentence is not None and not settings.output:
        raise wrong("output", "no file for the plot of a sentence", "--output=FILE.png")
    if settings.output is not None and not settings.output.endswith(".png"):
        raise wrong("output", settings.output, "a name that ends in .png")


def check_objective(settings: InspectionSettings) -> None:
    """Raises UserError for an objective that is not trained on what would be shown."""
    from xlnet.pretraining import objectives

    # The objective of a run comes with --config=run.json.
    objective = settings.objective
    if not objectives.find(objective).samples_targets:
        raise wrong("objective", f"{objective}, which chooses its own targets", "permutation")
    if settings.output and objective != "permutation":
        raise wrong("output", f"a plot of objective {objective}", "--objective=permutation")


def columns() -> int:
    """Width of the terminal [characters]; 100 if there is none."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


_PLOT = "--input=records --num_predict=85 --output=masks.png"


def run() -> None:
    # Two more subcommands are this program with other flags, and have help of their own.
    about, examples = {
        "xlnet data verify": (
            "Compares pretraining records with the checksums of their manifest.",
            ("--input=records",),
        ),
        "xlnet plot masks": (
            "Plots the attention masks of both streams for a sequence or a text.",
            (_PLOT, _PLOT + " --sentence='A name is bound in a block.'"),
        ),
    }.get(
        sys.argv[0],
        (
            __doc__,
            (
                "--input=records --config=model/run.json --num_windows=2",
                "--input=records --num_predict=85 --num_windows=2",
            ),
        ),
    )
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
