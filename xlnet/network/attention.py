"""Attention with relative positions (paper, section 2.5; Transformer-XL, appendix B), forward and
backward written out: few passes over the scores, and nothing of their size kept but probabilities.

Tensors only, no variables. Shape letters as in `modeling`; T rows that ask, `rows` those of a
block, R' the distances that a block meets.
"""

from __future__ import annotations

import collections
import math
from typing import Optional

import tensorflow.compat.v1 as tf

from xlnet.network.noise import fold_in
from xlnet.network.ops import count_to, dropout_keep, dropout_scale, shape_of

# Rows worked on together, so that their scores stay in the processor's cache; more of them where
# the blocks would be so many that the graph takes minutes to build. A GPU or TPU has no such cache,
# and is the faster the more it has at once: all rows, as long as the scores of an example are few
# enough for its memory [cells of N x rows x K].
BLOCK = 128
MOST_BLOCKS = 16
MOST_CELLS = 2 ** 24

# Rows start to stop of a stream, and the distances that they meet: low to high of R. is_all: there
# is no other block.
_Block = collections.namedtuple("_Block", "index start stop low high is_all")

# The inputs of `attend` that have gradients.
_Inputs = collections.namedtuple("_Inputs", "q q_r k v k_r")


def attend(q: tf.Tensor, q_r: tf.Tensor, k: tf.Tensor, v: tf.Tensor, k_r: tf.Tensor,
           bias: Optional[tf.Tensor] = None, *, first_distance: Optional[tf.Tensor] = None,
           rate: float = 0., seed: Optional[tf.Tensor] = None,
           first_row: Optional[tf.Tensor] = None, recompute: bool = False,
           on_accelerator: bool = False) -> tf.Tensor:
    """softmax(q k + shift(q_r k_r) + bias) v with dropout, one block of rows after the other.

    Args:
      q, q_r: [B,N,T,*], the rows by content (and segment) and by distance, scaled.
      k: [B,N,K,*]. v: [B,N,K,H]. k_r: [B or 1,N,R,H], the keys of the distances.
      bias: float32 [B or 1,1,T or 1,K], very low where a key is hidden; gets no gradient. None:
        no key is hidden.
      first_distance: int [B,T], see `relative_shift_at`. None: the rows are the whole window.
      rate, seed, first_row: dropout of the probabilities, see `dropout_keep`. 0: none.
      recompute: the backward pass computes the probabilities again rather than to keep them: the
        memory of one block instead of T rows.
      on_accelerator: whether this is for a GPU or TPU, see `MOST_CELLS`; the blocks decide which
        numbers are drawn for which probability.

    Returns:
      [B,N,T,H]. The softmax is float32 whatever the dtype.
    """
    parts = _Parts(shape_of(k)[2], bias, first_distance, rate, seed, first_row)
    blocks, k_r = _blocks(shape_of(q)[2], parts.num_keys, k_r, first_distance, on_accelerator)

    @tf.custom_gradient
    def run(*inputs):
        inputs, kept = _Inputs(*inputs), []
        outputs: list[tf.Tensor] = []
        for block in blocks:
            with tf.control_dependencies(outputs[-1:]):
                kept.append(parts.probabilities(block, inputs))
                outputs.append(parts.output(kept[-1], inputs.v))
        output = _joined(outputs)

        def gradient(dy):
            return parts.gradient(blocks, [None] * len(blocks) if recompute else kept, inputs,
                                  output, dy)
        return output, gradient
    return run(q, q_r, k, v, k_r)


def _blocks(rows, num_keys, k_r, first_distance, on_accelerator):
    """Cuts the rows into `_Block`s; returns them, and k_r with all the distances they look up.

    Slots, and rows whose count is not known yet, make one block.
    """
    distances = shape_of(k_r)[2]
    if first_distance is not None or not all(
            isinstance(size, int) for size in (rows, num_keys, distances)):
        return [_Block(0, 0, rows, 0, distances, True)], k_r
    beyond = rows + num_keys - distances    # "uni": distances of keys that nobody may see
    if beyond:
        k_r = tf.pad(k_r, [[0, 0], [0, 0], [0, beyond], [0, 0]])
    size = _block_rows(rows, shape_of(k_r)[1] * num_keys, on_accelerator)
    starts = range(0, rows, size)
    stops = [min(start + size, rows) for start in starts]
    # Row i reads the K distances from index Q - i on; `relative_shift` drops one before them.
    return [_Block(index, start, stop, rows - stop, rows - start + num_keys, rows <= size)
            for index, (start, stop) in enumerate(zip(starts, stops))], k_r


def _block_rows(rows, cells, on_accelerator):
    """Rows of a block; cells: those of one row, N * K."""
    size = math.ceil(rows / math.ceil(rows * cells / MOST_CELLS)) if on_accelerator else BLOCK
    return max(size, math.ceil(rows / MOST_BLOCKS))


class _Parts:
    """The computation of one block.

    Probabilities are signed: negative where dropout drops them. So one tensor holds both.
    """

    def __init__(self, num_keys, bias, first_distance, rate, seed, first_row=None):
        self.num_keys, self._bias, self._first_distance = num_keys, bias, first_distance
        self._rate, self._seed, self._first_row = rate, seed, first_row
        self._scale = dropout_scale(rate)

    def probabilities(self, block, inputs):
        """[B,N,rows,K], of the block's rows."""
        q, q_r = _rows(inputs.q, block), _rows(inputs.q_r, block)
        score = tf.matmul(q, inputs.k, transpose_b=True)                             # [B,N,rows,K]
        score += self._shift(tf.matmul(q_r, _distances(inputs.k_r, block), transpose_b=True))
        score = tf.cast(score, tf.float32)
        if self._bias is not None:
            score += _rows(self._bias, block)
        p = tf.cast(tf.nn.softmax(score), q.dtype)
        if not self._rate:
            return p
        seed = fold_in(self._seed, block.index)
        return tf.where_v2(dropout_keep(shape_of(p), self._rate, seed, self._first_row), p, -p)

    def output(self, p, v):
        return tf.matmul(self._dropped(p), v) * self._scale

    def gradient(self, blocks, kept, inputs, output, dy):
        """Gradients of the inputs, in their order; block after block."""
        dq, dq_r = [], []
        shared: list[tf.Tensor] = []        # of k, v and k_r: sums over the blocks
        for block, p in zip(blocks, kept):
            with tf.control_dependencies(shared or [dy]):
                own = self._block_gradient(block, p, inputs, _rows(output, block), _rows(dy, block))
                dq.append(own.q)
                dq_r.append(own.q_r)
                shared = [before + more for before, more in zip(shared, own[2:])] if shared \
                    else list(own[2:])
        return [_joined(dq), _joined(dq_r)] + shared

    def _block_gradient(self, block, p, inputs, output, dy):
        """`_Inputs` of gradients: q and q_r those of the block's rows, the others whole.

        For one row, with p the probabilities, d what dropout makes of them and o the output:
        dscore = d (v dy) - p sum(o dy).

        One row, three keys, H = 1, no dropout: p = [.5, .3, .2], v = [1, 2, 0] give o = 1.1. With
        dy = 1 the product v dy is [1, 2, 0] and sum(o dy) = 1.1, so dscore = p ([1, 2, 0] - 1.1)
        = [-.05, .27, -.22], which sums to 0, as adding a constant to all scores changes nothing.

        Args:
          p: [B,N,rows,K], signed; None: they are computed again. output, dy: [B,N,rows,H].
        """
        if p is None:
            inputs = _Inputs(*(tf.identity(x) for x in inputs))   # else shared with the forward
            p = self.probabilities(block, inputs)
        dropped, dv_out = self._dropped(p), dy * self._scale            # [B,N,rows,K], [..,H]
        share = tf.reduce_sum(tf.cast(output * dy, tf.float32),         # [B,N,rows,1]
                              axis=-1, keepdims=True)
        dscore = (dropped * tf.matmul(dv_out, inputs.v, transpose_b=True)
                  - tf.abs(p) * tf.cast(share, p.dtype))                # [B,N,rows,K]
        q, q_r, k_r = (_rows(inputs.q, block), _rows(inputs.q_r, block),
                       _distances(inputs.k_r, block))                   # k_r [B or 1,N,R',H]
        by_distance = self._shift_back(dscore, shape_of(k_r)[2])        # [B,N,rows,R']
        dk_r = tf.matmul(by_distance, q_r, transpose_a=True)            # [B,N,R',H]
        return _Inputs(
            q=tf.matmul(dscore, inputs.k),                              # [B,N,rows,H+S]
            q_r=tf.matmul(by_distance, k_r),                            # [B,N,rows,H]
            k=tf.matmul(dscore, q, transpose_a=True),                   # [B,N,K,H+S]
            v=tf.matmul(dropped, dv_out, transpose_a=True),             # [B,N,K,H]
            k_r=_into_distances(dk_r, block, inputs.k_r))               # [B or 1,N,R,H]

    def _dropped(self, p):
        return tf.nn.relu(p) if self._rate else p

    def _shift(self, x):
        if self._first_distance is None:
            return relative_shift(x, self.num_keys)
        return relative_shift_at(x, self.num_keys, self._first_distance)

    def _shift_back(self, y, distances):
        if self._first_distance is None:
            return shift_back(y, distances)
        return shift_back_at(y, distances, self._first_distance)


def _rows(x, block):
    """The block's rows of x [*,*,T or 1,*]."""
    return x if block.is_all or x.shape[2] == 1 else x[:, :, block.start:block.stop]


def _distances(k_r, block):
    """The distances that the block meets, of k_r [*,N,R,H]."""
    return k_r if block.is_all else k_r[:, :, block.low:block.high]


def _into_distances(dk_r, block, k_r):
    """Puts the gradient of a block's distances among zeros; summed if the batch shares k_r."""
    if k_r.shape[0] == 1:
        dk_r = tf.reduce_sum(dk_r, axis=0, keepdims=True)
    if block.is_all:
        return dk_r
    return tf.pad(dk_r, [[0, 0], [0, 0], [block.low, shape_of(k_r)[2] - block.high], [0, 0]])


def _joined(blocks):
    return blocks[0] if len(blocks) == 1 else tf.concat(blocks, axis=2)


# ---- from distances to keys ----

def relative_shift(x: tf.Tensor, num_keys: int) -> tf.Tensor:
    """Reads off, for query i and key j, the score at their distance (Transformer-XL, appendix B).

    Args:
      x: [B,N,Q,R], scores of query i with the distance of index r; distance d has index K - d.
      num_keys: K.

    Returns:
      [B,N,Q,K] with `y[i, j] = x[i, Q - i + j]`, as key j is M + i - j away from query i.

    In memory, one row further is R cells on and the wanted column one to the left: after dropping
    the first Q cells every row is R - 1 cells long and starts at its first wanted column. With
    Q = 2, K = 2, R = 4: `a b c d | e f g h` -> drop 2 -> `c d e | f g h` -> `c d | f g`.
    """
    batch, heads, length, distances = shape_of(x)
    y = tf.reshape(x, [batch, heads, length * distances])[:, :, length:]          # [B,N,Q*(R-1)]
    return tf.reshape(y, [batch, heads, length, distances - 1])[..., :num_keys]   # [B,N,Q,K]


def shift_back(y: tf.Tensor, distances: int) -> tf.Tensor:
    """The gradient of `relative_shift`, the same steps backward: [B,N,Q,K] -> [B,N,Q,R].

    With Q = 2, K = 2, R = 4: `c d | f g` -> `c d 0 | f g 0` -> `0 0 c d | 0 f g 0`.
    """
    batch, heads, length, num_keys = shape_of(y)
    x = tf.pad(y, [[0, 0], [0, 0], [0, 0], [0, distances - 1 - num_keys]])        # [B,N,Q,R-1]
    x = tf.reshape(x, [batch, heads, length * (distances - 1)])
    x = tf.pad(x, [[0, 0], [0, 0], [length, 0]])                                  # [B,N,Q*R]
    return tf.reshape(x, [batch, heads, length, distances])


def relative_shift_at(x: tf.Tensor, num_keys: int, first_distance: tf.Tensor) -> tf.Tensor:
    """`relative_shift` for some rows of the window, e.g. those of the prediction slots.

    x [B,N,P,R] -> y [B,N,P,K] with `y[p, j] = x[p, first_distance[p] + j]`; `first_distance` int
    [B,P] is Q - i for a row that stands at position i.
    """
    return take(x, first_distance[:, :, None] + count_to(num_keys, first_distance.dtype))


def shift_back_at(y: tf.Tensor, distances: int, first_distance: tf.Tensor) -> tf.Tensor:
    """The gradient of `relative_shift_at`: a shift back, with zeros where it did not read.

    y [B,N,P,K] -> [B,N,P,R]. A row with first_distance 1 of K = 2, R = 4: `a b` -> `0 a b 0`.
    """
    num_keys = shape_of(y)[-1]
    index = count_to(distances, first_distance.dtype) - first_distance[:, :, None]     # [B,P,R]
    beyond = tf.cast(num_keys, index.dtype)
    unread = (index < 0) | (index >= beyond)
    index = tf.where_v2(unread, beyond, index)                             # cell K is padded
    return take(tf.pad(y, [[0, 0], [0, 0], [0, 0], [0, 1]]), index)


def take(x: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """x [B,N,P,R] at index [B or 1,P,K]: [B,N,P,K].

    The rows of a head are read as one long row, in which the cells of all heads have the same
    places: so there is one index for them all.
    """
    batch, heads, slots, width = shape_of(x)
    count = shape_of(index)[-1]
    begins = count_to(slots, index.dtype) * tf.cast(width, index.dtype)               # [P]
    places = tf.broadcast_to(index + begins[:, None], [batch, slots, count])
    y = tf.gather(tf.reshape(x, [batch, heads, slots * width]),
                  tf.reshape(places, [batch, slots * count]), axis=2, batch_dims=1)
    return tf.reshape(y, [batch, heads, slots, count])
