"""What a pretraining step computes, on each replica: one model function for all objectives.

Shape letters as in `modeling`; b rows of this replica, P predicted slots.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow.compat.v1 as tf

from xlnet.engine import distribution, recurrent_memory, train_step
from xlnet.engine.estimator import EstimatorSpec
from xlnet.pretraining import filled_window, objectives
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings
from xlnet.tokenization.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class PretrainingModel:
    """A network with what it is to learn; `model_fn` is the Estimator's, for training alone.

    `reuse_len` is that of the data. `xla`: whether a training step is compiled.
    """
    config: XLNetConfig
    network: NetworkSettings
    optimization: OptimizationSettings
    settings: PretrainingSettings
    reuse_len: int
    tokenizer: Tokenizer
    xla: bool = False

    def model_fn(self, features: dict[str, tf.Tensor]) -> EstimatorSpec:
        """features: dict of `input_pipeline.pretraining_batches`, [b,...]."""
        return self._training(*self._batch(features))

    def _batch(self, features):
        """The features with targets and memories; the `recurrent_memory.Memory`."""
        features = train_step.on_device(features)
        batch = dict(features, **objectives.targets(self.settings.objective, features,
                                                    self._special_ids()))
        store = self._memory(features)
        if store:
            batch["memory"] = store.value
        return batch, store

    def _special_ids(self):
        return [self.tokenizer.sep_id, self.tokenizer.cls_id]

    def _memory(self, features):
        """The replica's `recurrent_memory.Memory`; None without memory."""
        if not self.settings.mem_len:
            return None
        with train_step.model_scope():
            return recurrent_memory.Memory(self.config, self.settings.mem_len,
                                           features["starts_stream"])

    def _predict(self, batch, first_row, is_training):
        """`objectives.Predictions` of some rows, and what they leave behind."""
        settings = self.settings
        run = self.network.run_config(
            is_training, mem_len=settings.mem_len, reuse_len=self.reuse_len,
            same_length=settings.same_length, device="xla" if self.xla and is_training else None)
        mems = tf.unstack(batch["memory"], axis=1) if "memory" in batch else None
        noise = objectives.Noise(train_step.dropout_seed(
            settings.seed, tf.train.get_global_step()), first_row) if is_training else \
            objectives.NO_NOISE
        with train_step.model_scope():
            predictions = objectives.predict(
                settings.objective, self.config, run, batch, mems, ids=batch["ids"],
                noise=noise, mask_id=self.tokenizer.mask_id,
                with_segments=settings.next_segment_loss > 0)
        return predictions, {} if mems is None else {
            "memory": tf.stack(predictions.new_mems, axis=1)}

    # -- training

    def _training(self, batch, store):
        settings = self.settings
        rows = batch["ids"].shape.as_list()[0]
        first_row = distribution.replica_index() * rows
        # Every target of the global batch counts the same, whichever micro-batch it is in.
        targets, = distribution.mean_over_replicas([tf.reduce_sum(batch["weights"])])
        targets /= settings.grad_accum_steps

        def compute(part, row):
            predictions, kept = self._predict(part, first_row + row, is_training=True)
            loss = tf.reduce_sum(predictions.losses * part["weights"]) / targets
            if settings.next_segment_loss:
                loss += settings.next_segment_loss * tf.reduce_mean(
                    _segment_losses(predictions, part["label"]))
            return loss, kept
        scale = train_step.loss_scale(self.network, settings.model_dir)
        loss, gradients, kept = train_step.accumulate(compute, batch, settings.grad_accum_steps,
                                                      scale, self.xla)
        train_step.start_from(settings.init_checkpoint, self.config, settings.model_dir)
        return train_step.training_spec(loss, self.optimization, gradients, scale,
                                        updates=[store.update(kept["memory"])] if store else [])

    # -- held-out evaluation

    def held_out(self, features: dict[str, tf.Tensor]) -> dict[str, Any]:
        """What a batch of held-out windows says, dropout off; memories are carried along.

        Args:
          features: as of `model_fn`.

        Returns:
          Dict: losses, weights float32 [b,P]; window: dict of `filled_window.NAMES`, of row 0. If
          segments are judged: label, continues int [b], whether segment B continues A, and is said
          to.
        """
        tf.train.get_or_create_global_step()
        batch, store = self._batch(features)
        predictions, kept = self._predict(batch, None, is_training=False)
        train_step.start_from(self.settings.init_checkpoint, self.config, self.settings.model_dir)
        with tf.control_dependencies([store.update(kept["memory"])] if store else []):
            losses = tf.identity(predictions.losses)
        window = {name: batch[name][0] for name in filled_window.NAMES if name in batch}
        outputs = dict(losses=losses, weights=batch["weights"],
                       window=dict(window, guesses=predictions.guesses))
        if self.settings.next_segment_loss:
            outputs.update(label=batch["label"],
                           continues=tf.argmax(predictions.segment_logits, axis=1))
        return outputs


def _segment_losses(predictions, label):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=label, logits=predictions.segment_logits)
