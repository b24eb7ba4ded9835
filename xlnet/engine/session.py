"""The weights of a checkpoint in one session, used by any number of threads."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint
from xlnet.engine.devices import Devices, divide_cores, without_registered_gradients
from xlnet.model.ops import Arrays, Tensors
from xlnet.support import errors


@dataclasses.dataclass(eq=False)
class Subgraph:
    """A part of the graph of a `RestoredSession`, on one device.

    Attributes:
      restored: the session.
      inputs: placeholders of a batch, by name.
      results: tensors that are computed from them, by name.
    """

    restored: RestoredSession
    inputs: Tensors
    results: Tensors

    def outputs(self, features: Mapping[str, Any]) -> Arrays:
        """All results for a batch, by their names; features: as of `__call__`."""
        return dict(zip(self.results, self(self.results, features)))

    def __call__(self, names: Iterable[str], features: Mapping[str, Any]) -> list:
        """The results of these names for a batch, arrays in the order of the names.

        Args:
          names: keys of `results`.
          features: arrays by name; those that are no inputs are ignored. An input may be missing if
            the results do not depend on it.
        """
        return self.restored.call(lambda: self.run(names, features))

    def run(self, names: Iterable[str], features: Mapping[str, Any]) -> list:
        """As `__call__`, but at once: on a server this does not wait until the caller has its turn
        (`RestoredSession.call`). For what takes hardly any time."""
        wanted = [self.results[name] for name in names]
        feeds = {}
        for name, tensor in self.inputs.items():
            if name in features:
                feeds[tensor] = features[name]
        with errors.translated_errors():
            return self.restored.session.run(wanted, feeds)


class RestoredSession:
    """A session with the weights of a checkpoint on each device, and without anything of training.
    Any number of threads may use it.

    Args:
      devices: those that have the weights.
      prefix: of the checkpoint; None: `restore` is called before the first batch.
      at_once: batches that each device computes in parallel, each on its part of the cores, see
        `Devices.parallel_batches`; 1 where the process also trains.

    Attributes:
      session: TensorFlow's, whose graph has all subgraphs.
      call: calls a function that runs the network, and returns what it returns. A server replaces
        it, so that long work, which is many calls, gives way to others after each of them.
    """

    # A graph with several parts on the same variables: a fine-tuned model has those of its task, of
    # vectors and of attention, each built and restored when it is first used.

    def __init__(self, devices: Devices, prefix: str | None = None, at_once: int = 1):
        self._prefix = prefix
        self._strategy = devices.strategy or tf2.distribute.get_strategy()
        config = devices.session_config()
        if at_once > 1:
            divide_cores(config, at_once)
        self._at_once = at_once
        self.session = tf.Session(graph=tf.Graph(), config=config)
        self.call: Callable[[Callable[[], Any]], Any] = lambda function: function()
        self._copies: dict[str, list[Subgraph]] = {}  # see `copies`
        self._restored: set[str] = set()  # names of variables with weights of `prefix`
        self._lock = threading.Lock()

    def copies(
        self, name: str, build: Callable[[], tuple[Tensors, Tensors]]
    ) -> list[Subgraph]:
        """The subgraph of this name, once for each of the batches that are computed at the same
        time: with two devices and two batches on each, those of the devices 0, 1, 0, 1.

        Args:
          name: of the subgraph, such as "task".
          build: called for each device the first time: builds the subgraph there; returns its
            `inputs` and `results`.
        """
        with self._lock:
            if name not in self._copies:
                with (
                    without_registered_gradients(),
                    self.session.graph.as_default(),
                    self._strategy.scope(),
                ):
                    built = self._strategy.extended.call_for_each_replica(build)
                    of_devices = []
                    for tensors in self._strategy.experimental_local_results(built):
                        of_devices.append(Subgraph(self, *tensors))
                    self._restore_new()
                # The list is repeated: each device computes `at_once` batches.
                self._copies[name] = self._at_once * of_devices
            return self._copies[name]

    def _restore_new(self) -> None:
        """Reads the weights of the variables that have none yet, if there is a checkpoint."""
        # Parts share weights: only those that are new are read. A part that could not be restored
        # has left its variables in the graph; they count as new, too.
        new = [v for v in tf.global_variables() if v.name not in self._restored]
        if new and self._prefix is not None:
            checkpoint.restore(self.session, self._prefix, new)
            self._restored.update(v.name for v in new)

    def restore(self, prefix: str) -> None:
        """Takes the weights of another checkpoint; a UserError if it is not complete. No batch is
        computed meanwhile."""
        self._prefix = prefix
        self._restored.clear()
        with self.session.graph.as_default(), self._strategy.scope():
            self._restore_new()


def in_parallel(
    copies: Sequence[Subgraph], batches: Iterable[Arrays]
) -> Iterator[tuple[Arrays, Arrays]]:
    """Yields batches and the outputs of each, in the order of the batches. Each copy of a subgraph
    has one of them in work."""
    if len(copies) == 1:  # in this thread, whose turn a server knows
        for batch in batches:
            yield batch, copies[0].outputs(batch)
        return
    running: collections.deque[Any] = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(len(copies)) as pool:
        # Copies take batches in turn: the oldest one in work is that of the next copy.
        for copy, batch in zip(itertools.cycle(copies), batches):
            if len(running) == len(copies):
                before, outputs = running.popleft()
                yield before, outputs.result()
            running.append((batch, pool.submit(copy.outputs, batch)))
        for batch, outputs in running:
            yield batch, outputs.result()


def require_finite(values: np.ndarray) -> None:
    """Raises UserError for outputs of the network that are not finite numbers: whatever is chosen
    by them would look like an answer."""
    if not np.isfinite(values).all():
        raise errors.UserError(
            "the outputs of the network are not finite numbers; if precision is fp16, give fp32"
        )
