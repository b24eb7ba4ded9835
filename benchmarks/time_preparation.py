"""Tokens per second of the clock and of processors, and memory: data_utils.py with some processes,
and xlnet data beam on Dask with as many workers, on this machine. One text, the same records.

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
import signal
import subprocess
import sys
import tempfile
import time

import sentencepiece
from repository import ROOT

from xlnet.corpus.tokenizer import Tokenizer

PORT = 18785


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
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes())
    seconds = 0.0
    with open(text, encoding="utf-8") as f:
        while lines := list(itertools.islice(f, 1000)):
            cleaned = [tokenizer.clean(line) for line in lines]
            began = time.process_time()
            model.encode(cleaned, num_threads=1)
            seconds += time.process_time() - began
    return seconds


def start(*words, **how):
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=ROOT,
        **how,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
    )


def timed(*words):
    """Seconds, seconds of a processor, and the peak memory of one of the processes [MB]."""
    began = time.monotonic()
    process = start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit("{} failed".format(" ".join(map(str, words))))
    return (
        time.monotonic() - began,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / 1024,
    )


def peak(process):
    """The peak memory of a process [MB]."""
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024


def processor_seconds(process):
    """The processor time that a process has used so far [s]."""
    fields = (
        pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    )
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def on_dask(workers, *words):
    address = f"tcp://127.0.0.1:{PORT}"
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    cluster = [
        start(
            "-m",
            "distributed.cli.dask_scheduler",
            "--host=127.0.0.1",
            f"--port={PORT}",
            "--no-dashboard",
            **quiet,
        )
    ]
    try:
        time.sleep(5)
        cluster += [
            start(
                "-m",
                "distributed.cli.dask_worker",
                address,
                "--nthreads=1",
                "--no-nanny",
                "--no-dashboard",
                "--memory-limit=0",
                **quiet,
            )
            for _ in range(workers)
        ]
        time.sleep(10)
        idle = sum(map(processor_seconds, cluster))
        seconds, processor, _ = timed(
            "-m",
            "xlnet",
            "data",
            "beam",
            *words,
            "--beam_options=--runner=apache_beam.runners."
            "dask.dask_runner.DaskRunner --dask_client_address=" + address,
        )
        processor += sum(map(processor_seconds, cluster)) - idle
        return seconds, processor, max(map(peak, cluster[1:]))
    finally:
        for process in cluster:
            process.send_signal(signal.SIGKILL)
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--text", required=True, help="pattern of files, as of input_format lines"
    )
    parser.add_argument("--sp_path", required=True)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--workers", default="1,2", help="comma-separated")
    parser.add_argument(
        "--without_beam", action="store_true", help="data_utils.py alone"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text.txt")
        make_text(given.text, given.megabytes * 10**6, text)
        made = []
        systems = [("data_utils.py", timed)]
        if not given.without_beam:
            systems.append(("xlnet data beam", on_dask))
        for workers in map(int, given.workers.split(",")):
            for name, run in systems:
                directory = os.path.join(folder, f"{name.split()[-1]}-{workers}")
                words = [
                    "--input_glob=" + text,
                    "--sp_path=" + given.sp_path,
                    "--save_dir=" + directory,
                    "--num_streams=32",
                ]
                seconds, processor, memory = (
                    on_dask(workers, *words)
                    if run is on_dask
                    else timed("data_utils.py", f"--num_workers={workers}", *words)
                )
                alone = pieces_alone(
                    text, given.sp_path
                )  # each time: the machine's speed changes
                manifest = pathlib.Path(directory, "manifest.json").read_bytes()
                made.append(manifest)
                tokens = int(re.search(rb'"tokens": (\d+)', manifest)[1])
                print(
                    f"| {name} | {workers} | {given.megabytes} MB | {seconds:.0f} s | "
                    f"{tokens / seconds:.0f} | {tokens / processor:.0f} | {memory:.0f} MB "
                    f"| {processor / alone:.2f} |",
                    flush=True,
                )
                subprocess.run(["rm", "-r", directory], check=True)
        if len(set(made)) > 1:
            sys.exit("the records differ")


main()
