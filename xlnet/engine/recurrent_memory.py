"""Memories of earlier sequences: on each device between steps, in a file of each host with each
checkpoint.

Shape letters as in `modeling`; b batch elements of one replica.
"""

from __future__ import annotations

import logging
import os
import re
import time

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint, devices
from xlnet.engine.estimator import Estimator
from xlnet.settings.network import XLNetConfig
from xlnet.support import errors, files

_log = logging.getLogger(__name__)

_SECONDS_FOR_OTHER_HOSTS = 600
_FILE = re.compile(r"memory-(\d+)-(\d+)\.npy")  # step, first batch element


class Memory:
    """The memory of the replica whose graph is being built.

    It is in a local variable of each replica, which stays on the device between steps. The variable
    is in no checkpoint, as its shape depends on the batch size; `save` writes it to a file.

    Args:
      config: the architecture.
      mem_len: M, the number of remembered positions.
      starts_stream: int [b], 1 where a sequence begins a text stream and sees no memory.

    Attributes:
      variable: float32 [b,L,M,D], what the last step has remembered; zeros at first.
      value: float32 [b,L,M,D], the memory that this step sees: `variable`, but zeros where a text
        stream begins.
    """

    def __init__(self, config: XLNetConfig, mem_len: int, starts_stream: tf.Tensor):
        self.variable = devices.local_variable(
            "memory", [starts_stream.shape[0], config.n_layer, mem_len, config.d_model]
        )
        starts = tf.cast(starts_stream, tf.bool)[:, None, None, None]  # [b,1,1,1]
        self.value = tf.where_v2(starts, 0.0, self.variable.read_value())

    def update(self, new: tf.Tensor) -> tf.Operation:
        """The operation that remembers `new` [b,L,M,D]."""
        # The update waits until the step has read the old memory.
        with tf.control_dependencies([self.value]):
            return self.variable.assign(tf.cast(new, tf.float32), read_value=False)


# ---- the files


def load(estimator: Estimator, model_dir: str, run_devices: devices.Devices) -> None:
    """Sets the memories of this host to those of the step from which a training resumes; they are
    empty at its beginning. If they are missing or of another shape, as after a change of the batch
    size, they start empty, with a note.

    Args:
      estimator: of the training that resumes; nothing is done if its `memory` is empty.
      model_dir: the model directory, which all hosts share.
      run_devices: of the run, perhaps other ones than those that saved.
    """
    if not estimator.memory or not estimator.step:
        return
    # Each host of the earlier run wrote a file with its part of the global batch. Of its memories
    # the first axis is the batch, [b,L,M,D].
    stored: list[np.ndarray] = []
    for path in _paths_of_step(model_dir, estimator.step):
        with errors.reading(path, "remove it: memories start empty"):
            stored.append(np.lib.format.open_memmap(path, mode="r"))
    rows, *shape = estimator.memory[0].shape.as_list()  # b, [L,M,D]
    expected = [rows * run_devices.replicas, *shape]
    found = []
    if stored:
        found = [sum(map(len, stored)), *stored[0].shape[1:]]
    if found != expected:
        _log.info(
            "note: the memories of step %d have the shape %s, those of this run %s: they start "
            "empty",
            estimator.step,
            found,
            expected,
        )
        return
    # The files are mapped: of each those batch elements are read that are this host's. Example: two
    # hosts wrote 0 to 3 and 4 to 7; of these the second of four hosts, with the elements 2 and 3,
    # reads the last two of the first file, and nothing of the other.
    host_rows = run_devices.rows(expected[0])
    first = 0  # the batch element with which a file begins
    read = []
    for of_file in stored:
        begin, end = max(host_rows.start - first, 0), max(host_rows.stop - first, 0)
        read.append(of_file[begin:end])
        first += len(of_file)
    of_replicas = np.split(np.concatenate(read), len(estimator.memory))
    for variable, memory in zip(estimator.memory, of_replicas):
        devices.set_value(estimator.session, variable, memory)


def save(estimator: Estimator, model_dir: str, run_devices: devices.Devices) -> None:
    """Saves the memories of this host, float32 [its batch elements,L,M,D], as
    `memory-<step>-<first batch element>.npy`; nothing if `estimator` has none.

    The first host then waits for the files of all hosts: it writes the checkpoint after this, so no
    checkpoint lacks a memory.

    Args:
      estimator: whose memories are saved.
      model_dir: the model directory, which all hosts share.
      run_devices: of the run.

    Raises:
      UserError: the file of a host does not come.
    """
    if not estimator.memory:
        return
    # Of the replicas of this host, in order. All hosts have the same number of batch elements.
    memories = np.concatenate(estimator.session.run(list(estimator.memory)))
    step, first = estimator.step, len(memories) * run_devices.host
    path = os.path.join(model_dir, f"memory-{step}-{first}.npy")
    with files.writing(path) as f:
        np.save(f, memories)
    if not run_devices.is_chief:
        return
    estimator.host_monitor.is_waiting = True
    end = time.time() + _SECONDS_FOR_OTHER_HOSTS
    while len(_paths_of_step(model_dir, step)) < run_devices.hosts:
        if time.time() > end:
            found = f"no memory-{step}-*.npy of a host"
            raise errors.wrong(model_dir, found, "one directory of all hosts")
        time.sleep(0.02)
    estimator.host_monitor.is_waiting = False


def remove_without_checkpoint(model_dir: str) -> None:
    """Removes the files of memories of steps whose checkpoint does not exist (any more)."""
    kept = {step for step, _ in checkpoint.all_prefixes(model_dir)}
    for step, _, path in _memory_files(model_dir):
        if step not in kept:
            os.remove(path)


def _paths_of_step(model_dir: str, step: int) -> list[str]:
    """The paths of the files of a step, ordered by their first batch element."""
    return [path for saved, _, path in _memory_files(model_dir) if saved == step]


def _memory_files(model_dir: str) -> list[tuple[int, int, str]]:
    """(step, first batch element, path) of all files of memories in a model directory, sorted."""
    found = []
    for name in os.listdir(model_dir):
        match = _FILE.fullmatch(name)
        if match:
            step, first = match.groups()
            found.append((int(step), int(first), os.path.join(model_dir, name)))
    return sorted(found)
