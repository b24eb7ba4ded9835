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
from xlnet.errors import UserError
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings, required, same_as, setting
from xlnet.settings.network import ArchitectureSettings, NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings

if TYPE_CHECKING:
    from xlnet.records.manifest import Manifest

MOST_TOKENS = 40  # in a plot; more would be too small to read


@dataclasses.dataclass(frozen=True)
class InspectionSettings(Settings):
    """Which sequences, and how they are shown."""

    input: str = required("directory of records (its manifest is read)")
    verify: bool = setting(False, "only compare all records with their checksums")
    stream: int = setting(0, "text stream to show", minimum=0)
    window: int = setting(0, "index of the first sequence shown", minimum=0)
    num_windows: int = setting(2, "number of sequences shown as text", minimum=0)
    count_windows: int = setting(
        2000,
        "number of sequences for the counts, the first ones of every text stream; 0: no counts",
        minimum=0,
    )
    output: Optional[str] = setting(
        None, "image to write, .png: the attention masks of both streams"
    )
    sentence: Optional[str] = setting(
        None,
        "text of the masks plot, all of it predicted unless num_predict is smaller; the first "
        "tokens of the sequence if not given",
    )
    picture_tokens: int = setting(
        20, "tokens of the sequence in the masks plot", minimum=1, maximum=MOST_TOKENS
    )
    picture_memory: int = setting(
        4, "positions of memory in the masks plot", minimum=0, maximum=MOST_TOKENS
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
        refuse_what_is_not_shown()
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
            settings.sentence, tokenizer, permutation, settings.seed, MOST_TOKENS
        )
    elif settings.output:
        windows = read(stream=settings.stream, first=settings.window, count=1)
        excerpt = inspection.window_excerpt(
            windows,
            0,
            settings.picture_tokens,
            tokenizer,
            f"The first tokens of stream {settings.stream}, window {settings.window}, "
            f"epoch {settings.epoch} ({inspection.DIRECTIONS[windows.direction[0]]})",
        )

    # Sequences as text.
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
    if settings.count_windows:
        count = min(-(-settings.count_windows // manifest.num_streams), manifest.windows_per_stream)
        print(
            f"Windows 0 to {count - 1} of all {manifest.num_streams} streams, epoch "
            f"{settings.epoch}"
        )
        print(
            "".join(
                f"  {line}\n"
                for line in inspection.summary(
                    read(stream=None, first=0, count=count), manifest.reuse_len
                )
            )
        )

    if settings.output and excerpt:
        from xlnet.plots import figures

        figures.draw_masks(settings.output, excerpt, settings.picture_memory)
        print(f"masks: {settings.output}")


def refuse_what_is_not_shown() -> None:
    """Raises UserError for flags that a comparison with checksums would ignore."""
    for field in dataclasses.fields(InspectionSettings):
        if field.name not in ("input", "verify") and cli.given(field.name):
            raise UserError(f"{field.name}: it is for what is shown, --verify shows nothing")


def check(settings: InspectionSettings, manifest: "Manifest") -> None:
    """Raises UserError for sequences that do not exist and plots that cannot be made."""
    if settings.stream >= manifest.num_streams:
        raise UserError(
            f"stream is {settings.stream}, the records in {settings.input} have streams 0 "
            f"to {manifest.num_streams - 1}"
        )
    if settings.window >= manifest.windows_per_stream:
        raise UserError(
            f"window is {settings.window}, the streams in {settings.input} have windows 0 "
            f"to {manifest.windows_per_stream - 1}"
        )
    if settings.sentence is not None and not settings.output:
        raise UserError("sentence: it is shown in the masks plot; give --output=FILE too")
    if not (settings.num_windows or settings.count_windows or settings.output):
        raise UserError("output: there is nothing to show; give --output=FILE.png")
    if settings.output is not None and not settings.output.endswith(".png"):
        raise UserError(f"output: {settings.output}, expected a name that ends in .png")


def check_objective(settings: InspectionSettings) -> None:
    """Raises UserError for an objective that is not trained on what would be shown."""
    from xlnet.pretraining import objectives

    # The objective of a run comes with --config=run.json.
    remedy = "; --objective=permutation shows what XLNet's objective would read"
    if not objectives.find(settings.objective).samples_targets:
        raise UserError(
            f"objective is {settings.objective}, which chooses its own targets; expected one that "
            f"is trained on the sampled targets{remedy}"
        )
    if settings.output and settings.objective != "permutation":
        raise UserError(
            f"output: the figure has the masks of objective=permutation, found "
            f"objective={settings.objective}{remedy}"
        )


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
