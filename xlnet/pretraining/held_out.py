"""Loss and perplexity on held-out records, with memories, and with the same targets and orders each
time.

Shape letters: B batch, P target positions.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import progress
from xlnet.engine.devices import Devices
from xlnet.engine.predictor import Predictor
from xlnet.pretraining.model import PretrainingModel
from xlnet.records.manifest import Manifest

_log = logging.getLogger(__name__)


class HeldOut:
    """Evaluates checkpoints on the held-out records of a manifest, on the devices of training.
    make_batches: function from the batch size and a slice of it to a `tf.data.Dataset` of one
    epoch. keeps: whether to add results to TensorBoard's files in the model directory."""

    def __init__(
        self,
        model: PretrainingModel,
        manifest: Manifest,
        make_batches: Callable[[int, slice], tf.data.Dataset],
        devices: Devices,
        keeps: bool = True,
    ):
        self._model = model
        self._windows = manifest.num_streams * manifest.windows_per_stream
        self._unigram: Optional[float] = None  # its perplexity, once it is known
        self._keeps = keeps
        # Each batch continues the text streams of the batch before, so each device has streams of
        # its own. It reads as many of them at once as divide their number, but not more than in
        # training. Example: six streams on two devices are three for each; they are read all at
        # once, or one after the other if a device trains on two sequences. The results are the
        # same, as a sequence depends only on its own stream.
        used = devices.local_devices(_largest_divisor(manifest.num_streams, devices.per_host))
        count, settings = used.per_host, model.settings
        most = settings.train_batch_size // devices.replicas // settings.grad_accum_steps
        each = _largest_divisor(manifest.num_streams // count, max(1, most))

        def of_device(number: int, path: tf.Tensor) -> tf.data.Dataset:
            del path  # there is one dataset
            return make_batches(each * count, slice(number * each, (number + 1) * each))

        self.predictor = Predictor(
            model.held_out,
            [functools.partial(of_device, number) for number in range(count)],
            used,
            settings.seed,
        )

    def __call__(self, step: int, prefix: Optional[str]) -> dict[str, Any]:
        """Logs and returns the mean loss [nats per target] and the metrics derived from it; adds
        them to TensorBoard. As `TrainingRun.evaluate`."""
        batches, remaining = [], progress.Remaining("held out", self._windows, "windows")
        for _, batch in self.predictor("", prefix):
            batches.append(batch)
            remaining.add(len(batch["weights"]))
        result = _result(batches)
        if self._unigram is None:  # the targets are the same each time
            self._unigram = unigram_perplexity(batches)
            _log.info("held out: a unigram model of the same targets has ppl %.2f", self._unigram)
        _log.info(
            "held out: step %d  loss %.4f  ppl %.2f  bits/token %.4f%s  (unigram model: ppl %.2f)",
            step,
            result["loss"],
            result["perplexity"],
            result["bits_per_token"],
            "  next segment {:.4f}".format(result["next_segment_accuracy"])
            if "next_segment_accuracy" in result
            else "",
            self._unigram,
        )
        if self._keeps:
            progress.add_to_board(
                self._model.settings.model_dir,
                step,
                {
                    "held_out/" + name: result[name]
                    for name in ("loss", "perplexity", "bits_per_token")
                },
            )
        return result


def _largest_divisor(number: int, limit: int) -> int:
    return max(n for n in range(1, min(number, limit) + 1) if number % n == 0)


def unigram_perplexity(batches: Sequence[dict[str, np.ndarray]]) -> float:
    """The perplexity of the best model that ignores the context: the frequencies of the targets.
    batches: dicts of ids int [B,P] and weights float [B,P], 0 where nothing is predicted."""
    # This is exp of the entropy of the targets: no fixed distribution predicts them better.
    found = np.concatenate([batch["ids"][batch["weights"] > 0] for batch in batches])
    _, counts = np.unique(found, return_counts=True)
    fractions = counts / counts.sum()
    return math.exp(-np.sum(fractions * np.log(fractions)))


def _result(batches: Sequence[dict[str, np.ndarray]]) -> dict[str, float]:
    """The metrics over all batches of `PretrainingModel.held_out`. The sums are exact, so they do
    not depend on which device was first."""
    total = math.fsum(
        np.sum(batch["losses"] * batch["weights"], dtype=np.float64) for batch in batches
    )
    # This is one mean over all targets; a mean of the means of batches would weight targets
    # differently, as batches have different numbers of them.
    loss = total / math.fsum(np.sum(batch["weights"], dtype=np.float64) for batch in batches)
    # The loss is limited, as exp of that of a diverged run would overflow.
    result = {
        "loss": loss,
        "perplexity": math.exp(min(loss, 50)),
        "bits_per_token": loss / math.log(2),
    }
    if "continues" in batches[0]:
        result["next_segment_accuracy"] = float(
            np.mean(np.concatenate([batch["continues"] == batch["label"] for batch in batches]))
        )
    return result
