"""A network with the output layer of a task: what it computes of a batch.

Shape letters as in `modeling`; T tokens of an example, C choices.
"""

from __future__ import annotations

import dataclasses
from typing import Optional

import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.network import heads, modeling
from xlnet.network.stateless_random import fold_in
from xlnet.settings.finetuning import FineTuningSettings
from xlnet.settings.network import NetworkSettings, RunConfig, XLNetConfig
from xlnet.tasks.types.contract import LossOptions
from xlnet.tasks.types.task import Task


@dataclasses.dataclass(frozen=True)
class TaskModel:
    """A network and the output layer of a task.

    Features of all methods are a dict of tensors [B, ...] as in `feature_spec.finetuning_features`;
    ids may have any length. `scope`: name of the output layer's variables.
    """
    config: XLNetConfig
    task: Task
    network: NetworkSettings
    settings: FineTuningSettings
    scope: str

    def predictions(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The outputs of the task's head: dict of tensors [B, ...]. Labels are not read."""
        with self._scope():
            nn, logits = self._logits(features, None)
            return self.task.head.outputs(nn, logits, features)

    def answers(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """`predictions` with `loss`, `index` and `is_real_example` of each record, [B]."""
        with self._scope():
            nn, logits = self._logits(features, None)
            return dict(self.task.head.outputs(nn, logits, features),
                        loss=self.task.head.loss(nn, logits, features, None),
                        index=features["index"], is_real_example=features["is_real_example"])

    def training_loss(self, features: dict[str, tf.Tensor], seed: tf.Tensor,
                      options: LossOptions, device: Optional[str] = None) -> tf.Tensor:
        """The training loss of each record, float32 [B].

        Args:
          seed: of dropout, uint64 [1].
          device: see `RunConfig`.
        """
        with train_step.model_scope():
            nn, logits = self._logits(features, seed, device)
            return self.task.head.loss(nn, logits, features, options)

    def _scope(self):
        """The variable scope of inference."""
        return train_step.model_scope(kept_in=self.network.run_config(False).precision)

    def _logits(self, features, seed, device=None):
        """(`heads.HeadBuilder`, the output layer's logits); seed None: inference."""
        settings, head, is_training = self.settings, self.task.head, seed is not None
        run = self.network.run_config(
            is_training, device=device,
            mem_len=settings.max_seq_length if settings.long_document == "memory" else None)
        nn = self._layers(run, head.num_choices(is_training), features, seed)
        return nn, head.logits(nn, features, is_training)

    def _layers(self, run, count, features, seed):
        """The network up to the output layer: `heads.HeadBuilder` of [B*C,T,D]; count: C."""
        config, settings = self.config, self.settings
        ids, segments, padding = (
            tf.reshape(x, [-1, modeling.shape_of(x)[1] // count]) if count > 1 else x      # [B*C,T]
            for x in (features["input_ids"], features["segment_ids"], features["input_mask"]))
        if settings.long_document == "memory":
            sequence, padding = read_on(config, run, ids, segments, padding, seed,
                                        length=settings.max_seq_length)
        else:
            sequence = modeling.transformer_xl(
                config, run, input_ids=ids, seg_ids=segments, mask=padding[:, None] > 0,
                seed=seed).sequence
        return heads.HeadBuilder(run, self.scope, sequence, padding, lambda: heads.summarize(
            config, run, sequence, summary_type=settings.summary_type, padding=padding,
            use_proj=settings.use_summ_proj, seed=seed), seed)


def read_on(config: XLNetConfig, run: RunConfig, ids: tf.Tensor, segments: tf.Tensor,
            padding: tf.Tensor, seed: Optional[tf.Tensor], *, length: int) -> tuple:
    """Reads a text segment by segment, each with the memory of the segments before it.

    Before the text, memory is zero and visible, as at the start of a text stream in pretraining, so
    padding makes no difference. Gradients reach only the last segment (paper, section 2.2).

    Args:
      run: `RunConfig` with `mem_len`.
      ids, segments, padding: [B,S*T], padded on the left.
      length: T.

    Returns:
      The last segment's sequence [B,T,D] and padding [B,T].
    """
    mem_len = run.mem_len
    assert mem_len, "memory is off"

    def read(index, mems):
        part = [tf.slice(x, [0, index * length], [-1, length]) for x in (ids, segments, padding)]
        outputs = modeling.transformer_xl(
            config, run, input_ids=part[0], seg_ids=part[1], mask=part[2][:, None] > 0,
            # Folding in 0 is for the summary, see `heads.summarize`.
            mems=mems, seed=None if seed is None else fold_in(seed, index + 1))
        real = tf.concat([tf.ones([batch, mem_len]), 1. - part[2]], axis=1)
        real = real[:, -mem_len:, None]                                               # [B,M,1]
        kept = [tf.stop_gradient(tf.cast(mem, tf.float32) * real) for mem in outputs.new_mems]
        return outputs.sequence, kept, part[2]

    batch, total = modeling.shape_of(ids)
    mems = [tf.zeros([batch, mem_len, config.d_model])] * config.n_layer
    modeling.transformer_xl(config, run, input_ids=ids[:1, :1], seg_ids=segments[:1, :1],
                            seed=seed)       # makes the variables, which a loop cannot
    last = total // length - 1
    _, *mems = tf.while_loop(
        lambda index, *_: index < last,
        lambda index, *mems: [index + 1, *read(index, mems)[1]], [tf.constant(0), *mems])
    sequence, _, padding = read(last, [tf.stop_gradient(mem) for mem in mems])
    return sequence, padding
