"""The trainer of all runs: saves, evaluates, selects, stops and resumes. Pretraining and
fine-tuning each give it a `Job`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Optional, Protocol, Union

import tensorflow.compat.v1 as tf

from xlnet import errors, lock
from xlnet.engine import best_checkpoint, checkpoint, devices, progress, train_step
from xlnet.engine.best_checkpoint import Selection
from xlnet.engine.devices import Devices
from xlnet.engine.estimator import EstimatorSpec
from xlnet.errors import UserError
from xlnet.settings.finetuning import FineTuningSettings
from xlnet.settings.network import XLNetConfig
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import BEST, OptimizationSettings

_log = logging.getLogger(__name__)

LOCK = "training.lock"      # in a model directory: which process trains there


class Evaluator(Protocol):
    """Evaluates checkpoints."""

    def build(self) -> None:
        """Makes the graph and the session of all evaluations; called before training."""

    def __call__(self, step: int, prefix: Optional[str]) -> dict[str, Any]:
        """Reports and returns the metrics of a checkpoint, with the selecting metric and the loss.

        Args:
          step: of the checkpoint.
          prefix: of the checkpoint; None: the initial weights.
        """


@dataclasses.dataclass(frozen=True)
class Job:
    """What pretraining or fine-tuning adds to the trainer.

    Attributes:
      model_fn: the Estimator's; it returns `train_step.training_spec`.
      batches: function from the index of the first batch, counted over the run, to a
        `tf.data.Dataset` of this host's batches.
      config: the network's.
      unit: of the throughput in the progress line.
      per_step: units in a step.
      examples: name of what a batch consists of.
      epoch_steps: steps of an epoch.
      banner: function that returns the banner's lines between devices and batch; called after
        `begin`.
      begin: called before the first step of this process: writes files into the model directory.
      evaluator: None: no evaluation during training.
      evaluates_start: whether the initial weights are evaluated.
      saves_start: whether the initial weights are saved, as step 0.
      companions: see `Saving`.
      keeps_journal: see `progress.Progress`.
      with_perplexity: see `progress.Progress`.
    """
    model_fn: Callable[..., EstimatorSpec]
    batches: Callable[[int], tf.data.Dataset]
    config: XLNetConfig
    unit: str
    per_step: int
    examples: str
    epoch_steps: float
    banner: Callable[[], dict[str, str]]
    begin: Callable[[], None]
    evaluator: Optional[Evaluator] = None
    evaluates_start: bool = False
    saves_start: bool = False
    companions: tuple[Companion, ...] = ()
    keeps_journal: bool = False
    with_perplexity: bool = False


class Trainer:
    """Trains a `Job` in its model directory.

    Args:
      job: what is trained.
      settings: of the run: model_dir, seed, batch size, intervals.
      optimization: `train_steps` is the last step.
      devices: of the run.
      selection: keeps the best checkpoint.
    """

    def __init__(self, job: Job, settings: Union[PretrainingSettings, FineTuningSettings],
                 optimization: OptimizationSettings, devices: Devices,
                 selection: Selection):
        self._job = job
        self._settings = settings
        self._optimization = optimization
        self._devices = devices
        self._selection = selection
        self._model_dir = settings.model_dir
        self._last = optimization.train_steps

    def train(self) -> bool:
        """Trains from the newest checkpoint to the last step, or until early stopping.

        Returns:
          False if a signal stopped it.

        Raises:
          UserError: another run trains in the directory, its checkpoints are damaged, or training
            failed.
        """
        devices.set_up_process()
        alone = lock.held(os.path.join(self._model_dir, LOCK),
                          "model_dir: a run trains in %s" % self._model_dir)
        with alone if self._devices.is_chief else contextlib.nullcontext():
            step = self._resume()
            if step >= self._last:
                _log.info("the run in %s has all of its %d steps", self._model_dir, self._last)
                return True
            if self._selection.is_over():
                _log.info("the run in %s was stopped early, at step %d", self._model_dir, step)
                return True
            if self._devices.is_chief:
                self._job.begin()
            if not step and self._job.evaluates_start:
                self._evaluate(0, None)
            return self._train(step)

    # -- resume

    def _resume(self):
        """Runs interrupted evaluations; returns the step from which the run resumes."""
        step = checkpoint.newest_whole(self._model_dir, self._devices.is_chief)
        self._selection.go_back_to(step)
        for saved, prefix in checkpoint.all_prefixes(self._model_dir):
            if not (saved and self._devices.is_chief and self._lacks_evaluation(saved)):
                continue
            fault = checkpoint.fault_of(prefix)
            if fault:
                _log.info("note: %s; it is not evaluated", fault)
            else:
                self._evaluate(saved, prefix)
        return step

    # -- training

    def _train(self, step):
        """Trains from `step` on; returns as `train`."""
        job, settings, devices = self._job, self._settings, self._devices
        reporter = progress.Progress(
            train_steps=self._last, log_steps=settings.log_steps, per_step=job.per_step,
            unit=job.unit, model_dir=self._model_dir, keeps_journal=job.keeps_journal,
            banner=self._banner(step), with_perplexity=job.with_perplexity,
            is_chief=devices.is_chief)
        saver = Saving(
            self._model_dir, devices, companions=job.companions, is_due=self._is_saved,
            max_save=settings.max_save, start_step=step,
            save_start=job.saves_start, after_save=lambda step: self._after_save(step, reporter),
            is_needed=self._lacks_evaluation)
        estimator = train_step.make_estimator(job.model_fn, model_dir=self._model_dir,
                                              seed=settings.seed, devices=devices)
        if job.evaluator and devices.is_chief:
            job.evaluator.build()
        try:
            train_step.train(
                estimator, lambda: job.batches(step), devices=devices,
                hooks=[reporter, saver, best_checkpoint.StopHook(self._selection)],
                max_steps=self._last)
        finally:
            saver.close()
        return self._say_end(saver)

    def _say_end(self, saver):
        """Logs why training ended before its last step, if it did; returns as `train`."""
        stopped = saver.stopped()
        if stopped:
            _log.info("stopped by %s at step %d, saved; run the same command again to resume",
                      *stopped)
            return False
        if self._selection.is_over():
            _log.info("stopped at step %d: no better %s in %d evaluations",
                      checkpoint.step_of(self._model_dir), self._selection.metric,
                      self._selection.patience)
        return True

    # -- saving, evaluation, selection

    def _is_saved(self, step):
        return step % self._settings.save_steps == 0 or self._is_evaluated(step)

    def _is_evaluated(self, step):
        return best_checkpoint.is_due(step, self._settings.eval_steps, self._last)

    def _lacks_evaluation(self, step):
        return self._job.evaluator is not None and self._selection.lacks(
            step, self._settings.eval_steps, self._last)

    def _after_save(self, step, progress):
        if self._is_evaluated(step):
            began = time.time()
            self._evaluate(step, dict(checkpoint.all_prefixes(self._model_dir))[step])
            progress.leave_out(time.time() - began)

    def _evaluate(self, step, prefix):
        """Evaluates a checkpoint and keeps it if it is the best so far."""
        if not (self._job.evaluator and self._devices.is_chief):
            return
        with errors.explained():
            result = self._job.evaluator(step, prefix)
        if self._selection.add(step, result, prefix):
            _log.info("best so far: %s", os.path.join(self._model_dir, BEST))

    # -- the banner

    def _banner(self, step):
        job, settings, replicas = self._job, self._settings, self._devices.replicas
        each = settings.train_batch_size // (replicas * settings.grad_accum_steps)
        return {
            "devices": self._devices.words,
            **job.banner(),
            "batch": "%d %s = %d x %d replicas x %d micro-batches; an epoch is %s steps" % (
                settings.train_batch_size, job.examples, each, replicas, settings.grad_accum_steps,
                "{:,.1f}".format(job.epoch_steps).replace(".0", "")),
            "steps": "%d to %d, %d of warm-up" % (
                step, self._last, self._optimization.warmup),
            "start": self._start(step),
            "model": "%r in %s" % (job.config, self._model_dir),
        }

    def _start(self, step):
        """The source of the weights, for the banner."""
        if step:
            return "%s, step %d" % (self._model_dir, step)
        init_checkpoint = self._settings.init_checkpoint
        return checkpoint.resolve(init_checkpoint) if init_checkpoint else "random weights"


# ---- saving

class Companion(Protocol):
    """State that is saved with each checkpoint, such as `recurrent_memory.MemoryFiles`."""

    def begin(self) -> None:
        """Called when the graph is complete."""

    def load(self, session: tf.Session, step: int) -> None:
        """Loads the state saved at `step`."""

    def save(self, session: tf.Session, step: int) -> None:
        """Saves the state, before the checkpoint of `step` is written."""

    def forget(self) -> None:
        """Removes files that belong to no checkpoint."""


class Saving(tf.train.SessionRunHook):
    """Writes checkpoints and their companions; loads the companions on resume.

    Args:
      model_dir: of the run.
      devices: of the run.
      companions: state that is saved with each checkpoint.
      is_due: function of the step, True where a checkpoint is saved.
      max_save: see `checkpoint.keep_some`.
      after_save: called with the step, on the chief, after a checkpoint was written, unless a
        signal has come; a signal during the call interrupts it.
      is_needed: see `checkpoint.keep_some`.
      start_step: the step at which the data resumes; an error if the weights are of another step.
      save_start: whether a new run saves step 0.
    """

    def __init__(self, model_dir: str, devices: Devices, *,
                 companions: tuple[Companion, ...], is_due: Callable[[int], bool], max_save: int,
                 after_save: Callable[[int], None], is_needed: Callable[[int], bool],
                 start_step: int, save_start: bool):
        self._model_dir = model_dir
        self._start_step = start_step
        self._companions = companions
        self._is_chief = devices.is_chief
        self._is_due = is_due
        self._max_save = max_save
        self._after_save = after_save
        self._is_needed = is_needed
        self._save_start = save_start
        self._stop = StopSignal()
        self._has_stopped = False       # by a signal on any host

    def begin(self) -> None:
        for companion in self._companions:
            companion.begin()
        self._stop.begin()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._saver = tf.get_collection(tf.GraphKeys.SAVERS)[0]
        self._step = self._saved = int(session.run(tf.train.get_global_step()))
        if self._start_step != self._step:
            raise UserError("model_dir: the newest checkpoint in %s is of step %d, the first "
                            "host's of step %d; all hosts must share the directory"
                            % (self._model_dir, self._start_step, self._step))
        for companion in self._companions:
            if self._is_chief:
                companion.forget()      # a killed run's, newer than its last checkpoint
            companion.load(session, self._step)
        if self._save_start and not self._step:
            self._save(session)

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        return tf.train.SessionRunArgs(self._stop.before_run(run_context.session))

    def after_run(self, run_context: tf.train.SessionRunContext,
                  run_values: tf.train.SessionRunValues) -> None:
        self._step += 1
        self._has_stopped = bool(run_values.results > 0)
        if self._has_stopped or self._is_due(self._step):
            self._save(run_context.session)
        if self._has_stopped:
            run_context.request_stop()

    def end(self, session: tf.Session) -> None:
        if self._saved != self._step:
            self._save(session)

    def close(self) -> None:
        """Restores the signal handlers. Call it even if training failed."""
        self._stop.end()

    def stopped(self) -> Optional[tuple[str, int]]:
        """After training: (name of the signal that stopped it, step), None without a signal. The
        step may be the last one."""
        return (self._stop.name, self._step) if self._has_stopped or self._stop.is_asked else None

    def _save(self, session):
        for companion in self._companions:
            companion.save(session, self._step)
        self._saved = self._step
        if not self._is_chief:
            return
        checkpoint.write(self._saver, session, self._model_dir, self._step)
        if not self._has_stopped:
            self._stop.interrupts(lambda: self._after_save(self._step))
        checkpoint.keep_some(self._model_dir, self._max_save, self._is_needed)
        for companion in self._companions:
            companion.forget()


class _Interrupted(BaseException):
    """A signal came during work that need not finish."""


class StopSignal:
    """SIGTERM or SIGINT (Ctrl-C) on any host, seen by all hosts in the same step through a number
    that each step sums. A second Ctrl-C ends the program at once.

    A signal that was ignored when the program started stays ignored: shells start background jobs
    with SIGINT ignored.
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self._asked, self._before, self._may_interrupt = None, {}, False

    def begin(self) -> None:
        step = train_step.step_of_graph()
        self._seen = step.stop
        self._raise = tf.group(*[part.assign(1., read_value=False)
                                 for part in devices.local_parts(step.stop_asked)])
        if threading.current_thread() is threading.main_thread():
            self._before = {signum: signal.signal(signum, self._ask) for signum in self._SIGNALS
                            if signal.getsignal(signum) != signal.SIG_IGN}

    @property
    def is_asked(self) -> bool:
        """Whether a signal came to this host."""
        return self._asked is not None

    @property
    def name(self) -> str:
        """The signal that stopped the run; SIGTERM if it came to another host."""
        return signal.Signals(self._asked or signal.SIGTERM).name

    def _ask(self, signum, frame):
        self._asked = signum
        if signal.SIGINT in self._before:
            signal.signal(signal.SIGINT, self._before[signal.SIGINT])
        if self._may_interrupt:
            self._may_interrupt = False
            raise _Interrupted()

    def interrupts(self, work: Callable[[], None]) -> None:
        """Calls `work`, which a signal interrupts; does nothing if a signal has already come."""
        try:
            self._may_interrupt = True
            if not self._asked:
                work()
        except _Interrupted:
            _log.info("note: the evaluation is interrupted; it will run on resume")
        finally:
            self._may_interrupt = False

    def before_run(self, session: tf.Session) -> tf.Tensor:
        """The tensor to fetch in the next step: 0 until a signal has come to any host."""
        if self._asked:
            session.run(self._raise)
        return self._seen

    def end(self) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
