"""The trainer of all runs: saves, evaluates, selects, stops and resumes a `TrainingRun`.

The order of events:

1. `Trainer.train`: the directory is locked and tidied: unfinished files are removed, damaged
   checkpoints renamed. The newest complete checkpoint is found. If another metric than before
   selects, or evaluations were interrupted, the description of the run is written; then `best/`
   is chosen again, and those evaluations are run.
2. `Estimator.train`: the graph is built, the checkpoint restored. Only then is what this run adds
   written (`RunActions.start`): `training.csv`, the description of the run, with `saves_start`
   step 0.
3. The loop of `Estimator.train`: each step is run and reported. Where one is due, the memories are
   saved, then the checkpoint, which is evaluated and perhaps the best one; old checkpoints are
   removed.
4. The last step, early stopping or a signal on any host: saved as above, then the session ends.

So a kill at any moment leaves a complete checkpoint with all that belongs to it, or the one before.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet import files, lock
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.engine.devices import Devices, set_up_process
from xlnet.engine.estimator import Actions, CompiledStepFailed, Estimator
from xlnet.engine.progress import Progress
from xlnet.engine.stop_signal import Interrupted, StopSignal
from xlnet.engine.training_run import TrainingRun
from xlnet.errors import Unfinished, UserError
from xlnet.settings.training import BEST

_log = logging.getLogger(__name__)

LOCK = "training.lock"  # in a model directory; locked by the process that trains there


class Trainer:
    """Trains a `TrainingRun` in its model directory. selection: keeps the best checkpoint."""

    def __init__(self, run: TrainingRun, selection: BestCheckpoint):
        self._run = run
        self._selection = selection

    def train(self) -> None:
        """Trains from the newest checkpoint to the last step, or until early stopping.

        Raises:
          Unfinished: a signal stopped it, on this host or another one.
          UserError: another run trains in the directory, its checkpoints are damaged, it was
            removed or moved meanwhile, or training failed.
        """
        set_up_process()
        model_dir = self._run.settings.model_dir
        exclusive = lock.held(
            os.path.join(model_dir, LOCK), f"model_dir: a run trains in {model_dir}"
        )
        # Of several hosts only the first one writes, so only it locks the directory.
        with exclusive if self._run.devices.is_chief else contextlib.nullcontext():
            self._train()

    def _train(self) -> None:
        run, selection = self._run, self._selection
        model_dir, last = run.settings.model_dir, run.optimization.train_steps

        # Clean up after earlier runs: remove unfinished files, find the step, make missing
        # evaluations.
        actions = RunActions(run, selection)
        actions.tidy()
        first = actions.resume()
        if first >= last:
            _log.info("the run in %s has all of its %d steps", model_dir, last)
            return
        if selection.is_over():
            _log.info("the run in %s was stopped early, at step %d", model_dir, first)
            return

        # Train. The graph of the evaluations is built before that of the training.
        progress = Progress(run, _banner(run, first))
        if run.build_evaluation and run.devices.is_chief:
            run.build_evaluation()
        estimator = Estimator(run.model_fn, model_dir, run.devices, run.settings.seed)
        stop = StopSignal()
        actions.begin(first, progress, stop)
        try:
            estimator.train(lambda: run.batches(first), actions, max_steps=last)
        except Interrupted:
            raise Unfinished(
                f"stopped by {stop.name} in the evaluation before the first step; run "
                "the same command again"
            ) from None
        finally:
            stop.end()
            tf.summary.FileWriterCache.clear()  # TensorBoard's files would stay open
        actions.check_directory()

        # Say why training ends before the last step.
        if actions.has_stopped or stop.is_asked:  # perhaps in the last step
            raise Unfinished(
                f"stopped by {stop.name} at step {actions.step}, saved; run the same "
                "command again to resume"
            )
        if actions.has_no_batch:
            # The data repeat without end. Of several replicas only one gets the error of a batch
            # that cannot be read; the others, of which one may be the first to say so, get an end.
            saved = ", which is saved" if actions.step else ""
            raise UserError(
                f"the data ended at step {actions.step} of {last}{saved}: a batch could not be "
                "read; of records xlnet data verify names damaged ones"
            )
        if selection.is_over():
            _log.info(
                "stopped at step %d: no better %s in %d evaluations",
                actions.step,
                selection.metric,
                selection.patience,
            )
        # The initial weights, which are not saved, may be the best: then nothing was exported.
        best = selection.best()
        if best and not best["step"] and not os.path.isdir(os.path.join(model_dir, BEST)):
            _log.info(
                "note: no evaluation has a better %s than that of the initial weights, so there is "
                "no %s/",
                selection.metric,
                BEST,
            )
        if best and best["step"] and not run.evaluate:
            _log.info(
                "note: this run evaluated nothing, so %s/ still has the weights of step %d, which "
                "are used by default",
                BEST,
                best["step"],
            )


def train(
    make_run: Callable[[Devices], TrainingRun], devices: Devices, selection: BestCheckpoint
) -> None:
    """Trains on the devices; without XLA if it does not compile the step and was not asked for.

    Args:
      make_run: function that returns the run on devices.
      devices: of the run.
      selection: keeps the best checkpoint.

    Raises:
      Unfinished, UserError: as `Trainer.train` does.
    """
    try:
        Trainer(make_run(devices), selection).train()
    except CompiledStepFailed as error:
        _log.warning(
            "note: XLA, which is on by default, did not compile or run the first step: %s; "
            "training begins again as with --xla=False",
            error,
        )
        Trainer(make_run(devices.without_xla()), selection).train()


class RunActions(Actions):
    """Saves, evaluates and reports between the steps of a run.

    Attributes:
      step: the last step that was run.
      has_stopped: whether a signal on any host stopped it there.
      has_no_batch: whether the data ended there.
    """

    def __init__(self, run: TrainingRun, selection: BestCheckpoint):
        self.run = run
        self.step = 0
        self.has_stopped = False
        self.has_no_batch = False
        self._selection = selection
        self._model_dir = run.settings.model_dir
        self._is_chief = run.devices.is_chief
        self._last = run.optimization.train_steps

    # -- before training

    def tidy(self) -> None:
        """Removes the unfinished files that earlier runs left."""
        if not self._is_chief:
            return
        for directory in ("", BEST):
            files.remove_unfinished(os.path.join(self._model_dir, directory, ""))

    def resume(self) -> int:
        """Returns the step from which the run resumes, that of the newest whole checkpoint. Drops
        evaluations and memories of later steps, moves a later `best/` aside, runs interrupted
        evaluations."""
        step = checkpoint.newest_whole(self._model_dir, self._is_chief)
        # Evaluations of later steps, whose checkpoints are damaged or gone, are repeated.
        self._selection.go_back_to(step)
        if not self._is_chief:
            return step
        if self._selection.has_other_metric:
            # Otherwise a command without --metric would let the one of before choose again.
            self.run.describe()
        self._selection.set_dropped_aside(step)
        if self.run.memories:
            self.run.memories.forget()  # of steps after the last whole checkpoint
        # These were interrupted by a kill or a signal; their checkpoints were kept.
        for saved, prefix in checkpoint.all_prefixes(self._model_dir):
            if not (saved and self._lacks_evaluation(saved)):
                continue
            fault = checkpoint.fault_of(prefix)
            if fault:
                _log.info("note: %s; it is not evaluated", fault)
            else:
                # The description comes first: if the run is killed after the evaluation, it is
                # known with which settings and records it was made.
                self.run.describe()
                self._evaluate(saved, prefix)
        return step

    def begin(self, first: int, progress: Progress, stop: StopSignal) -> None:
        """Prepares the reports of the run. first: the step from which it resumes."""
        self._first = first
        self._progress = progress
        self._stop = stop

    # -- called by `Estimator.train`, in this order

    def graph_is_built(self) -> dict[str, Any]:
        if self.run.memories:
            self.run.memories.begin()
        return {"reported": self._progress.begin(), "stop": self._stop.begin()}

    def start(self, session: tf.Session, step: int) -> None:
        # The checkpoint is restored: check that it is the one that was found.
        if step != self._first:
            raise UserError(
                f"model_dir: the newest checkpoint in {self._model_dir} is of step {self._first}, "
                f"the first host's of step {step}; all hosts must share the directory"
            )
        # The run resumes or begins, and describes itself in the directory.
        self.step = self._saved = step
        self._progress.start(step)
        if self._is_chief:
            self.run.describe()
        if self.run.memories:
            self.run.memories.load(session, step)
        if self.run.saves_start and not step:
            self.save(session, step)
        if self.run.evaluate and self.run.evaluates_start and not step and self._is_chief:
            # A signal interrupts the evaluation of a run that has not made a step yet. With several
            # hosts it does not: the others would take this one for lost.
            is_alone = self.run.devices.hosts == 1
            with self._stop.interrupts() if is_alone else contextlib.nullcontext():
                self._evaluate(0, None)

    def before_step(self, session: tf.Session) -> None:
        self._progress.before_step()
        self._stop.pass_on(session)

    def data_have_ended(self) -> None:
        self.has_no_batch = True

    def report(self, step: int, fetched: dict[str, Any]) -> None:
        self.step = step
        self._progress.add(step, fetched["reported"])
        if self.run.check_host and step == self._first + 1 and not self._is_chief:
            self.run.check_host()
        # All hosts see the same number, so all stop after the same step.
        self.has_stopped = bool(fetched["stop"] > 0)

    def is_save_due(self, step: int) -> bool:
        if self.has_stopped or self.is_evaluation_due(step):
            return True
        return step % self.run.settings.save_steps == 0

    def save(self, session: tf.Session, step: int) -> None:
        """Saves a checkpoint with what belongs to it; removes old ones."""
        self._saved = step
        # Save what belongs to the checkpoint before it, so that no checkpoint lacks it.
        self._progress.save()
        if self.run.memories:
            self.run.memories.save(session, step)
        if not self._is_chief:
            return
        saver = tf.get_collection(tf.GraphKeys.SAVERS)[0]
        checkpoint.write(saver, session, self._model_dir, step)
        self._keep_some()  # a kill during the evaluation leaves nothing beyond max_save

    def is_evaluation_due(self, step: int) -> bool:
        if not self.run.evaluate:
            return False
        return best_checkpoint.is_due(step, self.run.settings.eval_steps, self._last)

    def evaluate(self, step: int) -> None:
        """Evaluates the checkpoint of this step. A signal interrupts it: it will run on resume."""
        if self.has_stopped or not self._is_chief:
            return
        began = time.time()
        prefix = dict(checkpoint.all_prefixes(self._model_dir))[step]
        try:
            with self._stop.interrupts():
                self._evaluate(step, prefix)
        except Interrupted:
            _log.info("note: the evaluation is interrupted; it will run on resume")
        self._progress.leave_out(time.time() - began)
        self._keep_some()

    def is_stop_asked(self) -> bool:
        return self.has_stopped or self._selection.is_over()

    def finish(self, session: tf.Session, step: int) -> None:
        # Without evaluations, the last step need not be a multiple of `save_steps`, and is saved in
        # any case.
        if self._saved != step:
            self.save(session, step)

    # -- after training

    def check_directory(self) -> None:
        """Raises UserError if the model directory was removed or moved."""

    # -- what these have in common

    def _keep_some(self) -> None:
        # More than `max_save` checkpoints are kept only if they still lack their evaluation.
        # Memories of removed checkpoints are removed.
        max_save = self.run.settings.max_save
        checkpoint.keep_some(self._model_dir, max_save, self._lacks_evaluation)
        if self.run.memories:
            self.run.memories.forget()

    def _lacks_evaluation(self, step: int) -> bool:
        if not self.run.evaluate:
            return False
        return self._selection.lacks(step, self.run.settings.eval_steps, self._last)

    def _evaluate(self, step: int, prefix: Optional[str]) -> None:
        """Evaluates a checkpoint and keeps it if it is the best so far."""
        assert self.run.evaluate is not None, "without evaluations none is due"
        result = self.run.evaluate(step, prefix)
        if self._selection.add(step, result, prefix):
            _log.info("best so far: %s", os.path.join(self._model_dir, BEST))


def _banner(run: TrainingRun, step: int) -> dict[str, str]:
    """The banner of a run that begins, or resumes, after `step`."""
    settings, replicas = run.settings, run.devices.replicas
    each = settings.train_batch_size // (replicas * settings.grad_accum_steps)
    epoch = f"{run.epoch_steps:,.1f}".replace(".0", "")
    start = "random weights"
    if step:
        start = f"{settings.model_dir}, step {step}"
    elif settings.init_checkpoint:
        start = checkpoint.resolve(settings.init_checkpoint)
    return {
        "devices": run.devices.description,
        **run.banner(),
        "batch": (
            f"{settings.train_batch_size} {run.examples} = {each} x {replicas} replicas x "
            f"{settings.grad_accum_steps} micro-batches; an epoch is {epoch} steps"
        ),
        "steps": f"{step} to {run.optimization.train_steps}, {run.optimization.warmup} of warm-up",
        "start": start,
        "model": f"{run.config!r} in {settings.model_dir}",
    }
