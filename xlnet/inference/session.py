"""The weights of a model in one session, restored once and used by any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint
from xlnet.engine.devices import connect, without_registered_gradients
from xlnet.settings.devices import DeviceSettings
from xlnet.support import errors
from xlnet.support.errors import UserError

Tensors = dict[str, tf.Tensor]  # by name


class Subgraph:
    """A part of what a `RestoredSession` computes: outputs from a batch of inputs, by name."""

    def __init__(self, restored: RestoredSession, inputs: Tensors, outputs: Tensors):
        self._restored = restored
        self._inputs = inputs
        self._outputs = outputs

    def outputs(self, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """All outputs, by their names."""
        names = list(self._outputs)
        return dict(zip(names, self(names, features)))

    def __call__(self, names: Sequence[str], features: Mapping[str, Any]) -> list:
        """The outputs of these names.

        Args:
          features: arrays by name; those that are no inputs are ignored.
        """
        return self._restored.call(lambda: self.run(names, features))

    def run(self, names: Sequence[str], features: Mapping[str, Any]) -> list:
        """The same without waiting for a turn: for what takes no time."""
        wanted = [self._outputs[name] for name in names]
        feeds = {}
        for name, tensor in self._inputs.items():
            if name in features:
                feeds[tensor] = features[name]
        with errors.translated_errors():
            return self._restored.session.run(wanted, feeds)


class RestoredSession:
    """A session with the weights of a checkpoint, of this prefix, and without anything of training.
    Any number of threads may use it.

    Attributes:
      call: calls a function that runs the network, and returns what it returns. A server replaces
        it, so that long work, which is many calls, gives way to others after each of them.
    """

    # A graph with several parts on the same variables: a fine-tuned model has those of its task, of
    # vectors and of attention, each built and restored when it is first used.

    def __init__(self, prefix: str, device: DeviceSettings):
        self._prefix = prefix
        self._graph = tf.Graph()
        # Each process of a launcher, such as srun, has a model of its own.
        devices = connect(device.on_one_machine())
        self.session = tf.Session(graph=self._graph, config=devices.session_config())
        self.call: Callable[[Callable[[], Any]], Any] = lambda function: function()
        self._subgraphs: dict[str, Subgraph] = {}
        self._restored: set[tf.Variable] = set()  # with the weights of the checkpoint
        self._lock = threading.Lock()

    def subgraph(
        self, name: str, build: Callable[[], tuple[Tensors, Tensors]]
    ) -> Subgraph:
        """The subgraph of this name; `build` builds it the first time, and returns dicts of inputs
        and of outputs, tensors by name."""
        with self._lock:
            if name not in self._subgraphs:
                with without_registered_gradients(), self._graph.as_default():
                    subgraph = Subgraph(self, *build())
                    # Parts share weights: only those that are new are read. A part that could not
                    # be restored has left its variables in the graph; they count as new, too.
                    new = [v for v in tf.global_variables() if v not in self._restored]
                    if new:
                        checkpoint.restore(self.session, self._prefix, new)
                    self._restored.update(new)
                self._subgraphs[name] = subgraph
            return self._subgraphs[name]


def require_finite(values: np.ndarray) -> None:
    """Raises UserError for outputs of the network that are not finite numbers: whatever is chosen
    by them would look like an answer."""
    if not np.isfinite(values).all():
        raise UserError(
            "the outputs of the network are not finite numbers; if precision is fp16, give fp32"
        )
