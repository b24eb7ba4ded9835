"""A pretraining step on each replica: one model function for all objectives.

Shape letters as in `modeling`; b batch elements of this replica.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import checkpoint, optimizer, recurrent_memory, train_step
from xlnet.engine.devices import mean_over_replicas, replica_index
from xlnet.engine.estimator import EstimatorSpec
from xlnet.pretraining import objectives
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import OptimizationSettings


@dataclasses.dataclass(frozen=True)
class PretrainingModel:
    """A network and its objective; `model_fn` is the Estimator's, for training only.

    reuse_len: that of the data. xla: whether a training step is compiled. fused_attention: as in
    `RunConfig`, for training.
    """

    config: XLNetConfig
    network: NetworkSettings
    optimization: OptimizationSettings
    settings: PretrainingSettings
    reuse_len: int
    tokenizer: Tokenizer
    xla: bool = False
    fused_attention: Optional[tuple[int, int]] = None

    def model_fn(self, features: dict[str, tf.Tensor]) -> EstimatorSpec:
        """A training step on one replica; features: dict of `input_pipeline.pretraining_batches`,
        [b,...]."""
        settings = self.settings
        # The batch: its targets, and the memory of the sequences before it.
        batch, memory = self._batch(features)
        first_row = (
            replica_index() * batch["ids"].shape.as_list()[0]
        )  # in the global batch
        # Losses are divided by the number of targets of the global batch, not of a replica or
        # micro-batch: batch elements have different numbers of targets, and each target shall have
        # the same weight. Means over replicas and micro-batches follow later, so the divisor here
        # is the average number of targets of such a part.
        (target_count,) = mean_over_replicas([tf.reduce_sum(batch["weights"])])
        target_count /= settings.grad_accum_steps

        # Forward and loss, of each micro-batch; the memory that follows is kept.
        def forward(
            part: dict[str, tf.Tensor], row: Any
        ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
            outputs, kept = self._forward(part, first_row + row, is_training=True)
            loss = tf.reduce_sum(outputs.losses * part["weights"]) / target_count
            if settings.next_segment_loss:
                loss += settings.next_segment_loss * tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(
                        labels=part["label"], logits=outputs.segment_logits
                    )
                )
            return loss, kept

        # Gradients. In float16 the loss is scaled, since small gradients would become 0.
        scale = optimizer.LossScale() if self.network.precision == "fp16" else None
        loss, gradients, kept = train_step.loss_and_gradients(
            forward, batch, settings.grad_accum_steps, scale, self.xla
        )
        # The variables exist now: set where they start.
        checkpoint.start_from(settings.init_checkpoint, self.config, settings.model_dir)
        # Means over the replicas of all hosts.
        *gradients, loss = mean_over_replicas([*gradients, loss])
        # Clipping and update; then the new memory.
        update, scalars = optimizer.minimize(
            loss,
            self.optimization,
            tf.train.get_global_step(),
            list(zip(gradients, tf.trainable_variables())),
            scale,
        )
        if memory:
            update = tf.group(update, memory.update(kept["memory"]))
        return EstimatorSpec(loss, update, scalars)

    def _batch(
        self, features: dict[str, tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], Optional[recurrent_memory.Memory]]:
        """The features with targets, and with the memory of the sequences before; the
        `recurrent_memory.Memory`, None without."""
        # The integers are int64, as TensorFlow computes int32 on the host instead of the device.
        features = train_step.on_device(features)
        batch = dict(
            features,
            **objectives.targets(
                self.settings.objective,
                features,
                [self.tokenizer.sep_id, self.tokenizer.cls_id],
            ),
        )
        if not self.settings.mem_len:
            return batch, None
        with train_step.model_scope():
            store = recurrent_memory.Memory(
                self.config, self.settings.mem_len, features["starts_stream"]
            )
        return dict(batch, memory=store.value), store

    def _forward(
        self, batch: dict[str, tf.Tensor], first_row: Any, is_training: bool
    ) -> tuple[objectives.ForwardOutputs, dict[str, tf.Tensor]]:
        """(`objectives.ForwardOutputs` of a batch, dict of the new memory if there is one)."""
        settings = self.settings
        run_config = self.network.run_config(
            is_training,
            mem_len=settings.mem_len,
            reuse_len=self.reuse_len,
            same_length=settings.same_length,
            device="xla" if self.xla and is_training else None,
            fused_attention=self.fused_attention if is_training else None,
        )
        # The memory is split into one for each layer, as the network takes them: [b,L,M,D] to L
        # times [b,M,D]. Its batch axis is the first one, so that micro-batches and replicas get
        # their parts of it as of all features.
        mems = tf.unstack(batch["memory"], axis=1) if "memory" in batch else None
        # Dropout is a function of the step and of the batch element: a resumed run, or one on other
        # devices, has the same masks.
        bits = (
            objectives.RandomBits(
                train_step.dropout_seed(settings.seed, tf.train.get_global_step()),
                first_row,
            )
            if is_training
            else objectives.NO_RANDOM_BITS
        )
        with train_step.model_scope():
            outputs = objectives.forward(
                settings.objective,
                self.config,
                run_config,
                batch,
                mems,
                ids=batch["ids"],
                bits=bits,
                mask_id=self.tokenizer.mask_id,
                with_segments=settings.next_segment_loss > 0,
            )
        if mems is None:
            return outputs, {}
        return outputs, {"memory": tf.stack(outputs.new_mems, axis=1)}

    def held_out(self, features: dict[str, tf.Tensor]) -> dict[str, Any]:
        """The results of a held-out batch, without dropout; updates the memories. features: as for
        `model_fn`.

        Returns:
          Dict: losses, weights float32 [b,P]; ids of the targets, int64 [b,P]. With next-segment
          prediction also label and continues, int [b]: whether segment B continues A, and the
          prediction.
        """
        batch, store = self._batch(features)
        outputs, kept = self._forward(batch, None, is_training=False)
        checkpoint.start_from(
            self.settings.init_checkpoint, self.config, self.settings.model_dir
        )
        # The memory is updated before the losses can be read, as the next batch continues the text
        # streams. Each device has a memory, which is cleared where a stream starts (`Predictor`).
        with tf.control_dependencies([store.update(kept["memory"])] if store else []):
            losses = tf.identity(outputs.losses)
        results = dict(losses=losses, weights=batch["weights"], ids=batch["ids"])
        if self.settings.next_segment_loss:
            results.update(
                label=batch["label"],
                continues=tf.argmax(outputs.segment_logits, axis=1),
            )
        return results
