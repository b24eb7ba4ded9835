"""Windows a second and memory of the pretraining input, epoch by epoch: a table for README.md.

    python benchmarks/input_pipeline.py --input_glob='text/*.txt' --sp_path=spiece.model

Targets and orders are drawn anew for each window, as in training; no network runs.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
import time

from repository import ROOT

from xlnet import cli
from xlnet.settings.fields import required, setting


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings:
    """input_pipeline.py: what to read, how often."""
    input_glob: str = required("plain text, a sentence a line")
    sp_path: str = required("SentencePiece model")
    seq_len: int = setting(512, "window [tokens]; half of it is reused", minimum=8)
    batch_size: int = setting(16, "windows of a batch, and streams of the records", minimum=2)
    num_predict: int = setting(85, "targets of a window", minimum=1)
    num_epochs: int = setting(10, "epochs, one line of the table for each", minimum=1)


def main(settings):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import tensorflow.compat.v1 as tf
    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
        prepare(settings, folder)
        read(settings, folder)


def prepare(settings, folder):
    """Makes the records with data_utils.py."""
    subprocess.run(
        [sys.executable, os.path.join(ROOT, "data_utils.py"), "--input_glob=" + settings.input_glob,
         "--save_dir=" + folder, "--sp_path=" + settings.sp_path,
         "--seq_len=%d" % settings.seq_len, "--reuse_len=%d" % (settings.seq_len // 2),
         "--num_streams=%d" % settings.batch_size], check=True, stdout=subprocess.DEVNULL)


def read(settings, folder):
    """Reads the epochs one after the other and prints a line for each."""
    import tensorflow.compat.v1 as tf
    batches, windows = make_batches(settings, folder)
    get_next = tf.data.make_one_shot_iterator(batches).get_next()
    print("%d windows in an epoch" % windows)
    print("| epoch | windows/s | windows per CPU second | resident memory [MB] |")
    print("|---|---|---|---|")
    with tf.Session() as session:
        session.run(get_next)           # what starting takes is not counted
        for epoch in range(settings.num_epochs):
            began, busy = time.time(), time.process_time()
            for _ in range(windows // settings.batch_size):
                session.run(get_next)
            print("| %d | %.0f | %.0f | %.0f |" % (
                epoch + 1, windows / (time.time() - began),
                windows / (time.process_time() - busy), resident() / 1e6), flush=True)


def make_batches(settings, folder):
    """The trainer's batches, without end, and how many windows an epoch has."""
    from xlnet.batches import input_pipeline
    from xlnet.batches.permutation import Permutation
    from xlnet.records.manifest import Manifest
    from xlnet.tokenization.tokenizer import Tokenizer
    manifest, tokenizer = Manifest.read(folder), Tokenizer(settings.sp_path)
    permutation = Permutation(reuse_len=manifest.reuse_len, num_predict=settings.num_predict,
                              perm_size=manifest.reuse_len, mask_alpha=6, mask_beta=1)
    permutation.check(manifest.seq_len)
    batches = input_pipeline.pretraining_batches(
        folder, manifest, batch_size=settings.batch_size, permutation=permutation,
        special_ids=[tokenizer.sep_id, tokenizer.cls_id], seed=0)
    steps = input_pipeline.steps_per_epoch(manifest, settings.batch_size)
    return batches, steps * settings.batch_size


def resident():
    """Resident memory of this process [bytes]."""
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    cli.run(main, BenchmarkSettings, about="measures the pretraining input")
