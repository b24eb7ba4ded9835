"""The cores that a process may use, in a job or a container."""

from __future__ import annotations

import math
import os
import pathlib

_QUOTA = (
    "/sys/fs/cgroup/cpu.max"  # of a container, as Docker's --cpus: quota and period
)


def available() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    try:
        quota, period = map(int, pathlib.Path(_QUOTA).read_text().split())
    except (OSError, ValueError):  # no such file, or "max"
        return count
    return min(count, math.ceil(quota / period))
