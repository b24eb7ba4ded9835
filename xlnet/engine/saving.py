"""When a run is saved: every so many steps, at its end, and when it is told to stop."""

import signal
import threading

import tensorflow.compat.v1 as tf

from xlnet.engine import checkpoint, distribution, memory, training
from xlnet.errors import UserError


class Saving(tf.train.SessionRunHook):
    """Writes checkpoints with the memories beside them; loads the memories where a run goes on.

    Args:
      model_dir, memories (`memory.MemoryFiles`), devices (`distribution.Devices`): of the run.
      is_due: function of the step, whether it is saved.
      max_save, keep_every: see `checkpoint.keep_some`.
      after_save: called with the step, on the chief, after a checkpoint was written.
      start_step: where the data goes on from; an error if that is not where the weights do.
      save_start: whether a run that begins saves step 0.
    """

    def __init__(self, model_dir, memories, devices, *, is_due, max_save, keep_every, after_save,
                 start_step=None, save_start=False):
        self._model_dir = model_dir
        self._start_step = start_step
        self._memories = memories
        self._is_chief = devices.is_chief
        self._is_due = is_due
        self._max_save = max_save
        self._keep_every = keep_every
        self._after_save = after_save
        self._save_start = save_start
        self._stop = StopSignal()
        self.stopped_at = None       # the step of a SIGTERM

    def begin(self):
        self._memories.begin()
        self._stop.begin()

    def after_create_session(self, session, coord):
        self._saver = tf.get_collection(tf.GraphKeys.SAVERS)[0]
        self._step = self._saved = int(session.run(tf.train.get_global_step()))
        if self._start_step not in (None, self._step):
            raise UserError("model_dir: the newest checkpoint in %s is of step %d, the first "
                            "host's of step %d; all hosts must share the directory"
                            % (self._model_dir, self._start_step, self._step))
        if self._is_chief:
            memory.forget(self._model_dir)   # a killed run's, newer than its last checkpoint
        self._memories.load(session, self._step)
        if self._save_start and not self._step:
            self._save(session)

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._stop.before_run(run_context.session))

    def after_run(self, run_context, run_values):
        self._step += 1
        is_told = run_values.results > 0
        if is_told or self._is_due(self._step):
            self._save(run_context.session)
        if is_told:
            self.stopped_at = self._step
            run_context.request_stop()

    def end(self, session):
        if self._saved != self._step:
            self._save(session)
        self._stop.end()

    def _save(self, session):
        self._memories.save(session, self._step)
        self._saved = self._step
        if not self._is_chief:
            return
        checkpoint.write(self._saver, session, self._model_dir, self._step)
        self._after_save(self._step)
        checkpoint.keep_some(self._model_dir, self._max_save, self._keep_every)
        memory.forget(self._model_dir)


class StopSignal:
    """SIGTERM on any host, seen by all hosts in the same step: a number that each step sums."""

    def begin(self):
        self._asked = False
        graph = tf.get_default_graph()
        self._seen = graph.get_tensor_by_name(training.STOP_SEEN + ":0")
        here = [v for v in tf.local_variables()
                if distribution.base_name(v) == training.STOP_VARIABLE][0]
        self._raise = tf.group(*[part.assign(1., read_value=False)
                                 for part in distribution.local_parts(here)])
        self._before = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number, frame):
        self._asked = True

    def before_run(self, session):
        """What to fetch in the next step: 0 until somebody was told to stop."""
        if self._asked:
            session.run(self._raise)
        return self._seen

    def end(self):
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
