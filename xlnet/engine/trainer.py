"""The trainer of all runs: saves, evaluates, selects, stops and resumes a `Job`.

The order of events, in `Trainer.train` and the hook that it is:

1. The directory is locked and tidied: unfinished files are removed, damaged checkpoints renamed.
   The newest complete checkpoint is found; evaluations that were interrupted are run.
2. The graph is built, the checkpoint restored (`begin`, `after_create_session`). Only then is what
   this run adds written: `training.csv`, the description of the run, with `saves_start` step 0.
3. Each step: `before_run`, update, `after_run`. Where one is due, the memories are saved, then the
   checkpoint, which is evaluated and perhaps the best one; old checkpoints are removed.
4. The last step, early stopping or a signal on any host: saved as above, then the session ends.

So a kill at any moment leaves a complete checkpoint with all that belongs to it, or the one before.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Optional

import tensorflow.compat.v1 as tf

from xlnet import files, lock
from xlnet.engine import best_checkpoint, checkpoint, train_step
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.engine.devices import Devices, local_parts, set_up_process
from xlnet.engine.estimator import Estimator
from xlnet.engine.progress import Progress
from xlnet.engine.recurrent_memory import MemoryFiles
from xlnet.errors import Unfinished, UserError
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.training import BEST, OptimizationSettings, RunSettings

if TYPE_CHECKING:
    from xlnet.engine.predictor import Predictor

_log = logging.getLogger(__name__)

LOCK = "training.lock"  # in a model directory: which process trains there


class Job:
    """What the trainer runs: pretraining and fine-tuning are classes of this kind."""

    model: Any  # its `model_fn` is the Estimator's, the training step of a replica
    # In progress lines and the banner: what throughput counts, what a batch and an epoch are.
    unit = examples = "examples"
    per_step: int  # units in a step
    epoch_steps: float  # steps of an epoch
    # Whether checkpoints are evaluated during training, and the initial weights; whether these are
    # saved, as step 0; whether the loss is in nats per token, so that there is a perplexity.
    evaluates = evaluates_start = saves_start = with_perplexity = False
    answering: Optional[Predictor] = None  # of `evaluate_checkpoint`, built before training
    memories: Optional[MemoryFiles] = None  # saved with each checkpoint

    def __init__(
        self,
        settings: Any,
        config: XLNetConfig,
        network: NetworkSettings,
        optimization: OptimizationSettings,
        device_settings: DeviceSettings,
        devices: Devices,
    ):
        self.settings = settings
        self.config = config
        self.network = network
        self.optimization = optimization
        self.device_settings = device_settings
        self.devices = devices

    def batches(self, start: int) -> tf.data.Dataset:
        """This host's batches; start: the index of the first one, counted over the run."""
        raise NotImplementedError

    def banner(self) -> dict[str, str]:
        """The banner's lines between devices and batch."""
        raise NotImplementedError

    def begin(self) -> None:
        """Writes the description of the run into the model directory. Called on the first host
        once the checkpoint is restored, so that a run that cannot resume stays as it is."""

    def check_host(self) -> None:
        """Compares with that description. Called on the other hosts after their first step."""

    def evaluate_checkpoint(self, step: int, prefix: Optional[str]) -> dict[str, Any]:
        """Reports and returns the metrics of a checkpoint, the selecting one and the loss among
        them; prefix: None for the initial weights."""
        raise NotImplementedError


class Trainer(tf.train.SessionRunHook):
    """Trains a `Job` in its model directory. It is a hook of its Estimator: it saves and evaluates
    between steps. selection: keeps the best checkpoint."""

    def __init__(self, job: Job, selection: BestCheckpoint):
        self._job, self._selection = job, selection
        self._settings: RunSettings = job.settings
        self._devices = job.devices
        self._model_dir = self._settings.model_dir
        self._place = lock.Place(self._model_dir, "model_dir")
        self._last = job.optimization.train_steps
        self._stop = StopSignal()
        self._has_stopped = False  # by a signal on any host

    def train(self) -> None:
        """Trains from the newest checkpoint to the last step, or until early stopping.

        Raises:
          Unfinished: a signal stopped it, on this host or another one.
          UserError: another run trains in the directory, its checkpoints are damaged, it was
            removed or moved meanwhile, or training failed.
        """
        set_up_process()
        alone = lock.held(
            os.path.join(self._model_dir, LOCK), f"model_dir: a run trains in {self._model_dir}"
        )
        # Of several hosts the first one alone writes, so it alone locks the directory.
        with alone if self._devices.is_chief else contextlib.nullcontext():
            # What earlier runs left: unfinished files, the step, evaluations that are missing.
            if self._devices.is_chief:
                for directory in ("", BEST):
                    files.sweep(os.path.join(self._model_dir, directory, ""))
                if self._job.memories:
                    self._job.memories.forget()  # newer than the last checkpoint
            self._step = self._resume()
            if self._step >= self._last:
                _log.info("the run in %s has all of its %d steps", self._model_dir, self._last)
                return
            if self._selection.is_over():
                _log.info(
                    "the run in %s was stopped early, at step %d", self._model_dir, self._step
                )
                return

            # The steps. This object is a hook: it saves and evaluates between them, see below.
            job, settings, self._first = self._job, self._settings, self._step
            self._progress = Progress(job, self._banner())
            if job.answering and self._devices.is_chief:
                job.answering.build()
            estimator = Estimator(job.model.model_fn, self._model_dir, self._devices, settings.seed)
            try:
                estimator.train(
                    lambda: job.batches(self._first),
                    max_steps=self._last,
                    hooks=[self._progress, self],
                )
            except Interrupted:
                raise Unfinished(
                    f"stopped by {self._stop.name} in the evaluation before the first step; run "
                    "the same command again"
                ) from None
            finally:
                self._stop.end()
                tf.summary.FileWriterCache.clear()  # TensorBoard's files would stay open
            self._place.check()

            # Why there are no more steps, if it is not the last one.
            if self._has_stopped or self._stop.is_asked:  # perhaps in the last step
                raise Unfinished(
                    f"stopped by {self._stop.name} at step {self._step}, saved; run the same "
                    "command again to resume"
                )
            if self._selection.is_over():
                _log.info(
                    "stopped at step %d: no better %s in %d evaluations",
                    self._step,
                    self._selection.metric,
                    self._selection.patience,
                )

    def _resume(self):
        """Runs interrupted evaluations; returns the step from which the run resumes."""
        step = checkpoint.newest_whole(self._model_dir, self._devices.is_chief)
        # Evaluations of later steps, whose checkpoints are damaged or gone, are repeated.
        self._selection.go_back_to(step)
        if self._devices.is_chief:
            self._selection.set_dropped_aside(step)
        # A kill or a signal interrupted them; their checkpoints were kept.
        for saved, prefix in checkpoint.all_prefixes(self._model_dir):
            if not (saved and self._devices.is_chief and self._lacks_evaluation(saved)):
                continue
            fault = checkpoint.fault_of(prefix)
            if fault:
                _log.info("note: %s; it is not evaluated", fault)
            else:
                self._evaluate(saved, prefix)
        return step

    # -- the hook

    def begin(self) -> None:
        if self._job.memories:
            self._job.memories.begin()
        self._stop.begin()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        # The checkpoint is restored. Is it the one that was found?
        self._saver = tf.get_collection(tf.GraphKeys.SAVERS)[0]
        self._saved = int(session.run(tf.train.get_global_step()))
        if self._saved != self._step:
            raise UserError(
                f"model_dir: the newest checkpoint in {self._model_dir} is of step "
                f"{self._step}, the first "
                f"host's of step {self._saved}; all hosts must share the directory"
            )
        # It is: the run resumes, or begins, and describes itself in the directory.
        if self._devices.is_chief:
            self._job.begin()
        if self._job.memories:
            self._job.memories.load(session, self._step)
        if self._job.saves_start and not self._step:
            self._save(session)
        if self._job.evaluates and self._job.evaluates_start and not self._step:
            # A signal ends a run that has done nothing yet; of several hosts, the others would take
            # this one for lost.
            with self._stop.interrupts() if self._devices.hosts == 1 else contextlib.nullcontext():
                self._evaluate(0, None)

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        return tf.train.SessionRunArgs(self._stop.before_run(run_context.session))

    def after_run(
        self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues
    ) -> None:
        self._step += 1
        if self._step == self._first + 1 and not self._devices.is_chief:
            self._job.check_host()
        # A step in which a stop is signalled is saved, on all hosts: they see the same number.
        self._has_stopped = bool(run_values.results > 0)
        if (
            self._has_stopped
            or self._is_evaluated(self._step)
            or self._step % self._settings.save_steps == 0
        ):
            self._save(run_context.session)
        if self._has_stopped or self._selection.is_over():
            run_context.request_stop()

    def end(self, session: tf.Session) -> None:
        # The last step of a run without evaluations need not be a multiple of `save_steps`.
        if self._saved != self._step:
            self._save(session)

    # -- saving, evaluation, selection

    def _save(self, session):
        """Saves, evaluates and removes old checkpoints. A signal interrupts the evaluation."""
        self._place.check()
        memories, self._saved = self._job.memories, self._step
        # First what belongs to the checkpoint, so that no checkpoint lacks it.
        self._progress.save()
        if memories:
            memories.save(session, self._step)
        if not self._devices.is_chief:
            return
        checkpoint.write(self._saver, session, self._model_dir, self._step)
        self._keep_some()  # a kill during the evaluation leaves nothing beyond max_save
        if self._is_evaluated(self._step) and not self._has_stopped:
            began = time.time()
            try:
                with self._stop.interrupts():
                    self._evaluate(
                        self._step, dict(checkpoint.all_prefixes(self._model_dir))[self._step]
                    )
            except Interrupted:
                _log.info("note: the evaluation is interrupted; it will run on resume")
            self._progress.leave_out(time.time() - began)
            self._keep_some()

    def _keep_some(self):
        # Beyond `max_save` only those that lack their evaluation, and memories of those that stay.
        checkpoint.keep_some(self._model_dir, self._settings.max_save, self._lacks_evaluation)
        if self._job.memories:
            self._job.memories.forget()

    def _is_evaluated(self, step):
        return self._job.evaluates and best_checkpoint.is_due(
            step, self._settings.eval_steps, self._last
        )

    def _lacks_evaluation(self, step):
        return self._job.evaluates and self._selection.lacks(
            step, self._settings.eval_steps, self._last
        )

    def _evaluate(self, step, prefix):
        """Evaluates a checkpoint and keeps it if it is the best so far."""
        if not (self._job.evaluates and self._devices.is_chief):
            return
        result = self._job.evaluate_checkpoint(step, prefix)
        self._place.check()
        if self._selection.add(step, result, prefix):
            _log.info("best so far: %s", os.path.join(self._model_dir, BEST))

    # -- the banner

    def _banner(self):
        job, settings, replicas = self._job, self._settings, self._devices.replicas
        each = settings.train_batch_size // (replicas * settings.grad_accum_steps)
        start = "random weights"
        if self._step:
            start = f"{self._model_dir}, step {self._step}"
        elif settings.init_checkpoint:
            start = checkpoint.resolve(settings.init_checkpoint)
        return {
            "devices": self._devices.words,
            **job.banner(),
            "batch": "{} {} = {} x {} replicas x {} micro-batches; an epoch is {} steps".format(
                settings.train_batch_size,
                job.examples,
                each,
                replicas,
                settings.grad_accum_steps,
                f"{job.epoch_steps:,.1f}".replace(".0", ""),
            ),
            "steps": f"{self._step} to {self._last}, {job.optimization.warmup} of warm-up",
            "start": start,
            "model": f"{job.config!r} in {self._model_dir}",
        }


# ---- signals


class Interrupted(BaseException):
    """A signal came during work that need not finish."""


@contextlib.contextmanager
def ended_by_signals(work: str) -> Iterator[None]:
    """The signals of batch systems end the work inside, which starts again with the same command.

    Args:
      work: what it is, for the error, such as "the evaluation".

    Raises:
      Unfinished: one has come.
    """

    def end(signum: int, frame: Any) -> None:
        raise Interrupted(signal.Signals(signum).name)  # nothing on its way up catches it

    before = {}
    if threading.current_thread() is threading.main_thread():  # Python lets no other set handlers
        for signum in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            if signal.getsignal(signum) != signal.SIG_IGN:
                before[signum] = signal.signal(signum, end)
    try:
        yield
    except Interrupted as e:
        raise Unfinished(f"stopped by {e} in {work}; run the same command again") from None
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


class StopSignal:
    """SIGTERM, SIGINT (Ctrl-C), or SIGUSR1 and SIGUSR2 of batch systems on any host, seen by all
    hosts in the same step through a number that each step sums. A second Ctrl-C ends the program
    at once.

    A signal that was ignored when the program started stays ignored: shells start background jobs
    with SIGINT ignored.
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)

    def __init__(self):
        self._asked, self._before, self._may_interrupt = None, {}, False

    def begin(self) -> None:
        step = train_step.step_of_graph()
        # On several hosts: they stop in the same step only if they see the same number, so a signal
        # raises a variable of this host, which the next step sums over all of them.
        self._seen = step.stop
        self._raise = tf.group(
            *[part.assign(1.0, read_value=False) for part in local_parts(step.stop_asked)]
        )
        # Python lets the main thread alone set handlers.
        if threading.current_thread() is threading.main_thread():
            self._before = {
                signum: signal.signal(signum, self._ask)
                for signum in self._SIGNALS
                if signal.getsignal(signum) != signal.SIG_IGN
            }

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
        # A second Ctrl-C is Python's own again.
        if signal.SIGINT in self._before:
            signal.signal(signal.SIGINT, self._before[signal.SIGINT])
        if self._may_interrupt:
            self._may_interrupt = False
            raise Interrupted()

    @contextlib.contextmanager
    def interrupts(self) -> Iterator[None]:
        """A signal interrupts the work inside.

        Raises:
          Interrupted: one has come, perhaps before.
        """
        if self._asked:
            raise Interrupted()
        self._may_interrupt = True
        try:
            yield
        finally:
            self._may_interrupt = False

    def before_run(self, session: tf.Session) -> tf.Tensor:
        """The tensor to fetch in the next step: 0 until a signal has come to any host."""
        # The signal travels with the sums of the step, which all hosts make together.
        if self._asked:
            session.run(self._raise)
        return self._seen

    def end(self) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
