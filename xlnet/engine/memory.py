"""Memories: on each device those of its own rows, from step to step; beside each checkpoint a file.

Shape letters as in `modeling`; b rows of one replica.
"""

from __future__ import annotations

import glob
import logging
import os
from typing import Optional

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet import files
from xlnet.config import XLNetConfig
from xlnet.engine import checkpoint, distribution, hosts
from xlnet.errors import UserError

_log = logging.getLogger(__name__)

_MEMORIES = "memories"     # the graph's collection of memory variables, one from each replica
_SECONDS_FOR_OTHER_HOSTS = 600


class Memory:
    """The memory of the replica whose graph is being built: `value` float32 [b,L,M,D].

    A local variable that each replica has for itself: it never visits the host between steps.

    Args:
      mem_len: M. starts_stream: int32 [b], 1 where nothing is remembered.
    """

    def __init__(self, config: XLNetConfig, mem_len: int, starts_stream: tf.Tensor):
        self._variable = tf.get_variable(
            "memory", [starts_stream.shape[0], config.n_layer, mem_len, config.d_model], tf.float32,
            distribution.zeros, trainable=False, use_resource=True,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        tf.add_to_collection(_MEMORIES, self._variable)
        continues = 1. - tf.cast(starts_stream, tf.float32)
        self.value = self._variable.read_value() * continues[:, None, None, None]

    def update(self, new: tf.Tensor) -> tf.Operation:
        """The operation that remembers `new` [b,L,M,D]."""
        with tf.control_dependencies([self.value]):
            return self._variable.assign(tf.cast(new, tf.float32), read_value=False)


class MemoryFiles:
    """The memories of all rows, saved beside each checkpoint and loaded where a run goes on.

    Each host saves its rows as `memory-<step>-<first row>.npy`, before the checkpoint of that step
    is written: none is ever without. A run with other devices takes its rows from these files.

    Args:
      model_dir: shared by all hosts. batch_size: of the global batch.
    """

    def __init__(self, model_dir: str, devices: distribution.Devices, batch_size: int):
        self._model_dir = model_dir
        self._devices = devices
        self._batch_size = batch_size

    def begin(self) -> None:
        """To be called when the graph stands."""
        found = tf.get_collection(_MEMORIES)     # the same variable from each replica
        self._parts = list(distribution.local_parts(found[0])) if found else []
        self._values = [tf.placeholder(tf.float32, part.shape) for part in self._parts]
        self._load = tf.group(*[part.assign(value, read_value=False)
                                for part, value in zip(self._parts, self._values)])

    def load(self, session: tf.Session, step: int) -> None:
        """Fills the memory with what was saved at `step`; empty, with a note, if that is missing,
        damaged or of another shape."""
        if not self._parts or not step:
            return
        try:
            stored = self._read(step)
        except (ValueError, OSError, EOFError) as e:
            _log.info("note: %s %s; memories start empty", _path(self._model_dir, step, "*"), e)
            return
        rows = np.split(stored[self._devices.rows(self._batch_size)], len(self._parts))
        session.run(self._load, dict(zip(self._values, rows)))

    def _read(self, step):
        """What `read` returns; a ValueError where that does not fit this run."""
        stored = read(self._model_dir, step)
        shape = [self._batch_size] + self._parts[0].shape.as_list()[1:]
        if stored is None:
            raise ValueError("is missing")
        if list(stored.shape) != shape:
            raise ValueError("has shape %s, this run's is %s" % (list(stored.shape), shape))
        return stored

    def save(self, session: tf.Session, step: int) -> None:
        """Saves this host's rows; the chief returns when those of all hosts are there."""
        if not self._parts:
            return
        first = self._devices.rows(self._batch_size).start
        with files.replacing(_path(self._model_dir, step, first)) as temporary:
            with open(temporary, "wb") as f:
                np.save(f, np.concatenate(session.run(self._parts)))
        if self._devices.is_chief:
            self._wait(step)

    def _wait(self, step):
        pattern = _path(self._model_dir, step, "*")
        if not hosts.wait_until(lambda: len(glob.glob(pattern)) >= self._devices.hosts,
                                _SECONDS_FOR_OTHER_HOSTS):
            raise UserError("model_dir: after %d s %s is not there from all hosts, which must "
                            "share the directory" % (_SECONDS_FOR_OTHER_HOSTS, pattern))

    def forget(self) -> None:
        """Drops the memories of checkpoints that are gone, or never came to be."""
        kept = {step for step, _ in checkpoint.all_prefixes(self._model_dir)}
        for path in glob.glob(_path(self._model_dir, "*", "*")):
            if _step_and_row(path)[0] not in kept:
                os.remove(path)


def read(model_dir: str, step: int) -> Optional[np.ndarray]:
    """The memories of all rows at `step`, float32 [B,L,M,D]; None if they were not saved.

    Raises:
      ValueError, OSError, EOFError: a file is damaged.
    """
    paths = sorted(glob.glob(_path(model_dir, step, "*")), key=_step_and_row)
    return np.concatenate([np.load(path) for path in paths]) if paths else None


def _path(model_dir, step, first_row):
    return os.path.join(model_dir, "memory-%s-%s.npy" % (step, first_row))


def _step_and_row(path: str) -> tuple[int, int]:
    """The step and the first row in a name of `_path`."""
    _, step, row = os.path.basename(path)[:-len(".npy")].split("-")
    return int(step), int(row)
