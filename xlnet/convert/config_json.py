"""`config.json` of Hugging Face's library: its entries, checked and complete, are the terms of all
conversions.

`read` returns such entries of a file, or of the section `huggingface` of a `run.json`, in which a
converted checkpoint keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from xlnet.convert import weights
from xlnet.convert.weights import (
    CHOICE,
    LM,
    NETWORK,
    SEQUENCE,
    SIMPLE_SPANS,
    SPANS,
    TOKENS,
)
from xlnet.corpus.tokenizer import is_text
from xlnet.settings.network import CONFIG_NAME, XLNetConfig
from xlnet.support.errors import UserError, wrong

NAME = "config.json"

CLASSES = (NETWORK, LM, SEQUENCE, CHOICE, TOKENS, SPANS, SIMPLE_SPANS)
_SUMMED_UP = (SEQUENCE, CHOICE)  # with one vector for the text

# The values of `problem_type`.
ONE_LABEL = "single_label_classification"
MANY_LABELS = "multi_label_classification"
SCORE = "regression"

_ACTIVATIONS = {  # theirs -> ours
    "relu": "relu",
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
}
_THEIR_ACTIVATION = {"relu": "relu", "gelu_erf": "gelu", "gelu": "gelu_new"}

_SIZES = {
    "n_layer": "n_layer",
    "d_model": "d_model",
    "n_head": "n_head",
    "d_inner": "d_inner",
    "n_token": "vocab_size",
}  # ours -> theirs

# The entries, with that library's values of what a file leaves out.
DEFAULTS: Mapping[str, Any] = {
    "architectures": None,
    "attn_type": "bi",
    "bi_data": False,
    "bos_token_id": 1,
    "clamp_len": -1,
    "d_head": None,
    "d_inner": 4096,
    "d_model": 1024,
    "dropout": 0.1,
    "end_n_top": 5,
    "eos_token_id": 2,
    "ff_activation": "gelu",
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "mem_len": None,
    "model_type": None,
    "n_head": 16,
    "n_layer": 24,
    "pad_token_id": 5,
    "reuse_len": None,
    "same_length": False,
    "start_n_top": 5,
    "summary_activation": "tanh",
    "summary_last_dropout": 0.1,
    "summary_type": "last",
    "summary_use_proj": True,
    "tie_word_embeddings": True,
    "untie_r": True,
    "use_mems_eval": True,
    "use_mems_train": False,
    "vocab_size": 32000,
}


def read(given: Mapping[str, Any], path: str) -> dict[str, Any]:
    """All entries of `DEFAULTS`, and `id2label` and `problem_type` if the model has some; refuses
    what is not an XLNet, or cannot be computed here."""
    if not is_text(json.dumps(given, ensure_ascii=False)):
        raise wrong(path, "half a character, an escape like \\ud800 by itself", "text")
    values = {name: given.get(name, default) for name, default in DEFAULTS.items()}
    classes = values["architectures"]
    name = classes[0] if isinstance(classes, list) and len(classes) == 1 else None
    allowed: dict[str, tuple] = {"model_type": ("xlnet",), "layer_norm_eps": (1e-12,)}
    allowed["ff_activation"] = tuple(_ACTIVATIONS)
    if name not in CLASSES:
        raise wrong(
            f"{path}: architectures", repr(classes), f"one of {', '.join(CLASSES)}"
        )
    if name not in (NETWORK, LM):
        allowed.update(attn_type=("bi",), bi_data=(False,), same_length=(False,))
    labels = given.get("id2label")
    if labels is not None:
        names = []
        for id in range(len(labels) if isinstance(labels, dict) else 0):
            names.append(labels.get(str(id)))
        if not names or not all(isinstance(each, str) and each for each in names):
            raise wrong(
                f"{path}: id2label", repr(labels), "a name for each of 0, 1, ..."
            )
        if len(set(names)) < len(names):
            raise wrong(
                f"{path}: id2label", "two labels of the same name", "different ones"
            )
        values.update(of_labels(names))
    if name == SEQUENCE:
        # Without a problem type, that library takes one label for scores.
        by_count = SCORE if len(labels or ()) == 1 else ONE_LABEL
        values["problem_type"] = given.get("problem_type") or by_count
        allowed["problem_type"] = (ONE_LABEL, MANY_LABELS, SCORE)
    if name in _SUMMED_UP:
        # With a projection the vector goes through tanh, without one it stays as it is.
        has_projection = values["summary_use_proj"]
        values["summary_activation"] = (
            values["summary_activation"] or ""
        )  # null in older files
        allowed["summary_activation"] = ("tanh",) if has_projection else ("",)
        allowed["summary_type"] = ("last", "first", "mean")
    for entry, choices in allowed.items():
        if values[entry] not in choices:
            raise wrong(f"{path}: {entry}", repr(values[entry]), f"one of {choices}")
    architecture(values, path)
    return values


def architecture(values: Mapping[str, Any], path: str) -> XLNetConfig:
    sizes = {ours: values[theirs] for ours, theirs in _SIZES.items()}
    try:
        return XLNetConfig(
            d_head=values["d_head"] or sizes["d_model"] // sizes["n_head"],
            ff_activation=_ACTIVATIONS[values["ff_activation"]],
            untie_r=values["untie_r"],
            **sizes,
        )
    except (UserError, TypeError, ZeroDivisionError) as e:
        raise UserError(f"{path}: {e}") from None


def of_architecture(config: XLNetConfig) -> dict[str, Any]:
    """The entries of an architecture; refuses what that library cannot compute."""
    # There the width of heads follows from the others.
    if config.d_head * config.n_head != config.d_model:
        expected = (
            f"d_model / n_head, {config.d_model / config.n_head:g}, as in that library"
        )
        raise wrong(f"{CONFIG_NAME}: d_head", config.d_head, expected)
    values = {theirs: getattr(config, ours) for ours, theirs in _SIZES.items()}
    activation = _THEIR_ACTIVATION[config.ff_activation]
    return dict(
        values, d_head=config.d_head, ff_activation=activation, untie_r=config.untie_r
    )


def of_labels(names: Iterable[str]) -> dict[str, Any]:
    """The entries of the names of outputs."""
    by_id = {str(id): name for id, name in enumerate(names)}
    return {
        "id2label": by_id,
        "label2id": {name: int(id) for id, name in by_id.items()},
    }


def pairs(
    values: Mapping[str, Any], config: XLNetConfig, scope: str, outputs: int
) -> list[weights.Pair]:
    """The weights of both sides; scope, outputs: name and outputs of our output layer."""
    name = values["architectures"][0]
    found = weights.network(config, "" if name == NETWORK else "transformer.")
    if name in _SUMMED_UP and values["summary_use_proj"]:
        found += weights.summary(config)
    return found + weights.output_layer(config, name, scope, outputs)
