"""The documented, time-major API: code written for the original implementation runs unchanged.

Shape letters as in `modeling`; all tensors here have the length first and the batch second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from xlnet.model import heads, modeling
from xlnet.settings.network import RunConfig, XLNetConfig


class XLNetModel:
    """An XLNet over given tensors, variables in scope `model`, shared between instances.

    Args:
      xlnet_config: `XLNetConfig`.
      run_config: `RunConfig`.
      input_ids: int32 [Q,B].
      seg_ids: int32 [Q,B], segment of each token, 0 to 7.
      input_mask: float32 [Q,B], 1 is padding; or None.
      mems: list over layers of float32 [M,B,D]; or None.
      perm_mask: float32 [Q,Q,B], `[i, j, b]` 1 where i may not attend to j; or None.
      target_mapping: float32 [P,Q,B], one-hot at the position that target position p predicts, or
        zeros for an unused one; or None.
      inp_q: float32 [Q,B], 1 for tokens that are predicted. Given: the query stream is computed.
    """

    def __init__(
        self,
        xlnet_config: XLNetConfig,
        run_config: RunConfig,
        input_ids: tf.Tensor,
        seg_ids: tf.Tensor,
        input_mask: tf.Tensor | None,
        mems: Sequence[tf.Tensor] | None = None,
        perm_mask: tf.Tensor | None = None,
        target_mapping: tf.Tensor | None = None,
        inp_q: tf.Tensor | None = None,
    ) -> None:
        self._config = xlnet_config
        self._run = run_config
        # The dropout of this model is sampled again in every session run.
        self._seed = (
            tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
            if run_config.is_training
            else None
        )
        input_ids, seg_ids = _transpose(input_ids, 1, 0), _transpose(seg_ids, 1, 0)
        input_mask = _transpose(input_mask, 1, 0)
        # AUTO_REUSE: programs of the original build a model for training and one for evaluation.
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            self._outputs = modeling.transformer_xl(
                xlnet_config,
                run_config,
                input_ids=input_ids,
                seg_ids=seg_ids,
                direction=_halves(input_ids) if run_config.bi_data else None,
                mask=_hidden(input_mask, _transpose(perm_mask, 2, 0, 1)),
                mems=[_transpose(mem, 1, 0, 2) for mem in mems] if mems else None,
                query=_query(
                    _transpose(target_mapping, 2, 0, 1), _transpose(inp_q, 1, 0)
                ),
                seed=self._seed,
            )

    def get_sequence_output(self) -> tf.Tensor:
        """float32 [Q,B,D], or [P,B,D] with `target_mapping`: the last layer's hidden states."""
        return _transpose(self._outputs.sequence, 1, 0, 2)

    def get_pooled_out(
        self, summary_type: str, use_summ_proj: bool = True
    ) -> tf.Tensor:
        """float32 [B,D]; "last", "first", "mean" or "attn". Padding counts, as in the original."""
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            return heads.summarize(
                self._config,
                self._run,
                self._outputs.sequence,
                summary_type=summary_type,
                use_proj=use_summ_proj,
                seed=self._seed,
            )

    def get_new_memory(self) -> list[tf.Tensor]:
        """List over layers of [M',B,D], to be given as `mems` with the next segment; bfloat16 with
        `use_bfloat16`, else float32."""
        return [_transpose(mem, 1, 0, 2) for mem in self._outputs.new_mems or []]

    def get_embedding_table(self) -> tf.Tensor:
        """float32 [V,D], also the weights of the LM softmax."""
        return self._outputs.embedding_table

    def get_initializer(self) -> tf.initializers.Initializer:
        """The initializer that `run_config` asks for."""
        return modeling.get_initializer(self._run)


def _transpose(x: Any, *order: int) -> Any:
    return None if x is None else tf.transpose(x, order)


def _halves(input_ids: tf.Tensor) -> Any:
    """The original's `bi_data`: 0 for the first half of the batch, 1 for the second."""
    batch = modeling.shape_of(input_ids)[0]
    if isinstance(batch, int) and batch % 2:
        raise ValueError(f"bi_data needs an even batch size, found {batch}")
    return tf.cast(tf.range(batch) >= batch // 2, tf.int32)


def _hidden(padding: tf.Tensor | None, perm_mask: tf.Tensor | None) -> tf.Tensor | None:
    """bool [B,Q or 1,Q], True where i may not see j: padding or hidden by the permutation."""
    # Padding is hidden from every i: [B,1,Q], which broadcasts.
    if padding is not None and perm_mask is not None:
        return padding[:, None] + perm_mask > 0
    if padding is not None:
        return padding[:, None] > 0
    if perm_mask is not None:
        return perm_mask > 0
    return None


def _query(
    target_mapping: tf.Tensor | None, inp_q: tf.Tensor | None
) -> modeling.Query | None:
    """The query stream of the original's arguments, batch-major; None: there is none."""
    # Without a mapping every position has a query; a row of zeros is at position 0, with weight 0.
    if inp_q is None:
        return None
    if target_mapping is None:
        return modeling.Query(masked=inp_q)
    return modeling.Query(
        positions=tf.argmax(target_mapping, axis=-1, output_type=tf.int32),
        weights=tf.reduce_sum(target_mapping, axis=-1),
    )
