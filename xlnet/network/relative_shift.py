"""From scores by distance to scores by key, and back (Transformer-XL, appendix B).

Tensors only. Shape letters as in `modeling`.
"""

from __future__ import annotations

from typing import Optional

import tensorflow.compat.v1 as tf

from xlnet.network.ops import count_to, shape_of


def relative_shift(x: tf.Tensor, num_keys: int,
                   first_distance: Optional[tf.Tensor] = None) -> tf.Tensor:
    """Reads off, for query i and key j, the score at their distance (Transformer-XL, appendix B).

    Args:
      x: [B,N,T,R], scores of query i with the distance of index r; distance d has index K - d.
      num_keys: K.
      first_distance: int [B,T], the index of the distance between each query and the first key.
        None: the queries are the complete sequence, query i has Q - i.

    Returns:
      [B,N,T,K] with `y[i, j] = x[i, first_distance[i] + j]`, as key j is M + i - j away from
      position i.

    Of the complete sequence, in memory, one row further is R cells on and the wanted column one to
    the left: after dropping the first Q cells every row is R - 1 cells long and starts at its first
    wanted column. With Q = 2, K = 2, R = 4: `a b c d | e f g h` -> drop 2 -> `c d e | f g h` ->
    `c d | f g`.
    """
    if first_distance is not None:
        return take(x, first_distance[:, :, None] + count_to(num_keys, first_distance.dtype))
    batch, heads, length, distances = shape_of(x)
    y = tf.reshape(x, [batch, heads, length * distances])[:, :, length:]          # [B,N,Q*(R-1)]
    return tf.reshape(y, [batch, heads, length, distances - 1])[..., :num_keys]   # [B,N,Q,K]


def shift_back(y: tf.Tensor, distances: int,
               back: Optional[tf.Tensor] = None) -> tf.Tensor:
    """The gradient of `relative_shift`, the same steps backward: [B,N,T,K] -> [B,N,T,R].

    back: that of `way_back`; None: the queries are the complete sequence.

    With Q = 2, K = 2, R = 4: `c d | f g` -> `c d 0 | f g 0` -> `0 0 c d | 0 f g 0`.
    """
    if back is not None:
        return take(tf.pad(y, [[0, 0], [0, 0], [0, 0], [0, 1]]), back)
    batch, heads, length, num_keys = shape_of(y)
    x = tf.pad(y, [[0, 0], [0, 0], [0, 0], [0, distances - 1 - num_keys]])        # [B,N,Q,R-1]
    x = tf.reshape(x, [batch, heads, length * (distances - 1)])
    x = tf.pad(x, [[0, 0], [0, 0], [length, 0]])                                  # [B,N,Q*R]
    return tf.reshape(x, [batch, heads, length, distances])


def way_back(num_keys: int, distances: int, first_distance: tf.Tensor) -> tf.Tensor:
    """int [B,T,R]: the key that read each distance; K, a zero, where none did.

    With first_distance 1, K = 2, R = 4: 2 0 1 2, so that `a b` -> `0 a b 0`.
    """
    index = count_to(distances, first_distance.dtype) - first_distance[:, :, None]     # [B,P,R]
    beyond = tf.cast(num_keys, index.dtype)
    return tf.where_v2((index < 0) | (index >= beyond), beyond, index)


def take(x: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """x [B,N,P,R] at index [B or 1,P,K]: [B,N,P,K].

    All heads are read at the same places, so their cells are laid side by side first: to gather
    costs by the piece, not by what is in it.
    """
    batch, heads, slots, width = shape_of(x)
    count = shape_of(index)[-1]
    cells = tf.reshape(tf.transpose(x, [0, 2, 3, 1]), [batch * slots * width, heads])
    begins = count_to(batch * slots, index.dtype) * tf.cast(width, index.dtype)     # [B*P]
    places = index + tf.reshape(begins, [batch, slots, 1])                          # [B,P,K]
    y = tf.reshape(tf.gather(cells, tf.reshape(places, [-1])), [batch, slots, count, heads])
    return tf.transpose(y, [0, 3, 1, 2])
