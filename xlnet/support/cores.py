"""The cores that a process may use, in a job or a container, and processes on them."""

from __future__ import annotations

import concurrent.futures
import logging
import math
import multiprocessing
import os
import pathlib
from typing import Any, Optional

_log = logging.getLogger(__name__)

_GROUPS = "/sys/fs/cgroup"
# Files of version 2 and 1 of Linux's control groups: quota and period.
_QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))


def available() -> int:
    """The cores that this process may use."""
    count = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )
    limit = _limit()
    return count if limit is None else max(1, min(count, math.ceil(limit)))


def _limit() -> Optional[float]:
    """The cores of a container's quota, as Docker's --cpus; None: there is no limit."""
    for names in _QUOTAS:
        try:
            words = []
            for name in names:
                words += pathlib.Path(_GROUPS, name).read_text().split()
            quota, period = map(int, words)
        except (OSError, ValueError):  # no such file, or "max"
            continue
        if quota > 0 and period > 0:
            return quota / period
    return None


def process_pool(
    count: int, *initializer: Any
) -> Optional[concurrent.futures.Executor]:
    """`count` processes; None for one, and, with a note, where the system has no semaphores.

    They are spawned: a fork of a process in which TensorFlow runs threads may hold a lock that
    nobody frees. `initializer`: a function that each calls first, and a tuple of its arguments.
    """
    if count < 2:
        return None
    try:
        return concurrent.futures.ProcessPoolExecutor(
            count, multiprocessing.get_context("spawn"), *initializer
        )
    except (OSError, ImportError) as e:  # /dev/shm is missing or read-only
        _log.warning(
            "note: one process does the work: others cannot be started, as /dev/shm "
            "cannot be written to (%s)",
            getattr(e, "strerror", None) or e,
        )
        return None
