"""Attention with relative positions (paper, section 2.5; Transformer-XL, appendix B), forward and
backward written out: few passes over the scores, and nothing of their size kept but probabilities.

Tensors only, no variables. Shape letters as in `modeling`; T rows that ask, `rows` those of a
block, R' the distances that a block meets.
"""

from __future__ import annotations

import collections
import functools
import math
from typing import Optional

import tensorflow.compat.v1 as tf

from xlnet.network.noise import fold_in
from xlnet.network.ops import NO_DROPOUT, Dropout, count_to, loop, shape_of, where_kept
from xlnet.network.relative_shift import (
    relative_shift,
    relative_shift_at,
    shift_back,
    shift_back_at,
)

# Rows worked on together, so that their scores stay in the processor's cache. A GPU or TPU has no
# such cache, and is the faster the more it has at once: all rows, as long as the scores of an
# example are few enough for its memory [cells of N x rows x K]. Of more blocks than these the graph
# would be large and slow to build: a GPU then takes larger ones, a processor a loop.
BLOCK = 128
MOST_BLOCKS = 16
MOST_CELLS = 2 ** 24

# In a loop: the scores of one head in one example [cells of rows x K], and how many iterations may
# run at once.
LOOP_CELLS = 2 ** 21
LOOP_PARALLEL = 2

# The inputs of `attend` that have gradients: of all rows, or of those of a block.
_Inputs = collections.namedtuple("_Inputs", "q q_r k v k_r")


def attend(q: tf.Tensor, q_r: tf.Tensor, k: tf.Tensor, v: tf.Tensor, k_r: tf.Tensor,
           bias: Optional[tf.Tensor] = None, *, first_distance: Optional[tf.Tensor] = None,
           drops: Dropout = NO_DROPOUT, recompute: bool = False, on_accelerator: bool = False,
           in_loops: bool = False) -> tf.Tensor:
    """softmax(q k + shift(q_r k_r) + bias) v with dropout, one block of rows after the other.

    Args:
      q, q_r: [B,N,T,*], the rows by content (and segment) and by distance, scaled.
      k: [B,N,K,*]. v: [B,N,K,H]. k_r: [B or 1,N,R,H], the keys of the distances.
      bias: float32 [B or 1,1,T or 1,K], very low where a key is hidden; gets no gradient. None:
        no key is hidden.
      first_distance: int [B,T], see `relative_shift_at`. None: the rows are the whole window.
      drops: dropout of the probabilities.
      recompute: the backward pass computes the probabilities again rather than to keep them: the
        memory of one block instead of T rows.
      on_accelerator: whether this is for a GPU or TPU, see `MOST_CELLS`; the blocks decide which
        numbers are drawn for which probability.
      in_loops: whether what is done to each score is one `ops.loop` for each pass.

    Returns:
      [B,N,T,H]. The softmax is float32 whatever the dtype.
    """
    rows, num_keys, distances = (shape_of(x)[2] for x in (q, k, k_r))
    parts = _Parts(num_keys, first_distance, drops, in_loops)
    inputs = _Inputs(q, q_r, k, v, k_r)
    # Slots, and rows whose count is not known yet, make one block.
    if first_distance is not None or not all(
            isinstance(size, int) for size in (rows, num_keys, distances)):
        blocks = [_Block(0, 0, rows, 0, distances, True)]
        return _run(_Blocks(parts, blocks, bias), recompute, inputs)
    # "uni" lacks the distances of keys that nobody may see.
    inputs = inputs._replace(k_r=_padded(k_r, 0, rows + num_keys - distances))
    if rows > BLOCK * MOST_BLOCKS and not on_accelerator:
        return _run_in_a_loop(parts, bias, recompute, inputs)
    size = _block_rows(rows, shape_of(k_r)[1] * num_keys, on_accelerator)
    return _run(_Blocks(parts, _blocks(rows, num_keys, size), bias), recompute, inputs)


def _run_in_a_loop(parts, bias, recompute, inputs):
    """`attend`, for which the rows of the last block that nobody asked for are zeros."""
    rows, num_keys = inputs.q.shape[2], inputs.k.shape[2]
    size = max(16, min(2 * BLOCK, LOOP_CELLS // num_keys // 16 * 16))
    spare = -rows % size
    if bias is not None and bias.shape[2] != 1:
        bias = _padded(bias, 0, spare)
    inputs = inputs._replace(q=_padded(inputs.q, 0, spare), q_r=_padded(inputs.q_r, 0, spare),
                             k_r=_padded(inputs.k_r, spare, 0))
    return _run(_Loop(parts, size, bias), recompute, inputs)[:, :, :rows]


def _run(walk, recompute, inputs):
    """`attend` by one of the ways through its rows, `_Blocks` or `_Loop`."""
    @tf.custom_gradient
    def run(*inputs):
        inputs = _Inputs(*inputs)
        output, kept = walk.forward(inputs, keep=not recompute)

        def gradient(dy):
            return walk.backward(inputs, kept, output, dy)
        return output, gradient
    return run(*inputs)


def _padded(x, before, after):
    """With rows of zeros around those of x [*,*,T,*]."""
    return tf.pad(x, [[0, 0], [0, 0], [before, after], [0, 0]]) if before or after else x


# ---- a block of rows ----

class _Parts:
    """The computation of one block.

    Of dropout nothing is kept: both passes draw its noise, from the `Dropout` of the block.
    """

    def __init__(self, num_keys, first_distance, drops, in_loops):
        self._num_keys, self._first_distance = num_keys, first_distance
        self._drops, self._in_loops = drops, in_loops
        self._dropped, self._score_gradient = (
            loop(function) if in_loops else function for function in _passes(drops.rate))

    def drops(self, index, example=None):
        """The `Dropout` of the block of this index: of all examples, or of one."""
        rate, seed, first_row = self._drops
        if not rate:
            return self._drops
        if example is not None:
            first_row = example if first_row is None else first_row + example
        return Dropout(rate, fold_in(seed, index), first_row)

    def probabilities(self, block, bias):
        """[B,N,rows,K], of the `_Inputs` of a block; k_r: [B or 1,N,R',H]."""
        score = tf.matmul(block.q, block.k, transpose_b=True)                        # [B,N,rows,K]
        score += self._shift(tf.matmul(block.q_r, block.k_r, transpose_b=True))
        score = tf.cast(score, tf.float32)
        if bias is not None:
            score += bias
        return tf.cast(tf.nn.softmax(score), block.q.dtype)

    def output(self, p, v, drops):
        if not drops.rate:
            return tf.matmul(p, v)
        return tf.matmul(self._dropped(p, *self._noise(p, drops)), v) * drops.scale

    def gradient(self, p, block, output, dy, drops):
        """The gradients of a block's `_Inputs`: [B,N,R',H] of the distances.

        For one row, with p the probabilities, d what dropout makes of them and o the output:
        dscore = d (v dy) - p sum(o dy).

        One row, three keys, H = 1, no dropout: p = [.5, .3, .2], v = [1, 2, 0] give o = 1.1. With
        dy = 1 the product v dy is [1, 2, 0] and sum(o dy) = 1.1, so dscore = p ([1, 2, 0] - 1.1)
        = [-.05, .27, -.22], which sums to 0, as adding a constant to all scores changes nothing.

        Args:
          p: [B,N,rows,K]. output, dy: [B,N,rows,H].
        """
        dv_out = dy * drops.scale                                       # [B,N,rows,H]
        share = tf.reduce_sum(tf.cast(output * dy, tf.float32),         # [B,N,rows,1]
                              axis=-1, keepdims=True)
        dscore, dropped = self._score_gradient(                         # [B,N,rows,K]
            p, tf.matmul(dv_out, block.v, transpose_b=True), tf.cast(share, p.dtype),
            *self._noise(p, drops))
        by_distance = self._shift_back(dscore, shape_of(block.k_r)[2])  # [B,N,rows,R']
        return _Inputs(
            q=tf.matmul(dscore, block.k),                               # [B,N,rows,H+S]
            q_r=tf.matmul(by_distance, block.k_r),                      # [B,N,rows,H]
            k=tf.matmul(dscore, block.q, transpose_a=True),             # [B,N,K,H+S]
            v=tf.matmul(dropped, dv_out, transpose_a=True),             # [B,N,K,H]
            k_r=tf.matmul(by_distance, block.q_r, transpose_a=True))    # [B,N,R',H]

    def _noise(self, p, drops):
        return drops.noise(shape_of(p), self._in_loops)

    def _shift(self, x):
        if self._first_distance is None:
            return relative_shift(x, self._num_keys)
        return relative_shift_at(x, self._num_keys, self._first_distance)

    def _shift_back(self, y, distances):
        if self._first_distance is None:
            return shift_back(y, distances)
        return shift_back_at(y, distances, self._first_distance)


@functools.cache
def _passes(rate):
    """What is done to each probability: forward, (p, *noise) -> what dropout makes of it, and
    backward, (p, the gradient of that, sum(o dy), *noise) -> (gradient of the score, the same)."""
    def forward(p, *noise):
        return where_kept(p, rate, noise)

    def backward(p, dp, share, *noise):
        dropped = where_kept(p, rate, noise)
        return dropped * dp - p * share, dropped
    return forward, backward


def _summed_if_shared(dk_r, k_r):
    """The gradient [B,N,R,H] of distances, [1,N,R,H] where the batch shares them."""
    return tf.reduce_sum(dk_r, axis=0, keepdims=True) if k_r.shape[0] == 1 else dk_r


# ---- block after block, all heads and examples at once ----

# Rows start to stop of a stream, and the distances that they meet: low to high of R. is_all: there
# is no other block.
_Block = collections.namedtuple("_Block", "index start stop low high is_all")


def _blocks(rows, num_keys, size):
    """Cuts the rows into `_Block`s."""
    starts = range(0, rows, size)
    stops = [min(start + size, rows) for start in starts]
    # Row i reads the K distances from index Q - i on; `relative_shift` drops one before them.
    return [_Block(index, start, stop, rows - stop, rows - start + num_keys, rows <= size)
            for index, (start, stop) in enumerate(zip(starts, stops))]


def _block_rows(rows, cells, on_accelerator):
    """Rows of a block; cells: those of one row, N * K."""
    if not on_accelerator:
        return BLOCK
    size = math.ceil(rows / math.ceil(rows * cells / MOST_CELLS))
    return max(size, math.ceil(rows / MOST_BLOCKS))


class _Blocks:
    """Goes through the rows with operations of their own for each block."""

    def __init__(self, parts, blocks, bias):
        self._parts, self._blocks, self._bias = parts, blocks, bias

    def forward(self, inputs, keep):
        """[B,N,T,H], and the probabilities of the blocks if they shall be kept."""
        kept: list[tf.Tensor] = []
        outputs: list[tf.Tensor] = []
        for block in self._blocks:
            with tf.control_dependencies(outputs[-1:]):
                kept.append(self._probabilities(block, inputs))
                outputs.append(self._parts.output(kept[-1], inputs.v,
                                                  self._parts.drops(block.index)))
        return _joined(outputs), kept if keep else [None] * len(kept)

    def backward(self, inputs, kept, output, dy):
        """Gradients of the inputs, in their order."""
        dq, dq_r = [], []
        shared: list[tf.Tensor] = []        # of k, v and k_r: sums over the blocks
        for block, p in zip(self._blocks, kept):
            with tf.control_dependencies(shared or [dy]):
                again = inputs
                if p is None:       # of other tensors, or the forward pass' would be taken
                    again = _Inputs(*(tf.identity(x) for x in inputs))
                    p = self._probabilities(block, again)
                own = self._parts.gradient(p, _of_block(again, block), _rows(output, block),
                                           _rows(dy, block), self._parts.drops(block.index))
                dq.append(own.q)
                dq_r.append(own.q_r)
                more = [own.k, own.v, _into_distances(own.k_r, block, inputs.k_r)]
                shared = [a + b for a, b in zip(shared, more)] if shared else more
        return [_joined(dq), _joined(dq_r)] + shared

    def _probabilities(self, block, inputs):
        bias = None if self._bias is None else _rows(self._bias, block)
        return self._parts.probabilities(_of_block(inputs, block), bias)


def _of_block(inputs, block):
    """The `_Inputs` that the block's rows and distances meet."""
    k_r = inputs.k_r if block.is_all else inputs.k_r[:, :, block.low:block.high]
    return inputs._replace(q=_rows(inputs.q, block), q_r=_rows(inputs.q_r, block), k_r=k_r)


def _rows(x, block):
    """The block's rows of x [*,*,T or 1,*]."""
    return x if block.is_all or x.shape[2] == 1 else x[:, :, block.start:block.stop]


def _into_distances(dk_r, block, k_r):
    """Puts the gradient of a block's distances among zeros."""
    dk_r = _summed_if_shared(dk_r, k_r)
    return dk_r if block.is_all else _padded(dk_r, block.low, shape_of(k_r)[2] - block.high)


def _joined(blocks):
    return blocks[0] if len(blocks) == 1 else tf.concat(blocks, axis=2)


# ---- long rows: a loop over heads and blocks ----

class _Loop:
    """Goes through the rows of one head in one example after the other, `size` rows at a time, in a
    loop of the graph: then neither the graph nor, beside inputs and outputs, its memory grows with
    the number of rows. T is a multiple of `size`.
    """

    def __init__(self, parts, size, bias):
        self._parts, self._size, self._bias = parts, size, bias

    def forward(self, inputs, keep):
        """[B,N,T,H], and the probabilities of the blocks if they shall be kept: a `TensorArray`."""
        batch, heads, rows, _ = shape_of(inputs.q)
        num_keys, width = inputs.v.shape[2:]
        count = rows // self._size
        shapes = [[self._size, width], [1, 1, self._size, num_keys]]

        def body(index, *arrays):
            pair, block = index // count, index % count
            own = self._of_block(inputs, pair, block)
            p = self._probabilities(own, pair, block, heads)
            values = self._parts.output(p, own.v, self._drops(pair, block, heads, count))[0, 0], p
            return index + 1, *(array.write(index, value) for array, value in zip(arrays, values))
        number = batch * heads * count
        arrays = _loop(number, body, tf.zeros([], tf.int32), *(
            _array(inputs.q.dtype, number, shape) for shape in shapes[:1 + keep]))
        output = tf.reshape(arrays[0].stack(), [batch, heads, rows, width])
        return output, arrays[1] if keep else None

    def backward(self, inputs, kept, output, dy):
        """Gradients of the inputs, in their order."""
        batch, heads, rows, _ = shape_of(inputs.q)
        count = rows // self._size

        def of_block(pair, block, dq, dq_r, dk, dv, dk_r):
            index, own = pair * count + block, self._of_block(inputs, pair, block)
            p = kept.read(index) if kept is not None else self._probabilities(
                own, pair, block, heads)
            found = self._parts.gradient(p, own, *(
                self._rows_of(x, pair, block) for x in (output, dy)),
                self._drops(pair, block, heads, count))
            places = self._low(block, count) + count_to(own.k_r.shape[2], tf.int32)      # [R']
            return (block + 1, dq.write(index, found.q[0, 0]), dq_r.write(index, found.q_r[0, 0]),
                    dk + found.k[0, 0], dv + found.v[0, 0],
                    tf.tensor_scatter_nd_add(dk_r, places[:, None], found.k_r[0, 0]))

        def of_pair(pair, dq, dq_r, *shared):
            dq, dq_r, *sums = _loop(
                count, functools.partial(of_block, pair), tf.zeros([], tf.int32), dq, dq_r,
                *(tf.zeros(x.shape[2:], x.dtype) for x in inputs[2:]))
            return pair + 1, dq, dq_r, *(
                array.write(pair, value) for array, value in zip(shared, sums))
        with tf.control_dependencies([dy]):     # not before the backward pass is here
            first = tf.zeros([], tf.int32)
        pairs = batch * heads
        arrays = _loop(pairs, of_pair, first, *(
            _array(x.dtype, pairs * count, [self._size, x.shape[3]]) for x in inputs[:2]), *(
            _array(x.dtype, pairs, x.shape[2:]) for x in inputs[2:]))
        found = _Inputs(*(tf.reshape(array.stack(), [batch, heads, *x.shape[2:]])
                          for array, x in zip(arrays, inputs)))
        return list(found._replace(k_r=_summed_if_shared(found.k_r, inputs.k_r)))

    def _probabilities(self, own, pair, block, heads):
        """[1,1,size,K]."""
        bias = self._bias
        if bias is not None:
            bias = bias[0 if bias.shape[0] == 1 else pair // heads]          # [1,T or 1,K]
            bias = bias if bias.shape[1] == 1 else self._rows_of(bias[None], 0, block)
        return self._parts.probabilities(own, bias)

    def _drops(self, pair, block, heads, count):
        """The noise is a function of the example, the head and the block."""
        return self._parts.drops(pair % heads * count + block, example=pair // heads)

    def _of_block(self, inputs, pair, block):
        """The `_Inputs` of a block, [1,1,*,*]."""
        _, heads, rows, _ = shape_of(inputs.q)
        low = self._low(block, rows // self._size)
        k_r = _pair(inputs.k_r, pair % heads if inputs.k_r.shape[0] == 1 else pair)
        num_keys = inputs.k.shape[2]
        return _Inputs(
            q=self._rows_of(inputs.q, pair, block), q_r=self._rows_of(inputs.q_r, pair, block),
            k=_pair(inputs.k, pair)[None, None], v=_pair(inputs.v, pair)[None, None],
            k_r=_cut(k_r, low, self._size + num_keys))

    def _rows_of(self, x, pair, block):
        """A block's rows of x [B,N,T,*]: [1,1,size,*]."""
        return _cut(_pair(x, pair), block * self._size, self._size)

    def _low(self, block, count):
        """Where the distances of a block begin, see `_blocks`."""
        return (count - 1 - block) * self._size


def _pair(x, pair):
    """[*,*], of a head in an example of x [B,N,*,*]; shares its memory."""
    return tf.reshape(x, [-1, *x.shape[2:]])[pair]


def _cut(x, start, size):
    """[1,1,size,*], from x [*,*]; shares its memory."""
    return tf.slice(x, [start, 0], [size, x.shape[1]])[None, None]


def _array(dtype, size, shape):
    return tf.TensorArray(dtype, size, element_shape=shape, clear_after_read=False)


def _loop(count, body, first, *values):
    """The values after `count` calls of body(index, *values), which returns all for the next."""
    return tf.while_loop(lambda index, *_: index < count, body, [first, *values],
                         parallel_iterations=LOOP_PARALLEL, back_prop=False)[1:]
