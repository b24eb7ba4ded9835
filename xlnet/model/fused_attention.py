"""Relative attention as programs for an NVIDIA GPU, in Triton: scores never leave the chip.

`modeling.relative_attention` is the specification, `kernels_gpu` puts these programs into
TensorFlow's graph. A program handles one block of queries of one head of one example. It walks over
the blocks of keys, and for each adds the three terms of the score, masks by ranks, updates the
softmax as it goes (FlashAttention, https://arxiv.org/abs/2205.14135), drops probabilities by a hash
of the element, and multiplies by the values.

The position term in a block of T queries and T keys. Query i, key j reads the score at distance
index T - i + j, counted from the first distance of the block: a band across two neighbouring blocks
of T distances, `low` and `high`. For T = 4, a number is a distance index, x is not read:

        low          high                     key  0 1 2 3
        x x x x | 4 5 6 7    query 0               4 5 6 7
        x x x 3 | 4 5 6 x    query 1               3 4 5 6
        x x 2 3 | 4 5 x x    query 2               2 3 4 5
        x 1 2 3 | 4 x x x    query 3               1 2 3 4

Rotate each row of both blocks left by T - i cells. Then every cell is where its key is, from `low`
or from `high`:

        low, rotated   high, rotated
        x x x x        4 5 6 7
        3 x x x        x 4 5 6
        2 3 x x        x x 4 5
        1 2 3 x        x x x 4

The rotation is the same in all blocks, and the `high` of one step is the `low` of the next. So each
step multiplies the queries by one new block of distances and rotates the result once.

The backward program goes the same way. It stores the probabilities and the gradients of the scores
(as the keys' and values' gradients are sums over queries, those are plain matmuls of what it
stores), and `distance_query_gradient` and `distance_key_gradient` are matmuls over the band.

Target positions have a first distance each, so that no band exists: their position scores, T = P
rows alone, come from a matmul in memory, and the program reads each row from its first distance on.

Shape letters: B examples, T queries, K keys, R relative distances, N heads, H d_head; P target
positions. Arrays are [B,T,N,H]: heads are inside, as matmuls leave them. Programs get arrays as
pointers to their first cell, and read them by the index of a cell.
"""

# Triton decides the types of what has no annotation.
# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

import json
import sys
from typing import Any, NamedTuple

import triton
import triton.language as tl

# The constants of a program, which `set_sizes` sets: a process compiles one program.
T = tl.constexpr(1)
K = tl.constexpr(1)
R = tl.constexpr(1)
N = tl.constexpr(1)
H = tl.constexpr(1)
DROPPED = tl.constexpr(0)  # `Dropout.dropped_of_65536`
SEES_ITSELF = tl.constexpr(True)  # whether query i also sees key K - T + i
HAS_BAND = tl.constexpr(True)  # whether the queries are the complete sequence
BLOCK = tl.constexpr(1)  # queries and keys of a block

_LOG2_E = tl.constexpr(1.4426950408889634)  # exp(x) is 2 to the power of x * log2(e)
# The rank of a key beyond the end, which no query sees.
_HIDDEN_RANK = tl.constexpr(2**31 - 1)


# ---- dropout: `kernels_gpu.kept` says what is computed ----


@triton.jit
def _mixed(x):
    """A hash of uint32 numbers, the finalizer of MurmurHash3, as in `stateless_random.mixed`."""
    x = (x ^ (x >> 16)) * tl.full([], 0x85EBCA6B, tl.uint32)
    x = (x ^ (x >> 13)) * tl.full([], 0xC2B2AE35, tl.uint32)
    return x ^ (x >> 16)


@triton.jit
def _kept(query_hash, second_word, key):
    """Whether each probability of a block is kept: bool [queries, keys].

    query_hash: uint32 [queries]; second_word: the example's second random number, uint32; key: the
    indices of the keys, int32 [keys].
    """
    key_hash = _mixed(key.to(tl.uint32) + second_word)
    x = (query_hash[:, None] ^ key_hash[None, :]) * tl.full([], 0x85EBCA6B, tl.uint32)
    x = (x ^ (x >> 15)) * tl.full([], 0xC2B2AE35, tl.uint32)
    # A threshold for 32 bits: the fraction DROPPED / 65536 of all numbers is below.
    return x >= tl.full([], DROPPED * 65536, tl.uint32)


# ---- both passes: a block of queries, and its scores for a block of keys ----


class _Queries(NamedTuple):
    """A block of queries of one head of one example, and what each of them has.

    index: their numbers, [BLOCK], of which the last block may have some beyond T.
    is_inside: whether they exist, less than T, [BLOCK].
    cells: where they are in arrays [B,T,N,H]: [BLOCK,H].
    row: where they are in arrays [B,N,T]: [BLOCK].
    q_w: with r_w, divided by sqrt(H), [BLOCK,H].
    q_r: with r_r, divided by sqrt(H), [BLOCK,H]; unused without HAS_BAND.
    segment_score: added for a key of the same segment, [BLOCK].
    segment, rank: of each query, [BLOCK].
    hash, second_word: arguments of `_kept`.
    k_r, first: with HAS_BAND, the pointer to the keys of the distances, and the index of the
      distance at which the band of key 0 begins.
    by_distance, row_start: without HAS_BAND, the pointer to this head's position scores [T,R], and
      the cell in them of each query for key 0, [BLOCK].
    """

    index: Any
    is_inside: Any
    cells: Any
    row: Any
    q_w: Any
    q_r: Any
    segment_score: Any
    segment: Any
    rank: Any
    hash: Any
    second_word: Any
    k_r: Any
    first: Any
    by_distance: Any
    row_start: Any


@triton.jit
def _matrix_index():
    """The index of this head of this example in arrays [B,N,...]."""
    head, example = tl.program_id(1), tl.program_id(2)
    return example * N + head


@triton.jit
def _cells(index, count):
    """The cells of the rows `index` [rows] of this head of this example in an array [B,count,N,H]:
    [rows,H]."""
    head, example = tl.program_id(1), tl.program_id(2)
    dims = tl.arange(0, H)
    return (example * count + index[:, None]) * (N * H) + head * H + dims[None, :]


@triton.jit
def _load_rows(x, cells, is_inside):
    """Rows [rows,H] of an array, zeros where `is_inside` [rows] is false; cells: as of `_cells`."""
    return tl.load(x + cells, mask=is_inside[:, None], other=0.0)


@triton.jit
def _store_rows(x, cells, is_inside, rows):
    """Writes rows [rows,H] to an array where `is_inside` [rows], in its dtype; cells: as of
    `_cells`."""
    tl.store(x + cells, rows.to(x.dtype.element_ty), mask=is_inside[:, None])


@triton.jit
def _load_queries(
    q_w,
    q_r,
    k_r,
    by_distance,
    segment_score,
    first_distance_index,
    query_segment,
    query_rank,
    dropout_keys,
):
    """Reads this program's block of queries.

    Args:
      q_w, q_r: [B,T,N,H], q with r_w and with r_r, both divided by sqrt(H).
      k_r: [B,R,N,H], keys of the distances.
      by_distance: [B,N,T,R], position scores; used only without HAS_BAND.
      segment_score: float32 [B,N,T], the score of a key of the same segment.
      first_distance_index, query_segment, query_rank: int32 [B,T].
      dropout_keys: int32 [B,2], the bits of two random uint32 of each example.

    Returns:
      The `_Queries`; and with HAS_BAND (the queries are the complete sequence) their scores at the
      first block of distances, `low` for the first block of keys, [BLOCK,BLOCK], else 0.
    """
    block, head, example = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    query = block * BLOCK + tl.arange(0, BLOCK)
    is_query = query < T
    cells = _cells(query, T)
    row = _matrix_index() * T + query
    of_query = example * T + query  # cells in arrays [B,T]
    # Dropout: the two random numbers of the example, and hashes of the queries. The numbers of
    # queries go on from head to head, with `kernels_gpu.MOST_QUERIES` = 65536 for each.
    first_word = tl.load(dropout_keys + 2 * example).to(tl.uint32, bitcast=True)
    second_word = tl.load(dropout_keys + 2 * example + 1).to(tl.uint32, bitcast=True)
    query_hash = _mixed((head * 65536 + query).to(tl.uint32) + first_word)
    query_hash = _mixed(query_hash + second_word)
    if HAS_BAND:
        q_r_block = _load_rows(q_r, cells, is_query)
        head_scores, row_start = 0, 0
    else:
        q_r_block = 0
        # 64 bits: all position scores may be more than 2^31 cells.
        head_scores = by_distance + _matrix_index().to(tl.int64) * (T * R)
        row_start = query * R + tl.load(
            first_distance_index + of_query, mask=is_query, other=0
        )
    queries = _Queries(
        index=query,
        is_inside=is_query,
        cells=cells,
        row=row,
        q_w=_load_rows(q_w, cells, is_query),
        q_r=q_r_block,
        segment_score=tl.load(segment_score + row, mask=is_query, other=0.0),
        segment=tl.load(query_segment + of_query, mask=is_query, other=0),
        rank=tl.load(query_rank + of_query, mask=is_query, other=0),
        hash=query_hash,
        second_word=second_word,
        k_r=k_r,
        # Query i reads key 0 at the distance index T - i. The least is that of the last query,
        # T - block * BLOCK - BLOCK + 1, which is column 1 of `low`.
        first=T - block * BLOCK - BLOCK,
        by_distance=head_scores,
        row_start=row_start,
    )
    low = 0
    if HAS_BAND:
        low = _rotated_scores(queries, queries.first)
    return queries, low


@triton.jit
def _band_index():
    """Of query i and key j of a block, the index in the band `low`, `high` of the score for them,
    BLOCK - i + j: [BLOCK,BLOCK]."""
    return BLOCK - tl.arange(0, BLOCK)[:, None] + tl.arange(0, BLOCK)[None, :]


@triton.jit
def _rotated_scores(queries, first):
    """The queries' scores at the block of distances that begins at index `first`, each row rotated
    so that every score is in the column of its key: [BLOCK,BLOCK]."""
    index = first + tl.arange(0, BLOCK)
    # The band of incomplete blocks goes beyond the distances that exist, which no key reads.
    is_distance = (index >= 0) & (index < R)
    keys = _load_rows(queries.k_r, _cells(index, R), is_distance)
    scores = tl.dot(queries.q_r, tl.trans(keys)).to(queries.q_r.dtype)
    # The index in the band, modulo BLOCK, is the column in this block, be it `low` or `high`.
    return tl.gather(scores, _band_index() % BLOCK, 1)


@triton.jit
def _scores_of_keys(
    queries,
    low,
    start,
    k,
    v,
    key_segment,
    key_rank,
):
    """The scores of a block of queries for the block of keys that begins at `start`.

    Args:
      queries: the block of queries.
      low: their scores at the first block of the band of distances, [BLOCK,BLOCK]: those that this
        function returned for the keys before; unused without HAS_BAND.
      start: the index of the first key of the block.
      k, v: [B,K,N,H].
      key_segment, key_rank: int32 [B,K].

    Returns:
      The masked scores times log2(e), so that their powers of two are their exponentials, float32
      [BLOCK,BLOCK]; the indices of the keys, [BLOCK]; which pairs are of the same segment, bool
      [BLOCK,BLOCK]; keys and values, [BLOCK,H] each; with HAS_BAND the scores at the last block of
      distances, which are `low` for the next keys.
    """
    key = start + tl.arange(0, BLOCK)
    is_key = key < K
    cells = _cells(key, K)
    k_block = _load_rows(k, cells, is_key)
    v_block = _load_rows(v, cells, is_key)
    of_key = tl.program_id(2) * K + key  # cells in arrays [B,K]
    rank = tl.load(key_rank + of_key, mask=is_key, other=_HIDDEN_RANK)
    segment = tl.load(key_segment + of_key, mask=is_key, other=0)
    high = low
    if HAS_BAND:
        high = _rotated_scores(queries, queries.first + BLOCK + start)
        position = tl.where(_band_index() < BLOCK, low, high)
    else:
        position = tl.load(
            queries.by_distance + queries.row_start[:, None] + key[None, :],
            mask=queries.is_inside[:, None] & is_key[None, :],
            other=0.0,
        )
    is_same = queries.segment[:, None] == segment[None, :]
    # Who sees whom, as in `kernels.Mask`.
    is_visible = queries.rank[:, None] > rank[None, :]
    if SEES_ITSELF:  # query i is key K - T + i
        is_visible |= (queries.index + K - T)[:, None] == key[None, :]
    score = tl.dot(queries.q_w, tl.trans(k_block)) + position.to(tl.float32)
    score += tl.where(is_same, queries.segment_score[:, None], 0.0)
    score = tl.where(is_visible, score * _LOG2_E, float("-inf"))
    return score, key, is_same, k_block, v_block, high


# ---- the forward pass ----


@triton.jit
def forward(
    # [B,T,N,H] q with r_w, and with r_r; both divided by sqrt(H)
    q_w,
    q_r,
    # [B,K,N,H]
    k,
    v,
    # [B,R,N,H]
    k_r,
    # [B,N,T,R] q_r k_r, for target positions; not read with HAS_BAND
    by_distance,
    # [B,N,T] float32: the score of a key of the same segment
    segment_score,
    # int32 [B,T], [B,T], [B,K], [B,T], [B,K], [B,2]
    first_distance_index,
    query_segment,
    key_segment,
    query_rank,
    key_rank,
    dropout_keys,
    # outputs: [B,T,N,H]; float32 [B,N,T], log2 of the sum of the exponentials
    output,
    log_sum,
):
    """Attention of one block of queries of one head of one example."""
    queries, low = _load_queries(
        q_w,
        q_r,
        k_r,
        by_distance,
        segment_score,
        first_distance_index,
        query_segment,
        query_rank,
        dropout_keys,
    )

    # Loop over the blocks of keys. Of the keys so far: the largest score, the sum of the
    # exponentials of all, and the sum of the values times the exponentials that are not dropped.
    largest = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    sums = tl.zeros([BLOCK, H], tl.float32)
    for start in range(0, K, BLOCK):
        score, key, _, _, v_block, low = _scores_of_keys(
            queries,
            low,
            start,
            k,
            v,
            key_segment,
            key_rank,
        )

        # The largest score so far is subtracted from all, so that no exponential overflows; both
        # sums are rescaled where it grows.
        new_largest = tl.maximum(largest, tl.max(score, 1))
        # 0 where no key is visible yet: the difference of two infinities would be NaN.
        subtracted = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        exponential = tl.exp2(score - subtracted[:, None])
        rescale = tl.exp2(largest - subtracted)
        # The softmax divides by the sum of all, dropped or not.
        total = total * rescale + tl.sum(exponential, 1)
        kept = _kept(queries.hash, queries.second_word, key)
        exponential = tl.where(kept, exponential, 0.0)
        sums = sums * rescale[:, None] + tl.dot(exponential.to(v_block.dtype), v_block)
        largest = new_largest

    # A query that sees no key gets zeros, and an infinite sum, which makes its probabilities 0.
    sees_a_key = total > 0
    total = tl.where(sees_a_key, total, 1.0)
    # The scale of dropout, and the division of the softmax.
    factor = tl.where(sees_a_key, (65536.0 / (65536 - DROPPED)) / total, 0.0)
    _store_rows(output, queries.cells, queries.is_inside, sums * factor[:, None])
    largest = tl.where(sees_a_key, largest, 0.0)
    log_total = tl.where(sees_a_key, largest + tl.log2(total), float("inf"))
    tl.store(log_sum + queries.row, log_total, mask=queries.is_inside)


# ---- the backward pass ----


@triton.jit
def backward(
    # The arguments of `forward`: [B,T,N,H] twice; [B,K,N,H] twice; [B,R,N,H]; [B,N,T,R]; [B,N,T];
    # int32 [B,T], [B,T], [B,K], [B,T], [B,K], [B,2]
    q_w,
    q_r,
    k,
    v,
    k_r,
    by_distance,
    segment_score,
    first_distance_index,
    query_segment,
    key_segment,
    query_rank,
    key_rank,
    dropout_keys,
    # its outputs: [B,T,N,H]; float32 [B,N,T], log2 of the sum of the exponentials
    output,
    log_sum,
    # [B,T,N,H], the gradient of `output`
    d_output,
    # outputs: [B,T,N,H]; float32 [B,N,T]; [B,N,T,K] after dropout; [B,N,T,K]; [B,N,T,R], which is
    # not written with HAS_BAND
    d_q_w,
    d_segment_score,
    probabilities,
    d_scores,
    d_by_distance,
):
    """The gradients of one block of queries of one head of one example; and the probabilities and
    the gradients of the scores, of which `kernels_gpu` makes those of the other inputs."""
    queries, low = _load_queries(
        q_w,
        q_r,
        k_r,
        by_distance,
        segment_score,
        first_distance_index,
        query_segment,
        query_rank,
        dropout_keys,
    )
    query, is_query = queries.index, queries.is_inside
    d_output_block = _load_rows(d_output, queries.cells, is_query)
    output_block = _load_rows(output, queries.cells, is_query)
    # The sum over keys of each probability times its gradient is the output times its gradient.
    expected = tl.sum(d_output_block.to(tl.float32) * output_block.to(tl.float32), 1)
    log_sum_block = tl.load(log_sum + queries.row, mask=is_query, other=float("inf"))
    # 64 bits, as [B,N,T,K] may have more than 2^31 cells.
    matrix = _matrix_index().to(tl.int64)
    # For target positions: zeros at the distances that no key of the query has. The other distances
    # are written by the loop over the keys.
    if not HAS_BAND:
        for start in range(0, R, BLOCK):
            index = query[:, None] * R + (start + tl.arange(0, BLOCK))[None, :]
            key = index - queries.row_start[:, None]  # the key at this distance
            is_distance = (start + tl.arange(0, BLOCK) < R)[None, :]
            tl.store(
                d_by_distance + matrix * (T * R) + index,
                tl.zeros([BLOCK, BLOCK], d_by_distance.dtype.element_ty),
                mask=((key < 0) | (key >= K)) & is_query[:, None] & is_distance,
            )

    # Loop over the blocks of keys.
    d_q_w_block = tl.zeros([BLOCK, H], tl.float32)
    d_segment_score_block = tl.zeros([BLOCK], tl.float32)
    scale = 65536.0 / (65536 - DROPPED)
    for start in range(0, K, BLOCK):
        score, key, is_same, k_block, v_block, low = _scores_of_keys(
            queries,
            low,
            start,
            k,
            v,
            key_segment,
            key_rank,
        )
        probability = tl.exp2(score - log_sum_block[:, None])

        # The gradient goes back through dropout and the softmax to the score.
        d_probability = tl.dot(d_output_block, tl.trans(v_block))
        kept = _kept(queries.hash, queries.second_word, key)
        after_dropout = tl.where(kept, probability * scale, 0.0)
        d_probability = tl.where(kept, d_probability * scale, 0.0)
        d_score = probability * (d_probability - expected[:, None])
        d_segment_score_block += tl.sum(tl.where(is_same, d_score, 0.0), 1)
        narrow = d_score.to(queries.q_w.dtype)
        d_q_w_block = tl.dot(narrow, k_block, d_q_w_block)  # added to the last argument

        # Write the terms of which the gradients of keys, values and distances are sums.
        cells = query[:, None] * K + key[None, :]
        is_cell = is_query[:, None] & (key < K)[None, :]
        narrow_probability = after_dropout.to(probabilities.dtype.element_ty)
        square = matrix * (T * K)  # of [B,N,T,K]
        tl.store(probabilities + square + cells, narrow_probability, mask=is_cell)
        tl.store(d_scores + square + cells, narrow, mask=is_cell)
        if not HAS_BAND:
            cells = queries.row_start[:, None] + key[None, :]
            tl.store(d_by_distance + matrix * (T * R) + cells, narrow, mask=is_cell)

    _store_rows(d_q_w, queries.cells, is_query, d_q_w_block)
    tl.store(d_segment_score + queries.row, d_segment_score_block, mask=is_query)


@triton.jit
def _gradients_at(d_scores, query, index):
    """The gradients of the scores of queries at distances: of the query `query` at the distance of
    index `index`, two arrays that broadcast, in the shape of both. Zero where that query has no key
    at that distance. d_scores: [B,N,T,K]."""
    d_scores_head = d_scores + _matrix_index().to(tl.int64) * (T * K)
    key = index - T + query
    is_cell = (key >= 0) & (key < K) & (query < T)
    return tl.load(d_scores_head + query * K + key, mask=is_cell, other=0.0)


@triton.jit
def distance_query_gradient(
    d_scores,
    k_r,
    d_q_r,
):
    """d_q_r [B,T,N,H], for one block of queries of one head of one example: of query i the sum over
    distances r of d_scores[i, r - T + i] k_r[r].

    d_scores: [B,N,T,K]; k_r: [B,R,N,H].
    """
    block = tl.program_id(0)
    query = block * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK, H], tl.float32)
    # The queries of a block read the K + BLOCK - 1 distances after this one.
    first = tl.maximum(T - block * BLOCK - BLOCK, 0)
    for start in range(0, K + BLOCK, BLOCK):
        index = first + start + tl.arange(0, BLOCK)
        cells = _gradients_at(
            d_scores, query[:, None], index[None, :]
        )  # [queries, distances]
        keys = _load_rows(k_r, _cells(index, R), index < R)
        sums = tl.dot(cells, keys, sums)
    _store_rows(d_q_r, _cells(query, T), query < T, sums)


@triton.jit
def distance_key_gradient(
    d_scores,
    q_r,
    d_k_r,
):
    """d_k_r [B,R,N,H], for one block of distances of one head of one example: of distance r the sum
    over queries i of d_scores[i, r - T + i] q_r[i].

    d_scores: [B,N,T,K]; q_r: [B,T,N,H].
    """
    block = tl.program_id(0)
    index = block * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros([BLOCK, H], tl.float32)
    # The queries that have a key at one of these distances: 0 <= r - T + i < K. The first one is
    # rounded down to a block.
    begin = tl.maximum(T - (block * BLOCK + BLOCK - 1), 0) // BLOCK * BLOCK
    end = tl.minimum(K + T - block * BLOCK, T)
    for start in tl.range(begin, end, BLOCK):
        query = start + tl.arange(0, BLOCK)
        cells = _gradients_at(
            d_scores, query[None, :], index[:, None]
        )  # [distances, queries]
        queries = _load_rows(q_r, _cells(query, T), query < T)
        sums = tl.dot(cells, queries, sums)
    _store_rows(d_k_r, _cells(index, R), index < R, sums)


# ---- compiling, in a process of its own: Triton and TensorFlow each bring an LLVM ----


# Warps of a block, and how many blocks of keys are loaded ahead: the fastest on an H200
# (benchmarks/README.md). Eight warps hold the tiles of the backward program without spilling
# registers, but take 1.7 times the time of four.
_WARPS = 4
_STAGES = {
    "forward": 1,
    "backward": 1,
    "distance_query_gradient": 2,
    "distance_key_gradient": 2,
}
_PTX_VERSION = 85  # of CUDA 12.5, which TensorFlow 2.21 is built with


def set_sizes(sizes: dict[str, Any]) -> None:
    """Sets the constants of this module by their names."""
    globals().update(sizes)


def compile_program(
    name: str, types: list[str], sizes: dict[str, int | bool], capability: int
) -> tuple[dict[str, Any], int]:
    """Compiles one program; needs no GPU.

    Args:
      name: of the program, which is a function of this module.
      types: Triton's types of its pointers, such as "*bf16", in their order.
      sizes: values of this module's constants by name, such as T.
      capability: compute capability of the GPU, 90 for an H100.

    Returns:
      (program, number of pointers that its entry takes). The program is a part of the attributes of
      XLA's custom call: its code and the size of a block of threads.
    """
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    set_sizes({key: tl.constexpr(value) for key, value in sizes.items()})
    function = globals()[name]
    signature = dict(zip(function.arg_names, types))
    aligned = [["tt.divisibility", 16]]  # in bytes: XLA aligns its buffers
    alignment = {(index,): aligned for index in range(len(types))}
    source = ASTSource(function, signature, {}, alignment)
    options = {
        "num_warps": _WARPS,
        "num_stages": _STAGES[name],
        "ptx_version": _PTX_VERSION,
    }
    target = GPUTarget("cuda", capability, warp_size=32)
    kernel = triton.compile(source, target=target, options=options)
    ptx = kernel.asm["ptx"]
    # The entry is declared as `.entry NAME(.param TYPE NAME, ...)`. Triton adds pointers to ours.
    start = ptx.index(".entry")
    entry = ptx[start : ptx.index(")", start)]
    program = {
        "name": kernel.metadata.name,
        "kernel_type": "ptx",
        "kernel_data": ptx,
        "block_x": 32 * _WARPS,
        "block_y": 1,
        "block_z": 1,
        "shared_mem_bytes": kernel.metadata.shared,
    }
    return program, entry.count(".param")


# python -m xlnet.model.fused_attention < arguments.json > program.json
if __name__ == "__main__":
    json.dump(compile_program(**json.load(sys.stdin)), sys.stdout)
