"""When a run is saved: every so many steps, at its end, and when it is told to stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from typing import Optional, Protocol

import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint, distribution, train_step
from xlnet.errors import UserError

_log = logging.getLogger(__name__)


class Beside(Protocol):
    """What else is kept beside a checkpoint, such as `recurrent_memory.MemoryFiles`."""

    def begin(self) -> None:
        """Called when the graph stands."""

    def load(self, session: tf.Session, step: int) -> None:
        """Loads what was kept at `step`."""

    def save(self, session: tf.Session, step: int) -> None:
        """Keeps it, before the checkpoint of `step` is written."""

    def forget(self) -> None:
        """Removes what belongs to no checkpoint."""


class Saving(tf.train.SessionRunHook):
    """Writes checkpoints, with what else is kept beside them; loads that where a run goes on.

    Args:
      model_dir, devices: of the run. beside: what else is kept beside a checkpoint.
      is_due: function of the step, whether it is saved.
      max_save: see `checkpoint.keep_some`.
      after_save: called with the step, on the chief, after a checkpoint was written, unless the run
        is told to stop; cut off if it is told so meanwhile.
      is_needed: function of the step, whether its checkpoint stays beside the last `max_save`.
      start_step: where the data goes on from; an error if that is not where the weights do.
      save_start: whether a run that begins saves step 0.
    """

    def __init__(self, model_dir: str, devices: distribution.Devices, *,
                 beside: tuple[Beside, ...], is_due: Callable[[int], bool], max_save: int,
                 after_save: Callable[[int], None], is_needed: Callable[[int], bool],
                 start_step: int, save_start: bool):
        self._model_dir = model_dir
        self._start_step = start_step
        self._beside = beside
        self._is_chief = devices.is_chief
        self._is_due = is_due
        self._max_save = max_save
        self._after_save = after_save
        self._is_needed = is_needed
        self._save_start = save_start
        self._stop = StopSignal()
        self._is_told = False       # by any host, in a step

    def begin(self) -> None:
        for kept in self._beside:
            kept.begin()
        self._stop.begin()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._saver = tf.get_collection(tf.GraphKeys.SAVERS)[0]
        self._step = self._saved = int(session.run(tf.train.get_global_step()))
        if self._start_step != self._step:
            raise UserError("model_dir: the newest checkpoint in %s is of step %d, the first "
                            "host's of step %d; all hosts must share the directory"
                            % (self._model_dir, self._start_step, self._step))
        for kept in self._beside:
            if self._is_chief:
                kept.forget()       # a killed run's, newer than its last checkpoint
            kept.load(session, self._step)
        if self._save_start and not self._step:
            self._save(session)

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        return tf.train.SessionRunArgs(self._stop.before_run(run_context.session))

    def after_run(self, run_context: tf.train.SessionRunContext,
                  run_values: tf.train.SessionRunValues) -> None:
        self._step += 1
        self._is_told = bool(run_values.results > 0)
        if self._is_told or self._is_due(self._step):
            self._save(run_context.session)
        if self._is_told:
            run_context.request_stop()

    def end(self, session: tf.Session) -> None:
        if self._saved != self._step:
            self._save(session)

    def close(self) -> None:
        """Gives signals back to whom they had; also to be called where training failed."""
        self._stop.end()

    def stopped(self) -> Optional[tuple[str, int]]:
        """Once training has ended: the name of the signal that told it to stop, and the step, which
        may be the last one; None if it was not told."""
        return (self._stop.name, self._step) if self._is_told or self._stop.is_asked else None

    def _save(self, session):
        for kept in self._beside:
            kept.save(session, self._step)
        self._saved = self._step
        if not self._is_chief:
            return
        checkpoint.write(self._saver, session, self._model_dir, self._step)
        if not self._is_told:
            self._stop.cuts_off(lambda: self._after_save(self._step))
        checkpoint.keep_some(self._model_dir, self._max_save, self._is_needed)
        for kept in self._beside:
            kept.forget()


class _CutOff(BaseException):
    """The run is told to stop in the middle of what need not come to its end."""


class StopSignal:
    """SIGTERM or SIGINT (Ctrl-C) on any host, seen by all hosts in the same step: a number that
    each step sums. A second Ctrl-C ends the program at once.

    A signal that the program was started to ignore, as shells start what runs in the background to
    ignore SIGINT, stays ignored.
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self._asked, self._before, self._cuts = None, {}, False

    def begin(self) -> None:
        step = train_step.step_of_graph()
        self._seen = step.stop
        self._raise = tf.group(*[part.assign(1., read_value=False)
                                 for part in distribution.local_parts(step.stop_asked)])
        if threading.current_thread() is threading.main_thread():
            self._before = {signum: signal.signal(signum, self._ask) for signum in self._SIGNALS
                            if signal.getsignal(signum) != signal.SIG_IGN}

    @property
    def is_asked(self) -> bool:
        """Whether a signal came to this host."""
        return self._asked is not None

    @property
    def name(self) -> str:
        """What the run was stopped by; on a host that heard of it from another, SIGTERM."""
        return signal.Signals(self._asked or signal.SIGTERM).name

    def _ask(self, signum, frame):
        self._asked = signum
        if signal.SIGINT in self._before:
            signal.signal(signal.SIGINT, self._before[signal.SIGINT])
        if self._cuts:
            self._cuts = False
            raise _CutOff()

    def cuts_off(self, work: Callable[[], None]) -> None:
        """Calls `work`, which ends at once where a signal comes; not where one has come."""
        try:
            self._cuts = True
            if not self._asked:
                work()
        except _CutOff:
            _log.info("note: the evaluation is cut off; it is made up when the run goes on")
        finally:
            self._cuts = False

    def before_run(self, session: tf.Session) -> tf.Tensor:
        """What to fetch in the next step: 0 until somebody was told to stop."""
        if self._asked:
            session.run(self._raise)
        return self._seen

    def end(self) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
