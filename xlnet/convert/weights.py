"""Weights by our names and by those of Hugging Face's library, converted bit for bit.

Apart from names, two things differ. A dense kernel [I,O] here is a weight [O,I] there. Attention
biases and segment vectors are stacked over the layers here, and a tensor of each layer there; with
tied biases (`untie_r` False) all layers there have the same numbers.

Shape letters: V vocabulary, L layers, D d_model, N heads, H d_head, F d_inner, C outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xlnet.errors import UserError
from xlnet.settings.network import XLNetConfig

# Parts of a class of that library in addition to the network.
LM, SUMMARY, SEQUENCE, CHOICE, TOKENS, SPANS, SIMPLE_SPANS = (
    "lm",
    "summary",
    "sequence",
    "choice",
    "tokens",
    "spans",
    "simple_spans",
)

MASK_EMBEDDING = "model/transformer/mask_emb/mask_emb"
LM_BIAS = "model/lm_loss/bias"
_TIED_OUTPUT = "lm_loss.weight"  # in old files there: a copy of the word embedding
_BIASES = ("r_w_bias", "r_r_bias", "r_s_bias")

# How a variable of ours is stored there.
_SAME, _TRANSPOSED = "same", "transposed"
_STACKED = "stacked"  # [L,...] over the L tensors of the layers
_TIED = "tied"  # each of the L tensors is equal to it


class Pair(NamedTuple):
    """A variable of ours, its tensor there, or one for each layer, and its shape here."""

    ours: str
    theirs: tuple[str, ...]
    shape: tuple[int, ...]
    layout: str = _SAME

    @property
    def their_shape(self) -> tuple[int, ...]:
        """The shape of each of their tensors."""
        if self.layout == _TRANSPOSED:
            return self.shape[::-1]
        return self.shape[1:] if self.layout == _STACKED else self.shape


def pairs(
    config: XLNetConfig,
    parts: Iterable[str],
    scope: str = "",
    outputs: int = 1,
    prefix: str = "transformer.",
) -> list[Pair]:
    """The `Pair`s of the network and of its further parts (the constants above).

    SEQUENCE and TOKENS have the name of our output layer, `scope`, and its C `outputs`; `prefix`
    begins the names of their network's tensors.
    """
    ours = "model/transformer/"
    D, heads = config.d_model, (config.n_head, config.d_head)
    layers = [f"{prefix}layer.{i}." for i in range(config.n_layer)]
    found = [
        Pair(
            ours + "word_embedding/lookup_table",
            (prefix + "word_embedding.weight",),
            (config.n_token, D),
        ),
        Pair(MASK_EMBEDDING, (prefix + "mask_emb",), (1, 1, D)),
    ]
    for name in _BIASES:
        theirs = tuple(layer + "rel_attn." + name for layer in layers)
        found.append(
            Pair(ours + name, theirs, (config.n_layer, *heads), _STACKED)
            if config.untie_r
            else Pair(ours + name, theirs, heads, _TIED)
        )
    # Segment vectors are never tied.
    found.append(
        Pair(
            ours + "seg_embed",
            tuple(layer + "rel_attn.seg_embed" for layer in layers),
            (config.n_layer, 2, *heads),
            _STACKED,
        )
    )
    for i, layer in enumerate(layers):
        found += _layer(f"{ours}layer_{i}/", layer, D, heads, config.d_inner)
    return found + [pair for part in parts for pair in _PARTS[part](config, scope, outputs)]


def _layer(ours: str, theirs: str, D: int, heads: tuple[int, int], F: int) -> list[Pair]:
    attention = [
        Pair(f"{ours}rel_attn/{name}/kernel", (f"{theirs}rel_attn.{name}",), (D, *heads))
        for name in "qkvro"
    ]
    return [
        *attention,
        *_norm(ours + "rel_attn/LayerNorm", theirs + "rel_attn.layer_norm", D),
        *_dense(ours + "ff/layer_1", theirs + "ff.layer_1", D, F),
        *_dense(ours + "ff/layer_2", theirs + "ff.layer_2", F, D),
        *_norm(ours + "ff/LayerNorm", theirs + "ff.layer_norm", D),
    ]


def _norm(ours: str, theirs: str, D: int) -> list[Pair]:
    return [
        Pair(ours + "/gamma", (theirs + ".weight",), (D,)),
        Pair(ours + "/beta", (theirs + ".bias",), (D,)),
    ]


def _dense(ours: str, theirs: str, size_in: int, size_out: int, bias: bool = True) -> list[Pair]:
    kernel = Pair(ours + "/kernel", (theirs + ".weight",), (size_in, size_out), _TRANSPOSED)
    return [kernel, Pair(ours + "/bias", (theirs + ".bias",), (size_out,))] if bias else [kernel]


def _spans(config: XLNetConfig, scope: str, outputs: int) -> list[Pair]:
    D = config.d_model
    return [
        *_dense("start_logits/dense", "start_logits.dense", D, 1),
        *_dense("end_logits/dense_0", "end_logits.dense_0", 2 * D, D),
        *_norm("end_logits/LayerNorm", "end_logits.LayerNorm", D),
        *_dense("end_logits/dense_1", "end_logits.dense_1", D, 1),
        *_dense("answer_class/dense_0", "answer_class.dense_0", 2 * D, D),
        *_dense("answer_class/dense_1", "answer_class.dense_1", D, 1, bias=False),
    ]


_PARTS = {
    LM: lambda config, scope, outputs: [Pair(LM_BIAS, ("lm_loss.bias",), (config.n_token,))],
    SUMMARY: lambda config, scope, outputs: _dense(
        "model/sequnece_summary/summary", "sequence_summary.summary", config.d_model, config.d_model
    ),
    SEQUENCE: lambda config, scope, outputs: _dense(
        f"model/{scope}/logit", "logits_proj", config.d_model, outputs
    ),
    CHOICE: lambda config, scope, outputs: _dense("logits/dense", "logits_proj", config.d_model, 1),
    TOKENS: lambda config, scope, outputs: _dense(
        f"model/{scope}/logit", "classifier", config.d_model, outputs
    ),
    SPANS: _spans,
    SIMPLE_SPANS: lambda config, scope, outputs: _dense(
        "model/span_logits/dense", "qa_outputs", config.d_model, 2
    ),
}


def biases_are_tied(
    tensors: Mapping[str, np.ndarray], config: XLNetConfig, prefix: str = "transformer."
) -> bool:
    """Whether the attention biases of all layers there are the same, as `untie_r` False asks."""
    # The pairs that are tied, with the names of all layers.
    tied = XLNetConfig(**dict(config.to_dict(), untie_r=False))
    return all(
        np.array_equal(tensors[name], tensors[pair.theirs[0]])
        for pair in pairs(tied, (), prefix=prefix)
        if pair.layout == _TIED
        for name in pair.theirs
        if name in tensors and pair.theirs[0] in tensors
    )


def to_ours(
    tensors: Mapping[str, np.ndarray], wanted: Iterable[Pair], source: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """(our variables, their names without a counterpart) from the tensors of `source`."""
    wanted = list(wanted)
    _check_names([name for pair in wanted for name in pair.theirs], tensors, source)
    weights = {}
    for pair in wanted:
        parts = [tensors[name] for name in pair.theirs]
        for name, part in zip(pair.theirs, parts):
            _check_shape(name, part.shape, pair.their_shape, source)
        if pair.layout == _STACKED:
            weights[pair.ours] = np.stack(parts)
        elif pair.layout == _TRANSPOSED:
            weights[pair.ours] = np.ascontiguousarray(parts[0].T)
        else:  # tied parts are equal
            weights[pair.ours] = parts[0]
    # Tensors without a counterpart are reported, except for a copy of the embedding.
    left_over = sorted(set(tensors) - {name for pair in wanted for name in pair.theirs})
    if _TIED_OUTPUT in left_over:
        embedding = next(pair.theirs[0] for pair in wanted if "word_embedding" in pair.ours)
        if not np.array_equal(tensors[_TIED_OUTPUT], tensors[embedding]):
            raise UserError(
                f"{source}: {_TIED_OUTPUT} differs from {embedding}; an output embedding of its "
                "own has no place here"
            )
        left_over.remove(_TIED_OUTPUT)
    return weights, left_over


def to_theirs(
    weights: Mapping[str, np.ndarray], wanted: Iterable[Pair], source: str
) -> dict[str, np.ndarray]:
    """Their tensors from our variables, which `source` has, for errors."""
    wanted = list(wanted)
    _check_names([pair.ours for pair in wanted], weights, source)
    tensors = {}
    for pair in wanted:
        value = weights[pair.ours]
        _check_shape(pair.ours, value.shape, pair.shape, source)
        # There is one tensor for each layer, or a single one.
        for i, name in enumerate(pair.theirs):
            tensors[name] = np.ascontiguousarray(
                value[i]
                if pair.layout == _STACKED
                else value.T
                if pair.layout == _TRANSPOSED
                else value
            )
    return tensors


def _check_names(wanted: Collection[str], found: Collection[str], source: str) -> None:
    missing = [name for name in wanted if name not in found]
    if missing:
        raise UserError(
            "{}: {} of {} weights are missing: {}{}".format(
                source,
                len(missing),
                len(wanted),
                ", ".join(missing[:3]),
                ", ..." if len(missing) > 3 else "",
            )
        )


def _check_shape(name: str, shape: Sequence[int], expected: Sequence[int], source: str) -> None:
    if tuple(shape) != tuple(expected):
        raise UserError(f"{source}: {name} has shape {list(shape)}, expected {list(expected)}")
