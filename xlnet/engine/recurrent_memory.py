"""Memories of earlier sequences: on each device between steps, in a file with each checkpoint.

Shape letters as in `modeling`; b batch elements of one replica.
"""

from __future__ import annotations

import logging
import math
import os
import re
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet import files
from xlnet.engine import checkpoint, devices, multi_host
from xlnet.engine.devices import Devices
from xlnet.errors import UserError
from xlnet.settings.network import XLNetConfig

_log = logging.getLogger(__name__)

_MEMORIES = "memories"  # the graph's collection of memory variables, one from each replica
_SECONDS_FOR_OTHER_HOSTS = 600


class Memory:
    """The memory of the replica whose graph is being built: `value` float32 [b,L,M,D], empty where
    `starts_stream`, int [b], is 1.

    A local variable of each replica: it stays on the device between steps and is in no checkpoint,
    whose variables do not depend on the batch size.
    """

    def __init__(self, config: XLNetConfig, mem_len: int, starts_stream: tf.Tensor):
        self._variable = tf.get_variable(
            "memory",
            [starts_stream.shape[0], config.n_layer, mem_len, config.d_model],
            tf.float32,
            devices.zeros,
            trainable=False,
            use_resource=True,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
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
    """Saves the memories of the global batch with each checkpoint, loads them on resume.

    Each host saves those of its batch elements as `memory-<step>-<first element>.npy`, before the
    checkpoint of that step, so no checkpoint lacks them. Each host reads only its own batch
    elements, also when the number of devices has changed.

    A file is an array float32 [b,L,M,D], then the checksums of its batch elements, uint32 [b].
    """

    def __init__(self, model_dir: str, devices: Devices, batch_size: int):
        self._model_dir = model_dir  # shared by all hosts
        self._devices = devices
        self._batch_size = batch_size  # of all of them

    def begin(self) -> None:
        """Finds the memory of this host in the graph, which must be complete, and adds the
        operation that loads it."""
        found = tf.get_collection(_MEMORIES)  # the same variable from each replica
        self._parts = list(devices.local_parts(found[0])) if found else []
        self._values = [tf.placeholder(tf.float32, part.shape) for part in self._parts]
        self._load = tf.group(
            *[
                part.assign(value, read_value=False)
                for part, value in zip(self._parts, self._values)
            ]
        )

    def load(self, session: tf.Session, step: int) -> None:
        """Loads the memory saved at `step`. If it is missing, damaged or of another shape, the
        memory starts empty, with a note."""
        if not self._parts or not step:
            return
        try:
            stored = self._read(step)
        except (ValueError, OSError) as e:
            _log.info("note: %s %s; memories start empty", _path(self._model_dir, step, "*"), e)
            return
        session.run(self._load, dict(zip(self._values, np.split(stored, len(self._parts)))))

    def _read(self, step: int) -> np.ndarray:
        """The memories of this host; a ValueError if the files do not fit this run."""
        # Each host of the earlier run wrote a file with its part of the global batch.
        paths = [path for saved_at, _, path in _found(self._model_dir) if saved_at == step]
        if not paths:
            raise ValueError("is missing")
        stored = [files.read_array(path, mapped=True) for path in paths]
        shape_of_element = stored[0].shape[1:]
        found = [sum(map(len, stored)), *shape_of_element]
        expected = [self._batch_size, *self._parts[0].shape.as_list()[1:]]
        if found != expected or any(part.shape[1:] != shape_of_element for part in stored):
            raise ValueError(f"has shape {found}, this run's is {expected}")
        types = {part.dtype for part in stored}
        if types != {np.dtype("<f4")}:  # the checksums cover bytes, not their meaning
            raise ValueError(f"has numbers of type {types.pop()}, expected float32")
        return _rows(paths, stored, self._devices.rows(self._batch_size))

    def save(self, session: tf.Session, step: int) -> None:
        """Saves the memories of this host; on the chief, waits for those of all hosts."""
        if not self._parts:
            return
        first = self._devices.rows(self._batch_size).start
        with files.replacing(_path(self._model_dir, step, first)) as temporary:
            write(temporary, np.concatenate(session.run(self._parts)))
        if not self._devices.is_chief:
            return

        # The chief writes its checkpoint after this: a checkpoint has the memories of all hosts.
        def have_all_saved() -> bool:
            steps = [saved_at for saved_at, _, _ in _found(self._model_dir)]
            return steps.count(step) >= self._devices.hosts

        if not multi_host.wait_until(have_all_saved, _SECONDS_FOR_OTHER_HOSTS):
            raise UserError(
                "model_dir: after {} s {} is not there from all hosts, which must "
                "share the directory".format(
                    _SECONDS_FOR_OTHER_HOSTS, _path(self._model_dir, step, "*")
                )
            )

    def forget(self) -> None:
        """Removes the memories without a checkpoint."""
        kept = {step for step, _ in checkpoint.all_prefixes(self._model_dir)}
        for step, _, path in _found(self._model_dir):
            if step not in kept:
                os.remove(path)


def write(path: str, memories: np.ndarray) -> None:
    """Writes memories float32 [b,L,M,D] and their checksums."""
    with open(path, "wb") as f:
        np.save(f, memories)
        np.save(f, _checksums(memories))


def _checksums(memories: np.ndarray) -> np.ndarray:
    return np.array([zlib.crc32(row.tobytes()) for row in memories], np.uint32)


def _rows(paths: Sequence[str], stored: Sequence[np.ndarray], rows: slice) -> np.ndarray:
    """Reads a slice of the arrays that several files hold together; a ValueError if one of them is
    damaged."""
    # Example: eight batch elements were saved by two hosts; memory-500-0.npy has the elements 0 to
    # 3, memory-500-4.npy the others. If the run resumes on four hosts, the third one reads the
    # elements 4 and 5, the first two of the second file.
    parts, first = [], 0
    for path, part in zip(paths, stored):
        here = slice(max(rows.start - first, 0), max(min(rows.stop - first, len(part)), 0))
        wanted = np.array(part[here])  # the file is memory-mapped, so no other rows are read
        if len(wanted):
            with open(path, "rb") as f:  # the checksums follow the array
                np.lib.format.read_magic(f)
                shape, _, dtype = np.lib.format.read_array_header_1_0(f)
                f.seek(dtype.itemsize * math.prod(shape), os.SEEK_CUR)
                damaged = np.flatnonzero(_checksums(wanted) != files.read_array(f)[here])
            if len(damaged):
                raise ValueError(f"is damaged: row {here.start + damaged[0]} of {path}")
            parts.append(wanted)
        first += len(part)
    return np.concatenate(parts)


def _path(model_dir: str, step: int, first_row: Any) -> str:
    return os.path.join(model_dir, f"memory-{step}-{first_row}.npy")


def _found(model_dir: str) -> list[tuple[int, int, str]]:
    """(step, first row, path) of the files that are there, in order."""
    names = filter(
        None, (re.fullmatch(r"memory-(\d+)-(\d+)\.npy", name) for name in os.listdir(model_dir))
    )
    return sorted((int(name[1]), int(name[2]), os.path.join(model_dir, name[0])) for name in names)
