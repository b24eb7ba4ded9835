"""The weights of a model in one session, restored once and used by any number of threads.

Shape letters: m records, B batch, T tokens of a record, C choices.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine.checkpoint import Restoring
from xlnet.engine.devices import connect, set_up_process, without_registered_gradients
from xlnet.settings.devices import DeviceSettings
from xlnet.support import errors
from xlnet.support.errors import UserError

Tensors = dict[str, tf.Tensor]  # by name


class Caller:
    """The owner of the work that a thread computes. By default it may call the network at any time;
    a server gives its callers turns, and drops work for which no client waits any more."""

    def check(self) -> None:
        """Raises UserError if the work is dropped."""

    def turn(self) -> contextlib.AbstractContextManager[object]:
        """The context of a call of the network; UserError if the work is dropped."""
        return contextlib.nullcontext()

    def shared(self) -> Caller:
        """The caller of work that is done for several callers; it is never dropped."""
        return self


# Long work is many calls of the network, such as one for each token: each is a turn of its own.
CALLER: contextvars.ContextVar[Optional[Caller]] = contextvars.ContextVar(
    "caller", default=None
)


def caller() -> Caller:
    """The owner of the work that this thread computes."""
    return CALLER.get() or Caller()


@contextlib.contextmanager
def as_shared() -> Iterator[None]:
    """Work in the block is done for several callers."""
    token = CALLER.set(caller().shared())
    try:
        yield
    finally:
        CALLER.reset(token)


class Subgraph:
    """A part of what a `RestoredSession` computes: outputs, by `names`, from a batch of inputs."""

    def __init__(self, restored: RestoredSession, inputs: Tensors, outputs: Tensors):
        self.names = tuple(outputs)
        self._restored = restored
        self._inputs = inputs
        self._outputs = outputs

    def outputs(self, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """All outputs, by their names."""
        return self({name: name for name in self.names}, features)

    def __call__(self, names: Any, features: Mapping[str, Any]) -> Any:
        """The outputs of these names, any structure of names.

        Args:
          features: arrays by name; those that are no inputs are ignored.
        """
        wanted = tf.nest.map_structure(self._outputs.__getitem__, names)
        feeds = {
            tensor: features[name]
            for name, tensor in self._inputs.items()
            if name in features
        }
        with caller().turn(), errors.translated_errors(), self._restored.while_open():
            return self._restored.session.run(wanted, feeds)


class RestoredSession:
    """A session with the weights of a checkpoint, of this prefix, and without anything of training.
    Any number of threads may use it."""

    # A graph with several parts on the same variables: a fine-tuned model has those of its task, of
    # vectors, of attention and of explanations, each built and restored when it is first used.

    def __init__(self, prefix: str, device: DeviceSettings):
        set_up_process()
        self._prefix = prefix
        self._graph = tf.Graph()
        # Each process of a launcher, such as srun, has a model of its own.
        self.session = tf.Session(
            graph=self._graph, config=connect(device.on_one_machine()).session_config()
        )
        self.is_closed = False
        self._process = os.getpid()
        self._subgraphs: dict[str, Subgraph] = {}
        self._restored: set[tf.Variable] = (
            set()
        )  # what has the weights of the checkpoint
        self._lock = threading.Lock()

    def subgraph(
        self, name: str, build: Callable[[], tuple[Tensors, Tensors]]
    ) -> Subgraph:
        """The subgraph of this name; `build` builds it the first time, and returns dicts of inputs
        and of outputs, tensors by name."""
        if name in self._subgraphs:
            return self._subgraphs[name]
        with self._lock, self.while_open():
            # another thread may have built it meanwhile
            if name not in self._subgraphs:
                with without_registered_gradients(), self._graph.as_default():
                    subgraph = Subgraph(self, *build())
                    # Parts share weights: only those that are new are read. A part that could not
                    # be restored has left its variables in the graph; they count as new, too.
                    new = [
                        each
                        for each in tf.global_variables()
                        if each not in self._restored
                    ]
                    if new:
                        Restoring(new)(self.session, self._prefix)
                    self._restored.update(new)
                self._subgraphs[name] = subgraph
        return self._subgraphs[name]

    @contextlib.contextmanager
    def while_open(self) -> Iterator[None]:
        """Raises a UserError in a fork of the process, and in place of the failure if another
        thread closes the session meanwhile."""
        self.check_process()
        try:
            yield
        except Exception:
            if self.is_closed:
                raise UserError("the model is closed") from None
            raise

    def check_process(self) -> None:
        """Raises UserError in a fork: it lacks TensorFlow's threads, for which it would wait."""
        if os.getpid() != self._process:
            raise UserError(
                f"the model was loaded in process {self._process} and cannot be used in its fork "
                f"{os.getpid()}: load it in each process"
            )

    def close(self) -> None:
        """Frees the session; no subgraph can be used any more. In a fork it frees nothing."""
        self.is_closed = True
        if os.getpid() == self._process:
            self.session.close()
