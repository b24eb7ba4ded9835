"""Which checkpoint to keep: evaluations while training, the best of them, when to stop."""

import os
import shutil

import tensorflow.compat.v1 as tf

from xlnet import files
from xlnet.config import CONFIG_NAME
from xlnet.engine import checkpoint
from xlnet.tokenization import SPIECE_NAME, description_path

BEST = "best"                      # the directory, in the model directory, of the best checkpoint
EVALUATIONS_NAME = "evaluations.json"


class Selection:
    """The evaluations of a run, kept in its model directory, so that a resumed run knows them.

    Args:
      model_dir: of the run. metric: name of the task's main metric; higher is better.
      patience: evaluations without a better one after which training stops; 0: never.
    """

    def __init__(self, model_dir, metric, patience):
        self._path = os.path.join(model_dir, EVALUATIONS_NAME)
        self._model_dir = model_dir
        self._metric = metric
        self._patience = patience
        self.evaluations = []            # dicts of step, metrics, loss, collapsed
        if os.path.exists(self._path):
            self.evaluations = files.read_json(self._path, "evaluations")["evaluations"]

    def add(self, step, result, sidecar_files):
        """Notes a result; exports the checkpoint of `step` if it is the best so far.

        Args:
          result: dict of the metrics. sidecar_files: what the export needs beside the weights.

        Returns:
          Whether it is the best.
        """
        self.evaluations = [one for one in self.evaluations if one["step"] < step]
        self.evaluations.append(dict(step=step, **result))
        is_best = self.best()["step"] == step
        if is_best:
            prefix = dict(checkpoint.all_prefixes(self._model_dir))[step]
            export(prefix, os.path.join(self._model_dir, BEST), sidecar_files)
        files.write_json(self._path, {"metric": self._metric, "evaluations": self.evaluations})
        return is_best

    def lacks(self, step, every, last):
        """Whether `step` should have been evaluated, but was not."""
        return (step % every == 0 or step == last) and step not in (
            one["step"] for one in self.evaluations)

    def best(self):
        """The best evaluation, the earliest of equal ones; None without any."""
        return max(self.evaluations, key=lambda one: one[self._metric], default=None)

    def is_over(self):
        """Whether the last `patience` evaluations brought nothing better."""
        if not self._patience or not self.evaluations:
            return False
        steps = [one["step"] for one in self.evaluations]
        return len(steps) - 1 - steps.index(self.best()["step"]) >= self._patience


class StopHook(tf.train.SessionRunHook):
    """Ends a training when patience does: a selection that `is_over`."""

    def __init__(self, selection):
        self._selection = selection

    def after_run(self, run_context, run_values):
        if self._selection.is_over():
            run_context.request_stop()


def export(prefix, directory, sidecar_files):
    """Makes `directory` hold one checkpoint of the weights alone, and the files beside it.

    The directory is complete or what it was before.

    Args:
      prefix: of the checkpoint. sidecar_files: paths of files to be copied.
    """
    partial = directory + ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    name = os.path.basename(prefix)
    _write_weights(prefix, os.path.join(partial, name))
    files.write_text(os.path.join(partial, "checkpoint"),
                     'model_checkpoint_path: "%s"\nall_model_checkpoint_paths: "%s"\n'
                     % (name, name))
    for path in sidecar_files:
        files.copy(path, os.path.join(partial, os.path.basename(path)))
    shutil.rmtree(directory, ignore_errors=True)
    os.replace(partial, directory)


def _write_weights(prefix, target):
    """Copies the weights of a checkpoint and its step; moving averages take the weights' place."""
    types = tf.train.NewCheckpointReader(prefix).get_variable_to_dtype_map()
    stored = dict(checkpoint.weights(prefix), global_step="global_step")
    names = sorted(stored)
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = tf.raw_ops.RestoreV2(
            prefix=prefix, tensor_names=[stored[name] for name in names],
            shape_and_slices=[""] * len(names), dtypes=[types[stored[name]] for name in names])
        session.run(tf.raw_ops.SaveV2(prefix=target, tensor_names=names,
                                      shape_and_slices=[""] * len(names), tensors=tensors))


def sidecar_files(model_dir):
    """What must lie beside the weights to use them: architecture, vocabulary, cleaning, and of
    fine-tuned ones the task."""
    paths = [os.path.join(model_dir, name) for name in (
        CONFIG_NAME, SPIECE_NAME, description_path(SPIECE_NAME), "task.json")]
    return [path for path in paths if os.path.exists(path)]
