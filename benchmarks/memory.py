"""What a process takes of the memory."""

import multiprocessing


def in_a_process(function, *args):
    """What a function returns that runs in a process of its own, whose memory is nobody else's."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, args)


def peak(pid="self"):
    """Of one process alone [bytes]: `ru_maxrss` begins with that of the process it came from."""
    with open("/proc/%s/status" % pid, encoding="utf-8") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))
