"""Weights by our names and by those of Hugging Face's library, converted bit for bit.

"Ours" and "here" mean this library, "theirs" and "there" that one. Apart from names, two things
differ. A dense kernel [I,O] here is a weight [O,I] there. Attention biases and segment vectors are
stacked over the layers here, and a tensor of each layer there; with tied biases (`untie_r` False)
all layers there have the same numbers.

Shape letters: V vocabulary, L layers, D d_model, N heads, H d_head, F d_inner, C outputs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from xlnet.settings.network import XLNetConfig
from xlnet.support import files
from xlnet.support.errors import wrong

# Classes of that library: the network alone, and with an output layer.
NETWORK = "XLNetModel"
LM = "XLNetLMHeadModel"
SEQUENCE = "XLNetForSequenceClassification"
CHOICE = "XLNetForMultipleChoice"
TOKENS = "XLNetForTokenClassification"
SPANS = "XLNetForQuestionAnswering"

SUMMED_UP = (SEQUENCE, CHOICE)  # they sum a text up in one vector
SCORE = "regression"  # the `problem_type` with one output, whatever the labels are

MASK_EMBEDDING = "model/transformer/mask_emb/mask_emb"
LM_BIAS = "model/lm_loss/bias"
_TIED_OUTPUT = "lm_loss.weight"  # in old files there: a copy of the word embedding

# How a variable of ours is stored there, if not as it is here ("same").
_TRANSPOSED = "transposed"
_STACKED = "stacked"  # [L,...] over the L tensors of the layers
_TIED = "tied"  # each of the L tensors is equal to it

# Lines of four words: our variable, their tensor, the shape of ours as letters of the module, and
# how it is stored there ("biases": stacked, or tied without `untie_r`, and then ours are [N,H]). Of
# a name with {i} there is one for each layer.
_NETWORK = """
model/transformer/word_embedding/lookup_table transformer.word_embedding.weight V,D same
model/transformer/mask_emb/mask_emb transformer.mask_emb 1,1,D same
model/transformer/r_w_bias transformer.layer.{i}.rel_attn.r_w_bias L,N,H biases
model/transformer/r_r_bias transformer.layer.{i}.rel_attn.r_r_bias L,N,H biases
model/transformer/r_s_bias transformer.layer.{i}.rel_attn.r_s_bias L,N,H biases
model/transformer/seg_embed transformer.layer.{i}.rel_attn.seg_embed L,2,N,H stacked
model/transformer/layer_{i}/rel_attn/q/kernel transformer.layer.{i}.rel_attn.q D,N,H same
model/transformer/layer_{i}/rel_attn/k/kernel transformer.layer.{i}.rel_attn.k D,N,H same
model/transformer/layer_{i}/rel_attn/v/kernel transformer.layer.{i}.rel_attn.v D,N,H same
model/transformer/layer_{i}/rel_attn/r/kernel transformer.layer.{i}.rel_attn.r D,N,H same
model/transformer/layer_{i}/rel_attn/o/kernel transformer.layer.{i}.rel_attn.o D,N,H same
model/transformer/layer_{i}/rel_attn/LayerNorm/gamma transformer.layer.{i}.rel_attn.layer_norm.weight D same
model/transformer/layer_{i}/rel_attn/LayerNorm/beta transformer.layer.{i}.rel_attn.layer_norm.bias D same
model/transformer/layer_{i}/ff/layer_1/kernel transformer.layer.{i}.ff.layer_1.weight D,F transposed
model/transformer/layer_{i}/ff/layer_1/bias transformer.layer.{i}.ff.layer_1.bias F same
model/transformer/layer_{i}/ff/layer_2/kernel transformer.layer.{i}.ff.layer_2.weight F,D transposed
model/transformer/layer_{i}/ff/layer_2/bias transformer.layer.{i}.ff.layer_2.bias D same
model/transformer/layer_{i}/ff/LayerNorm/gamma transformer.layer.{i}.ff.layer_norm.weight D same
model/transformer/layer_{i}/ff/LayerNorm/beta transformer.layer.{i}.ff.layer_norm.bias D same
"""  # noqa: E501
_SUMMARY = """
model/sequnece_summary/summary/kernel sequence_summary.summary.weight D,D transposed
model/sequnece_summary/summary/bias sequence_summary.summary.bias D same
"""
# The output layer of each class, in the same lines; <scope>: its name here, which has the task's.
OUTPUT_LAYERS = {
    NETWORK: "",
    LM: f"{LM_BIAS} lm_loss.bias V same",
    SEQUENCE: """
model/<scope>/logit/kernel logits_proj.weight D,C transposed
model/<scope>/logit/bias logits_proj.bias C same
""",
    CHOICE: """
logits/dense/kernel logits_proj.weight D,1 transposed
logits/dense/bias logits_proj.bias 1 same
""",
    TOKENS: """
model/<scope>/logit/kernel classifier.weight D,C transposed
model/<scope>/logit/bias classifier.bias C same
""",
    SPANS: """
start_logits/dense/kernel start_logits.dense.weight D,1 transposed
start_logits/dense/bias start_logits.dense.bias 1 same
end_logits/dense_0/kernel end_logits.dense_0.weight 2D,D transposed
end_logits/dense_0/bias end_logits.dense_0.bias D same
end_logits/LayerNorm/gamma end_logits.LayerNorm.weight D same
end_logits/LayerNorm/beta end_logits.LayerNorm.bias D same
end_logits/dense_1/kernel end_logits.dense_1.weight D,1 transposed
end_logits/dense_1/bias end_logits.dense_1.bias 1 same
answer_class/dense_0/kernel answer_class.dense_0.weight 2D,D transposed
answer_class/dense_0/bias answer_class.dense_0.bias D same
answer_class/dense_1/kernel answer_class.dense_1.weight D,1 transposed
""",
}


class Pair(NamedTuple):
    """A variable here, and the tensor or tensors there that have its numbers.

    Attributes:
      ours: its name.
      theirs: the name of its tensor there, or of one for each layer.
      shape: its shape here.
      layout: how it is stored there: "same", `_TRANSPOSED`, `_STACKED` or `_TIED`.
    """

    ours: str
    theirs: Sequence[str]
    shape: tuple[int, ...]
    layout: str

    @property
    def their_shape(self) -> tuple[int, ...]:
        """The shape of each of their tensors."""
        if self.layout == _TRANSPOSED:
            return self.shape[::-1]
        return self.shape[1:] if self.layout == _STACKED else self.shape


def pairs(
    entries: Mapping[str, Any], config: XLNetConfig, task: Mapping[str, Any] | None
) -> list[Pair]:
    """All weights of a model on both sides, the word embedding first.

    Args:
      entries: of `config.json`, as of `config_json.checked_entries`.
      config: the architecture.
      task: the section `task` of our `run.json`, with the name of the output layer in `head`; None:
        only pretrained.
    """
    class_name = entries["architectures"][0]  # of one
    has_summary = class_name in SUMMED_UP and entries["summary_use_proj"]
    outputs = 1 if entries["problem_type"] == SCORE else len(entries["id2label"])
    sizes = {  # of the letters of shapes
        "1": 1,
        "2": 2,
        "V": config.n_token,
        "L": config.n_layer,
        "D": config.d_model,
        "2D": 2 * config.d_model,
        "N": config.n_head,
        "H": config.d_head,
        "F": config.d_inner,
        "C": outputs,
    }
    table = _NETWORK + (_SUMMARY if has_summary else "") + OUTPUT_LAYERS[class_name]
    all_pairs = []
    for line in filter(None, table.split("\n")):
        ours, theirs, letters, layout = line.split()
        if task:
            ours = ours.replace("<scope>", task["head"])
        shape = tuple(sizes[letter] for letter in letters.split(","))
        if layout == "biases":
            layout = _STACKED
            if not config.untie_r:  # [N,H], one for all layers
                layout, shape = _TIED, shape[1:]
        if class_name == NETWORK:  # the other classes have the network as an attribute
            theirs = theirs.removeprefix("transformer.")
        names = [theirs]
        if "{i}" in theirs:
            names = [theirs.replace("{i}", str(i)) for i in range(config.n_layer)]
        if "{i}" in ours:  # a variable here for each tensor there
            for i, name in enumerate(names):
                own = ours.replace("{i}", str(i))
                all_pairs.append(Pair(own, [name], shape, layout))
        else:
            all_pairs.append(Pair(ours, names, shape, layout))
    return all_pairs


def to_ours(
    tensors: Mapping[str, np.ndarray], wanted: Sequence[Pair], source: str
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Converts their tensors to our variables.

    Args:
      tensors: theirs, by name.
      wanted: as of `pairs`.
      source: the folder of the tensors, for errors.

    Returns:
      our variables by name; the sorted names of the tensors that no pair has.
    """
    variables, left_over = {}, set(tensors)
    for pair in wanted:
        of_layers = []  # or a single one
        for name in pair.theirs:
            of_layers.append(_array_of(tensors, name, pair.their_shape, source))
        left_over -= set(pair.theirs)
        first = of_layers[0]
        variables[pair.ours] = first
        if pair.layout == _STACKED:
            variables[pair.ours] = np.stack(of_layers)
        elif pair.layout == _TRANSPOSED:
            variables[pair.ours] = np.ascontiguousarray(first.T)
        # `_TIED`, or "same" with a single tensor.
        elif not all(np.array_equal(tensor, first) for tensor in of_layers):
            where = f"{source}: {pair.theirs[0]}"
            raise wrong(where, "another one in each layer", "untie_r true")
    # A copy of the embedding, which is the output layer of a language model, is not left over.
    if _TIED_OUTPUT in left_over:
        (embedding,) = wanted[0].theirs  # `pairs` has the word embedding first
        if not np.array_equal(tensors[_TIED_OUTPUT], tensors[embedding]):
            where = f"{source}: {_TIED_OUTPUT}"
            raise wrong(where, "an output embedding of its own", embedding)
        left_over.remove(_TIED_OUTPUT)
    return variables, sorted(left_over)


def to_theirs(
    variables: Mapping[str, np.ndarray], wanted: Iterable[Pair], source: str
) -> dict[str, np.ndarray]:
    """Their tensors by name from our variables by name. wanted: as of `pairs`; source: the
    checkpoint of the variables, for errors."""
    tensors = {}
    for pair in wanted:
        variable = _array_of(variables, pair.ours, pair.shape, source)
        for i, name in enumerate(pair.theirs):  # of each layer, or a single one
            tensor = variable
            if pair.layout == _TRANSPOSED:
                tensor = variable.T
            elif pair.layout == _STACKED:
                tensor = variable[i]
            tensors[name] = np.ascontiguousarray(tensor)
    return tensors


def _array_of(
    arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...], source: str
) -> np.ndarray:
    """The array of a name; UserError, which names `source`, if there is none of this shape."""
    if name not in arrays:
        raise wrong(source, f"no weights {name}", "them")
    found = arrays[name].shape
    if found != shape:
        raise wrong(f"{source}: {name}", f"shape {list(found)}", str(list(shape)))
    return arrays[name]


WEIGHTS_NAME = "model.safetensors"


def read_folder(folder: str) -> dict[str, np.ndarray]:
    """The weights of a folder of theirs: float32 arrays by name, converted exactly from narrower
    types.

    Integers, such as indices of positions, are not weights and left out. Pickles, which may run
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
        # NumPy's kinds of types: "f" floats, "V" types of others, here bfloat16.
        if tensor.dtype.kind not in "fV":
            continue
        weights[name] = tensor.astype(np.float32)
        if not np.isfinite(weights[name]).all():
            where = f"{path}: tensor {name}"
            raise wrong(where, "NaN or infinity", "finite weights")
    return weights


def write_file(path: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes float32 arrays as a file of safetensors, complete or not at all."""
    metadata = {"format": "pt"}  # PyTorch, as that library writes
    with files.writing(path) as f:
        f.write(save(dict(tensors), metadata))
