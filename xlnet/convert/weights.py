"""Weights by our names and by those of Hugging Face's library, converted bit for bit.

Apart from names, two things differ. A dense kernel [I,O] here is a weight [O,I] there. Attention
biases and segment vectors are stacked over the layers here, and a tensor of each layer there; with
tied biases (`untie_r` False) all layers there have the same numbers.

Shape letters: V vocabulary, L layers, D d_model, N heads, H d_head, F d_inner, C outputs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from xlnet.settings.network import XLNetConfig
from xlnet.support import files
from xlnet.support.errors import wrong

# Classes of that library: the network, and the network with an output layer.
NETWORK = "XLNetModel"
LM = "XLNetLMHeadModel"
SEQUENCE = "XLNetForSequenceClassification"
CHOICE = "XLNetForMultipleChoice"
TOKENS = "XLNetForTokenClassification"
SPANS = "XLNetForQuestionAnswering"

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


def network(config: XLNetConfig, prefix: str) -> list[Pair]:
    """The `Pair`s of the network, of the word embedding first; prefix: the beginning of the names
    there."""
    ours, D, F = "model/transformer/", config.d_model, config.d_inner
    heads, vocabulary = (config.n_head, config.d_head), config.n_token
    layers = [f"{prefix}layer.{i}." for i in range(config.n_layer)]
    embedding = (prefix + "word_embedding.weight",)
    found = [
        Pair(ours + "word_embedding/lookup_table", embedding, (vocabulary, D)),
        Pair(MASK_EMBEDDING, (prefix + "mask_emb",), (1, 1, D)),
    ]
    for name in _BIASES:
        theirs = tuple(layer + "rel_attn." + name for layer in layers)
        if config.untie_r:
            found.append(Pair(ours + name, theirs, (config.n_layer, *heads), _STACKED))
        else:
            found.append(Pair(ours + name, theirs, heads, _TIED))
    # Segment vectors are never tied.
    theirs = tuple(layer + "rel_attn.seg_embed" for layer in layers)
    found.append(
        Pair(ours + "seg_embed", theirs, (config.n_layer, 2, *heads), _STACKED)
    )
    for i, layer in enumerate(layers):
        mine = f"{ours}layer_{i}/"
        for name in "qkvro":
            kernel = f"{mine}rel_attn/{name}/kernel"
            found.append(Pair(kernel, (f"{layer}rel_attn.{name}",), (D, *heads)))
        found += _norm(mine + "rel_attn/LayerNorm", layer + "rel_attn.layer_norm", D)
        found += dense(mine + "ff/layer_1", layer + "ff.layer_1", D, F)
        found += dense(mine + "ff/layer_2", layer + "ff.layer_2", F, D)
        found += _norm(mine + "ff/LayerNorm", layer + "ff.layer_norm", D)
    return found


def output_layer(
    config: XLNetConfig, class_name: str, scope: str, outputs: int
) -> list[Pair]:
    """Those of the output layer of a class of that library.

    Args:
      config: the architecture.
      class_name: of that library.
      scope: the name of our output layer, if it has one for each label.
      outputs: C, of the same.
    """
    D, ours = config.d_model, f"model/{scope}/logit"
    if class_name == LM:
        return [Pair(LM_BIAS, ("lm_loss.bias",), (config.n_token,))]
    if class_name == SEQUENCE:
        return dense(ours, "logits_proj", D, outputs)
    if class_name == CHOICE:
        return dense("logits/dense", "logits_proj", D, 1)
    if class_name == TOKENS:
        return dense(ours, "classifier", D, outputs)
    if class_name == SPANS:
        return [
            *dense("start_logits/dense", "start_logits.dense", D, 1),
            *dense("end_logits/dense_0", "end_logits.dense_0", 2 * D, D),
            *_norm("end_logits/LayerNorm", "end_logits.LayerNorm", D),
            *dense("end_logits/dense_1", "end_logits.dense_1", D, 1),
            *dense("answer_class/dense_0", "answer_class.dense_0", 2 * D, D),
            *dense("answer_class/dense_1", "answer_class.dense_1", D, 1)[:1],  # no bias
        ]
    return []


def _norm(ours: str, theirs: str, D: int) -> list[Pair]:
    return [
        Pair(ours + "/gamma", (theirs + ".weight",), (D,)),
        Pair(ours + "/beta", (theirs + ".bias",), (D,)),
    ]


def dense(ours: str, theirs: str, size_in: int, size_out: int) -> list[Pair]:
    """Those of a dense layer."""
    return [
        Pair(ours + "/kernel", (theirs + ".weight",), (size_in, size_out), _TRANSPOSED),
        Pair(ours + "/bias", (theirs + ".bias",), (size_out,)),
    ]


def to_ours(
    tensors: Mapping[str, np.ndarray], wanted: Sequence[Pair], source: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """(our variables, their names without a counterpart) from the tensors of `source`."""
    weights, left_over = {}, set(tensors)
    for pair in wanted:
        parts = []
        for name in pair.theirs:
            parts.append(_taken(tensors, name, pair.their_shape, source))
        left_over -= set(pair.theirs)
        weights[pair.ours] = parts[0]
        if pair.layout == _STACKED:
            weights[pair.ours] = np.stack(parts)
        elif pair.layout == _TRANSPOSED:
            weights[pair.ours] = np.ascontiguousarray(parts[0].T)
        elif not all(np.array_equal(part, parts[0]) for part in parts):  # tied
            where = f"{source}: {pair.theirs[0]}"
            raise wrong(where, "another one in each layer", "untie_r true")
    # Tensors without a counterpart are reported, except for a copy of the embedding.
    if _TIED_OUTPUT in left_over:
        embedding = wanted[0].theirs[0]
        if not np.array_equal(tensors[_TIED_OUTPUT], tensors[embedding]):
            where = f"{source}: {_TIED_OUTPUT}"
            raise wrong(where, "an output embedding of its own", embedding)
        left_over.remove(_TIED_OUTPUT)
    return weights, sorted(left_over)


def to_theirs(
    weights: Mapping[str, np.ndarray], wanted: Iterable[Pair], source: str
) -> dict[str, np.ndarray]:
    """Their tensors from our variables, which `source` has, for errors."""
    tensors = {}
    for pair in wanted:
        value = _taken(weights, pair.ours, pair.shape, source)
        # There is one tensor for each layer, or a single one.
        for i, name in enumerate(pair.theirs):
            part = value.T if pair.layout == _TRANSPOSED else value
            tensors[name] = np.ascontiguousarray(
                value[i] if pair.layout == _STACKED else part
            )
    return tensors


def _taken(
    arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...], source: str
) -> np.ndarray:
    if name not in arrays:
        raise wrong(source, f"no weights {name}", "them")
    found = arrays[name].shape
    if found != shape:
        raise wrong(f"{source}: {name}", f"shape {list(found)}", str(list(shape)))
    return arrays[name]


WEIGHTS_NAME = "model.safetensors"


def read_folder(folder: str) -> dict[str, np.ndarray]:
    """The weights of a folder: float32 arrays by name, converted exactly from narrower types.

    Integers, such as numbers of positions, are no weights and left out. Pickles, which may run
    code, are never opened.

    Raises:
      UserError: the file is missing or damaged, or a tensor has NaN or infinity.
    """
    path = os.path.join(folder, WEIGHTS_NAME)
    files.require_file(path, "weights")
    try:
        tensors = load_file(path)
    except SafetensorError as e:
        raise wrong(path, f"a damaged file: {e}", "one of safetensors") from None
    weights = {}
    for name, tensor in tensors.items():
        # of NumPy's kinds: bfloat16 is none of its own
        if tensor.dtype.kind not in "fV":
            continue
        weights[name] = tensor.astype(np.float32)
        if not np.isfinite(weights[name]).all():
            where = f"{path}: tensor {name}"
            raise wrong(where, "NaN or infinity", "finite weights")
    return weights


def write_file(path: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes float32 arrays as a file of safetensors, complete or not at all."""
    with files.writing(path) as f:
        f.write(save(dict(tensors), {"format": "pt"}))
