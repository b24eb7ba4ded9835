"""What the trainer knows of a run: one record, complete before training begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.engine.devices import Devices
from xlnet.engine.estimator import EstimatorSpec
from xlnet.engine.recurrent_memory import MemoryFiles
from xlnet.settings.network import XLNetConfig
from xlnet.settings.training import OptimizationSettings, RunSettings


@dataclasses.dataclass(frozen=True)
class TrainingRun:
    """A run of pretraining or fine-tuning, as the trainer sees it.

    Args:
      settings: of the run.
      config: the architecture.
      optimization: the length of training among them.
      devices: of the run.
      model_fn: the Estimator's, the training step of a replica.
      batches: function from the index of the first batch, counted over the run, to this host's
        batches.
      banner: function that returns the banner's lines between devices and batch; called once
        there are steps to train.
      describe: writes the description of the run into the model directory. Called on the first host
        once the checkpoint is restored, so that a run that cannot resume stays as it is.
      per_step: how many `unit`s a step has.
      epoch_steps: steps of an epoch.
      unit: what throughput counts.
      examples: what a batch consists of.
      with_perplexity: whether the loss is in nats per token, so that there is a perplexity.
      saves_start: whether the initial weights are saved, as step 0.
      evaluates_start: whether the initial weights are evaluated.
      evaluate: function of a step and of the prefix of its checkpoint, None for the initial
        weights, that reports and returns metrics: the selecting one and the loss among them. None:
        checkpoints are not evaluated.
      build_evaluation: builds the graph of `evaluate`, on the first host before training.
      memories: saved with each checkpoint; None: there are none.
      check_host: compares the settings of this host with the description that `describe` wrote on
        the first host. Called on the other hosts after their first step; None: there are no others.
    """

    settings: RunSettings
    config: XLNetConfig
    optimization: OptimizationSettings
    devices: Devices
    model_fn: Callable[..., EstimatorSpec]
    batches: Callable[[int], tf.data.Dataset]
    banner: Callable[[], dict[str, str]]
    describe: Callable[[], None]
    per_step: int
    epoch_steps: float
    unit: str = "examples"
    examples: str = "examples"
    with_perplexity: bool = False
    saves_start: bool = False
    evaluates_start: bool = False
    evaluate: Optional[Callable[[int, Optional[str]], dict[str, Any]]] = None
    build_evaluation: Optional[Callable[[], None]] = None
    memories: Optional[MemoryFiles] = None
    check_host: Optional[Callable[[], None]] = None
