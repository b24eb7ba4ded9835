"""Tokens per second of the clock and of processors, and memory: data_utils.py with some processes,
and xlnet data beam on Dask with as many workers, on this machine. One text, the same records.

    python benchmarks/time_preparation.py --text='corpus/*.txt' --sp_path=spiece.model

The text is repeated up to --megabytes, its documents in other orders. The machine's own noise is in
the figures; run it when nothing else does.
"""

import argparse
import glob
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import time

from repository import ROOT

os.environ["PYTHONPATH"] = ROOT         # of all processes


def make_text(pattern, size, path):
    documents = "\n\n".join(pathlib.Path(found).read_text(encoding="utf-8") for found in sorted(
        glob.glob(pattern))).split("\n\n")
    rng, written = random.Random(0), 0
    with open(path, "w", encoding="utf-8") as f:
        while written < size:
            rng.shuffle(documents)
            written += f.write("\n\n".join(documents) + "\n\n")


def timed(*words):
    """Seconds, seconds of a processor, and the peak memory of one of the processes [MB]."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit("%s failed" % " ".join(words))
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def usage():
    """Seconds of a processor that this process has used, and its peak memory [MB]."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def on_dask(workers, *words):
    from distributed import Client, LocalCluster
    with LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit=0,
                      dashboard_address=None) as cluster, Client(cluster) as client:
        def used():         # by the scheduler, which is in this process, and by the workers
            return [usage(), *client.run(usage).values()]
        idle = sum(processor for processor, _ in used())
        seconds, processor, _ = timed(
            "-m", "xlnet", "data", "beam", *words, "--beam_options=--runner=apache_beam.runners."
            "dask.dask_runner.DaskRunner --dask_client_address=" + cluster.scheduler_address)
        found = used()
        return (seconds, processor + sum(processor for processor, _ in found) - idle,
                max(memory for _, memory in found[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", required=True, help="pattern of files, as of text_format lines")
    parser.add_argument("--sp_path", required=True)
    parser.add_argument("--megabytes", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text.txt")
        make_text(given.text, given.megabytes * 10 ** 6, text)
        made = []
        for workers in (1, 2):
            for name, run in (("data_utils.py", timed), ("xlnet data beam", on_dask)):
                directory = os.path.join(folder, "%s-%d" % (name.split()[-1], workers))
                words = ["--input_glob=" + text, "--sp_path=" + given.sp_path,
                         "--save_dir=" + directory, "--num_streams=32"]
                seconds, processor, memory = (
                    on_dask(workers, *words) if run is on_dask else
                    timed("data_utils.py", "--num_workers=%d" % workers, *words))
                made.append(pathlib.Path(directory, "manifest.json").read_bytes())
                tokens = int(re.search(rb'"tokens": (\d+)', made[-1])[1])
                print("| %s | %d | %d MB | %.0f s | %d | %d | %.0f MB |" % (
                    name, workers, given.megabytes, seconds, tokens / seconds, tokens / processor,
                    memory), flush=True)
                subprocess.run(["rm", "-r", directory], check=True)
        if len(set(made)) > 1:
            sys.exit("the records differ")


if __name__ == "__main__":      # not in the workers, which import this file
    main()
