"""Pretraining: permutation language modelling with memories that stay on the device.

Shape letters as in `modeling`.
"""

import glob
import math
import os
import re

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from xlnet import checkpoint, files, heads, input_pipeline, modeling, training
from xlnet.errors import UserError
from xlnet.permutation import Permutation
from xlnet.records import Manifest
from xlnet.tokenization import Tokenizer, descriptions_beside


MEMORY = "memory"


def pretraining_model_fn(config, *, network, optimization_settings, settings, reuse_len):
    """Returns the `model_fn` of permutation language modelling.

    Args:
      config: `XLNetConfig`. network, optimization_settings, settings: `NetworkSettings`,
        `OptimizationSettings`, `PretrainingSettings`. reuse_len: from the data's manifest.
    """
    def model_fn(features, mode):
        is_training = mode == tf2.estimator.ModeKeys.TRAIN
        run = training.run_config(network, is_training, mem_len=settings.mem_len,
                                  reuse_len=reuse_len)
        with tf.variable_scope("model"):
            initializer = _stored_memory(settings.model_dir) if is_training \
                else tf.initializers.zeros()
            mems, memory = _read_memory(config, run, features["starts_stream"], initializer)
            losses, new_mems = _permutation_lm(config, run, features, mems, settings.seed)
        update_memory = memory.assign(tf.stack(new_mems)) if settings.mem_len else tf.no_op()
        training.start_from(settings.init_checkpoint, config, settings.model_dir)
        with tf.control_dependencies([update_memory]):
            losses = tf.identity(losses)
        loss = tf.reduce_mean(losses)
        if is_training:
            return training.training_spec(loss, optimization_settings)
        return tf2.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={"nats_per_target": tf.metrics.mean(losses)})
    return model_fn


def _permutation_lm(config, run, features, mems, seed):
    """Losses of the predicted tokens [B,P], and the new memories."""
    input_ids, positions = features["input_ids"], features["positions"]
    is_target = tf.reduce_any(
        tf.one_hot(positions, input_ids.shape[1], True, False, dtype=tf.bool), axis=1)
    outputs = modeling.transformer_xl(
        config, run, input_ids=input_ids, seg_ids=features["seg_ids"], mems=mems,
        direction=features["direction"], query=modeling.Query(positions=positions),
        hidden=modeling.permutation_mask(features["rank"], is_target),
        seed=training.dropout_seed(seed, tf.train.get_global_step()))
    targets = tf.gather(input_ids, positions, batch_dims=1)
    losses = heads.lm_loss(outputs.sequence, targets, outputs.embedding_table, run.use_bfloat16)
    return losses, outputs.new_mems


def _read_memory(config, run, starts_stream, initializer):
    """The memories as a list over layers of [B,M,D], cleared for rows that start a stream, and the
    variable [L,B,M,D] that holds them: on the device, each replica its own, not in checkpoints."""
    if not run.mem_len:
        return None, None
    memory = tf.get_variable(
        MEMORY, [config.n_layer, starts_stream.shape[0], run.mem_len, config.d_model], tf.float32,
        initializer, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES],
        use_resource=True, synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    continues = 1. - tf.cast(starts_stream, tf.float32)
    return tf.unstack(memory.read_value() * continues[None, :, None, None]), memory


class MemorySaver(tf.train.CheckpointSaverListener):
    """Saves the memory beside each checkpoint, before it: no checkpoint is ever without."""

    def __init__(self, model_dir):
        self._model_dir = model_dir

    def begin(self):
        found = [v for v in tf.local_variables() if v.op.name.endswith("/" + MEMORY)]
        self._memory = found[0] if found else None

    def before_save(self, session, global_step_value):
        if self._memory is None:
            return
        with files.replacing(_memory_path(self._model_dir, global_step_value)) as temporary:
            with open(temporary, "wb") as f:
                np.save(f, session.run(self._memory))

    def after_save(self, session, global_step_value):
        """Drops the memories of checkpoints that are gone."""
        kept = {step for step, _ in checkpoint.all_prefixes(self._model_dir)}
        for path in glob.glob(_memory_path(self._model_dir, "*")):
            step = int(re.search(r"memory-(\d+)\.npy$", path).group(1))
            if step not in kept and step != global_step_value:
                os.remove(path)


def _stored_memory(model_dir):
    """Initializer of the memory variable: the file beside the checkpoint that was restored, if any.

    Local variables are initialized after the checkpoint is restored, so the step is known.
    """
    def load(shape, step):
        shape = tuple(shape.tolist())
        path = _memory_path(model_dir, step)
        stored = np.load(path) if os.path.exists(path) else None
        if stored is not None and stored.shape == shape:
            return stored
        if step:
            print("note: %s %s; memories start empty" % (
                path, "is missing" if stored is None else
                "has shape %s, this run's is %s" % (stored.shape, shape)))
        return np.zeros(shape, np.float32)

    def initializer(shape, dtype, partition_info=None):
        step = tf.train.get_global_step().read_value()
        return tf.ensure_shape(tf.numpy_function(load, [tf.constant(shape), step], dtype), shape)
    return initializer


def _memory_path(model_dir, step):
    return os.path.join(model_dir, "memory-%s.npy" % step)


class Run:
    """A pretraining run: data, model directory, evaluation points.

    Args:
      settings, network, optimization: `PretrainingSettings`, `NetworkSettings`,
        `OptimizationSettings`. config: `XLNetConfig`. manifest: that of the training records.
    """

    def __init__(self, settings, config, network, optimization, manifest):
        self._settings = settings
        self._config = config
        self._network = network
        self._optimization = optimization
        self._manifest = manifest
        self._permutation = choose_permutation(settings, manifest)
        input_pipeline.steps_per_epoch(manifest, settings.train_batch_size)
        training.run_config(network, is_training=True)  # refuses bad rates before anything is made
        tokenizer = Tokenizer(os.path.join(settings.record_info_dir, manifest.sp_model),
                              manifest.uncased, manifest.keep_accents,
                              descriptions_beside(settings.init_checkpoint))
        self._special_ids = [tokenizer.sep_id, tokenizer.cls_id]
        self._held_out = _held_out_manifest(settings, manifest)
        if settings.init_checkpoint:
            checkpoint.check_config(checkpoint.resolve(settings.init_checkpoint), config)
        training.keep_architecture(settings.model_dir, config, tokenizer)
        self._estimator = training.make_estimator(
            pretraining_model_fn(config, network=network, optimization_settings=optimization,
                                 settings=settings, reuse_len=manifest.reuse_len),
            model_dir=settings.model_dir, seed=settings.seed, save_steps=settings.save_steps,
            max_save=settings.max_save, log_steps=settings.log_steps)

    def train(self):
        """Trains to the last step from wherever the run stands; evaluates on the way."""
        settings, last = self._settings, self._optimization.train_steps
        step = checkpoint.step_of(settings.model_dir)
        if step >= last:
            print("the run in %s has all of its %d steps" % (settings.model_dir, last))
            self.evaluate()
            return
        if not step:
            self.evaluate()
        banner = self._banner(step)
        while step < last:
            stop = min(last, step - step % settings.eval_steps + settings.eval_steps) \
                if settings.eval_steps else last
            self._train_to(stop, step, banner)
            step, banner = stop, None
            self.evaluate()

    def _train_to(self, stop, step, banner):
        progress = training.Progress(
            train_steps=self._optimization.train_steps, log_steps=self._settings.log_steps,
            per_step=self._settings.train_batch_size * self._manifest.seq_len, unit="tokens",
            banner=banner, with_perplexity=True)
        self._estimator.train(lambda: self._batches(step), max_steps=stop,
                              hooks=[progress],
                              saving_listeners=[MemorySaver(self._settings.model_dir)])

    def _batches(self, start_step):
        return input_pipeline.pretraining_batches(
            self._settings.record_info_dir, self._manifest, permutation=self._permutation,
            batch_size=self._settings.train_batch_size, special_ids=self._special_ids,
            seed=self._settings.seed, start_step=start_step)

    def evaluate(self):
        """Measures loss and perplexity on the held-out records, if there are any: memories carried
        along, always the same targets and orders. Prints them, and adds the loss in nats per
        target to `held_out.tsv`."""
        manifest, settings = self._held_out, self._settings
        if manifest is None:
            return
        result = self._estimator.evaluate(lambda: input_pipeline.pretraining_batches(
            settings.eval_record_info_dir, manifest, permutation=self._permutation,
            batch_size=_largest_divisor(manifest.num_streams, settings.train_batch_size),
            special_ids=self._special_ids, seed=0, epochs=1))
        loss = float(result["nats_per_target"])
        print("held out: step %d  loss %.4f  ppl %.2f  bits/token %.4f" % (
            result["global_step"], loss, math.exp(min(loss, 50)), loss / math.log(2)), flush=True)
        path = os.path.join(settings.model_dir, "held_out.tsv")
        is_new = not os.path.exists(path)
        with open(path, "a", encoding="utf-8") as f:
            f.write("step\tloss\n" * is_new + "%d\t%.6f\n" % (result["global_step"], loss))

    def _banner(self, step):
        settings, manifest = self._settings, self._manifest
        epoch = input_pipeline.steps_per_epoch(manifest, settings.train_batch_size)
        return {
            "devices": training.devices(),
            "precision": "bfloat16" if self._network.use_bfloat16 else "float32",
            "data": "%s: %s tokens, %d streams of %d windows" % (
                settings.record_info_dir, "{:,}".format(manifest.tokens), manifest.num_streams,
                manifest.windows_per_stream),
            "windows": "%d tokens, %d reused, memory %d, %d predicted" % (
                manifest.seq_len, manifest.reuse_len, settings.mem_len, settings.num_predict),
            "batch": "%d windows; an epoch is %d steps" % (settings.train_batch_size, epoch),
            "steps": "%d to %d" % (step, self._optimization.train_steps),
            "model": "%r in %s" % (self._config, settings.model_dir),
        }


def choose_permutation(settings, manifest):
    """How targets are drawn.

    Raises:
      UserError: the second part of the window has too few tokens for its share of the targets.
    """
    rest = manifest.seq_len - manifest.reuse_len - 3   # without <sep>, <sep>, <cls>
    most = rest * manifest.seq_len // (manifest.seq_len - manifest.reuse_len)
    if settings.num_predict > most:
        raise UserError("num_predict is %d, expected at most %d for windows of %d tokens of which "
                        "%d are reused" % (settings.num_predict, most, manifest.seq_len,
                                           manifest.reuse_len))
    if settings.mask_alpha < settings.mask_beta:
        raise UserError("mask_alpha is %d, expected at least mask_beta, %d"
                        % (settings.mask_alpha, settings.mask_beta))
    return Permutation(
        reuse_len=manifest.reuse_len, num_predict=settings.num_predict,
        perm_size=settings.perm_size, mask_alpha=settings.mask_alpha, mask_beta=settings.mask_beta)


def _held_out_manifest(settings, manifest):
    """The manifest of the held-out records, checked to be cut like the training records."""
    if not settings.eval_record_info_dir:
        return None
    held_out = Manifest.read(settings.eval_record_info_dir)
    for name in ("seq_len", "reuse_len", "sp_model_sha256", "uncased", "keep_accents"):
        if getattr(held_out, name) != getattr(manifest, name):
            raise UserError("eval_record_info_dir: %s is %s in %s, %s in %s" % (
                name, getattr(held_out, name), settings.eval_record_info_dir,
                getattr(manifest, name), settings.record_info_dir))
    return held_out


def _largest_divisor(number, limit):
    return max(n for n in range(1, min(number, limit) + 1) if number % n == 0)
