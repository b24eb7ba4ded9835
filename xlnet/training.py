"""The training engine that pretraining and fine-tuning share: Estimator, start, update, reports."""

import math
import os
import time

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet import checkpoint, files, optimization
from xlnet.config import CONFIG_NAME, RunConfig, XLNetConfig
from xlnet.errors import UserError
from xlnet.tokenization import SPIECE_NAME, Tokenizer


def make_estimator(model_fn, *, model_dir, seed, save_steps, max_save, log_steps):
    """An Estimator that keeps the last `max_save` checkpoints (0: all) and TensorBoard scalars."""
    tf.logging.set_verbosity(tf.logging.ERROR)  # the terminal is for our own lines
    return tf2.estimator.Estimator(model_fn, model_dir, tf2.estimator.RunConfig(
        tf_random_seed=seed, save_checkpoints_steps=save_steps, save_summary_steps=log_steps,
        keep_checkpoint_max=max_save or None, log_step_count_steps=None))


def keep_architecture(model_dir, config, tokenizer):
    """Writes `xlnet_config.json`, `spiece.model` and its description into `model_dir`, so that it
    is complete.

    Raises:
      UserError: the directory already holds a run with another architecture or vocabulary, or one
        whose text was cleaned in another way.
    """
    path = os.path.join(model_dir, CONFIG_NAME)
    spiece = os.path.join(model_dir, SPIECE_NAME)
    has_begun = tf.train.latest_checkpoint(model_dir)
    if has_begun and os.path.exists(path):
        checkpoint.check_same_architecture(XLNetConfig(json_path=path), config, path)
    if has_begun and os.path.exists(spiece):
        if files.sha256(spiece) != tokenizer.sha256:
            raise UserError("model_dir: %s differs from %s; a run keeps its vocabulary"
                            % (spiece, tokenizer.path))
        Tokenizer(spiece, tokenizer.uncased, tokenizer.keep_accents)    # refuses what contradicts
    config.to_json(path)
    tokenizer.save(spiece)


def run_config(network, is_training, **recurrence):
    """The `RunConfig` of `NetworkSettings`; `recurrence` is its mem_len and reuse_len."""
    return RunConfig(is_training, False, network.use_bfloat16, network.dropout, network.dropatt,
                     network.init, network.init_range, network.init_std,
                     clamp_len=network.clamp_len, **recurrence)


def dropout_seed(seed, step):
    """int32 [2]: every step has noise of its own, the same whenever the step is run."""
    return tf.stack([tf.constant(seed, tf.int32), tf.cast(step, tf.int32)])


def start_from(init_checkpoint, config, model_dir):
    """Takes weights from `init_checkpoint` unless the run in `model_dir` has begun."""
    if init_checkpoint and not tf.train.latest_checkpoint(model_dir):
        checkpoint.warm_start(checkpoint.resolve(init_checkpoint), config)


def training_spec(loss, optimization_settings):
    """The part of a training step that is the same for all tasks."""
    train_op, scalars = optimization.minimize(loss, optimization_settings,
                                              tf.train.get_global_step())
    scalars = dict(scalars, loss=loss)
    for name, value in scalars.items():
        tf.identity(value, name)
        tf.summary.scalar(name, value)
    return tf2.estimator.EstimatorSpec(tf2.estimator.ModeKeys.TRAIN, loss=loss, train_op=train_op)


# ---- reporting ----

class Progress(tf.train.SessionRunHook):
    """Prints a banner when the graph stands, then a line every `log_steps` steps.

    Stops a run whose loss is no longer a number, naming the step.

    Args:
      train_steps: optimizer steps in all.
      per_step: units of work in one step. unit: their name, "tokens" or "examples".
      banner: dict of what else the start-up banner says, or None for no banner.
      with_perplexity: whether the loss is in nats per token.
    """

    def __init__(self, *, train_steps, log_steps, per_step, unit, banner=None,
                 with_perplexity=False):
        self._train_steps = train_steps
        self._log_steps = log_steps
        self._per_step = per_step
        self._unit = unit
        self._banner = banner
        self._with_perplexity = with_perplexity

    def begin(self):
        graph = tf.get_default_graph()
        self._fetches = {name: graph.get_tensor_by_name(name + ":0")
                         for name in ("loss", "learning_rate", "gradient_norm")}
        self._fetches["step"] = tf.train.get_global_step()
        if self._banner is not None:
            count = sum(v.shape.num_elements() for v in tf.trainable_variables())
            print_banner(dict(self._banner, parameters="{:,}".format(count)))

    def after_create_session(self, session, coord):
        self._start(session.run(tf.train.get_global_step()))
        self._first_step_began = time.time()

    def _start(self, step):
        self._losses, self._since, self._since_step = [], time.time(), step

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values):
        values = run_values.results
        # The step is read before or after the update, as the graph pleases; the count is sure.
        step = self._since_step + len(self._losses) + 1
        if not np.isfinite(values["loss"]):
            raise UserError("the loss is %s at step %d; try a lower learning_rate, more "
                            "warmup_steps or a lower clip" % (values["loss"], step))
        self._losses.append(values["loss"])
        if self._first_step_began is not None:
            print("first step after %.1f s" % (time.time() - self._first_step_began), flush=True)
            self._first_step_began = None
        if step % self._log_steps == 0 or step >= self._train_steps:
            self._report(step, values)
            self._start(step)

    def _report(self, step, values):
        loss = float(np.mean(self._losses))
        pace = (time.time() - self._since) / len(self._losses)
        perplexity = "  ppl %8.2f" % math.exp(min(loss, 50)) if self._with_perplexity else ""
        print("step %*d/%d  loss %7.4f%s  lr %.2e  gnorm %6.3f  %7.0f %s/s  left %s" % (
            len(str(self._train_steps)), step, self._train_steps, loss, perplexity,
            values["learning_rate"], values["gradient_norm"], self._per_step / pace, self._unit,
            clock(pace * (self._train_steps - step))), flush=True)


def print_banner(items):
    """One aligned line per item."""
    width = max(len(name) for name in items)
    for name, value in items.items():
        print("%-*s  %s" % (width, name, value), flush=True)


def clock(seconds):
    """Seconds as h:mm:ss."""
    seconds = int(round(seconds))
    return "%d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)


def devices():
    """The devices of this machine in words, for the banner."""
    gpus = tf2.config.list_physical_devices("GPU")
    return "%d GPU" % len(gpus) if gpus else "CPU, %d cores" % (os.cpu_count() or 1)

