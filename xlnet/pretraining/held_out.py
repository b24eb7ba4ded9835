"""Loss and perplexity on held-out records, with memories, and with the same targets and orders each
time.

Shape letters: B batch, P target positions.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.corpus import input_pipeline
from xlnet.corpus.processes import progress
from xlnet.engine import checkpoint
from xlnet.engine.devices import Devices, unregistering_gradients
from xlnet.model.ops import Arrays, Tensors
from xlnet.pretraining.run import PretrainingRun

_log = logging.getLogger(__name__)


class HeldOut:
    """Evaluates checkpoints on the held-out records of a run, on the first device of training."""

    evaluates_start = True  # the loss of the initial weights, too

    def __init__(self, run: PretrainingRun):
        manifest, settings = run.held_out, run.settings
        directory = settings.eval_record_info_dir
        assert manifest and directory, "there are held-out records"
        self._initial_weights = run.weights
        self._num_sequences = manifest.num_streams * manifest.windows_per_stream
        # Each batch continues the text streams of the batch before, on one device. Its size divides
        # the number of streams, so that all batches are of this size, and is at most that of a
        # micro-batch in training, which fits the device. The results do not depend on it, as a
        # sequence depends only on its own stream.
        num_micro_batches = run.devices.replicas * settings.grad_accum_steps
        largest = max(1, settings.train_batch_size // num_micro_batches)
        divisors = [n for n in range(1, largest + 1) if manifest.num_streams % n == 0]
        self._batch_size = max(divisors)
        with unregistering_gradients(), tf.Graph().as_default() as graph:
            tf.set_random_seed(settings.seed)
            with tf.device("/cpu:0"):
                # The same targets and orders each time.
                dataset = input_pipeline.pretraining_batches(
                    directory,
                    manifest,
                    sampling=run.sampling,
                    tokenizer=run.tokenizer,
                    batch_size=self._batch_size,
                    seed=0,
                )
                iterator = tf.data.make_initializable_iterator(dataset)
                batch = iterator.get_next()
            self._outputs = outputs(run, batch)
            self._initialize = tf.global_variables_initializer()
            # Run before each evaluation: the memories become zero, and the first batch is next.
            self._begin = [tf.local_variables_initializer(), iterator.initializer]
        device = Devices(strategy=None, gpus=run.devices.gpus[:1])
        self._session = tf.Session(graph=graph, config=device.session_config())

    def evaluate_step(self, step: int, prefix: str | None) -> dict[str, Any]:
        """Logs and returns the mean loss [nats per target] and the metrics derived from it, see
        `_result`.

        Args:
          step: of the checkpoint.
          prefix: of the checkpoint; None: the initial weights, those of the run's `weights` or
            random ones.
        """
        session = self._session
        with session.graph.as_default():
            if prefix is not None:
                checkpoint.restore(session, prefix, tf.global_variables())
            else:
                session.run(self._initialize)
                if self._initial_weights:
                    checkpoint.start_from(session, self._initial_weights)
        session.run(self._begin)
        batches = []
        with progress("held out", self._num_sequences, " sequences") as add:
            for _ in range(self._num_sequences // self._batch_size):
                batches.append(session.run(self._outputs))
                add(self._batch_size)
        result = _result(batches)
        next_segment = ""
        if "next_segment_accuracy" in result:
            next_segment = f"  next segment {result['next_segment_accuracy']:.4f}"
        _log.info(
            "held out: step %d  loss %.4f  ppl %.2f  bits/token %.4f%s",
            step,
            result["loss"],
            result["perplexity"],
            result["bits_per_token"],
            next_segment,
        )
        return result


def outputs(run: PretrainingRun, features: Tensors) -> dict[str, Any]:
    """Builds the outputs of a batch in evaluation, without dropout. Computing them also updates the
    memories.

    Args:
      run: whose network and objective it is.
      features: those of `PretrainingRun.batches`, [B,...] by name.

    Returns:
      Tensors by name: losses, those of the targets, and weights, both float32 [B,P]. With
      next-segment prediction also label and continues, int [B]: whether segment B continues A, and
      whether that is predicted.
    """
    batch, memory = run.with_targets_and_memory(features)
    results = {"weights": batch["weights"]}
    losses, segment_logits, kept = run.losses(batch)
    if segment_logits is not None:
        results["label"] = batch["label"]
        results["continues"] = tf.argmax(segment_logits, axis=1)
    # The memory is updated before the losses can be read, as the next batch continues the text
    # streams; `Memory` clears it where a stream starts.
    updates = [memory.update(kept["memory"])] if memory else []
    with tf.control_dependencies(updates):
        results["losses"] = tf.identity(losses)
    return results


def _result(batches: Sequence[Arrays]) -> dict[str, float]:
    """The metrics over all batches: loss, perplexity, bits_per_token and, with next-segment
    prediction, next_segment_accuracy.

    Args:
      batches: of each the arrays that `outputs` computes: losses and weights, float32 [B,P], and
        with next-segment prediction the truth, label, and the prediction, continues, int [B].
    """
    # This is one mean over all targets; a mean of the means of batches would weight targets
    # differently, as batches have different numbers of them.
    sums, counts = [], []
    for batch in batches:
        sums.append(np.sum(batch["losses"] * batch["weights"], dtype=np.float64))
        counts.append(np.sum(batch["weights"], dtype=np.float64))
    loss = math.fsum(sums) / math.fsum(counts)
    # The exponent is limited, as that of a diverged run would overflow.
    result = {
        "loss": loss,
        "perplexity": math.exp(min(loss, 50)),
        "bits_per_token": loss / math.log(2),
    }
    if "continues" in batches[0]:
        is_right = [batch["continues"] == batch["label"] for batch in batches]
        result["next_segment_accuracy"] = float(np.mean(np.concatenate(is_right)))
    return result
