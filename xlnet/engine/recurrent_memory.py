"""Memories of earlier sequences: on each device between steps, in a file with each checkpoint.

Shape letters as in `modeling`; b batch elements of one replica.
"""

from __future__ import annotations

import logging
import os
import re
import time

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint, devices, multi_host
from xlnet.engine.devices import Devices
from xlnet.settings.network import XLNetConfig
from xlnet.support import errors, files

_log = logging.getLogger(__name__)

# The graph's collection of memory variables, one from each replica.
_MEMORIES = "memories"
_SECONDS_FOR_OTHER_HOSTS = 600
_FILE = re.compile(r"memory-(\d+)-(\d+)\.npy")  # step, first batch element


class Memory:
    """The memory of the replica whose graph is being built: `value` float32 [b,L,M,D], empty where
    `starts_stream`, int [b], is 1.

    A local variable of each replica: it stays on the device between steps and is in no checkpoint,
    whose variables do not depend on the batch size.
    """

    def __init__(self, config: XLNetConfig, mem_len: int, starts_stream: tf.Tensor):
        self._variable = devices.local_variable(
            "memory", [starts_stream.shape[0], config.n_layer, mem_len, config.d_model]
        )
        tf.add_to_collection(_MEMORIES, self._variable)
        starts = tf.cast(starts_stream, tf.bool)[:, None, None, None]
        self.value = tf.where_v2(starts, 0.0, self._variable.read_value())

    def update(self, new: tf.Tensor) -> tf.Operation:
        """The operation that remembers `new` [b,L,M,D]."""
        # The update waits until the step has read the old memory.
        with tf.control_dependencies([self.value]):
            return self._variable.assign(tf.cast(new, tf.float32), read_value=False)


class MemoryFiles:
    """Saves the memories of the graph, if it has any, with each checkpoint; loads them on resume.

    Each host saves those of its batch elements as `memory-<step>-<first element>.npy`, before the
    checkpoint of that step, so no checkpoint lacks them. Each host reads its own batch elements,
    also when the number of devices has changed.
    """

    def __init__(self, model_dir: str, run_devices: Devices):
        self._model_dir = model_dir  # shared by all hosts
        self._devices = run_devices
        found = tf.get_collection(_MEMORIES)  # the same variable from each replica
        self._parts = list(devices.local_parts(found[0])) if found else []

    def load(self, session: tf.Session, step: int) -> None:
        """Loads the memory saved at `step`. If it is missing or of another shape, as after a change
        of the batch size, it starts empty, with a note."""
        if not self._parts or not step:
            return
        # Each host of the earlier run wrote a file with its part of the global batch.
        stored: list[np.ndarray] = []
        for path in _saved(self._model_dir, step):
            with errors.reading(path, "remove it: memories start empty"):
                stored.append(np.lib.format.open_memmap(path, mode="r"))
        part = self._parts[0].shape.as_list()
        expected = [part[0] * self._devices.replicas, *part[1:]]
        found = [sum(map(len, stored)), *stored[0].shape[1:]] if stored else []
        if found != expected:
            _log.info(
                "note: the memories of step %d have the shape %s, those of this run %s: they start "
                "empty",
                step,
                found,
                expected,
            )
            return
        # Example: eight batch elements were saved by two hosts; memory-500-0.npy has the elements 0
        # to 3, memory-500-4.npy the others. If the run resumes on four hosts, the third one reads
        # the elements 4 and 5. The files are mapped: no others are read.
        own, first, read = self._devices.rows(expected[0]), 0, []
        for values in stored:
            read.append(values[max(own.start - first, 0) : max(own.stop - first, 0)])
            first += len(values)
        memories = np.split(np.concatenate(read), len(self._parts))
        for variable, values in zip(self._parts, memories):
            devices.set_value(session, variable, values)

    def save(self, session: tf.Session, step: int) -> None:
        """Saves the memories of this host; on the chief, waits for those of all hosts."""
        if not self._parts:
            return
        memories = np.concatenate(session.run(self._parts))
        first = len(memories) * self._devices.host
        path = os.path.join(self._model_dir, f"memory-{step}-{first}.npy")
        with files.replacing(path) as temporary, open(temporary, "wb") as f:
            np.save(f, memories)
        if self._devices.is_chief:
            self._wait_for_all(step)

    def _wait_for_all(self, step: int) -> None:
        """Waits until all hosts have saved: the chief writes its checkpoint after this, so none
        lacks a memory."""
        began, looks = time.time(), 1
        while len(_saved(self._model_dir, step)) < self._devices.hosts:
            time.sleep(0.02)
            waited = time.time() - began
            if waited > _SECONDS_FOR_OTHER_HOSTS:
                found = f"no memory-{step}-*.npy of a host for {waited:.0f} s"
                raise errors.wrong(self._model_dir, found, "one directory of all hosts")
            if waited > looks * multi_host.SECONDS_BETWEEN_LOOKS:
                looks += 1
                host = multi_host.missing()
                if host:
                    raise multi_host.Lost(host)


def forget(model_dir: str) -> None:
    """Removes the memories without a checkpoint."""
    kept = {step for step, _ in checkpoint.all_prefixes(model_dir)}
    for name in os.listdir(model_dir):
        match = _FILE.fullmatch(name)
        if match and int(match[1]) not in kept:
            os.remove(os.path.join(model_dir, name))


def _saved(model_dir: str, step: int) -> list[str]:
    """The files of a step, by their first batch element."""
    found = []
    for name in os.listdir(model_dir):
        match = _FILE.fullmatch(name)
        if match and int(match[1]) == step:
            found.append((int(match[2]), os.path.join(model_dir, name)))
    return [path for _, path in sorted(found)]
