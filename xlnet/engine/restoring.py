"""The variables of a graph from a checkpoint, as those read it who do not train on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint, distribution


class Restoring:
    """Reads variables of the graph in which it is made, on all devices of the strategy that is
    open. Moving averages of weights take their place where a checkpoint has them.

    Args:
      variables: those that are read; all of the graph if not given.
    """

    def __init__(self, variables: Optional[Sequence[tf.Variable]] = None) -> None:
        self._variables = tf.global_variables() if variables is None else variables
        self._names = [distribution.base_name(variable) for variable in self._variables]
        with tf.device("/cpu:0"):
            self._prefix = tf.placeholder(tf.string, [])
            self._stored = tf.placeholder(tf.string, [len(self._variables)])
            values = tf.raw_ops.RestoreV2(
                prefix=self._prefix, tensor_names=self._stored,
                shape_and_slices=[""] * len(self._variables),
                dtypes=[tf.float32 if variable.dtype.is_floating else variable.dtype
                        for variable in self._variables])
        self._restore = tf.group(*[
            part.assign(tf.cast(tf.ensure_shape(value, part.shape), part.dtype), read_value=False)
            for variable, value in zip(self._variables, values)
            for part in distribution.local_parts(variable)])

    def __call__(self, session: tf.Session, prefix: str) -> None:
        """Reads the checkpoint `prefix`.

        Raises:
          UserError: it is not whole, or not float32.
        """
        with checkpoint.reading(prefix):
            checkpoint.check_type(prefix)
            stored = checkpoint.weights(prefix)
            session.run(self._restore, {
                self._prefix: prefix,
                self._stored: [stored.get(name, name) for name in self._names]})
