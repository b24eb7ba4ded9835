"""Loss and perplexity on held-out records, with memories, and with the same targets and orders each
time.

Shape letters: B batch, P target positions.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from xlnet.engine import progress
from xlnet.engine.devices import Devices
from xlnet.engine.predictor import Predictor
from xlnet.pretraining.data import PretrainingData
from xlnet.pretraining.model import PretrainingModel

_log = logging.getLogger(__name__)


class HeldOut:
    """Evaluates checkpoints on the held-out records of a run, on the devices of training."""

    def __init__(
        self, model: PretrainingModel, data: PretrainingData, devices: Devices
    ):
        manifest, settings = data.held_out, model.settings
        assert manifest, "there are held-out records"
        self._windows = manifest.num_streams * manifest.windows_per_stream
        # Each batch continues the text streams of the batch before, so each device has streams of
        # its own. It reads as many of them at once as divide their number, but not more than in
        # training. Example: six streams on two devices are three for each; they are read all at
        # once, or one after the other if a device trains on two sequences. The results are the
        # same, as a sequence depends only on its own stream.
        used = devices.local_devices(
            _largest_divisor(manifest.num_streams, devices.per_host)
        )
        count = used.per_host
        most = (
            settings.train_batch_size // devices.replicas // settings.grad_accum_steps
        )
        each = _largest_divisor(manifest.num_streams // count, max(1, most))
        sources = []
        for number in range(count):
            rows = slice(number * each, (number + 1) * each)
            sources.append(functools.partial(data.to_evaluate, each * count, rows))
        self._predictor = Predictor(model.held_out, sources, used, settings.seed)

    def evaluate(self, step: int, prefix: Optional[str]) -> dict[str, Any]:
        """Logs and returns the mean loss [nats per target] and the metrics derived from it.
        Arguments as of `TrainingRun.evaluate`."""
        batches, remaining = (
            [],
            progress.Remaining("held out", self._windows, "windows"),
        )
        for _, batch in self._predictor(prefix):
            batches.append(batch)
            remaining.add(len(batch["weights"]))
        result = _result(batches)
        next_segment = ""
        if "next_segment_accuracy" in result:
            next_segment = f"  next segment {result['next_segment_accuracy']:.4f}"
        _log.info(
            "held out: step %d  loss %.4f  ppl %.2f  bits/token %.4f%s  (unigram model: ppl %.2f)",
            step,
            result["loss"],
            result["perplexity"],
            result["bits_per_token"],
            next_segment,
            unigram_perplexity(batches),
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
    # This is one mean over all targets; a mean of the means of batches would weight targets
    # differently, as batches have different numbers of them.
    sums, counts = [], []
    for batch in batches:
        sums.append(np.sum(batch["losses"] * batch["weights"], dtype=np.float64))
        counts.append(np.sum(batch["weights"], dtype=np.float64))
    loss = math.fsum(sums) / math.fsum(counts)
    # The loss is limited, as exp of that of a diverged run would overflow.
    result = {
        "loss": loss,
        "perplexity": math.exp(min(loss, 50)),
        "bits_per_token": loss / math.log(2),
    }
    if "continues" in batches[0]:
        is_right = np.concatenate(
            [batch["continues"] == batch["label"] for batch in batches]
        )
        result["next_segment_accuracy"] = float(np.mean(is_right))
    return result
