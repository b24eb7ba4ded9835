"""The documented, time-major API: code written for the original implementation runs unchanged.

Shape letters: B batch, Q positions of a sequence, M remembered positions, P target positions, D
d_model, V vocabulary. Time-major: tensors of the API have the length first and the batch second.
The network in `modeling` has the batch first, so everything is transposed on its way in and out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from xlnet.model import heads, modeling
from xlnet.settings.network import RunConfig, XLNetConfig


class XLNetModel:
    """An XLNet over given tensors; its variables, in scope `model`, are shared between instances.

    Args:
      xlnet_config: `XLNetConfig`.
      run_config: `RunConfig`.
      input_ids: int32 [Q,B].
      seg_ids: int32 [Q,B], segment of each token, 0 to 7.
      input_mask: float32 [Q,B], 1 is padding; or None.
      mems: list over layers of float32 [M,B,D]; or None.
      perm_mask: float32 [Q,Q,B], `[i, j, b]` 1 where i may not attend to j; or None.
      target_mapping: float32 [P,Q,B], one-hot at the position that target position p predicts, or
        zeros for an unused one. Read only with `inp_q`. None: every position has a query, P = Q.
      inp_q: float32 [Q,B], 1 for tokens that are predicted; its values are read only without
        `target_mapping`. None: there is no query stream.
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
        """Builds the network; the arguments are those of the class."""
        self._config = xlnet_config
        self._run = run_config
        # The seed of dropout, the two halves of a number of 64 bits: int32 [2], sampled again in
        # every session run.
        self._seed = (
            tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
            if run_config.is_training
            else None
        )
        # The network has the batch first: [B,Q] here, and so on for the other arguments.
        input_ids, seg_ids = _transpose(input_ids, 1, 0), _transpose(seg_ids, 1, 0)
        input_mask = _transpose(input_mask, 1, 0)
        # AUTO_REUSE: programs of the original build a model for training and one for evaluation.
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            self._outputs = modeling.transformer_xl(
                xlnet_config,
                run_config,
                input_ids=input_ids,
                seg_ids=seg_ids,
                direction=_directions(input_ids) if run_config.bi_data else None,
                mask=_mask(input_mask, _transpose(perm_mask, 2, 0, 1)),
                mems=[_transpose(mem, 1, 0, 2) for mem in mems] if mems else None,
                query=_query(
                    _transpose(target_mapping, 2, 0, 1), _transpose(inp_q, 1, 0)
                ),
                seed=self._seed,
            )

    def get_sequence_output(self) -> tf.Tensor:
        """The last layer's hidden states: float32 [P,B,D] of the query stream with `inp_q`, else
        [Q,B,D] of the content stream."""
        return _transpose(self._outputs.sequence, 1, 0, 2)

    def get_pooled_out(
        self, summary_type: str, use_summ_proj: bool = True
    ) -> tf.Tensor:
        """One vector for each text, float32 [B,D].

        Args:
          summary_type: of the "last" position, the "first" one, the "mean" of all, or "attn",
            attention with one learned query. Padding counts as any position, as in the original.
          use_summ_proj: whether a dense tanh layer follows.
        """
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
        """List over layers of [M',B,D], to be given as `mems` with the next segment; empty without
        `mem_len`.

        M' is `mem_len`, or less if there are fewer positions so far. The dtype is that of the
        matmuls: bfloat16 with `use_bfloat16`.
        """
        return [_transpose(mem, 1, 0, 2) for mem in self._outputs.new_mems or []]

    def get_embedding_table(self) -> tf.Tensor:
        """float32 [V,D], also the weights of the LM softmax."""
        return self._outputs.embedding_table

    def get_initializer(self) -> tf.initializers.Initializer:
        """The initializer that `run_config` asks for."""
        return modeling.get_initializer(self._run)


def _transpose(x: Any, *order: int) -> Any:
    """`tf.transpose`; None stays None."""
    return None if x is None else tf.transpose(x, order)


def _directions(input_ids: tf.Tensor) -> tf.Tensor:
    """The original's `bi_data` as the direction of each text, int32 [B]: 0, forward, for the first
    half of the batch, 1, backward, for the second. input_ids: int32 [B,Q], for its batch size.

    Raises:
      ValueError: the batch size is odd; where it is dynamic, this is not checked.
    """
    batch = modeling.shape_of(input_ids)[0]
    if isinstance(batch, int) and batch % 2:
        raise ValueError(f"bi_data needs an even batch size, found {batch}")
    return tf.cast(tf.range(batch) >= batch // 2, tf.int32)


def _mask(padding: tf.Tensor | None, perm_mask: tf.Tensor | None) -> tf.Tensor | None:
    """bool [B,Q,Q], or [B,1,Q] of padding alone: True where position i may not see j, which is
    padding or masked by the permutation. None: all see all.

    padding: float32 [B,Q], 1 is padding. perm_mask: float32 [B,Q,Q], 1 where i may not see j.
    """
    # No position sees padding: [B,1,Q] broadcasts over the positions i.
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
    """The query stream of the original's arguments, here target_mapping [B,P,Q] and inp_q [B,Q];
    None without `inp_q`: there is no query stream."""
    if inp_q is None:
        return None
    # Without a mapping every position has a query.
    if target_mapping is None:
        return modeling.Query(masked=inp_q)
    # A one-hot row becomes its position and weight 1. A row of zeros, which is unused, becomes
    # position 0 with weight 0.
    return modeling.Query(
        positions=tf.argmax(target_mapping, axis=-1, output_type=tf.int32),
        weights=tf.reduce_sum(target_mapping, axis=-1),
    )
