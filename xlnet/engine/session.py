"""The weights of a checkpoint in one session, used by any number of threads."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint
from xlnet.engine.devices import Devices, divide_cores, unregistering_gradients
from xlnet.model.ops import Arrays, Tensors
from xlnet.support import errors


class RestoredSession:
    """A session with the weights of a checkpoint on each device, and without anything of training.
    Any number of threads may use it.

    Args:
      devices: those that have the weights.
      prefix: of the checkpoint; None: `restore` is called before the first batch.
      parallel_batches: how many batches each device computes in parallel, each on its part of the
        cores, see `Devices.parallel_batches`; 1 where the process also trains.

    Attributes:
      session: TensorFlow's, whose graph has all subgraphs.
      call_in_turn: calls a function that runs the network, and returns what it returns. A server
        replaces it, so that long work, which is many calls, gives way to others after each of them.
    """

    # The graph has several subgraphs on the same variables: a fine-tuned model has those of its
    # task, of vectors and of attention, each built and restored when it is first used.

    def __init__(
        self, devices: Devices, prefix: str | None = None, parallel_batches: int = 1
    ):
        self._prefix = prefix
        # The default strategy has one replica.
        self._strategy = devices.strategy or tf2.distribute.get_strategy()
        config = devices.session_config()
        if parallel_batches > 1:
            divide_cores(config, parallel_batches)
        self._parallel_batches = parallel_batches
        self.session = tf.Session(graph=tf.Graph(), config=config)
        self.call_in_turn: Callable[..., Any] = lambda function: function()
        self._copies_by_name: dict[str, list[Subgraph]] = {}  # see `copies`
        self._restored: set[str] = set()  # names of variables with weights of `prefix`
        self._lock = threading.Lock()

    def copies(
        self, name: str, build: Callable[[], tuple[Tensors, Tensors]]
    ) -> list[Subgraph]:
        """The copies of a subgraph on the devices, each once for each batch that its device
        computes at the same time: with two devices and two batches on each, those on the devices 0,
        1, 0, 1. They are built, and their weights read, when the name comes for the first time.

        Args:
          name: of the subgraph, such as "task".
          build: called once for each device: builds the subgraph there; returns its `inputs` and
            `outputs`.
        """
        with self._lock:
            if name not in self._copies_by_name:
                with (
                    unregistering_gradients(),
                    self.session.graph.as_default(),
                    self._strategy.scope(),
                ):
                    built = self._strategy.extended.call_for_each_replica(build)
                    of_devices = []
                    # (inputs, outputs) of each device
                    for tensors in self._strategy.experimental_local_results(built):
                        of_devices.append(Subgraph(self, *tensors))
                    self._restore_new()
                # The list is repeated, as each device computes several batches.
                self._copies_by_name[name] = of_devices * self._parallel_batches
            return self._copies_by_name[name]

    def _restore_new(self) -> None:
        """Reads the weights of the variables that have none yet, if there is a checkpoint."""
        # Subgraphs share weights: only those that are new are read. A subgraph that could not be
        # restored has left its variables in the graph; they count as new, too.
        new = [v for v in tf.global_variables() if v.name not in self._restored]
        if new and self._prefix is not None:
            checkpoint.restore(self.session, self._prefix, new)
            self._restored.update(v.name for v in new)

    def restore(self, prefix: str) -> None:
        """Takes the weights of another checkpoint; a UserError if it is not complete. The caller
        must not compute a batch meanwhile."""
        self._prefix = prefix
        self._restored.clear()
        with self.session.graph.as_default(), self._strategy.scope():
            self._restore_new()


@dataclasses.dataclass(eq=False)
class Subgraph:
    """A part of the graph of a `RestoredSession`, on one device, such as the network of a task with
    its outputs.

    Attributes:
      restored: the session.
      inputs: placeholders of a batch, by name.
      outputs: tensors that are computed from them, by name.
    """

    restored: RestoredSession
    inputs: Tensors
    outputs: Tensors

    def compute(self, names: Iterable[str], features: Mapping[str, Any]) -> Arrays:
        """Computes some outputs for a batch; returns arrays by name.

        Args:
          names: keys of `outputs`.
          features: arrays by name; those that are not inputs are ignored. An input may be missing
            if these outputs do not depend on it.
        """
        # At once; on a server, when the caller has a turn.
        return self.restored.call_in_turn(lambda: self.run_session(names, features))

    def run_session(self, names: Iterable[str], features: Mapping[str, Any]) -> Arrays:
        """Computes without waiting for a turn; arguments and result as of `compute`. Called
        directly only for what takes hardly any time."""
        wanted = {name: self.outputs[name] for name in names}
        feeds = {}
        for name, tensor in self.inputs.items():
            if name in features:
                feeds[tensor] = features[name]
        with errors.translated_errors():
            return self.restored.session.run(wanted, feeds)


def in_parallel(
    copies: Sequence[Subgraph], batches: Iterable[Arrays]
) -> Iterator[tuple[Arrays, Arrays]]:
    """Yields (batch, all outputs for it) in the order of the batches. The copies of a subgraph,
    those of `RestoredSession.copies`, compute in parallel: one on each device, but two on a CPU
    that is alone and does not train (`Devices.parallel_batches`)."""
    if len(copies) == 1:  # in this thread, so that a server knows whose turn it is
        (copy,) = copies
        for batch in batches:
            yield batch, copy.compute(copy.outputs, batch)
        return
    # (batch, the future of its outputs), the oldest first
    running: collections.deque[Any] = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(len(copies)) as pool:
        # Copies take batches in turn: the oldest one in work is that of the next copy.
        for copy, batch in zip(itertools.cycle(copies), batches):
            if len(running) == len(copies):
                oldest, outputs = running.popleft()
                yield oldest, outputs.result()
            future = pool.submit(copy.compute, copy.outputs, batch)
            running.append((batch, future))
        for batch, outputs in running:
            yield batch, outputs.result()
