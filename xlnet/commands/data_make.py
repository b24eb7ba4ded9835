"""Makes pretraining records from text.

Input is text, a sentence a line, a blank line between documents; <eop> may end a line that ends
a paragraph. JSON lines are .jsonl files, or those of --input_format=jsonl; .parquet is Parquet.

Output is one TFRecord file for each text stream, manifest.json and the SentencePiece model, all
that xlnet pretrain needs: --record_info_dir is this program's --save_dir. Run the same command
again to resume a run that was killed.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Callable

from xlnet.commands import cli
from xlnet.settings import presets
from xlnet.settings.data import RECORD_SETTINGS, CorpusSettings
from xlnet.settings.fields import check_value
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.support.errors import UserError

if TYPE_CHECKING:
    from xlnet.corpus import preparation

# Records do not depend on the devices that read them, and targets are sampled while training.
UNUSED = (
    "num_core_per_host",
    "use_tpu",
    "num_predict",
    "mask_alpha",
    "mask_beta",
    "pass_id",
)


def main(settings: CorpusSettings) -> None:
    from xlnet.corpus import preparation

    print_summary(preparation.make_records(fit_to_preset(settings), progress))


def fit_to_preset(settings: CorpusSettings) -> CorpusSettings:
    """Returns the settings with those that the preset `for_config` requires of its records."""
    path = settings.for_config
    if not path:
        return settings
    preset, _ = presets.read(path, "for_config", presets.PRETRAINING)
    # Values of the preset are checked, and those of the records are taken over.
    fields = cli.settings_of((CorpusSettings, PretrainingSettings))
    for name in (*RECORD_SETTINGS, "train_batch_size"):
        if name in preset:
            check_value(fields[name], preset[name], "for_config " + path)
    # A flag may repeat what the preset says, not contradict it: training would refuse the records.
    found = {name: preset[name] for name in RECORD_SETTINGS if name in preset}
    for name, value in found.items():
        if name in cli.given_names() and getattr(settings, name) != value:
            raise UserError(
                f"{name} is {getattr(settings, name)}, but {path} trains on records of {value}"
            )
    # Training takes as many text streams side by side as a batch has rows.
    batch_size = preset.get("train_batch_size", PretrainingSettings.train_batch_size)
    streams = settings.num_streams
    if not streams:
        # Streams of both directions come in pairs.
        is_odd = found.get("bi_data", settings.bi_data) and batch_size % 2
        found["num_streams"] = 2 * batch_size if is_odd else batch_size
    elif streams % batch_size:
        print(
            f"note: num_streams is {streams}, not a multiple of train_batch_size of {path}, "
            f"{batch_size}: fit to evaluate on, not to train",
            file=sys.stderr,
        )
    print(
        "for {}: {}".format(
            path, " ".join("{}={}".format(*item) for item in found.items())
        )
    )
    fitted = dataclasses.replace(settings, for_config=None, **found)
    fitted.check()
    return fitted


@contextlib.contextmanager
def progress(
    description: str, total: int, unit: str
) -> Iterator[Callable[[int], object]]:
    """Shows a progress bar on stderr; in a log file a line every half minute."""
    from tqdm import tqdm

    # Progress in a log file has few lines.
    interval = 0.2 if sys.stderr.isatty() else 30
    with tqdm(
        desc=description,
        total=total,
        unit=unit,
        unit_scale=True,
        leave=False,
        delay=1,
        mininterval=interval,
        maxinterval=interval,
    ) as bar:
        yield bar.update


def print_summary(summary: "preparation.Summary") -> None:
    made = summary.manifest
    print(
        f"documents {made.documents}, sentences {made.sentences}, tokens {made.tokens} "
        f"({100 * made.unknown / made.tokens:.3f} % unknown)"
    )
    if summary.repetitions:
        share = summary.repetitions.fraction(made.sentences)
        print(f"repeated sentences: {100 * share:.1f} %", end="")
        for sentence, count in summary.repetitions.frequent.most_common(1):
            print(f", {count} of {made.sentences} are {sentence[:60]!r}", end="")
        print()
    for reason, count in made.skipped.items():
        print(f"left out, {reason}: {count}")
    print(
        f"streams {made.num_streams} x {made.windows_per_stream} sequences of {made.seq_len} "
        f"tokens ({made.num_passes} passes), {made.dropped} tokens dropped from the ends of parts "
        "in each pass"
    )
    print(
        "nothing to do: these records were made before"
        if summary.seconds is None
        else f"{summary.seconds:.1f} s, {made.tokens / max(summary.seconds, 1e-3):.0f} tokens/s"
    )
    print(f"records: {summary.directory}")


def run() -> None:
    cli.run(
        main,
        CorpusSettings,
        about=__doc__,
        examples=(
            "--input_glob='text/*.txt' --sp_path=spiece.model --save_dir=records --seq_len=512 "
            "--reuse_len=256 --num_streams=32",
            "--input_glob=text --split=heldout --sp_path=spiece.model --save_dir=heldout_records "
            "--num_streams=8",
            "--for_config=base_8gpus --input_glob='text/*.gz' "
            "--input_format=paragraphs --sp_path=spiece.model --save_dir=records",
        ),
        unused=UNUSED,
    )
