"""Tokens per second and memory of data_utils.py with one and two processes; with --beam also of
xlnet data beam on Dask with as many workers: one text, the same records.

    python benchmarks/time_preparation.py --text='corpus/*.txt' --sp_path=spiece.model

The text is repeated up to --megabytes, its documents in other orders. The machine's own noise is in
the figures; run it when nothing else does.
"""

import argparse
import glob
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from repository import ROOT

PORT = 18785
QUIET = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_text(pattern, size, path):
    documents = "\n\n".join(pathlib.Path(found).read_text(encoding="utf-8") for found in sorted(
        glob.glob(pattern))).split("\n\n")
    rng, written = random.Random(0), 0
    with open(path, "w", encoding="utf-8") as f:
        while written < size:
            rng.shuffle(documents)
            written += f.write("\n\n".join(documents) + "\n\n")


def start(*words):
    return subprocess.Popen([sys.executable, *map(str, words)], cwd=ROOT, **QUIET,
                            env=dict(os.environ, PYTHONPATH=ROOT))


def timed(*words):
    """Seconds, CPU seconds, and the peak memory of one of the processes [MB]."""
    began = time.monotonic()
    process = start(*words)
    _, status, used = os.wait4(process.pid, 0)      # of the process and those that it waited for
    if status:
        sys.exit("%s failed" % " ".join(map(str, words)))
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def peak(process):
    """The peak memory of a process [MB]."""
    text = pathlib.Path("/proc/%d/status" % process.pid).read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024


def on_dask(workers, *words):
    address = "tcp://127.0.0.1:%d" % PORT
    cluster = [start("-m", "distributed.cli.dask_scheduler", "--host=127.0.0.1",
                     "--port=%d" % PORT, "--no-dashboard")]
    try:
        time.sleep(5)
        cluster += [start("-m", "distributed.cli.dask_worker", address, "--nthreads=1",
                          "--no-nanny", "--no-dashboard", "--memory-limit=0")
                    for _ in range(workers)]
        time.sleep(10)
        seconds, *_ = timed(
            "-m", "xlnet", "data", "beam", *words, "--beam_options=--runner=apache_beam.runners."
            "dask.dask_runner.DaskRunner --dask_client_address=" + address)
        return seconds, float("nan"), max(map(peak, cluster[1:]))
    finally:
        for process in cluster:
            process.send_signal(signal.SIGKILL)
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--text", required=True, help="pattern of files, as of text_format lines")
    parser.add_argument("--sp_path", required=True)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--beam", action="store_true", help="also xlnet data beam")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, directory = (os.path.join(folder, name) for name in ("text.txt", "records"))
        make_text(given.text, given.megabytes * 10 ** 6, text)
        words = ["--input_glob=" + text, "--sp_path=" + os.path.abspath(given.sp_path),
                 "--save_dir=" + directory, "--num_streams=32"]
        manifests = set()
        print("| program | processes | seconds | tokens/s | tokens per CPU second | peak memory of "
              "a process [MB] |\n|---|---|---|---|---|---|")
        for workers in (1, 2):
            for name in ("data_utils.py", *["xlnet data beam"] * given.beam):
                seconds, busy, memory = on_dask(workers, *words) if "beam" in name else timed(
                    "data_utils.py", "--num_workers=%d" % workers, *words)
                manifest = pathlib.Path(directory, "manifest.json").read_text(encoding="utf-8")
                manifests.add(manifest)
                tokens = json.loads(manifest)["tokens"]
                print("| %s | %d | %.1f | %d | %.0f | %.0f |" % (
                    name, workers, seconds, tokens / seconds, tokens / busy, memory), flush=True)
                shutil.rmtree(directory)
        if len(manifests) > 1:
            sys.exit("the records differ")


if __name__ == "__main__":
    main()
