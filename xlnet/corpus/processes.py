"""Work in parts, by any number of processes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Callable

from xlnet.support import errors, system

_work: Callable[[Any], Any]  # of a worker process


def in_processes(
    work: Callable[[Any], Any],
    parts: Sequence[Any],
    sizes: Sequence[int],
    description: str,
    unit: str,
    num_workers: int,
) -> list[Any]:
    """Returns work(part) of all parts, in order, and shows a progress bar meanwhile.

    Args:
      work: pickled and sent to each process once.
      parts: of the work.
      sizes: of the parts, for the progress.
      description: of the work.
      unit: of the sizes.
      num_workers: processes; 0: one for each core that this process may use; 1: this one.

    Raises:
      UserError: a worker was killed.
    """
    count = min(num_workers or system.available_cores(), len(parts))
    with contextlib.ExitStack() as stack:
        advance = stack.enter_context(progress(description, sum(sizes), unit))
        done: Any = map(work, parts)
        if count > 1:
            fewer = "give fewer --num_workers; run the same command again to resume"
            stack.enter_context(errors.translated_errors(fewer=fewer))
            # They are spawned: a fork of a process in which TensorFlow runs threads may hold a lock
            # that nobody frees.
            spawn = multiprocessing.get_context("spawn")
            pool = concurrent.futures.ProcessPoolExecutor(
                count, spawn, _start_worker, (work,)
            )
            stack.callback(pool.shutdown, cancel_futures=True)
            done = pool.map(_do, parts)
        results = []
        for size, result in zip(sizes, done):
            results.append(result)
            advance(size)
    return results


@contextlib.contextmanager
def progress(
    description: str, total: int, unit: str
) -> Iterator[Callable[[int], object]]:
    """Shows a progress bar on stderr; in a log file a line every half minute. Yields a function
    that moves it by a number of units, of which there are `total`."""
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


def _do(part: Any) -> Any:
    """The result of a part, in a worker process."""
    return _work(part)


def _start_worker(work: Callable[[Any], Any]) -> None:
    """Keeps the work, ignores interrupts, and ends when the parent does, even if that is killed."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
