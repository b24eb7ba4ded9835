"""Tokens a second and memory of data_utils.py on a large text: a table for benchmarks/HISTORY.md.

    python benchmarks/data_preparation.py --input_glob='text/*.txt' --sp_path=spiece.model
"""

import dataclasses
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import memory
from repository import ROOT

from xlnet import cli
from xlnet.records.manifest import Manifest
from xlnet.settings.data import CorpusSettings
from xlnet.settings.fields import as_in, required, setting


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings:
    """data_preparation.py: what to prepare, how often."""
    input_glob: str = required("files of one form, repeated up to `megabytes`")
    sp_path: str = required("SentencePiece model")
    text_format: str = as_in(CorpusSettings, "text_format")
    bi_data: bool = as_in(CorpusSettings, "bi_data")
    megabytes: int = setting(100, "size of the text [10^6 bytes]; beyond 1,000 its one file has "
                             "more names", minimum=1)
    workers: str = setting("1,2", "numbers of worker processes, comma-separated")
    repeats: int = setting(3, "runs of each, in turn; the table has the median", minimum=1)


def main(settings):
    from xlnet.text import reading
    with tempfile.TemporaryDirectory() as folder:
        paths = reading.find_files(settings.input_glob)
        stem, extension = os.path.join(folder, "text"), os.path.splitext(paths[0])[1]
        text = stem + extension
        size = repeat_text(paths, text, min(settings.megabytes, 1000) * 1e6)
        names = [text]
        while len(names) * size < settings.megabytes * 1e6:
            names.append("%s-%03d%s" % (stem, len(names), extension))
            os.link(text, names[-1])
        print("text: %.0f MB" % (len(names) * size / 1e6), flush=True)
        counts = [int(word) for word in settings.workers.split(",")]
        runs = {count: [] for count in counts}
        for _ in range(settings.repeats):
            for count in counts:
                runs[count].append(measure(settings, ",".join(names), folder, count))
    print("| workers | seconds | tokens/s | tokens per CPU second "
          "| peak memory of a process [MB] |")
    print("|---|---|---|---|---|")
    for count in counts:
        seconds, busy, tokens, peak = sorted(runs[count])[len(runs[count]) // 2]
        print("| %d | %.1f | %d | %d | %.0f |" % (count, seconds, tokens / seconds, tokens / busy,
                                                  peak / 1e6))


def repeat_text(paths, target, least):
    """Writes the texts over and over until there are `least` bytes; returns the size."""
    size = 0
    with open(target, "wb") as f:
        while size < least:
            for path in paths:
                with open(path, "rb") as source:
                    size += f.write(source.read())
                size += f.write(b"\n\n")
    return size


def measure(settings, text, folder, workers):
    """Runs data_utils.py; returns (seconds, CPU seconds, tokens, peak memory of a process)."""
    out = os.path.join(folder, "records")
    began, busy = time.time(), _cpu_seconds()
    process = subprocess.Popen(
        [sys.executable, os.path.join(ROOT, "data_utils.py"), "--input_glob=" + text,
         "--save_dir=" + out, "--sp_path=" + settings.sp_path, "--num_workers=%d" % workers,
         "--text_format=" + settings.text_format, "--bi_data=%s" % settings.bi_data],
        stdout=subprocess.DEVNULL)
    peak = PeakMemory(process.pid)
    status = process.wait()
    seconds = time.time() - began
    if status:
        raise SystemExit(status)
    tokens = Manifest.read(out).tokens
    shutil.rmtree(out)
    return seconds, _cpu_seconds() - busy, tokens, peak.stop()


def _cpu_seconds():
    """CPU time of all processes that have ended: what other work on the machine does not change."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class PeakMemory:
    """Watches the largest resident size [bytes] of a process and each of its children."""

    def __init__(self, pid):
        self._pid, self._peak, self._ends = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self):
        self._ends.set()
        self._thread.join()
        return self._peak

    def _watch(self):
        while not self._ends.wait(0.1):
            for pid in [self._pid, *_children(self._pid)]:
                self._peak = max(self._peak, _high_water(pid))


def _children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []


def _high_water(pid):
    try:
        return memory.peak(pid)
    except (OSError, StopIteration):
        return 0


if __name__ == "__main__":
    cli.run(main, BenchmarkSettings, about="measures data_utils.py")
