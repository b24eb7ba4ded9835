"""What fine-tuning computes of a batch: the network with the output layer of a task, and its loss.

Shape letters as in `modeling`; T tokens of an example, C choices.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.finetuning.predictor import OF_ROWS
from xlnet.model import heads, modeling
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.tasks.types.contract import LossOptions


@dataclasses.dataclass(frozen=True)
class TaskModel:
    """A network and the output layer of a task.

    Features of all methods are a dict of tensors [B, ...] as in `feature_spec.finetuning_features`;
    ids may have any length.
    """

    config: XLNetConfig
    tuned: FineTunedTask
    network: NetworkSettings

    def outputs(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The outputs of the task's head: dict of tensors [B, ...]. Labels are not
        read. A feature `token_scale`, float32 [B,T], multiplies the embeddings (one
        choice)."""
        with self._scope():
            nn, logits = self._logits(features)
            return self.tuned.task.head.outputs(nn, logits, features)

    def outputs_of_records(
        self, features: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """`outputs` with the `loss` of each record and the row that it belongs to
        (`predictor.OF_ROWS`), [B], for evaluation and prediction files. The loss of a record
        without a label is that of label 0: not read."""
        with self._scope():
            (nn, logits), head = self._logits(features), self.tuned.task.head
            return dict(
                head.outputs(nn, logits, features),
                loss=head.loss(nn, logits, features, LossOptions()),
                **{name: features[name] for name in OF_ROWS},
            )

    def training_loss(
        self,
        features: dict[str, tf.Tensor],
        seed: tf.Tensor,
        options: LossOptions,
        device: Optional[str] = None,
    ) -> tf.Tensor:
        """The training loss of each record, float32 [B]. seed: of dropout, uint64 [1]; device: see
        `RunConfig`."""
        with train_step.model_scope():
            nn, logits = self._logits(features, seed, device)
            return self.tuned.task.head.loss(nn, logits, features, options)

    def _scope(self) -> contextlib.AbstractContextManager:
        """The variable scope of inference."""
        return train_step.model_scope(kept_in=self.network.run_config(False).precision)

    def _logits(
        self,
        features: dict[str, tf.Tensor],
        seed: Optional[tf.Tensor] = None,
        device: Optional[str] = None,
    ) -> tuple[heads.HeadBuilder, Any]:
        """(`heads.HeadBuilder` on the network's output, the output layer's logits); seed None:
        inference."""
        settings, head = self.tuned.settings, self.tuned.task.head
        is_training = seed is not None
        run = self.network.run_config(is_training, device=device)
        ids, segments, padding = self._texts(features, is_training)
        # Read at once: each token sees all others.
        sequence = modeling.transformer_xl(
            self.config,
            run,
            input_ids=ids,
            seg_ids=segments,
            mask=padding[:, None] > 0,
            seed=seed,
            token_scale=features.get("token_scale"),
        ).sequence
        nn = heads.HeadBuilder(
            run,
            self.tuned.scope,
            sequence,
            padding,
            lambda: heads.summarize(
                self.config,
                run,
                sequence,
                summary_type=settings.summary_type,
                padding=padding,
                use_proj=settings.use_summ_proj,
                seed=seed,
            ),
            seed,
        )
        return nn, head.logits(nn, features, is_training)

    def _texts(
        self, features: dict[str, tf.Tensor], is_training: bool = False
    ) -> list[tf.Tensor]:
        """ids, segments, padding: [B*C,T], the choices of an example one after the other."""
        count = self.tuned.task.head.num_choices(is_training)
        texts = []
        for name in ("input_ids", "segment_ids", "input_mask"):
            x = features[name]
            if count > 1:
                x = tf.reshape(x, [-1, modeling.shape_of(x)[1] // count])
            texts.append(x)
        return texts
