"""A pretraining run: its training step on each replica, its batches, what it reports.

Shape letters: B batch, b batch elements of what a function is given, Q positions, P targets, L
layers, M remembered positions, D d_model.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow.compat.v1 as tf

from xlnet.corpus import input_pipeline
from xlnet.corpus.manifest import Manifest
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import optimizer
from xlnet.engine.devices import mean_over_replicas, replica_index
from xlnet.engine.estimator import EstimatorSpec, TrainingRun
from xlnet.engine.recurrent_memory import Memory
from xlnet.model import heads, ops, parameters, stateless_random
from xlnet.model.ops import Tensors
from xlnet.pretraining import objectives
from xlnet.runs import run_document
from xlnet.settings.pretraining import PretrainingSettings, SamplingSettings


@dataclasses.dataclass(frozen=True)
class PretrainingRun(TrainingRun):
    """A run as `resolve` makes it of a command line, files and directories. Nothing here or below
    depends on which of these a setting comes from.

    Attributes, besides those of `TrainingRun`:
      settings: of the records, objective, memory and steps; not read for what `sampling` has.
      sampling: of targets and orders; `num_predict` and `perm_size` are never 0.
      objective: what is predicted.
      tokenizer: that of the records.
      manifest: of the training records.
      held_out: manifest of the records to evaluate on; None: none.
      document: what the model directory says of the run.
      fused_attention: the compute capability of the GPUs for which attention is compiled to one
        program, such as (9, 0); None: attention is that of XLA or TensorFlow.
    """

    settings: PretrainingSettings
    sampling: SamplingSettings
    objective: objectives.Objective
    tokenizer: Tokenizer
    manifest: Manifest
    held_out: Manifest | None
    document: run_document.RunDocument
    fused_attention: tuple[int, int] | None = None

    # -- a step

    def batches(self, start: int) -> tf.data.Dataset:
        """This host's part of each batch, from the step `start` on: features by name, as
        `input_pipeline.pretraining_batches` lists them."""
        settings = self.settings
        return input_pipeline.pretraining_batches(
            settings.record_info_dir,
            self.manifest,
            sampling=self.sampling,
            tokenizer=self.tokenizer,
            batch_size=settings.train_batch_size,
            rows=self.devices.rows(settings.train_batch_size),
            seed=settings.seed,
            start_step=start,
        )

    def model_fn(self, features: Tensors) -> EstimatorSpec:
        """Builds a training step on one replica; features: those of `batches`, [b,...]."""
        micro_batches = self.settings.grad_accum_steps
        batch, memory = self.with_targets_and_memory(features)
        rows, _ = batch["ids"].shape.as_list()  # b, P
        # Losses are divided by the number of targets of the global batch, not of a replica or
        # micro-batch: batch elements have different numbers of targets, and each target shall have
        # the same weight. Means over replicas and micro-batches follow later, so the divisor here
        # is the mean number of targets of a micro-batch. Each batch element gets a copy of this
        # number, as a batch is cut into micro-batches along its first axis.
        (of_replica,) = mean_over_replicas([tf.reduce_sum(batch["weights"])])
        batch["mean_target_count"] = tf.fill([rows], of_replica / micro_batches)
        # Loss and gradients, of each micro-batch. In float16 the loss is scaled, since small
        # gradients would become 0.
        scale = optimizer.LossScale() if self.network.precision == "fp16" else None
        loss, gradients, kept = optimizer.loss_and_gradients(
            self.micro_batch_loss,
            batch,
            first_row=replica_index() * rows,
            micro_batches=micro_batches,
            scale=scale,
            xla=self.devices.xla,
        )
        # Means over the replicas of all hosts.
        *gradients, loss = mean_over_replicas([*gradients, loss])
        # Clipping and update; then the new memory.
        update, scalars = optimizer.update_weights(
            self.optimization, gradients, self.config.n_layer, scale
        )
        if not memory:
            return EstimatorSpec(loss, update, scalars)
        update = tf.group(update, memory.update(kept["memory"]))
        return EstimatorSpec(loss, update, scalars, memory.variable)

    def with_targets_and_memory(
        self, features: Tensors
    ) -> tuple[Tensors, Memory | None]:
        """Adds to the features of `batches`, [b,...], what the step reads besides. An objective
        whose targets are sampled adds their ids alone: positions and weights are features already.

        Returns:
          A dict of the features, the targets (positions and ids, int [b,P], and weights, float32
          [b,P]) and, if the run has a memory, `memory`, float32 [b,L,M,D], that of the sequences
          before; the `Memory` that this is read from, None without one.
        """
        settings = self.settings
        # Integers get the type that the device computes: int64, but on a TPU int32.
        features = ops.cast_integers(features)
        special_ids = [self.tokenizer.sep_id, self.tokenizer.cls_id]
        # By default `objectives.sampled_targets`.
        targets = self.objective.targets(features, special_ids)
        batch = {**features, **targets}
        if not settings.mem_len:
            return batch, None
        memory = Memory(self.config, settings.mem_len, features["starts_stream"])
        return {**batch, "memory": memory.value}, memory

    def micro_batch_loss(
        self, part: Tensors, first_row: Any
    ) -> tuple[tf.Tensor, Tensors]:
        """Builds the loss of a micro-batch.

        Args:
          part: a micro-batch of the batch of `model_fn`; its `mean_target_count`, the mean number
            of targets of a micro-batch of the global batch, is the same in all parts.
          first_row: the index of its batch element 0 in the global batch.

        Returns:
          The loss, float32 scalar; what the batch elements leave for the next step: a dict with the
          new `memory` [b,L,M,D], or empty if the run has none.
        """
        # Dropout is a function of the step and of the batch element: a resumed run, or one on
        # other devices, has the same masks.
        step = tf.train.get_global_step()
        seed = stateless_random.dropout_seed(self.settings.seed, step)
        losses, segment_logits, kept = self.losses(part, seed, first_row)
        weighted = tf.reduce_sum(losses * part["weights"])
        loss = weighted / part["mean_target_count"][0]
        if segment_logits is not None:
            segments = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=part["label"], logits=segment_logits
            )
            loss += self.settings.next_segment_loss * tf.reduce_mean(segments)
        return loss, kept

    def losses(
        self,
        batch: Tensors,
        seed: tf.Tensor | None = None,
        first_row: Any = None,
    ) -> tuple[tf.Tensor, tf.Tensor | None, Tensors]:
        """Builds the network on a batch of `with_targets_and_memory`, or on a micro-batch of it.

        Args:
          batch: tensors [b,...] by name.
          seed: of dropout; None: in evaluation.
          first_row: the index of batch element 0 in the global batch; None: in evaluation.

        Returns:
          The loss of each target, float32 [b,P], not weighted; with next-segment prediction its
          logits, float32 [b,2], else None; a dict with the new `memory` [b,L,M,D], or empty if the
          run has none.
        """
        settings, trains = self.settings, seed is not None
        run_config = self.network.run_config(
            trains,
            mem_len=settings.mem_len,
            reuse_len=self.manifest.reuse_len,
            same_length=settings.same_length,
            # Only the training step is compiled by XLA.
            device="xla" if self.devices.xla and trains else None,
            fused_attention=self.fused_attention if trains else None,
        )
        # The network takes a memory for each layer: [b,L,M,D] is split into L times [b,M,D]. Its
        # batch axis is the first one, so micro-batches and replicas get their parts of it as of all
        # features.
        mems = None
        if "memory" in batch:
            mems = tf.unstack(batch["memory"], axis=1)
        given = objectives.Batch(
            config=self.config,
            run_config=run_config,
            features=batch,
            mems=mems,
            seed=seed,
            first_row=first_row,
            mask_id=self.tokenizer.mask_id,
            with_segments=settings.next_segment_loss > 0,
        )
        with parameters.model_scope():
            # Such as `objectives._permutation`.
            outputs, at_targets = self.objective.predict(given)
            table, precision = outputs.embedding_table, str(run_config.precision)
            target_ids = batch["ids"]
            losses = heads.lm_loss(at_targets, target_ids, table, precision)
            segment_logits = None
            if settings.next_segment_loss:
                segment_logits = objectives.segment_logits(given, outputs)
        kept = {}
        if outputs.new_mems is not None:
            kept["memory"] = tf.stack(outputs.new_mems, axis=1)
        return losses, segment_logits, kept

    # -- what the loop needs besides, see `estimator.TrainingRun`

    @property
    def unit(self) -> tuple[str, int]:
        return "tokens", self.settings.train_batch_size * self.manifest.seq_len

    def write_document(self) -> None:
        directory = self.settings.model_dir
        run_document.write(directory, self.document, self.config, self.tokenizer)

    def check_host(self) -> None:
        run_document.check_host(self.document)

    def banner(self) -> dict[str, str]:
        """What is trained on what, for the log: texts by the names of their lines."""
        manifest, perm_size = self.manifest, self.sampling.perm_size
        settings = dataclasses.replace(self.settings, perm_size=perm_size)
        predicted: Any = "all"  # tokens of a sequence
        if self.objective.samples_targets:
            predicted = self.sampling.num_predict
        steps = input_pipeline.steps_per_epoch(manifest, settings.train_batch_size)
        return {
            "data": (
                f"{settings.record_info_dir}: {manifest.tokens:,} tokens, {manifest.num_streams} "
                f"streams of {manifest.windows_per_stream} sequences; an epoch is {steps:,.1f} "
                "steps"
            ),
            "objective": settings.objective,
            "sequences": (
                f"{manifest.seq_len} tokens, {manifest.reuse_len} reused, memory "
                f"{settings.mem_len}, {predicted} predicted"
            ),
            "settings": run_document.changed(
                (settings, self.network, self.optimization)
            ),
        }
