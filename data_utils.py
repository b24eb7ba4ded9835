"""Text to pretraining records: streams of windows and a manifest. `--help` lists the flags."""

import contextlib
import os
import sys

from xlnet import cli
from xlnet.config import CorpusSettings
from xlnet.errors import UserError

ABOUT = """makes pretraining records from text.

Input is UTF-8, a sentence a line, a blank line between documents; <eop> may end a line that ends
a paragraph. Output is one TFRecord file for each stream, manifest.json and the SentencePiece
model, all that train_gpu.py needs: --record_info_dir is this program's --save_dir.
"""

_WHILE_TRAINING = "targets are drawn while training; give it to train_gpu.py"
_ONE_PROCESS = "one run makes all records"

NO_LONGER_NEEDED = {
    "num_core_per_host": "records do not depend on the devices that will read them",
    "use_tpu": "records do not depend on the devices that will read them",
    "num_predict": _WHILE_TRAINING,
    "mask_alpha": _WHILE_TRAINING,
    "mask_beta": _WHILE_TRAINING,
    "num_task": _ONE_PROCESS,
    "task": _ONE_PROCESS,
    "pass_id": "num_passes makes all passes in one run",
}


def main(settings):
    if cli.given("num_task") and cli.FLAGS.num_task != "1":
        raise UserError("num_task is %s: one run makes all records, a second one would only repeat "
                        "them; leave num_task and task out" % cli.FLAGS.num_task)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from xlnet import corpus
    print_summary(corpus.make_records(settings, progress), settings.save_dir)


@contextlib.contextmanager
def progress(description, total, unit):
    """Shows a bar with the time left on stderr; in a log file one line in half a minute."""
    from tqdm import tqdm
    interval = 0.2 if sys.stderr.isatty() else 30
    with tqdm(desc=description, total=total, unit=unit, unit_scale=True, leave=False, delay=1,
              mininterval=interval, maxinterval=interval) as bar:
        yield bar.update


def print_summary(summary, directory):
    made = summary.manifest
    print("documents %d, sentences %d, tokens %d (%.3f %% unknown)" % (
        made.documents, made.sentences, made.tokens, 100 * summary.unknown / made.tokens))
    print("streams %d x %d windows of %d tokens (%d passes), %d tokens dropped from the ends of "
          "parts in each pass" % (made.num_streams, made.windows_per_stream, made.seq_len,
                                  made.num_passes, summary.dropped))
    print("%.1f s, %d tokens/s" % (summary.seconds, made.tokens / max(summary.seconds, 1e-3)))
    print("records: %s" % directory)


if __name__ == "__main__":
    cli.run(main, CorpusSettings, no_longer_needed=NO_LONGER_NEEDED, about=ABOUT)
