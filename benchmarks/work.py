"""The pieces of work that are timed, and how: shared by all systems, needs only NumPy."""

import concurrent.futures
import dataclasses
import json
import resource
import sys
import time

import numpy as np


@dataclasses.dataclass(frozen=True)
class Work:
    """One step of training or inference over random tokens.

    kind: "pretrain" (two streams, memory, `targets` predicted tokens a row), "finetune" (two
    classes), both with dropout, clipping and AdamW; or "infer" (the fine-tuned classifier).
    """

    kind: str
    batch: int
    length: int
    memory: int = 0
    targets: int = 0

    @property
    def tokens(self):
        return self.batch * self.length


WORKS = {
    "pretrain": Work("pretrain", batch=2, length=512, memory=384, targets=85),
    "finetune": Work("finetune", batch=8, length=128),
    "finetune512": Work("finetune", batch=8, length=512),
    "infer": Work("infer", batch=8, length=128),
}


def batch(work, vocabulary, seed=0):
    """Random inputs of `work`, as NumPy arrays.

    Returns a dict: input_ids, seg_ids int32 [B,Q]; labels int32 [B]; for pretraining also rank
    int32 [B,Q], positions int32 [B,P] and direction int32 [B] (second half backward).
    """
    random = np.random.RandomState(seed)
    shape = [work.batch, work.length]
    segments = np.arange(work.length) >= work.length // 2
    arrays = {
        "input_ids": random.randint(10, vocabulary, shape).astype(np.int32),
        "seg_ids": np.broadcast_to(segments, shape).astype(np.int32),
        "labels": random.randint(0, 2, work.batch).astype(np.int32),
    }
    if work.kind == "pretrain":
        order = np.stack([random.permutation(work.length) for _ in range(work.batch)])
        arrays["positions"] = np.sort(order[:, : work.targets], axis=1).astype(np.int32)
        arrays["rank"] = np.full(shape, -1, np.int32)
        ranks = np.stack([random.permutation(work.targets) for _ in range(work.batch)])
        np.put_along_axis(arrays["rank"], arrays["positions"], ranks, axis=1)
        is_backward = np.arange(work.batch) >= work.batch // 2
        arrays["direction"] = is_backward.astype(np.int32)
    return arrays


def side_by_side(step, number):
    """`number` calls of `step` at once, each in a thread, as one step."""
    if number == 1:
        return step
    pool = concurrent.futures.ThreadPoolExecutor(number)

    def steps():
        for running in [pool.submit(step) for _ in range(number)]:
            running.result()

    return steps


def measure(step, options, version, peak_gib=None):
    """Times calls of `step`, then prints the measurements of this process as one JSON line, for
    run.py: wall and processor times [s].

    The processor time of all threads hardly depends on what else the machine does; the wall time
    does.

    peak_gib: function that returns the peak memory of a GPU; None: that of this process.
    """
    steps = side_by_side(step, options.get("at_once", 1))
    wall, processor = [], []
    for call in range(options["warm_up"] + options["repeats"]):
        start, start_processor = time.perf_counter(), time.process_time()
        steps()
        if call >= options["warm_up"]:
            wall.append(time.perf_counter() - start)
            processor.append(time.process_time() - start_processor)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if peak_gib:
        peak = peak_gib()
    measured = dict(version=version, wall=wall, processor=processor, peak_gib=peak)
    print(json.dumps(measured), flush=True)


def arguments():
    """The worker's command line: one JSON object with work, config, precision, ..."""
    return json.loads(sys.argv[1])
