"""Predictions of a checkpoint for every example of a file, on all devices of a run.

Shape letters: m examples, B batch.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet import errors
from xlnet.engine import devices, progress
from xlnet.engine.checkpoint import Restoring
from xlnet.engine.devices import Devices
from xlnet.engine.estimator import is_end_of_data


class Predictor:
    """A copy of the network on each device, built once for all files and checkpoints of a run.

    With one source of batches, each device takes the next batch as soon as it is free: the batches,
    and with them the predictions, are those of a single device. With a source for each device,
    local variables, such as a memory, are zero at the start of a file and carried from batch to
    batch. EMA weights are used where a checkpoint has them.

    Args:
      outputs: function from a batch, a dict of tensors, to a dict of tensors [B,...], the network
        and what is computed of it. `all_records` needs index, is_real_example and loss, [B].
      sources: functions from the path of a record file, a string tensor, to a `tf.data.Dataset` of
        batches: one for all devices, or one for each.
      seed: of the initial weights.
      at_once: batches that each device predicts in parallel, each on its part of the cores, see
        `Devices.parallel_batches`; 1 where local variables are carried or the process also trains.
    """

    def __init__(
        self,
        outputs: Callable[[dict[str, tf.Tensor]], dict[str, Any]],
        sources: Sequence[Callable[[tf.Tensor], tf.data.Dataset]],
        devices: Devices,
        seed: int = 0,
        at_once: int = 1,
    ):
        self._seed = seed
        self._outputs = outputs
        self._sources = sources
        self._devices = devices
        self._at_once = at_once
        self._session: Any = None  # a `tf.Session`, once `build` has made it

    def all_records(self, made: Any, prefix: Optional[str], name: str) -> dict[str, np.ndarray]:
        """What `outputs` returns for all records of `made`, an `encoding.Records`: dict of arrays
        [m,...], in the order of the file. prefix: as in `__call__`; name: for lines of progress."""
        parts, remaining = [], progress.Remaining(name, made.count, "rows")
        with errors.translated_errors(records=made.path):
            for _, batch in self(made.path, prefix):
                is_real = batch["is_real_example"] > 0  # the others fill up the last batch
                parts.append({name: values[is_real] for name, values in batch.items()})
                remaining.add(len(parts[-1]["loss"]))
        if remaining.done != made.count:
            raise RuntimeError(f"{name}: {remaining.done} answers to {made.count} rows")
        return in_order(parts)

    def __call__(self, path: str, prefix: Optional[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields (index of a device, dict of arrays: its outputs for its next batch of the record
        file `path`). prefix: of a checkpoint, a UserError if it is not complete; None: the initial
        weights."""
        self.build()
        if prefix is None:
            self._session.run(self._initialize)
        else:
            self._restore(self._session, prefix)
        self._session.run(self._begin, {self._path: path})
        yield from self._side_by_side()

    def build(self) -> None:
        """Builds the graph once. Call it before a training that evaluates: during training
        TensorFlow would not place variables on all devices."""
        if self._session is not None:
            return
        devices.set_up_process()
        strategy = self._devices.strategy or tf2.distribute.get_strategy()
        with (
            devices.without_registered_gradients(),
            tf.Graph().as_default() as graph,
            strategy.scope(),
        ):
            tf.set_random_seed(self._seed)
            with tf.device("/cpu:0"):
                self._path = tf.placeholder(tf.string, [])
                sources = [
                    tf.data.make_initializable_iterator(make_batches(self._path))
                    for make_batches in self._sources
                ]

            def copy() -> dict[str, Any]:
                # Either all devices share one source of batches (fine-tuning), or each has its own
                # text streams.
                source = sources[devices.replica_index() % len(sources)]
                with tf.device("/cpu:0"):
                    batch = source.get_next()
                return self._outputs(batch)  # the network

            self._copies = strategy.experimental_local_results(
                strategy.extended.call_for_each_replica(copy)
            )
            self._begin = tf.group(
                tf.local_variables_initializer(), *[source.initializer for source in sources]
            )
            self._initialize = tf.global_variables_initializer()
            self._restore = Restoring()
        config = self._devices.session_config()
        if self._at_once > 1:
            devices.divide_cores(config, self._at_once)
        self._session = tf.Session(graph=graph, config=config)

    def _side_by_side(self) -> Iterator[tuple[int, dict[str, Any]]]:
        # Each device takes the next batch as soon as it is done with one, until there are no more.
        # Example: two devices with two batches in parallel each are 0, 1, 0, 1.
        numbers = self._at_once * list(range(len(self._copies)))
        with concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:

            def start(number: int) -> concurrent.futures.Future:
                return pool.submit(self._session.run, self._copies[number])

            running = {start(number): number for number in numbers}
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
                    running[start(number)] = number
                    yield number, outputs


def in_order(parts: Sequence[dict]) -> dict:
    """Joins batches: dict of arrays [m,...] in the order of the records, without the indices."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(joined.pop("index"), kind="stable")
    joined.pop("is_real_example", None)
    return {name: values[order] for name, values in joined.items()}
