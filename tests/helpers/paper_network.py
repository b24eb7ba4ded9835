"""XLNet in NumPy, written from the paper, for one sequence at a time: an independent oracle.

Every distance has its own vector, nothing is shifted, and all of it is float64. Letters as in
`xlnet/network/modeling.py`, without the batch. `w`: the weights, by their names in a checkpoint
after `model/transformer/`.
"""

import math

import numpy as np

ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_erf": lambda x: x / 2 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))),
}


def network(
    w, config, ids, masked, memories, segments=None, targets=None, backward=False, clamp_len=-1
):
    """The last layer's output for the targets [P,D], or for all positions [Q,D] without targets;
    and the input of each layer [L,Q,D], of which memories are made.

    masked: bool [Q,K], True where position i may not see key j, as the query stream has it.
    memories: [L,M,D]. segments: int [Q]. targets: int [P].
    """
    length, memory = len(ids), len(memories[0])
    distances = np.arange(length)[:, None] + memory - np.arange(memory + length)[None]  # [Q,K]
    itself = distances == 0
    distances = -distances if backward else distances
    distances = distances.clip(-clamp_len, clamp_len) if clamp_len > 0 else distances
    angles = distances[..., None] / 10000 ** (np.arange(0, config.d_model, 2) / config.d_model)
    positions = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)  # [Q,K,D]
    other = (
        None
        if segments is None
        # memory is in segment 0
        else (segments[:, None] != np.concatenate([np.zeros(memory, int), segments])[None])
    )  # [Q,K]
    everyone = np.arange(length)
    h = w["word_embedding/lookup_table"][ids]  # content stream   [Q,D]
    g = (
        None
        if targets is None
        # query stream     [P,D]
        else (np.repeat(w["mask_emb/mask_emb"][0], len(targets), axis=0))
    )
    inputs = []
    for layer in range(config.n_layer):
        inputs.append(h)
        keys = np.concatenate([memories[layer], h])  # both streams read h, not g
        arguments = w, config, layer, keys, positions, other
        if g is not None:
            g = one_layer(*arguments, g, targets, masked)
        h = one_layer(*arguments, h, everyone, masked & ~itself)  # h sees its own token
    return (h if g is None else g), np.array(inputs)


def one_layer(w, config, layer, keys, positions, other, x, rows, masked):
    """Attention and feed-forward layer of x [T,D], whose positions in the sequence are `rows`."""

    def weight(name, stacked=False):
        if stacked:  # one for all layers, unless they are untied
            return w[name][layer] if config.untie_r or name == "seg_embed" else w[name]
        return w[f"layer_{layer}/{name}"]

    q, k, v = (
        np.einsum("td,dnh->tnh", y, weight(f"rel_attn/{name}/kernel"))
        for name, y in (("q", x), ("k", keys), ("v", keys))
    )
    r = np.einsum("tkd,dnh->tknh", positions[rows], weight("rel_attn/r/kernel"))
    # The score of query i and key j: content, then position, then segment.
    score = np.einsum("tnh,knh->ntk", q + weight("r_w_bias", True), k) + np.einsum(
        "tnh,tknh->ntk", q + weight("r_r_bias", True), r
    )
    if other is not None:
        s = weight("seg_embed", True)[other[rows].astype(int)]  # [T,K,N,H]
        score += np.einsum("tnh,tknh->ntk", q + weight("r_s_bias", True), s)
    p = np.exp(score / math.sqrt(config.d_head)) * ~masked[rows]
    p = p / np.where(p.any(axis=-1, keepdims=True), p.sum(axis=-1, keepdims=True), 1)  # none: 0
    attended = np.einsum("ntk,knh,dnh->td", p, v, weight("rel_attn/o/kernel"))
    x = layer_norm(
        x + attended, weight("rel_attn/LayerNorm/gamma"), weight("rel_attn/LayerNorm/beta")
    )
    inner = ACTIVATIONS[config.ff_activation](
        x @ weight("ff/layer_1/kernel") + weight("ff/layer_1/bias")
    )
    fed = inner @ weight("ff/layer_2/kernel") + weight("ff/layer_2/bias")
    return layer_norm(x + fed, weight("ff/LayerNorm/gamma"), weight("ff/LayerNorm/beta"))


def layer_norm(x, gamma, beta):
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    return normal * gamma + beta
