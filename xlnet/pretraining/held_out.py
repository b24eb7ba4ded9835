"""Loss and perplexity on held-out records: memories carried along, always the same targets and
orders.

Shape letters: B batch, P prediction slots.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.engine import distribution, reports
from xlnet.engine.inference import Answering
from xlnet.pretraining import filled_window
from xlnet.pretraining.model import PretrainingModel

_log = logging.getLogger(__name__)


class HeldOut:
    """Evaluates checkpoints on held-out records: a `trainer.Evaluator`.

    One device does it: the rows of a batch go on from those of the batch before.

    Args:
      make_batches: function to a `tf.data.Dataset` of one epoch.
      devices: those of training.
    """

    def __init__(self, model: PretrainingModel, make_batches: Callable[[], tf.data.Dataset],
                 devices: distribution.Devices):
        self._model = model
        self._inference = Answering(
            model.held_out, lambda path: make_batches(), devices.alone(), model.settings.seed)

    def build(self) -> None:
        """Makes graph and session; see `trainer.Evaluator`."""
        self._inference.build()

    def __call__(self, step: int, prefix: Optional[str]) -> dict[str, Any]:
        """The mean loss [nats per target] and what follows from it; printed, and added to
        TensorBoard with a window that the network has filled in."""
        batches = list(self._inference("", prefix))
        result = _result(batches)
        _log.info("held out: step %d  loss %.4f  ppl %.2f  bits/token %.4f%s", step,
                  result["loss"], result["perplexity"], result["bits_per_token"],
                  "  next segment %.4f" % result["next_segment_accuracy"]
                  if "next_segment_accuracy" in result else "")
        window = {name: batches[0]["window"][name] for name in filled_window.NAMES}
        reports.add_to_board(
            self._model.settings.model_dir, step,
            {"held_out/" + name: result[name] for name in ("loss", "perplexity", "bits_per_token")},
            {"held_out/sample": filled_window.filled_in(self._model.tokenizer, **window)})
        return result


def _result(batches):
    """The metrics of all batches, dicts of arrays as of `PretrainingModel.held_out`."""
    total = sum(np.sum(batch["losses"] * batch["weights"], dtype=np.float64) for batch in batches)
    loss = float(total / sum(np.sum(batch["weights"], dtype=np.float64) for batch in batches))
    result = {"loss": loss, "perplexity": math.exp(min(loss, 50)),
              "bits_per_token": loss / math.log(2)}
    if "continues" in batches[0]:
        result["next_segment_accuracy"] = float(np.mean(np.concatenate(
            [batch["continues"] == batch["label"] for batch in batches])))
    return result
