"""Text to pretraining records: streams of windows and a manifest. `--help` lists the flags."""

import contextlib
import sys

from xlnet import cli
from xlnet.config import CorpusSettings

ABOUT = """makes pretraining records from text.

Input is UTF-8, a sentence a line, a blank line between documents; <eop> may end a line that ends
a paragraph. Output is one TFRecord file for each stream, manifest.json and the SentencePiece
model, all that train_gpu.py needs: --record_info_dir is this program's --save_dir. A run that was
killed is continued by the same command.
"""

_WHILE_TRAINING = "targets are drawn while training; give it to train_gpu.py"

NO_LONGER_NEEDED = {
    "num_core_per_host": "records do not depend on the devices that will read them",
    "use_tpu": "records do not depend on the devices that will read them",
    "num_predict": _WHILE_TRAINING,
    "mask_alpha": _WHILE_TRAINING,
    "mask_beta": _WHILE_TRAINING,
    "pass_id": "num_passes makes all passes in one run",
}


def main(settings):
    from xlnet.text import preparation
    print_summary(preparation.make_records(settings, progress))


@contextlib.contextmanager
def progress(description, total, unit):
    """Shows a bar with the time left on stderr; in a log file one line in half a minute."""
    from tqdm import tqdm
    interval = 0.2 if sys.stderr.isatty() else 30
    with tqdm(desc=description, total=total, unit=unit, unit_scale=True, leave=False, delay=1,
              mininterval=interval, maxinterval=interval) as bar:
        yield bar.update


def print_summary(summary):
    made = summary.manifest
    print("documents %d, sentences %d, tokens %d (%.3f %% unknown)" % (
        made.documents, made.sentences, made.tokens, 100 * made.unknown / made.tokens))
    for reason, count in made.skipped.items():
        print("left out, %s: %d" % (reason, count))
    print("streams %d x %d windows of %d tokens (%d passes), %d tokens dropped from the ends of "
          "parts in each pass" % (made.num_streams, made.windows_per_stream, made.seq_len,
                                  made.num_passes, made.dropped))
    print("nothing to do: these records were made before" if summary.seconds is None else
          "%.1f s, %d tokens/s" % (summary.seconds, made.tokens / max(summary.seconds, 1e-3)))
    print("records: %s" % summary.directory)


if __name__ == "__main__":
    cli.run(main, CorpusSettings, no_longer_needed=NO_LONGER_NEEDED, about=ABOUT)
