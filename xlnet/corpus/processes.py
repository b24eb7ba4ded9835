"""Work that is divided into parts, done by any number of processes, and its progress bar."""

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

_work: Callable[[Any], Any]  # what a worker process does with each part


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
      work: a function, pickled and sent to each process once.
      parts: its arguments, pickled.
      sizes: of the parts, for the progress bar.
      description: of the work, what the bar begins with.
      unit: of the sizes, such as "B".
      num_workers: processes; 0: one for each core that this process may use; 1: this one.

    Raises:
      UserError: a worker was killed.
    """
    count = min(num_workers or system.available_cores(), len(parts))
    with contextlib.ExitStack() as stack:
        advance = stack.enter_context(progress(description, sum(sizes), unit))
        done: Any = map(work, parts)  # the results, each made when it is asked for
        if count > 1:
            # A worker that is killed gives an error of the pool, which becomes a UserError.
            fewer = "give fewer --num_workers; run the same command again to resume"
            stack.enter_context(errors.translated_errors(fewer=fewer))
            # They are spawned: a fork of a process in which TensorFlow runs threads may hold a lock
            # that nobody frees.
            spawn = multiprocessing.get_context("spawn")
            pool = concurrent.futures.ProcessPoolExecutor(
                count, spawn, _start_worker, (work,)
            )
            stack.callback(pool.shutdown, cancel_futures=True)
            done = pool.map(_do_part, parts)
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

    interval = 0.2 if sys.stderr.isatty() else 30  # [s]; few lines in a log file
    with tqdm(
        desc=description,
        total=total,
        unit=unit,
        unit_scale=True,  # 12M instead of 12000000
        leave=False,  # the bar disappears at its end
        delay=1,  # [s], no bar for work that is done by then
        mininterval=interval,
        maxinterval=interval,
    ) as bar:
        yield bar.update


def _do_part(part: Any) -> Any:
    """The result of a part, in a worker process."""
    return _work(part)


def _start_worker(work: Callable[[Any], Any]) -> None:
    """Prepares a worker process: keeps the work for `_do_part`, ignores interrupts, and starts a
    thread that ends the process when its parent ends, even if that is killed."""
    global _work
    _work = work
    # Ctrl-C reaches all processes; the parent ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent, "a worker has one"
        parent.join()  # waits for its end
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
