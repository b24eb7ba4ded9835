"""The training loop of pretraining and fine-tuning: steps, reports, checkpoints, evaluations."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint, recurrent_memory
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.engine.devices import Devices, set_up_process
from xlnet.engine.estimator import Estimator, EstimatorSpec, Training
from xlnet.engine.progress import Progress, add_to_board, show_banner
from xlnet.engine.recurrent_memory import MemoryFiles
from xlnet.engine.stop_signal import StopSignal
from xlnet.settings.network import XLNetConfig
from xlnet.settings.training import BEST, OptimizationSettings, RunSettings
from xlnet.support import files, lock
from xlnet.support.errors import Unfinished, UserError

_log = logging.getLogger(__name__)

LOCK = "training.lock"  # in a model directory; locked by the process that trains there


class TrainingRun:
    """What a run of pretraining or fine-tuning has for the loop: each is a class of its own.

    Attributes:
      settings: of the run.
      config: the architecture.
      optimization: the length of training among them.
      devices: of the run.
      unit: what throughput counts, and how many of them a step has.
      model_fn: the training step of a replica, for the Estimator.
      with_perplexity: whether the loss is in nats per token, so that there is a perplexity.
      evaluates: whether checkpoints are evaluated.
      evaluates_start: whether the initial weights are evaluated, too.
    """

    settings: RunSettings
    config: XLNetConfig
    optimization: OptimizationSettings
    devices: Devices
    unit: tuple[str, int]
    model_fn: Callable[[dict[str, tf.Tensor]], EstimatorSpec]
    with_perplexity = False
    evaluates = False
    evaluates_start = False

    def batches(self, start: int) -> tf.data.Dataset:
        """This host's batches from the batch `start` on, counted over the run."""
        raise NotImplementedError

    def banner(self) -> dict[str, str]:
        """What is trained on what, in lines by their names."""
        raise NotImplementedError

    def write_document(self) -> None:
        """Writes what the run is into the model directory."""
        raise NotImplementedError

    def check_host(self) -> None:
        """Compares the settings of this host with the document that the first host wrote."""

    def evaluate(self, step: int, prefix: Optional[str]) -> dict[str, Any]:
        """Reports and returns the metrics of a checkpoint: the selecting one and the loss among
        them. prefix: of the checkpoint; None: the initial weights."""
        raise NotImplementedError


def fit(
    run: TrainingRun,
    selection: BestCheckpoint,
    hooks: Sequence[tf.train.SessionRunHook] = (),
) -> None:
    """Trains from the newest checkpoint to the last step, or until early stopping.

    A kill at any moment leaves a checkpoint with all that belongs to it, or the one before: the
    memories are written before the checkpoint, its evaluation after it. An evaluation that was
    interrupted is made first when the run resumes.

    Args:
      run: what is trained.
      selection: keeps the best checkpoint.
      hooks: TensorFlow's, such as a profiler.

    Raises:
      Unfinished: a signal stopped it, on this host or another one.
      UserError: another run trains in the directory, or training failed.
    """
    settings, devices = run.settings, run.devices
    model_dir, last = settings.model_dir, run.optimization.train_steps
    set_up_process()

    # Of several hosts only the first one writes, so only it locks the directory.
    exclusive: Any = contextlib.nullcontext()
    if devices.is_chief:
        exclusive = lock.held(
            os.path.join(model_dir, LOCK), f"model_dir: a run trains in {model_dir}"
        )
    with exclusive, StopSignal() as stop, contextlib.ExitStack() as stack:
        stack.callback(
            tf.summary.FileWriterCache.clear
        )  # TensorBoard's files would stay open
        # Resume from the newest checkpoint; what a killed run left unfinished goes.
        prefix = checkpoint.newest_of_run(model_dir)
        first = checkpoint.step_named(prefix) if prefix else 0
        selection.go_back_to(first)
        if devices.is_chief:
            files.remove_unfinished(os.path.join(model_dir, ""))
            files.remove_unfinished(os.path.join(model_dir, BEST, ""))
            checkpoint.remove_unfinished(model_dir)
            recurrent_memory.forget(model_dir)
            selection.replace_later(first)
            if is_evaluation_due(run, first) and not selection.has(first):
                _evaluate(run, selection, first, stop)
        if first >= last:
            _log.info("the run in %s has all of its %d steps", model_dir, last)
        elif selection.is_over():
            _log.info("the run in %s was stopped early, at step %d", model_dir, first)
        else:
            estimator = Estimator(run.model_fn, model_dir, devices, settings.seed)
            with estimator.started(lambda: run.batches(first), hooks) as training:
                _steps(run, selection, training, stop)


def _steps(
    run: TrainingRun, selection: BestCheckpoint, training: Training, stop: StopSignal
) -> None:
    """The loop; arguments and errors as of `fit`."""
    settings, devices = run.settings, run.devices
    model_dir, last, first = (
        settings.model_dir,
        run.optimization.train_steps,
        training.step,
    )
    memories = MemoryFiles(model_dir, devices)
    memories.load(training.session, first)
    if devices.is_chief:
        # The checkpoint is restored: a run that cannot resume leaves the directory as it was.
        run.write_document()
        show_banner(_banner(run, first))
    progress = Progress(
        model_dir,
        first,
        last,
        settings.log_steps,
        run.unit,
        run.with_perplexity,
        devices.is_chief,
    )
    while training.step < last:
        stop.pass_on(training.session)
        values = training.run_step()
        step = training.step
        if values is None:  # the data repeat without end
            raise UserError(
                f"the data ended at step {step} of {last}: a batch could not be read; of records "
                "xlnet data verify names damaged ones"
            )
        progress.add(step, values)
        if step == first + 1 and not devices.is_chief:
            run.check_host()

        # All hosts see the same number, so all stop after the same step.
        is_stopped = values["stop"] > 0 or step == last and stop.is_received
        is_evaluated = is_evaluation_due(run, step) and not is_stopped
        if (
            is_stopped
            or is_evaluated
            or step == last
            or step % settings.save_steps == 0
        ):
            memories.save(training.session, step)
            if devices.is_chief:
                checkpoint.write(
                    training.saver, training.session, model_dir, step, settings.max_save
                )
                recurrent_memory.forget(model_dir)
        if is_evaluated and devices.is_chief:
            began = time.time()
            _evaluate(run, selection, step, stop)
            progress.leave_out(time.time() - began)
        if is_stopped:
            raise Unfinished(
                f"stopped by {stop.name} at step {step}, saved; run the same command again to "
                "resume"
            )
        if selection.is_over():
            _log.info("stopped early at step %d: no better %s", step, selection.metric)
            return


def is_evaluation_due(run: TrainingRun, step: int) -> bool:
    """Whether a step is evaluated: the last one, multiples of `eval_steps`, perhaps the first."""
    if not run.evaluates:
        return False
    if not step:
        return run.evaluates_start
    every = run.settings.eval_steps
    return step == run.optimization.train_steps or bool(every) and step % every == 0


def _evaluate(
    run: TrainingRun, selection: BestCheckpoint, step: int, stop: StopSignal
) -> None:
    """Evaluates the newest checkpoint, of this step, and keeps it if it is the best so far."""
    model_dir = run.settings.model_dir
    prefix = checkpoint.newest_of_run(model_dir)
    with contextlib.ExitStack() as stack:
        if run.devices.hosts == 1:  # the others would wait for a host that is gone
            stack.enter_context(stop.ends(f"the evaluation of step {step}"))
        result = run.evaluate(step, prefix)
        curves = {
            f"eval/{name}": each
            for name, each in result.items()
            if isinstance(each, float)
        }
        add_to_board(model_dir, step, curves)
        selection.add(step, result, prefix)


def _banner(run: TrainingRun, step: int) -> dict[str, str]:
    """The banner of a run that begins, or resumes, after `step`."""
    settings, replicas = run.settings, run.devices.replicas
    each = settings.train_batch_size // (replicas * settings.grad_accum_steps)
    start = "random weights"
    if step:
        start = f"{settings.model_dir}, step {step}"
    elif settings.init_checkpoint:
        start = checkpoint.resolve(settings.init_checkpoint)
    parameters = sum(v.shape.num_elements() for v in tf.trainable_variables())
    return {
        "devices": run.devices.description,
        **run.banner(),
        "batch": (
            f"{settings.train_batch_size} = {each} x {replicas} replicas x "
            f"{settings.grad_accum_steps} micro-batches"
        ),
        "steps": f"{step} to {run.optimization.train_steps}, {run.optimization.warmup} of warm-up",
        "start": start,
        "model": f"{run.config!r} in {settings.model_dir}",
        "parameters": f"{parameters:,}",
    }
