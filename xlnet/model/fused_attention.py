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

Shape letters as in `modeling`. Arrays are [B,T,N,H]: heads are inside, as matmuls leave them.
"""

# Triton decides the types of what has no annotation.
# mypy: allow-untyped-defs, allow-incomplete-defs
from __future__ import annotations

import json
import sys
from typing import Any, Union

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)
# The rank of a key beyond the end, which no query sees.
_HIDDEN_RANK = tl.constexpr(2**31 - 1)


# ---- dropout: `kernels_gpu.kept` says what is computed ----


@triton.jit
def _mixed(x):
    """`stateless_random.mixed` of uint32."""
    x = (x ^ (x >> 16)) * tl.full([], 0x85EBCA6B, tl.uint32)
    x = (x ^ (x >> 13)) * tl.full([], 0xC2B2AE35, tl.uint32)
    return x ^ (x >> 16)


@triton.jit
def _hash_of_queries(dropout_keys, example, head, query):
    """uint32 of each query, and the key of its example for `_kept`."""
    first = tl.load(dropout_keys + 2 * example).to(tl.uint32, bitcast=True)
    second = tl.load(dropout_keys + 2 * example + 1).to(tl.uint32, bitcast=True)
    index = (head * 65536 + query).to(tl.uint32)
    return _mixed(_mixed(index + first) + second), second


@triton.jit
def _kept(query_hash, second, key, dropped: tl.constexpr):
    """Whether each probability is kept: bool [queries, keys]."""
    key_hash = _mixed(key.to(tl.uint32) + second)
    x = (query_hash[:, None] ^ key_hash[None, :]) * tl.full([], 0x85EBCA6B, tl.uint32)
    x = (x ^ (x >> 15)) * tl.full([], 0xC2B2AE35, tl.uint32)
    return x >= tl.full([], dropped * 65536, tl.uint32)


# ---- both passes: the score ----


@triton.jit
def _by_distance(
    k_r, q_r, first, row_stride, dims, rotation, R: tl.constexpr, BLOCK: tl.constexpr
):
    """The queries' scores at a block of distances, rotated: [BLOCK,BLOCK]."""
    index = first + tl.arange(0, BLOCK)
    inside = (index >= 0) & (index < R)
    keys = tl.load(
        k_r + index[:, None] * row_stride + dims[None, :],
        mask=inside[:, None],
        other=0.0,
    )
    scores = tl.dot(q_r, tl.trans(keys)).to(q_r.dtype)
    return tl.gather(scores, rotation, 1)


@triton.jit
def _score(q, k, position, segment_score, is_same, is_visible):
    """The masked score times log2(e), so that its power of two is its exponential."""
    score = tl.dot(q, tl.trans(k)) + position
    score += tl.where(is_same, segment_score[:, None], 0.0)
    return tl.where(is_visible, score * _LOG2_E, float("-inf"))


@triton.jit
def _is_visible(query_rank, own_key, key_rank, key):
    """Who sees whom, `kernels.Mask`: bool [queries, keys]."""
    return (query_rank[:, None] > key_rank[None, :]) | (
        own_key[:, None] == key[None, :]
    )


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
    # [B,N,T,R] q_r k_r, for target positions; not read with IN_TILE
    by_distance,
    # [B,N,T] float32: the score of a key of the same segment
    segment_score,
    # int32 [B,T], [B,T], [B,K], [B,T], [B,K], [B,T], [B,2]
    first_distance_index,
    query_segment,
    key_segment,
    query_rank,
    key_rank,
    own_key,
    dropout_keys,
    # outputs: [B,T,N,H]; float32 [B,N,T], log2 of the sum of the exponentials
    output,
    log_sum,
    T: tl.constexpr,
    K: tl.constexpr,
    R: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
    DROPPED: tl.constexpr,
    IN_TILE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    block, head, example = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows = tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK)
    dims = tl.arange(0, H)

    # Load the block of queries and what each of them has.
    query = block * BLOCK + rows
    is_query = query < T
    query_cells = (example * T + query[:, None]) * (N * H) + head * H + dims[None, :]
    q_w_block = tl.load(q_w + query_cells, mask=is_query[:, None], other=0.0)
    row = (example * N + head) * T + query
    segment_score_block = tl.load(segment_score + row, mask=is_query, other=0.0)
    of_query = example * T + query
    query_segment_block = tl.load(query_segment + of_query, mask=is_query, other=0)
    query_rank_block = tl.load(query_rank + of_query, mask=is_query, other=0)
    own_key_block = tl.load(own_key + of_query, mask=is_query, other=-1)
    if DROPPED > 0:
        query_hash, second = _hash_of_queries(dropout_keys, example, head, query)

    # Prepare the position scores of these queries: the first block of distances, or where their
    # rows begin in memory.
    if IN_TILE:
        q_r_block = tl.load(q_r + query_cells, mask=is_query[:, None], other=0.0)
        k_r_head = k_r + head * H + example * (R * N * H)
        shift = BLOCK - rows[:, None] + columns[None, :]
        rotation = shift % BLOCK
        is_low = shift < BLOCK
        first = T - block * BLOCK - BLOCK
        low = _by_distance(k_r_head, q_r_block, first, N * H, dims, rotation, R, BLOCK)
    else:
        by_distance_head = by_distance + (example * N + head).to(tl.int64) * (T * R)
        start_of_row = query * R + tl.load(
            first_distance_index + of_query, mask=is_query, other=0
        )

    # Loop over the blocks of keys.
    largest = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    sums = tl.zeros([BLOCK, H], tl.float32)
    for start in range(0, K, BLOCK):
        key = start + columns
        is_key = key < K
        key_cells = (example * K + key[:, None]) * (N * H) + head * H + dims[None, :]
        k_block = tl.load(k + key_cells, mask=is_key[:, None], other=0.0)
        v_block = tl.load(v + key_cells, mask=is_key[:, None], other=0.0)
        of_key = example * K + key
        key_rank_block = tl.load(key_rank + of_key, mask=is_key, other=_HIDDEN_RANK)
        key_segment_block = tl.load(key_segment + of_key, mask=is_key, other=0)
        if IN_TILE:
            high = _by_distance(
                k_r_head,
                q_r_block,
                first + BLOCK + start,
                N * H,
                dims,
                rotation,
                R,
                BLOCK,
            )
            position = tl.where(is_low, low, high).to(tl.float32)
            low = high
        else:
            position = tl.load(
                by_distance_head + start_of_row[:, None] + key[None, :],
                mask=is_query[:, None] & is_key[None, :],
                other=0.0,
            ).to(tl.float32)
        score = _score(
            q_w_block,
            k_block,
            position,
            segment_score_block,
            query_segment_block[:, None] == key_segment_block[None, :],
            _is_visible(query_rank_block, own_key_block, key_rank_block, key),
        )

        # The softmax so far, in units of its largest score.
        new_largest = tl.maximum(largest, tl.max(score, 1))
        # No key is visible yet.
        unit = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        probability = tl.exp2(score - unit[:, None])
        rescale = tl.exp2(largest - unit)
        total = total * rescale + tl.sum(probability, 1)
        if DROPPED > 0:
            kept = _kept(query_hash, second, key, DROPPED)
            probability = tl.where(kept, probability, 0.0)
        sums = sums * rescale[:, None] + tl.dot(probability.to(v_block.dtype), v_block)
        largest = new_largest

    # A query that sees no key gets zeros, and an infinite sum, which makes its probabilities 0.
    sees_a_key = total > 0
    total = tl.where(sees_a_key, total, 1.0)
    factor = tl.where(sees_a_key, (65536.0 / (65536 - DROPPED)) / total, 0.0)
    result = sums * factor[:, None]
    tl.store(
        output + query_cells, result.to(output.dtype.element_ty), mask=is_query[:, None]
    )
    result = tl.where(
        sees_a_key, tl.where(sees_a_key, largest, 0.0) + tl.log2(total), float("inf")
    )
    tl.store(log_sum + row, result, mask=is_query)


# ---- the backward pass ----


@triton.jit
def backward(
    # As in `forward`, then its outputs and the gradient of the first of them, [B,T,N,H].
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
    own_key,
    dropout_keys,
    output,
    log_sum,
    d_output,
    # outputs: [B,T,N,H]; float32 [B,N,T]; [B,N,T,K] after dropout; [B,N,T,K]; [B,N,T,R] or unused
    d_q_w,
    d_segment_score,
    probabilities,
    d_scores,
    d_by_distance,
    T: tl.constexpr,
    K: tl.constexpr,
    R: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
    DROPPED: tl.constexpr,
    IN_TILE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    block, head, example = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows = tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK)
    dims = tl.arange(0, H)

    # The block of queries, and what they have each.
    query = block * BLOCK + rows
    is_query = query < T
    query_cells = (example * T + query[:, None]) * (N * H) + head * H + dims[None, :]
    q_w_block = tl.load(q_w + query_cells, mask=is_query[:, None], other=0.0)
    d_output_block = tl.load(d_output + query_cells, mask=is_query[:, None], other=0.0)
    output_block = tl.load(output + query_cells, mask=is_query[:, None], other=0.0)
    # The sum over keys of each probability times its gradient is the output times its gradient.
    expected = tl.sum(d_output_block.to(tl.float32) * output_block.to(tl.float32), 1)
    row = (example * N + head) * T + query
    segment_score_block = tl.load(segment_score + row, mask=is_query, other=0.0)
    log_sum_block = tl.load(log_sum + row, mask=is_query, other=float("inf"))
    of_query = example * T + query
    query_segment_block = tl.load(query_segment + of_query, mask=is_query, other=0)
    query_rank_block = tl.load(query_rank + of_query, mask=is_query, other=0)
    own_key_block = tl.load(own_key + of_query, mask=is_query, other=-1)
    if DROPPED > 0:
        query_hash, second = _hash_of_queries(dropout_keys, example, head, query)

    # Prepare the position scores, as in the forward pass.
    if IN_TILE:
        q_r_block = tl.load(q_r + query_cells, mask=is_query[:, None], other=0.0)
        k_r_head = k_r + head * H + example * (R * N * H)
        shift = BLOCK - rows[:, None] + columns[None, :]
        rotation = shift % BLOCK
        is_low = shift < BLOCK
        first = T - block * BLOCK - BLOCK
        low = _by_distance(k_r_head, q_r_block, first, N * H, dims, rotation, R, BLOCK)
    else:
        matrix = (example * N + head).to(tl.int64) * (T * R)
        first_of_row = tl.load(first_distance_index + of_query, mask=is_query, other=0)
        for start in range(0, R, BLOCK):  # zeros at the distances that no key has
            index = start + columns
            has_no_key = (index[None, :] < first_of_row[:, None]) | (
                index[None, :] >= first_of_row[:, None] + K
            )
            tl.store(
                d_by_distance + matrix + query[:, None] * R + index[None, :],
                tl.zeros([BLOCK, BLOCK], d_by_distance.dtype.element_ty),
                mask=has_no_key & is_query[:, None] & (index < R)[None, :],
            )
        start_of_row = query * R + first_of_row

    # The blocks of keys.
    d_q_w_block = tl.zeros([BLOCK, H], tl.float32)
    d_segment_score_block = tl.zeros([BLOCK], tl.float32)
    scale = 65536.0 / (65536 - DROPPED)
    square = (example * N + head).to(tl.int64) * (T * K)  # of [B,N,T,K]
    for start in range(0, K, BLOCK):
        key = start + columns
        is_key = key < K
        key_cells = (example * K + key[:, None]) * (N * H) + head * H + dims[None, :]
        k_block = tl.load(k + key_cells, mask=is_key[:, None], other=0.0)
        v_block = tl.load(v + key_cells, mask=is_key[:, None], other=0.0)
        of_key = example * K + key
        key_rank_block = tl.load(key_rank + of_key, mask=is_key, other=_HIDDEN_RANK)
        key_segment_block = tl.load(key_segment + of_key, mask=is_key, other=0)
        is_cell = is_query[:, None] & is_key[None, :]
        if IN_TILE:
            high = _by_distance(
                k_r_head,
                q_r_block,
                first + BLOCK + start,
                N * H,
                dims,
                rotation,
                R,
                BLOCK,
            )
            position = tl.where(is_low, low, high).to(tl.float32)
            low = high
        else:
            position = tl.load(
                by_distance + matrix + start_of_row[:, None] + key[None, :],
                mask=is_cell,
                other=0.0,
            ).to(tl.float32)
        is_same = query_segment_block[:, None] == key_segment_block[None, :]
        score = _score(
            q_w_block,
            k_block,
            position,
            segment_score_block,
            is_same,
            _is_visible(query_rank_block, own_key_block, key_rank_block, key),
        )
        probability = tl.exp2(score - log_sum_block[:, None])

        # The gradient goes back through dropout and the softmax to the score.
        d_probability = tl.dot(d_output_block, tl.trans(v_block))
        after_dropout = probability
        if DROPPED > 0:
            kept = _kept(query_hash, second, key, DROPPED)
            after_dropout = tl.where(kept, probability * scale, 0.0)
            d_probability = tl.where(kept, d_probability * scale, 0.0)
        d_score = probability * (d_probability - expected[:, None])
        d_segment_score_block += tl.sum(tl.where(is_same, d_score, 0.0), 1)
        narrow = d_score.to(q_w_block.dtype)
        d_q_w_block = tl.dot(narrow, k_block, d_q_w_block)

        # Write the terms of which the gradients of keys, values and distances are sums.
        cells = query[:, None] * K + key[None, :]
        narrow_probability = after_dropout.to(probabilities.dtype.element_ty)
        tl.store(probabilities + square + cells, narrow_probability, mask=is_cell)
        tl.store(d_scores + square + cells, narrow, mask=is_cell)
        if not IN_TILE:
            tl.store(
                d_by_distance + matrix + start_of_row[:, None] + key[None, :],
                narrow,
                mask=is_cell,
            )

    tl.store(
        d_q_w + query_cells,
        d_q_w_block.to(d_q_w.dtype.element_ty),
        mask=is_query[:, None],
    )
    tl.store(d_segment_score + row, d_segment_score_block, mask=is_query)


@triton.jit
def distance_query_gradient(
    d_scores,
    k_r,
    d_q_r,
    T: tl.constexpr,
    K: tl.constexpr,
    R: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """d_q_r [B,T,N,H]: of query i the sum over distances r of d_scores[i, r - T + i] k_r[r]."""
    block, head, example = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    dims = tl.arange(0, H)
    query = block * BLOCK + tl.arange(0, BLOCK)
    d_scores_head = d_scores + (example * N + head).to(tl.int64) * (T * K)
    k_r_head = k_r + head * H + example * (R * N * H)
    sums = tl.zeros([BLOCK, H], tl.float32)
    first = tl.maximum(T - block * BLOCK - BLOCK, 0)
    for start in range(0, K + BLOCK, BLOCK):
        index = first + start + tl.arange(0, BLOCK)
        key = index[None, :] - T + query[:, None]
        cells = tl.load(
            d_scores_head + query[:, None] * K + key,
            mask=(key >= 0) & (key < K) & (query < T)[:, None],
            other=0.0,
        )
        keys = tl.load(
            k_r_head + index[:, None] * (N * H) + dims[None, :],
            mask=(index < R)[:, None],
            other=0.0,
        )
        sums = tl.dot(cells, keys, sums)
    query_cells = (example * T + query[:, None]) * (N * H) + head * H + dims[None, :]
    tl.store(
        d_q_r + query_cells, sums.to(d_q_r.dtype.element_ty), mask=(query < T)[:, None]
    )


@triton.jit
def distance_key_gradient(
    d_scores,
    q_r,
    d_k_r,
    T: tl.constexpr,
    K: tl.constexpr,
    R: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """d_k_r [B,R,N,H]: of distance r the sum over queries i of d_scores[i, r - T + i] q_r[i]."""
    block, head, example = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    dims = tl.arange(0, H)
    index = block * BLOCK + tl.arange(0, BLOCK)
    d_scores_head = d_scores + (example * N + head).to(tl.int64) * (T * K)
    sums = tl.zeros([BLOCK, H], tl.float32)
    # The queries that have a key at one of these distances: 0 <= r - T + i < K.
    begin = tl.maximum(T - (block * BLOCK + BLOCK - 1), 0) // BLOCK * BLOCK
    end = tl.minimum(K + T - block * BLOCK, T)
    for start in tl.range(begin, end, BLOCK):
        query = start + tl.arange(0, BLOCK)
        key = index[:, None] - T + query[None, :]
        cells = tl.load(
            d_scores_head + query[None, :] * K + key,
            mask=(key >= 0) & (key < K) & (query < T)[None, :],
            other=0.0,
        )  # [distances, queries]
        queries = tl.load(
            q_r + (example * T + query[:, None]) * (N * H) + head * H + dims[None, :],
            mask=(query < T)[:, None],
            other=0.0,
        )
        sums = tl.dot(cells, queries, sums)
    distance_cells = (example * R + index[:, None]) * (N * H) + head * H + dims[None, :]
    tl.store(
        d_k_r + distance_cells,
        sums.to(d_k_r.dtype.element_ty),
        mask=(index < R)[:, None],
    )


# ---- compiling, in a process of its own: Triton and TensorFlow each bring an LLVM ----


def compile_program(
    name: str,
    types: list[str],
    constants: dict[str, Union[int, bool]],
    capability: int,
    warps: int,
    stages: int,
    ptx_version: int,
) -> dict[str, Any]:
    """Compiles one program; needs no GPU.

    Args:
      name: of the program in `fused_attention`.
      types: Triton's types of its pointers, such as "*bf16", in their order.
      constants: values of its constants; it has those that it names.
      capability: of the GPU, 90 for an H100.
      warps: 32 threads each, that run a block together.
      stages: how many iterations of a loop load their data at once.
      ptx_version: 85 for PTX 8.5.

    Returns:
      name: of the entry. ptx: the code. threads and shared_bytes: of a block. num_parameters: how
      many pointers the entry takes.
    """
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = globals()[name]
    signature, values, alignment = {}, {}, {}
    pointer_types = iter(types)
    for index, argument in enumerate(function.arg_names):
        if argument in constants:
            signature[argument] = "constexpr"
            values[(index,)] = constants[argument]
        else:
            signature[argument] = next(pointer_types)
            alignment[(index,)] = [["tt.divisibility", 16]]  # XLA aligns its buffers
    kernel = triton.compile(
        ASTSource(fn=function, signature=signature, constexprs=values, attrs=alignment),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": warps, "num_stages": stages, "ptx_version": ptx_version},
    )
    ptx = kernel.asm["ptx"]
    start = ptx.index(".entry")
    entry = ptx[start : ptx.index(")", start)]
    return {
        "name": kernel.metadata.name,
        "ptx": ptx,
        "threads": 32 * kernel.metadata.num_warps,
        "shared_bytes": kernel.metadata.shared,
        "num_parameters": entry.count(".param"),
    }


# python -m xlnet.model.fused_attention < arguments.json > program.json
if __name__ == "__main__":
    json.dump(compile_program(**json.load(sys.stdin)), sys.stdout)
