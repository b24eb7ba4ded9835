"""Tokens per second of the clock and of processors, and memory, of `xlnet data make` with some
processes on this machine.

    python benchmarks/time_preparation.py --text='corpus/*.txt' --sp_path=spiece.model

The last column is the processor time divided by that of SentencePiece alone, which encodes the same
lines, already cleaned, a thousand at a time.

The text is repeated up to --megabytes, its documents in other orders. The machine's own noise is in
the figures; run it when nothing else does.
"""

import argparse
import glob
import itertools
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import sentencepiece
from repository import ROOT

from xlnet.corpus.tokenizer import Tokenizer


def make_text(pattern, size, path):
    names = sorted(glob.glob(pattern))
    if not names:
        sys.exit(f"--text: no file matches '{pattern}'")
    texts = [pathlib.Path(name).read_text(encoding="utf-8") for name in names]
    documents = "\n\n".join(texts).split("\n\n")
    rng, written = random.Random(0), 0
    with open(path, "w", encoding="utf-8") as f:
        while written < size:
            rng.shuffle(documents)
            written += f.write("\n\n".join(documents) + "\n\n")


def pieces_alone(text, sp_path):
    """The processor time of SentencePiece for the lines of a file [s], by one thread."""
    tokenizer = Tokenizer(sp_path)
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    seconds = 0.0
    with open(text, encoding="utf-8") as f:
        while lines := list(itertools.islice(f, 1000)):
            cleaned = [tokenizer.clean(line) for line in lines]
            began = time.process_time()
            model.encode(cleaned, num_threads=1)
            seconds += time.process_time() - began
    return seconds


def timed(command):
    """Seconds, seconds of a processor, and the peak memory of one of the processes [MB]."""
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit("{} failed".format(" ".join(command)))
    seconds = time.monotonic() - began
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--text", required=True, help="pattern of files, a sentence a line"
    )
    parser.add_argument("--sp_path", required=True)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--workers", default="1,2", help="comma-separated")
    given = parser.parse_args()
    print(
        "| workers | text | time | tokens/s | tokens/CPU s | memory | of SentencePiece |"
    )
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text.txt")
        make_text(given.text, given.megabytes * 10**6, text)
        for workers in given.workers.split(","):
            records = os.path.join(folder, "records")
            command = [sys.executable, "-m", "xlnet", "data", "make"]
            command += [f"--input_glob={text}", f"--sp_path={given.sp_path}"]
            command += [f"--save_dir={records}", "--num_streams=32"]
            seconds, processor, memory = timed([*command, f"--num_workers={workers}"])
            # Each time: the machine's speed changes.
            alone = pieces_alone(text, given.sp_path)
            manifest = pathlib.Path(records, "manifest.json").read_text()
            tokens = int(re.search(r'"tokens": (\d+)', manifest)[1])
            print(
                f"| {workers} | {given.megabytes} MB | {seconds:.0f} s | "
                f"{tokens / seconds:.0f} | {tokens / processor:.0f} | {memory:.0f} MB "
                f"| {processor / alone:.2f} |",
                flush=True,
            )
            shutil.rmtree(records)


if __name__ == "__main__":
    main()
