"""What fine-tuning computes of a batch: the network with the output layer of a task, and its loss.

Shape letters as in `modeling`; T tokens of an example, C choices.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.finetuning.predictor import OF_ROWS
from xlnet.model import heads, modeling
from xlnet.model.stateless_random import fold_in
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.network import NetworkSettings, RunConfig, XLNetConfig
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
        choice, no memory)."""
        with self._scope():
            nn, logits = self._logits(features)
            return self.tuned.task.head.outputs(nn, logits, features)

    def outputs_of_records(
        self, features: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """`outputs` with the `loss` of each record, its number `index` and the row that it belongs
        to (`predictor.OF_ROWS`), [B], for evaluation and prediction files. The loss of a record
        without a label is that of label 0: not read."""
        with self._scope():
            (nn, logits), head = self._logits(features), self.tuned.task.head
            return dict(
                head.outputs(nn, logits, features),
                loss=head.loss(nn, logits, features, LossOptions()),
                **{name: features[name] for name in ("index", *OF_ROWS)},
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
        with_memory = settings.long_document == "memory"
        run = self.network.run_config(
            is_training,
            device=device,
            mem_len=settings.max_seq_length if with_memory else None,
        )
        ids, segments, padding = self._texts(features, is_training)
        if with_memory:
            sequence, padding = encode_with_memory(
                self.config,
                run,
                ids,
                segments,
                padding,
                seed,
                length=settings.max_seq_length,
            )
        else:
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


def encode_with_memory(
    config: XLNetConfig,
    run: RunConfig,
    ids: tf.Tensor,
    segments: tf.Tensor,
    padding: tf.Tensor,
    seed: Optional[tf.Tensor],
    *,
    length: int,
) -> tuple:
    """Reads a text segment by segment, each with the memory of the segments before it.

    Before the text, memory is zero and visible, as at the start of a text stream in pretraining, so
    padding makes no difference. Gradients reach only the last segment (paper, section 2.2).

    ids, segments, padding: [B,S*T], padded on the left. length: T. Returns the last segment's
    sequence [B,T,D] and padding [B,T].
    """
    # With S = 3 segments and a text of 5 tokens, T = 2; each reads itself and the memory before it:
    #
    #     ids       0 t0 | t1 t2 | t3 t4
    #     memory    0  0 |  0 t0 | t1 t2        0 before the text, and where padding was
    mem_len = run.mem_len
    assert mem_len, "memory is off"

    def read(
        index: Any, mems: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor], tf.Tensor]:
        """Reads a segment with the memory of those before it: (its sequence, the new memory, in
        which padding is zero, its padding)."""
        part = []
        for x in (ids, segments, padding):
            part.append(tf.slice(x, [0, index * length], [-1, length]))
        outputs = modeling.transformer_xl(
            config,
            run,
            input_ids=part[0],
            seg_ids=part[1],
            mask=part[2][:, None] > 0,
            # Folding in 0 is for the summary, see `heads.summarize`.
            mems=mems,
            seed=None if seed is None else fold_in(seed, index + 1),
        )
        real = tf.concat([tf.ones([batch, mem_len]), 1.0 - part[2]], axis=1)
        real = real[:, -mem_len:, None]  # [B,M,1]
        kept = []
        for mem in outputs.new_mems:
            kept.append(tf.stop_gradient(tf.cast(mem, tf.float32) * real))
        return outputs.sequence, kept, part[2]

    batch, total = modeling.shape_of(ids)
    mems = [tf.zeros([batch, mem_len, config.d_model])] * config.n_layer
    # The variables are made by a call on one token, as they cannot be made within a loop.
    modeling.transformer_xl(
        config, run, input_ids=ids[:1, :1], seg_ids=segments[:1, :1], seed=seed
    )
    # All segments but the last are read for their memory alone.
    last = total // length - 1
    _, *mems = tf.while_loop(
        lambda index, *_: index < last,
        lambda index, *mems: [index + 1, *read(index, mems)[1]],
        [tf.constant(0), *mems],
    )
    sequence, _, padding = read(last, [tf.stop_gradient(mem) for mem in mems])
    return sequence, padding
