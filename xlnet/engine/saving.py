"""Saves a run: every so many steps, at its end, and when a signal stops it."""

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

    def __init__(self, model_dir: str, devices: distribution.Devices, *,
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
