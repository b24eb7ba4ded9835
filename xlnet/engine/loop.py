"""The training loop of pretraining and fine-tuning: steps, reports, checkpoints, evaluations."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from typing import Any, Protocol

import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint, progress, recurrent_memory
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.engine.estimator import Estimator, TrainingRun
from xlnet.settings.training import JOURNAL_NAME, RUN_NAME
from xlnet.support import files, system
from xlnet.support.errors import Unfinished

_log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
LOCK = "training.lock"  # in a model directory; locked by the process that trains there


class Evaluator(Protocol):
    """Evaluates the checkpoints of a run.

    Attributes:
      evaluates_start: whether the initial weights are evaluated, too.
    """

    evaluates_start: bool

    def evaluate_step(self, step: int, prefix: str | None) -> dict[str, Any]:
        """Reports and returns the metrics of a checkpoint: the selecting one and the loss among
        them. prefix: of the checkpoint; None: the initial weights."""


def fit(
    run: TrainingRun,
    selection: BestCheckpoint,
    evaluator: Evaluator | None,
) -> None:
    """Trains from the newest checkpoint to the last step, or until early stopping.

    A kill at any moment leaves a checkpoint with all that belongs to it, or the one before: the
    memories are written before the checkpoint, its evaluation after it. An evaluation that was
    interrupted is made first when the run resumes.

    Args:
      run: what is trained.
      selection: keeps the best checkpoint.
      evaluator: evaluates checkpoints; None: nothing is evaluated.

    Raises:
      Unfinished: a signal stopped it, on this host or another one.
      UserError: another run trains in the directory, or training failed.
    """
    settings, devices, last = run.settings, run.devices, run.optimization.train_steps
    model_dir = settings.model_dir
    with contextlib.ExitStack() as stack:
        if devices.is_chief:  # of several hosts only the first one writes
            lock = os.path.join(model_dir, LOCK)
            if_locked = f"model_dir: a run trains in {model_dir}"
            stack.enter_context(system.locked(lock, if_locked))
        stop = stack.enter_context(StopSignal())
        stack.callback(tf.summary.FileWriterCache.clear)  # TensorBoard's open files
        start = _resume(run, selection, evaluator)
        if start is None:
            return

        # Build the step and restore its variables. A run that cannot resume leaves the directory as
        # it was: the document is written after that.
        estimator = stack.enter_context(Estimator.started(run, start))
        recurrent_memory.load(estimator, model_dir, devices)
        # If another process has trained here since `resolve`, the run resumes.
        if run.weights and not start:
            checkpoint.start_from(estimator.session, run.weights)
        _begin(run, start)
        reports = progress.Progress(run, start)

        while estimator.step < last:
            began = time.time()
            values = estimator.run_step(stop.received > 0)
            step = estimator.step
            reports.add(step, values, time.time() - began)
            if step == start + 1:
                # The first host has written its document before this step, which all hosts share.
                run.check_host()

            # All hosts see the same number, so all stop after the same step. A signal during the
            # last step has no next one in which they would see it.
            is_last = step == last
            is_stopped = values["stop"] > 0 or (is_last and stop.received > 0)
            # A run that is stopped ends at once, and evaluates this step when it resumes.
            evaluates = not is_stopped and _is_evaluation_due(run, evaluator, step)
            if is_stopped or evaluates or is_last or step % settings.save_steps == 0:
                _save(run, estimator)
            if evaluates and devices.is_chief:
                _evaluate(run, selection, evaluator, step)
            is_over = selection.stops_early()
            if is_stopped or (is_over and stop.received > 0):
                raise Unfinished(
                    f"stopped by {stop.name} at step {step}, saved; run the same command again to "
                    "resume"
                )
            if is_over:
                metric = selection.metric
                _log.info("stopped early at step %d: no better %s", step, metric)
                return


def _resume(
    run: TrainingRun, selection: BestCheckpoint, evaluator: Evaluator | None
) -> int | None:
    """Prepares the directory for the training: removes what a killed run left unfinished, and
    evaluates the newest checkpoint, or the initial weights, if that is due and was not done.
    Returns the step of this checkpoint, 0 without one; None if the training is over."""
    model_dir, last = run.settings.model_dir, run.optimization.train_steps
    start = checkpoint.newest_step(model_dir)
    # Without a checkpoint, after -1: that of initial weights goes, too, as they may be others now.
    selection.roll_back_evaluations(start or -1)
    if run.devices.is_chief:
        files.remove_matching(model_dir, "memory-*.partial-*")  # they may be large
        checkpoint.remove_unfinished(model_dir)
        recurrent_memory.remove_without_checkpoint(model_dir)
        selection.roll_back_best(start)
        is_due = _is_evaluation_due(run, evaluator, start)
        if is_due and not selection.is_evaluated(start):
            _evaluate(run, selection, evaluator, start)
    if start >= last:
        _log.info("the run in %s has all of its %d steps", model_dir, last)
        return None
    if selection.stops_early():
        _log.info("the run in %s was stopped early, at step %d", model_dir, start)
        return None
    return start


def _begin(run: TrainingRun, step: int) -> None:
    """Writes the document of a run that begins, or resumes, after `step`, and logs its banner; on
    the first host alone."""
    if not run.devices.is_chief:
        return
    run.write_document()
    batch_size, replicas = run.settings.train_batch_size, run.devices.replicas
    micro_batches, optimization = run.settings.grad_accum_steps, run.optimization
    micro_batch_size = batch_size // (replicas * micro_batches)
    config = run.config
    parameters = sum(v.shape.num_elements() for v in tf.trainable_variables())
    start = "random weights"
    if step:
        start = f"{run.settings.model_dir}, step {step}"
    elif run.weights:
        start = run.weights
    banner = {
        "devices": run.devices.description,
        "precision": run.devices.precision_in_words(run.network),
        **run.banner(),
        "steps": (
            f"{step} to {optimization.train_steps}, {optimization.warmup_steps} of warm-up, of "
            f"{batch_size} = {micro_batch_size} x {replicas} replicas x {micro_batches} "
            "micro-batches"
        ),
        "start": start,
        "network": (
            f"{config.n_layer} layers of {config.d_model} in {config.n_head} heads, "
            f"{config.n_token} pieces, {parameters:,} parameters"
        ),
        "writes": f"{run.settings.model_dir}: checkpoints, {RUN_NAME}, {JOURNAL_NAME}",
    }
    width = max(map(len, banner))
    for name, value in banner.items():
        _log.info("%-*s  %s", width, name, value)


def _is_evaluation_due(
    run: TrainingRun, evaluator: Evaluator | None, step: int
) -> bool:
    """Whether the weights after `step` steps are evaluated: the last ones, at multiples of
    `eval_steps`, and the initial ones if the evaluator says so."""
    if not evaluator:
        return False
    if not step:
        return evaluator.evaluates_start
    is_last = step == run.optimization.train_steps
    interval = run.settings.eval_steps  # 0: only the last ones
    return is_last or (interval > 0 and step % interval == 0)


def _save(run: TrainingRun, estimator: Estimator) -> None:
    """Writes a checkpoint of this step; the memories first, so that no checkpoint lacks them."""
    model_dir, keep = run.settings.model_dir, run.settings.max_save
    recurrent_memory.save(estimator, model_dir, run.devices)
    if run.devices.is_chief:
        saver, session = estimator.saver, estimator.session
        checkpoint.write(saver, session, model_dir, estimator.step, keep)
        recurrent_memory.remove_without_checkpoint(model_dir)


def _evaluate(
    run: TrainingRun,
    selection: BestCheckpoint,
    evaluator: Evaluator | None,
    step: int,
) -> None:
    """Evaluates the newest checkpoint, of this step, or at step 0 the initial weights; keeps the
    checkpoint if it is the best so far."""
    assert evaluator, "without one no evaluation is due"
    model_dir = run.settings.model_dir
    prefix = checkpoint.newest(model_dir)
    with contextlib.ExitStack() as stack:
        if run.devices.hosts == 1:  # the others would wait for a host that is gone
            stack.enter_context(StopSignal(ends_at_once=True))
        result = evaluator.evaluate_step(step, prefix)
        curves = {}
        for name, value in result.items():
            if isinstance(value, float):  # not the step, counts or texts
                curves[f"eval/{name}"] = value
        progress.add_to_board(model_dir, step, curves)
        selection.add(step, result, prefix)


# ---- signals


class StopSignal:
    """SIGTERM, SIGINT (Ctrl-C), or SIGUSR1 and SIGUSR2 of batch systems, within a `with` block. A
    second Ctrl-C ends the program at once.

    A signal that was ignored when the program started stays ignored: shells start background jobs
    with SIGINT ignored.

    Args:
      ends_at_once: whether a signal raises `Unfinished`, as in work that starts again with the
        same command; if not, the block continues and reads `received`.

    Attributes:
      received: the number of the signal that came to this host; 0: none.
    """

    def __init__(self, ends_at_once: bool = False) -> None:
        self._ends_at_once = ends_at_once
        self.received = 0
        # By signal: the handlers before the block.
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        # Only the main thread may set handlers.
        if threading.current_thread() is threading.main_thread():
            for signum in _SIGNALS:
                if signal.getsignal(signum) != signal.SIG_IGN:
                    self._before[signum] = signal.signal(signum, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    @property
    def name(self) -> str:
        """The signal that stopped the run; SIGTERM if it came to another host."""
        return signal.Signals(self.received or signal.SIGTERM).name

    def _receive(self, signum: int, frame: Any) -> None:
        self.received = signum
        # A Ctrl-C after this signal has Python's own meaning.
        if signal.SIGINT in self._before:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._ends_at_once:
            raise Unfinished(f"stopped by {self.name}; run the same command again")
