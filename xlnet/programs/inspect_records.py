"""Shows the records that data_utils.py made, as train_gpu.py will see them.

Targets and factorization orders are those that training samples with the same settings: seed,
epoch, num_predict, perm_size, mask_mode, mask_alpha, mask_beta.
"""

import dataclasses
import os
import shutil
import sys
from typing import TYPE_CHECKING, Optional, cast

from xlnet import cli, quiet
from xlnet.errors import UserError
from xlnet.settings.fields import as_in, required, setting
from xlnet.settings.pretraining import PretrainingSettings

if TYPE_CHECKING:
    from xlnet.records.manifest import Manifest

MOST_TOKENS = 40         # in a plot; more would be too small to read


@dataclasses.dataclass(frozen=True)
class InspectionSettings:
    """xlnet data inspect: which sequences, and how they are shown."""
    input: str = required("directory made by data_utils.py (its manifest is read)",
                          aliases=("record_info_dir",))
    verify: bool = setting(False, "only compare all records with the checksums of the "
                           "manifest")
    stream: int = setting(0, "text stream to show", minimum=0)
    window: int = setting(0, "index of the first sequence shown", minimum=0)
    num_windows: int = setting(2, "number of sequences shown as text", minimum=0)
    count_windows: int = setting(2000, "number of sequences for the counts, the first ones of "
                                 "every text stream; 0: no counts", minimum=0)
    output: Optional[str] = setting(None, "image to write, .png: the attention masks of both "
                                    "streams", aliases=("masks_png",))
    histograms_png: Optional[str] = setting(None, "image to write, .png: histograms of the counts")
    sentence: Optional[str] = setting(None, "text of the masks plot, all of it predicted unless "
                                      "num_predict is smaller; the first tokens of the sequence if "
                                      "not given")
    picture_tokens: int = setting(20, "tokens of the sequence in the masks plot", minimum=1)
    picture_memory: int = setting(4, "positions of memory in the masks plot", minimum=0)
    color: str = setting("auto", "terminal colours; auto: on a terminal, unless NO_COLOR is set",
                         choices=("auto", "always", "never"))
    epoch: int = setting(0, "epoch whose targets and orders are shown", minimum=0)
    seed: int = as_in(PretrainingSettings, "seed")
    num_predict: int = as_in(PretrainingSettings, "num_predict")
    perm_size: int = as_in(PretrainingSettings, "perm_size")
    mask_mode: str = as_in(PretrainingSettings, "mask_mode")
    mask_alpha: int = as_in(PretrainingSettings, "mask_alpha")
    mask_beta: int = as_in(PretrainingSettings, "mask_beta")


def main(settings: InspectionSettings) -> None:
    from xlnet.records import legacy
    from xlnet.records.manifest import Manifest
    if hasattr(sys.stdout, "reconfigure"):      # shows any text, by its codes if need be
        sys.stdout.reconfigure(errors="backslashreplace")
    if legacy.is_in(settings.input):
        raise UserError("input: %s has records of the original implementation, "
                        "which train_gpu.py reads; only those of data_utils.py can be shown"
                        % settings.input)
    manifest = Manifest.read(settings.input)
    if settings.verify:
        manifest.verify(settings.input)
        print("records in %s agree with their checksums" % settings.input)
        return
    check(settings, manifest)
    quiet.import_tensorflow()
    Inspection(settings, manifest).show()


def check(settings: InspectionSettings, manifest: "Manifest") -> None:
    """Raises UserError for sequences that do not exist and plots that cannot be made."""
    if settings.stream >= manifest.num_streams:
        raise UserError("stream is %d, the records in %s have streams 0 to %d" % (
            settings.stream, settings.input, manifest.num_streams - 1))
    if settings.window + max(settings.num_windows, 1) > manifest.windows_per_stream:
        raise UserError("window is %d and num_windows %d, the streams in %s have windows 0 to %d"
                        % (settings.window, settings.num_windows, settings.input,
                           manifest.windows_per_stream - 1))
    if settings.picture_tokens > MOST_TOKENS:
        raise UserError("picture_tokens is %d, expected at most %d"
                        % (settings.picture_tokens, MOST_TOKENS))
    if settings.picture_memory > MOST_TOKENS:
        raise UserError("picture_memory is %d, expected at most %d"
                        % (settings.picture_memory, MOST_TOKENS))
    if settings.sentence is not None and not settings.output:
        raise UserError("sentence: it is shown in the masks plot; give --output=FILE too")
    if settings.histograms_png and not settings.count_windows:
        raise UserError("histograms_png: count_windows is 0, expected at least 1")
    for name in ("output", "histograms_png"):
        path = getattr(settings, name)
        if path is not None and not path.endswith(".png"):
            raise UserError("%s: %s, expected a name that ends in .png" % (name, path))


class Inspection:
    """Shows the records of a directory."""

    def __init__(self, settings: InspectionSettings, manifest: "Manifest"):
        from xlnet.pretraining import sources
        from xlnet.tokenization.tokenizer import Tokenizer
        self._settings = settings
        self._manifest = manifest
        self._permutation = sources.choose_permutation(
            cast(PretrainingSettings, settings), manifest)     # it has all that is read
        self._tokenizer = Tokenizer(os.path.join(settings.input, manifest.sp_model),
                                    manifest.uncased, manifest.keep_accents)

    def show(self) -> None:
        settings = self._settings
        excerpt = self._excerpt() if settings.output else None    # may raise: before all output
        if settings.num_windows:
            self._show_windows()
        if settings.count_windows:
            self._show_counts()
        if excerpt:
            self._draw_masks(excerpt)

    def _read(self, stream, first, count):
        from xlnet.plots import inspection
        return inspection.read_windows(
            self._settings.input, self._manifest, stream=stream, first=first,
            count=count, epoch=self._settings.epoch, seed=self._settings.seed,
            permutation=self._permutation,
            special_ids=[self._tokenizer.sep_id, self._tokenizer.cls_id],
            legacy_word_start=self._tokenizer.is_legacy_word_start)

    def _show_windows(self):
        from xlnet.plots import inspection
        settings = self._settings
        paint = inspection.ansi if in_color(settings.color) else inspection.plain
        windows = self._read(settings.stream, settings.window, settings.num_windows)
        print(inspection.legend(paint))
        for row in range(len(windows)):
            print(inspection.window_text(
                windows, row, "stream %d, window %d, epoch %d" % (
                    settings.stream, settings.window + row, settings.epoch),
                tokenizer=self._tokenizer, reuse_len=self._manifest.reuse_len, paint=paint,
                width=columns()))

    def _show_counts(self):
        from xlnet.plots import figures, inspection
        settings, manifest = self._settings, self._manifest
        count = min(-(-settings.count_windows // manifest.num_streams),
                    manifest.windows_per_stream)
        windows = self._read(None, 0, count)
        title = "Windows 0 to %d of all %d streams, epoch %d" % (
            count - 1, manifest.num_streams, settings.epoch)
        lines = inspection.summary(windows, manifest.reuse_len)
        found = inspection.histograms(windows, manifest.reuse_len)
        print("%s\n%s\n" % (title, "\n".join("  " + line for line in lines)))
        for histogram in found:
            print(inspection.histogram_text(histogram, columns()))
        if settings.histograms_png:
            figures.draw_histograms(settings.histograms_png, title, lines, found)
            print("histograms: %s" % settings.histograms_png)

    def _excerpt(self):
        from xlnet.plots import inspection
        settings = self._settings
        if settings.sentence is not None:
            return inspection.sentence_excerpt(
                settings.sentence, self._tokenizer, self._permutation, settings.seed, MOST_TOKENS)
        windows = self._read(settings.stream, settings.window, 1)
        return inspection.window_excerpt(
            windows, 0, settings.picture_tokens, self._tokenizer,
            "The first tokens of stream %d, window %d, epoch %d (%s)" % (
                settings.stream, settings.window, settings.epoch,
                inspection.DIRECTIONS[windows.direction[0]]))

    def _draw_masks(self, excerpt):
        from xlnet.plots import figures
        path = self._settings.output or ""
        unshown = figures.draw_masks(path, excerpt, self._settings.picture_memory)
        print("masks: %s" % path)
        for id, piece in sorted(unshown):
            print("  #%d is %s" % (id, piece))


def in_color(choice: str) -> bool:
    return choice == "always" or (choice == "auto" and sys.stdout.isatty()
                                  and not os.environ.get("NO_COLOR"))


def columns() -> int:
    """Width of the terminal [characters]; 100 if there is none."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def run() -> None:
    cli.run(main, InspectionSettings, about=__doc__, examples=(
        "--input=records --num_predict=85 --num_windows=2",
        "--input=records --num_predict=85 --output=masks.png --sentence='A name "
        "is bound in a block.'"))
