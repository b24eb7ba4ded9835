"""The XLNet network: a Transformer-XL with two-stream relative attention (paper, section 2).

Read from top to bottom: what a position sees (masks), how far away it is (relative positions),
what is in its segment, attention over all three, the layer, the stack, the summary.

Shape letters: B batch, Q positions of the window, M remembered positions, K = M + Q keys,
P prediction slots, R = K + Q relative distances, D d_model, N heads, H d_head, F d_inner,
S segment ids, V vocabulary, L layers.

Variable names and shapes are those of the released checkpoints: they are the file format.
"""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from xlnet.config import RunConfig, XLNetConfig
from xlnet.network.attention import attend
from xlnet.network.noise import fold_in
from xlnet.network.ops import (
    ACTIVATIONS,
    NO_DROPOUT,
    Dropout,
    activated_dense,
    along_head_vector,
    built_once,
    count_to,
    dense,
    dense_after_memory,
    dense_back,
    dense_rows,
    dropout,
    gather_rows,
    in_rows,
    layer_norm,
    lookup,
    plus_head_bias,
    recomputed,
    shape_of,
)

NUM_SEGMENTS = 8        # segment ids are 0 ... 7; released models use 0 to 4
MASK_BIAS = -1e30    # added to the score of a hidden key; scores are always float32
# d_inner from which on the steps of a run gain more by `ops.loop` than it costs to compile it.
LOOPS_FROM = 1024
DTYPES = {"fp32": tf.float32, "bf16": tf.bfloat16, "fp16": tf.float16}

# The rows that predict (paper, section 2.3). `positions` [B,P] int: what each slot predicts;
# `weights` [B,P] float32: 0 switches a slot off. With `positions` None every position is a slot
# and `masked` [B,Q] float32 says which of them hide their token.
Query = collections.namedtuple("Query", "positions weights masked", defaults=(None, None, None))

# sequence: [B,P,D] of the query stream if there is one, else [B,Q,D] of the content stream.
# new_mems: list over layers of [B,M',D], or None. embedding_table: [V,D].
Outputs = collections.namedtuple("Outputs", "sequence new_mems embedding_table")


def transformer_xl(config: XLNetConfig, run: RunConfig, *, input_ids: tf.Tensor,
                   seg_ids: Optional[tf.Tensor] = None, direction: Optional[tf.Tensor] = None,
                   hidden: Optional[tf.Tensor] = None, mems: Optional[Sequence[tf.Tensor]] = None,
                   query: Optional[Query] = None, attn_type: str = "bi",
                   seed: Optional[tf.Tensor] = None,
                   first_row: Optional[tf.Tensor] = None) -> Outputs:
    """Runs the network in variable scope `transformer`.

    Args:
      config: `XLNetConfig`.
      run: `RunConfig`; its `bi_data` is not read, see `direction`.
      input_ids: int32 or int64 [B,Q], as are all whole numbers; int64 stays on a GPU, int32 is the
        host's.
      seg_ids: int [B,Q], 0 <= id < NUM_SEGMENTS; memory counts as segment 0. None: no segments.
      direction: int [B], 1 where the text runs backward. None: all forward.
      hidden: bool [B or 1, Q or 1, Q], True where i may not see j. The content stream sees itself
        all the same.
      mems: per layer [B,M,D], the memory of earlier windows, all of it visible, constants without
        gradients. None: M = 0.
      query: `Query`, or None for the content stream alone.
      attn_type: "bi", or "uni" for the causal Transformer-XL.
      first_row: an int or a scalar, the index of row 0 in the batch that dropout draws its noise
        for: a part of a batch then has the noise it has in the whole. None: no larger batch.
      seed: uint64 [1], see `noise`, makes dropout a function of it. Needed if `run.is_training` and
        a rate > 0.

    Returns:
      `Outputs`, float32; new memories in the number format of the matrix products.
    """
    net = Network(config, run, seed, first_row)
    with tf.variable_scope("transformer"):
        length, memory_length = shape_of(input_ids)[1], shape_of(mems[0])[1] if mems else 0
        hidden = _visibility(hidden, length, memory_length, attn_type, run.same_length)
        table, h, g = embed(net, input_ids, query)
        streams = _streams(hidden, seg_ids, query, length, memory_length)
        # "uni" has no distances to the right, but slots are shifted over all of them.
        has_slots = query is not None and query.positions is not None
        sinusoids = sinusoids_of(net, shape_of(input_ids)[0], length, memory_length,
                                 "bi" if has_slots else attn_type, direction)
        x = net.dropout(h if g is None else tf.concat([h, g], axis=1), run.dropout)  # [B,Q(+P),D]
        weights = layer_weights(net, with_segments=seg_ids is not None)
        layer_of = _layer_function(config, run)
        new_mems = []
        for layer in range(config.n_layer):
            memory = mems[layer] if mems else None
            new_mems.append(update_memory(x[:, :length], memory, run.mem_len, run.reuse_len))
            if layer == config.n_layer - 1 and g is not None:
                streams = streams[-1:]  # nobody reads the content stream above its last keys
            x = layer_of(_LayerInputs(net.layer_seed(layer), first_row, weights(layer), x, length,
                                      memory, streams, sinusoids))                # [B,rows,D]
        sequence = tf.cast(net.dropout(x, run.dropout), tf.float32)
    return Outputs(sequence, new_mems if run.mem_len else None, table)


class Network:
    """What every part of the network needs: sizes, rates, number format, variables, dropout."""

    def __init__(self, config: XLNetConfig, run: RunConfig, seed: Optional[tf.Tensor],
                 first_row: Optional[tf.Tensor] = None):
        self.config = config
        self.run = run
        self.seed = seed
        self.first_row = first_row
        assert run.precision, "a RunConfig has a number format from its making on"
        self.dtype = DTYPES[run.precision]
        self.in_loops = (run.is_training and not run.on_accelerator
                         and config.d_inner >= LOOPS_FROM)
        self._dropouts = 0

    def layer_seed(self, layer: int) -> Optional[tf.Tensor]:
        """The seed of a layer's dropouts; negative numbers keep it apart from our own."""
        if self.seed is None:
            return None
        return fold_in(self.seed, -1 - layer)

    def variable(self, name: str, shape: Sequence[int],
                 initializer: Optional[tf.initializers.Initializer] = None) -> tf.Tensor:
        """A float32 master weight, read in the compute dtype."""
        return self.cast(get_weight(name, shape, initializer or get_initializer(self.run)))

    def cast(self, x: tf.Tensor) -> tf.Tensor:
        return tf.cast(x, self.dtype)

    def dropout(self, x: tf.Tensor, rate: float, has_rows: bool = True) -> tf.Tensor:
        """Each call site draws its own noise, a pure function of the seed (and the row)."""
        drops = self.drops(rate, has_rows)
        return dropout(x, drops, self.in_loops) if drops.rate else x

    def drops(self, rate: float, has_rows: bool = True) -> Dropout:
        """One more dropout."""
        if not self.run.is_training or not rate:
            return NO_DROPOUT
        self._dropouts += 1
        return Dropout(rate, fold_in(self.seed, self._dropouts),
                       self.first_row if has_rows else None)


# ---- variables, small layers ----

def get_initializer(run: RunConfig) -> tf.initializers.Initializer:
    """The initializer of all kernels and embeddings, per `run.init`."""
    if run.init == "uniform":
        return tf.initializers.random_uniform(-run.init_range, run.init_range)
    return tf.initializers.random_normal(stddev=run.init_std)


def get_weight(name: str, shape: Sequence[int],
               initializer: tf.initializers.Initializer) -> tf.Tensor:
    """A float32 weight, read whole, at no cost: a gather from the variable itself would make later
    reads copy it."""
    return tf.convert_to_tensor(
        tf.get_variable(name, shape, tf.float32, initializer, use_resource=True))


# ---- tokens ----

def embed(net: Network, input_ids: tf.Tensor,
          query: Optional[Query]) -> tuple[tf.Tensor, tf.Tensor, Optional[tf.Tensor]]:
    """Returns the table [V,D], content embeddings h [B,Q,D], query embeddings g [B,P,D] or None.

    A prediction slot starts from one learned vector: it must not know its own token.
    """
    config = net.config
    with tf.variable_scope("word_embedding"):
        table = get_weight("lookup_table", [config.n_token, config.d_model],
                           get_initializer(net.run))
    h = net.cast(lookup(table, input_ids))
    if query is None:
        return table, h, None
    with tf.variable_scope("mask_emb"):
        mask_embedding = net.variable("mask_emb", [1, 1, config.d_model])
    if query.positions is None:
        masked = net.cast(query.masked)[:, :, None]
        return table, h, masked * mask_embedding + (1. - masked) * h
    batch, slots = shape_of(query.positions)
    return table, h, tf.broadcast_to(mask_embedding, [batch, slots, config.d_model])


# ---- what a position may see ----

def permutation_mask(rank: tf.Tensor, is_target: tf.Tensor) -> tf.Tensor:
    """Turns ranks in the factorization order into `hidden` (paper, section 2.3).

    Args:
      rank: int [B,Q], -1 for tokens that everyone may see.
      is_target: bool [B,Q], the predicted tokens.

    Returns:
      bool [B,Q,Q], True where i may not see j: `rank[i] + (0 if target else 1) <= rank[j]`.
      A target so sees neither itself nor what comes later; a special token sees itself.

    For the order 2, 0, 1 of three predicted tokens, rank = [1, 2, 0]: token 2 comes first and sees
    none of the three, token 0 sees token 2, token 1 sees both.
    """
    self_rank = rank + 1 - tf.cast(is_target, rank.dtype)
    return self_rank[:, :, None] <= rank[:, None, :]


def _causal_mask(length, memory_length, same_length):
    """bool [1,Q,K]: hides what follows and, with `same_length`, what is further than M away."""
    place, key = _places(length, memory_length)
    hidden = key > place
    if same_length:
        hidden |= key < place - tf.cast(memory_length, tf.int64)
    return hidden[None]


def _visibility(hidden, length, memory_length, attn_type, same_length):
    """Extends `hidden` to the keys: returns bool [B or 1, Q or 1, K], or None if all is visible."""
    if attn_type not in ("bi", "uni"):
        raise ValueError("attn_type is %r, expected bi or uni" % (attn_type,))
    if hidden is not None:
        hidden = tf.pad(hidden, [[0, 0], [0, 0], [memory_length, 0]])  # pads False: visible
    if attn_type == "uni":
        causal = _causal_mask(length, memory_length, same_length)
        hidden = causal if hidden is None else hidden | causal
    return hidden


# ---- the two streams ----

# One stream: how many rows of x it has, behind those of the stream before, and what they see.
# score_bias: [B or 1,1,rows,K] or None. segments, key_segments: one-hot [B,1,rows,S] and [B,1,K,S],
# or None. first_distance [B,P]: the index of the distance between each row and the first key, None:
# Q - i for row i. weights: as in Query.
_Stream = collections.namedtuple(
    "_Stream", "is_query length score_bias segments key_segments first_distance weights")


def _streams(hidden, seg_ids, query, length, memory_length):
    """The content stream and, if there is a query, the query stream."""
    segments = key_segments = None
    if seg_ids is not None:
        # Memory counts as segment 0.
        of_memory = tf.zeros([shape_of(seg_ids)[0], memory_length], seg_ids.dtype)
        key_ids = tf.concat([of_memory, seg_ids], axis=1)                         # [B,K]
        segments = tf.one_hot(seg_ids, NUM_SEGMENTS)[:, None]                     # [B,1,Q,S]
        key_segments = tf.one_hot(key_ids, NUM_SEGMENTS)[:, None]                 # [B,1,K,S]
    content_hidden = None if hidden is None else hidden & _others(length, memory_length)
    streams = [_Stream(False, length, _score_bias(content_hidden), segments, key_segments, None,
                       None)]
    if query is not None and query.positions is None:
        streams.append(streams[0]._replace(is_query=True, score_bias=_score_bias(hidden)))
    elif query is not None:
        rows = None if hidden is None else _gather_rows(hidden, query.positions)  # [B,P,K]
        slot_segments = None if segments is None else _gather_rows(segments[:, 0],
                                                                   query.positions)[:, None]
        # slot_segments [B,1,P,S]
        streams.append(_Stream(True, shape_of(query.positions)[1], _score_bias(rows),
                               slot_segments, key_segments, length - query.positions,
                               query.weights))
    return streams


def _others(length, memory_length):
    """bool [Q,K]: False where a position meets itself."""
    place, key = _places(length, memory_length)
    return tf.not_equal(key, place)


def _places(length, memory_length):
    """Where each position stands among the keys, int64 [Q,1], and the keys, [1,K]."""
    place = count_to(length, tf.int64)[:, None] + tf.cast(memory_length, tf.int64)
    return place, count_to(memory_length + length, tf.int64)[None, :]


def _gather_rows(x, positions):
    """Rows `positions` [B,P] of x [B or 1, Q or 1, ...]: [B,P,...]."""
    batch = shape_of(positions)[0]
    x = tf.broadcast_to(x, tf.concat([[batch], tf.shape(x)[1:]], axis=0))
    if x.shape[1] == 1:
        return x
    return tf.gather(x, positions, batch_dims=1)


def _score_bias(hidden):
    return None if hidden is None else tf.cast(hidden, tf.float32)[:, None] * MASK_BIAS


# ---- how far away it is ----

def relative_distances(length: int, memory_length: int, attn_type: str,
                       clamp_len: int) -> tf.Tensor:
    """float32 [R]: from K down to -Q+1 ("bi") or to 0 ("uni"), clipped to ±clamp_len if > 0."""
    first = memory_length + length
    count = first + (1 if attn_type == "uni" else length)
    distances = tf.cast(first, tf.float32) - count_to(count, tf.float32)
    return tf.clip_by_value(distances, -clamp_len, clamp_len) if clamp_len > 0 else distances


def sinusoids_of(net: Network, batch: Any, length: Any, memory_length: Any, attn_type: str,
                 direction: Optional[tf.Tensor]) -> tuple[Any, Any, Any]:
    """Sinusoids of the relative distances: sine half [R,D/2], cosine half [R,D/2], sign.

    Computed in float32: bfloat16 cannot tell large distances apart. Backward text has negated
    distances; as the cosine is even and the sine odd, only the sine half changes sign, so that
    position keys are projected once for both directions. sign: [B,1,1,1] or None. The halves are
    [B,R,D/2] where each row of the batch drops elements of its own.
    """
    halves = net.config.d_model // 2
    frequencies = 1. / 10000. ** (2. * count_to(halves, tf.float32) / net.config.d_model)
    distances = relative_distances(length, memory_length, attn_type, net.run.clamp_len)   # [R]
    angles = distances[:, None] * frequencies[None, :]                                # [R,D/2]
    sine, cosine = (_drop_positions(net, net.cast(wave(angles)), batch)
                    for wave in (tf.sin, tf.cos))
    sign = None if direction is None else net.cast(1 - 2 * direction)[:, None, None, None]
    return sine, cosine, sign


def _drop_positions(net, wave, batch):
    """Dropout of a half of the sinusoids [R,D/2] as `run.position_dropout` says.

    "row", as in the published code, makes position keys [B,...] and so multiplies the work of their
    projection by B.
    """
    if net.run.position_dropout == "none":
        return wave
    if net.run.position_dropout == "batch":
        return net.dropout(wave, net.run.dropout, has_rows=False)
    return net.dropout(tf.tile(wave[None], [batch, 1, 1]), net.run.dropout)


def position_keys(net: Network, kernel: tf.Tensor, sinusoids: tuple[Any, Any, Any]) -> tf.Tensor:
    """Projects the sinusoids by kernel [D,N*H]: [B or 1,N,R,H]."""
    sine, cosine, sign = sinusoids
    sine, cosine = (split_heads(dense(half if len(half.shape) == 3 else half[None], part),
                                net.config)
                    for half, part in zip((sine, cosine), tf.split(kernel, 2, axis=0)))
    return cosine + (sine if sign is None else sign * sine)


# ---- attention ----

def _head_kernel(net, name):
    """A projection kernel `[D,N,H]`, read as a matrix [D,N*H]."""
    config = net.config
    with tf.variable_scope(name):
        kernel = net.variable("kernel", [config.d_model, config.n_head, config.d_head])
    return tf.reshape(kernel, [config.d_model, config.n_head * config.d_head])


def split_heads(x: tf.Tensor, config: XLNetConfig) -> tf.Tensor:
    """[B,T,N*H] -> [B,N,T,H]."""
    batch, length, _ = shape_of(x)
    return tf.transpose(tf.reshape(x, [batch, length, config.n_head, config.d_head]), [0, 2, 1, 3])


def merge_heads(x: tf.Tensor) -> tf.Tensor:
    """[B,N,T,H] -> [B,T,N*H]."""
    batch, heads, length, width = shape_of(x)
    return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [batch, length, heads * width])


# What a layer learns, in the compute dtype except for the norms. q k v r o: [D,N*H]; norms: (gamma,
# beta), each [D], float32; inner, outer: (kernel, bias) of the feed-forward layer; r_w, r_r, r_s,
# segment_difference: [N,1,H], the last two None without segments.
_Weights = collections.namedtuple(
    "_Weights", "q k v r o attention_norm inner outer feed_forward_norm "
    "r_w r_r r_s segment_difference")


def _dense_weights(net, scope, width_in, width_out):
    """Kernel [width_in,width_out] and bias [width_out]."""
    with tf.variable_scope(scope):
        return (net.variable("kernel", [width_in, width_out]),
                net.variable("bias", [width_out], tf.initializers.zeros()))


def _norm_weights(net):
    """Gamma and beta of a layer norm, float32 [D] each."""
    with tf.variable_scope("LayerNorm"):
        beta = get_weight("beta", [net.config.d_model], tf.initializers.zeros())
        gamma = get_weight("gamma", [net.config.d_model], tf.initializers.ones())
    return gamma, beta


def layer_weights(net: Network, with_segments: bool) -> Callable[[int], _Weights]:
    """Returns a function of the layer that gives its `_Weights`, variables in `layer_<i>`."""
    biases = _attention_biases(net, with_segments)

    def of_layer(layer):
        with tf.variable_scope("layer_%d" % layer):
            with tf.variable_scope("rel_attn"):
                q, k, v, r, o = (_head_kernel(net, name) for name in "qkvro")
                attention_norm = _norm_weights(net)
            with tf.variable_scope("ff"):
                inner = _dense_weights(net, "layer_1", net.config.d_model, net.config.d_inner)
                outer = _dense_weights(net, "layer_2", net.config.d_inner, net.config.d_model)
                norm = _norm_weights(net)
        return _Weights(q, k, v, r, o, attention_norm, inner, outer, norm, *biases(layer))
    return of_layer


def _attention_biases(net, with_segments):
    """Returns a function of the layer: r_w, r_r, r_s and segment_difference, each [N,1,H].

    Untied (`untie_r`), a layer has its own; seg_embed is always the layer's own.
    """
    config = net.config
    heads = [config.n_head, config.d_head]

    def of_layers(name):
        """A bias [N,1,H] for each layer."""
        if config.untie_r:
            return tf.unstack(net.variable(name, [config.n_layer] + heads)[:, :, None])
        return [net.variable(name, heads)[:, None]] * config.n_layer

    names = ["r_w_bias", "r_r_bias"] + ["r_s_bias"] * with_segments
    stored = [of_layers(name) for name in names]
    if with_segments:
        seg_embed = net.variable("seg_embed", [config.n_layer, 2] + heads)
        stored.append(tf.unstack((seg_embed[:, 0] - seg_embed[:, 1])[:, :, None]))
    missing = [] if with_segments else [None, None]
    return lambda layer: [biases[layer] for biases in stored] + missing


# What a layer computes from. seed uint64 [1] or None, first_row: of its dropouts. weights:
# `_Weights`. x: [B,Q(+P),D], the content stream, Q = length of it, first. memory: [B,M,D] or None.
# streams: list of `_Stream`, the rows that are wanted. sinusoids: see `sinusoids_of`.
_LayerInputs = collections.namedtuple(
    "_LayerInputs", "seed first_row weights x length memory streams sinusoids")


def _layer_function(config: XLNetConfig, run: RunConfig) -> Callable[[_LayerInputs], tf.Tensor]:
    """`_layer`; with `run.recompute` the backward pass runs it again."""
    function = functools.partial(_layer, config, run)
    if run.is_training and run.recompute:
        function = functools.partial(recomputed, function)
    return built_once(function) if run.built_once else function


def _layer(config, run, inputs):
    """One layer: attention, then the feed-forward part: `_LayerInputs` -> [B,rows,D].

    Reads no variables, and its noise comes from a seed among the inputs, so that it can be built
    once for all layers, and run again in the backward pass.
    """
    net = Network(config, run, inputs.seed, inputs.first_row)
    x, streams, weights = inputs.x, inputs.streams, inputs.weights
    slots = streams[-1].length if streams[-1].is_query else None
    keys = dense_after_memory(inputs.memory, x, slots, [weights.k, weights.v])
    if streams[0].is_query:     # it alone
        x = x[:, inputs.length:]                                                  # [B,P,D]
    x = _relative_attention(net, weights, x, keys, streams, inputs.sinusoids)
    return feed_forward(net, weights, x)


def _relative_attention(net, weights, x, keys, streams, sinusoids):
    """One attention sub-layer over the rows of all streams; x [B,rows,D] -> [B,rows,D]. keys: what
    is projected of memory and content stream as keys and as values, [B,K,N*H] each.

    Content and query stream share every parameter and the keys; they differ in what they see.
    """
    config = net.config
    scale = 1. / math.sqrt(config.d_head)
    q = split_heads(dense(x, weights.q) * scale, config)           # [B,N,rows,H]
    k, v = (split_heads(x, config) for x in keys)                  # [B,N,K,H]
    k_r = position_keys(net, weights.r, sinusoids)            # [B or 1,N,R,H]
    k = _wide_keys(net, k, weights.r_w * scale, streams[0].key_segments)          # [B,N,K,H+1(+S)]
    parts = tf.split(q, [stream.length for stream in streams], axis=2)
    heads = [_attend_stream(net, part, k, v, k_r, stream, weights, scale)
             for part, stream in zip(parts, streams)]
    merged = merge_heads(heads[0] if len(heads) == 1 else tf.concat(heads, axis=2))
    output = dense_back(merged, weights.o)
    return layer_norm(x + net.dropout(output, net.run.dropout), *weights.attention_norm)


def _wide_keys(net, k, r_w, key_segments):
    """The keys, r_w k beside each, and its segment as a one-hot vector: see `_attend_stream`."""
    wide = [k, along_head_vector(k, r_w)]
    if key_segments is not None:
        wide.append(tf.broadcast_to(net.cast(key_segments), shape_of(k)[:3] + [NUM_SEGMENTS]))
    return tf.concat(wide, axis=-1)


def _attend_stream(net, q, k, v, k_r, stream, weights, scale):
    """Attention of one stream (paper, section 2.5 and appendix A.2): [B,N,rows,H].

    score = q k + r_w k + shift((q + r_r) k_r) + segment, with q and the biases r over sqrt(H).

    Segment: (q + r_s) times the vector for "same" or "different". Softmax ignores what is equal
    for all keys of a row, so it is (q + r_s)(same - different) where the segments agree, else 0.

    One product adds three of these: of [q, 1, segment term beside a one-hot of the row's segment]
    and the keys of `_wide_keys`.
    """
    wide = [q, tf.ones(shape_of(q)[:3] + [1], q.dtype)]
    if stream.segments is not None:
        towards_same = weights.segment_difference
        same = along_head_vector(q, towards_same) + scale * tf.reduce_sum(     # [B,N,rows,1]
            weights.r_s * towards_same, axis=-1, keepdims=True)
        wide.append(same * net.cast(stream.segments))
    q_w = tf.concat(wide, axis=-1)                                             # as wide as k
    q_r = plus_head_bias(q, weights.r_r * scale)                               # [B,N,rows,H]
    heads = attend(q_w, q_r, k, v, k_r, stream.score_bias, first_distance=stream.first_distance,
                   recompute=net.run.recompute, on_accelerator=net.run.on_accelerator,
                   drops=net.drops(net.run.dropatt), in_loops=net.in_loops)
    return heads if stream.weights is None else heads * net.cast(stream.weights)[:, None, :, None]


# ---- the layer's other half, the recurrence ----

def feed_forward(net: Network, weights: _Weights, x: tf.Tensor) -> tf.Tensor:
    """Position-wise feed-forward sub-layer; [B,rows,D] -> [B,rows,D]."""
    infer, train = ACTIVATIONS[net.config.ff_activation]
    if net.run.is_training:
        kernel, bias = weights.outer
        output = activated_dense(dense(x, *weights.inner), kernel, bias, train,
                                 net.drops(net.run.dropout), net.in_loops)
    else:
        inner = dense_rows(in_rows(x), *weights.inner)                            # [B*rows,F]
        output = tf.reshape(dense_rows(infer(inner), *weights.outer), shape_of(x))
    output = net.dropout(output, net.run.dropout)
    return layer_norm(x + output, *weights.feed_forward_norm)


def update_memory(h: tf.Tensor, memory: Optional[tf.Tensor], mem_len: Optional[int],
                  reuse_len: Optional[int]) -> Optional[tf.Tensor]:
    """The memory for the next window (Transformer-XL, section 3.2).

    The first `reuse_len` positions of the layer's input h [B,Q,D] (None: all) follow the old memory
    [B,M,D]; the last `mem_len` are kept, as numbers without gradient. None if `mem_len` is.
    """
    if not mem_len:
        return None
    new = h[:, :reuse_len] if reuse_len else h
    if memory is not None:
        new = tf.concat([tf.cast(memory, h.dtype), new], axis=1)
    return tf.stop_gradient(new[:, -mem_len:])


# ---- summary ----

def summarize(config: XLNetConfig, run: RunConfig, sequence: tf.Tensor, *,
              summary_type: str = "last", padding: Optional[tf.Tensor] = None,
              use_proj: bool = True, seed: Optional[tf.Tensor] = None,
              first_row: Optional[tf.Tensor] = None, scope: str = "sequnece_summary") -> tf.Tensor:
    """One vector per example, variables under `scope`.

    Args:
      sequence: float32 [B,Q,D].
      summary_type: "last" position, "first", "mean", or "attn" (attention by one learned query).
      padding: [B,Q], 1 is padding: "first" is then the first real token, and "mean" and "attn"
        leave padding out. None: all positions count, as in the reference.
      use_proj: adds a dense tanh layer.
      seed, first_row: as in `transformer_xl`.
      scope: misspelt in the released checkpoints, and so for good.

    Returns:
      float32 [B,D].
    """
    # The network's dropouts fold in 1, 2, ...; folding in 0 first keeps this noise apart.
    seed = None if seed is None else fold_in(seed, 0)
    net = Network(config, run, seed, first_row)
    net.dtype = tf.float32
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE):
        summary = _summary(net, sequence, summary_type, padding)
        if use_proj:
            weights = _dense_weights(net, "summary", config.d_model, config.d_model)
            summary = tf.tanh(dense(summary, *weights))
        return net.dropout(summary, run.dropout)


def _summary(net, sequence, summary_type, padding):
    if summary_type == "last":
        return sequence[:, -1]
    if summary_type == "first":
        if padding is None:
            return sequence[:, 0]
        return gather_rows(sequence, tf.argmin(padding, axis=1)[:, None])[:, 0]
    if summary_type == "mean":
        if padding is None:
            return tf.reduce_mean(sequence, axis=1)
        real = 1. - tf.cast(padding, tf.float32)
        return tf.matmul(real[:, None], sequence)[:, 0] / tf.reduce_sum(real, axis=1, keepdims=True)
    if summary_type == "attn":
        return _attention_summary(net, sequence, padding)
    raise ValueError("summary_type is %r, expected last, first, mean or attn" % (summary_type,))


def _attention_summary(net, sequence, padding):
    """Plain multi-head attention with one learned query: [B,Q,D] -> [B,D]."""
    config = net.config
    query = net.variable("summary_bias", [config.d_model])
    query = tf.broadcast_to(query[None, None], [shape_of(sequence)[0], 1, config.d_model])
    with tf.variable_scope("abs_attn"):
        q, k, v = (split_heads(dense(x, _head_kernel(net, name)), config)
                   for name, x in (("q", query), ("k", sequence), ("v", sequence)))
        score = tf.matmul(q, k, transpose_b=True) / math.sqrt(config.d_head)
        if padding is not None:
            score += _score_bias(tf.cast(padding, tf.bool)[:, None])
        probability = net.dropout(tf.nn.softmax(score), net.run.dropatt)
        merged = merge_heads(tf.matmul(probability, v))[:, 0]
        output = net.dropout(dense_back(merged, _head_kernel(net, "o")), net.run.dropout)
        return layer_norm(output, *_norm_weights(net))
