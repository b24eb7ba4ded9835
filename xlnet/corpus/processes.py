"""Work in parts, by any number of processes."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Callable, TypeVar

from xlnet.support import cores, errors

_Result = TypeVar("_Result")
_work: Callable[[int], Any]  # of a worker process


def in_processes(
    work: Callable[[int], _Result], indices: Sequence[int], num_workers: int = 0
) -> Iterator[tuple[int, _Result]]:
    """Yields (index, work(index)) for all indices, in any order; a killed worker is a UserError.

    Args:
      work: pickled and sent to each process once.
      indices: of the parts.
      num_workers: processes; 0: one for each core that this process may use; 1: this one.
    """
    count = min(num_workers or cores.available(), len(indices))
    pool = cores.process_pool(count, _start_worker, (work,))
    if pool is None:
        for index in indices:
            yield index, work(index)
        return
    try:
        with errors.translated_errors(
            fewer="give fewer --num_workers; run the same command again to resume"
        ):
            futures = {pool.submit(_do, index): index for index in indices}
            for future in concurrent.futures.as_completed(futures):
                yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _do(index: int) -> Any:
    return _work(index)


def _start_worker(work: Callable[[int], Any]) -> None:
    """Keeps the work, ignores interrupts, and ends when the parent does, even if that is killed."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
