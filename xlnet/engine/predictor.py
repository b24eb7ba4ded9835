"""Outputs of a checkpoint for batches of data, on all devices of a run.

Shape letters: m examples, B batch.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet.engine import devices
from xlnet.engine.checkpoint import Restoring
from xlnet.engine.devices import Devices
from xlnet.engine.estimator import is_end_of_data


class CheckpointOutputs:
    """A copy of the network on each device, built once for all data and checkpoints of a run.

    With one source of batches, each device takes the next batch as soon as it is free: the batches,
    and with them the outputs, are those of a single device. With a source for each device, local
    variables, such as a memory, are zero at the start and carried from batch to batch. EMA weights
    are used where a checkpoint has them.

    Args:
      outputs: function from a batch, a dict of tensors, to a dict of tensors [B,...]: the network
        and what is computed of it.
      sources: functions that make a `tf.data.Dataset` of batches: one for all devices, or one for
        each. Each call of the predictor reads them from their start.
      used: the devices.
      seed: of the initial weights.
      at_once: batches that each device predicts in parallel, each on its part of the cores, see
        `Devices.parallel_batches`; 1 where local variables are carried or the process also trains.
    """

    def __init__(
        self,
        outputs: Callable[[dict[str, tf.Tensor]], dict[str, Any]],
        sources: Sequence[Callable[[], tf.data.Dataset]],
        used: Devices,
        seed: int = 0,
        at_once: int = 1,
    ):
        devices.set_up_process()
        self._at_once = at_once
        strategy = used.strategy or tf2.distribute.get_strategy()
        with (
            devices.without_registered_gradients(),
            tf.Graph().as_default() as graph,
            strategy.scope(),
        ):
            tf.set_random_seed(seed)
            iterators = []
            with tf.device("/cpu:0"):
                for make in sources:
                    iterators.append(tf.data.make_initializable_iterator(make()))

            def copy() -> dict[str, Any]:
                # Either all devices share one source of batches (fine-tuning), or each has its own
                # text streams.
                iterator = iterators[devices.replica_index() % len(iterators)]
                with tf.device("/cpu:0"):
                    batch = iterator.get_next()
                return outputs(batch)  # the network

            self._copies = strategy.experimental_local_results(
                strategy.extended.call_for_each_replica(copy)
            )
            starts = [iterator.initializer for iterator in iterators]
            self._begin = tf.group(tf.local_variables_initializer(), *starts)
            self._initialize = tf.global_variables_initializer()
            self._restore = Restoring()
        config = used.session_config()
        if at_once > 1:
            devices.divide_cores(config, at_once)
        self._session = tf.Session(graph=graph, config=config)

    def __call__(self, prefix: Optional[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields (index of a device, dict of arrays: its outputs for its next batch). prefix: of a
        checkpoint, a UserError if it is not complete; None: the initial weights."""
        if prefix is None:
            self._session.run(self._initialize)
        else:
            self._restore(self._session, prefix)
        self._session.run(self._begin)
        # Each device takes the next batch as soon as it is done with one, until there are no more.
        # Example: two devices with two batches in parallel each are 0, 1, 0, 1.
        numbers = self._at_once * list(range(len(self._copies)))
        with concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
            running = {}
            for number in numbers:
                running[pool.submit(self._session.run, self._copies[number])] = number
            while running:
                done, _ = concurrent.futures.wait(
                    running, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for future in done:
                    number = running.pop(future)
                    try:
                        outputs = future.result()
                    except tf.errors.OutOfRangeError as e:
                        if not is_end_of_data(e):
                            raise
                        continue
                    running[pool.submit(self._session.run, self._copies[number])] = (
                        number
                    )
                    yield number, outputs


def in_order(parts: Sequence[dict]) -> dict:
    """Joins batches: dict of arrays [m,...] in the order of `index`, which is left out."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(joined.pop("index"), kind="stable")
    return {name: values[order] for name, values in joined.items()}
