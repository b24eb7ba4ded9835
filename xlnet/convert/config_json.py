"""`config.json` of Hugging Face's library, to and from our terms."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Optional

from xlnet import files
from xlnet.convert import weights
from xlnet.errors import UserError
from xlnet.settings.network import CONFIG_NAME, XLNetConfig
from xlnet.tokenization.tokenizer import is_text

NAME = "config.json"

# The class of that library for each output layer: those of `weights`, or none.
NETWORK = "network"
CLASSES = {
    NETWORK: "XLNetModel",
    weights.LM: "XLNetLMHeadModel",
    weights.SEQUENCE: "XLNetForSequenceClassification",
    weights.CHOICE: "XLNetForMultipleChoice",
    weights.TOKENS: "XLNetForTokenClassification",
    weights.SPANS: "XLNetForQuestionAnswering",
    weights.SIMPLE_SPANS: "XLNetForQuestionAnsweringSimple",
}
_SUMMED_UP = (weights.SEQUENCE, weights.CHOICE)  # with one vector for the text

# The problems of SEQUENCE, in their words.
ONE_LABEL, MANY_LABELS, SCORE = (
    "single_label_classification",
    "multi_label_classification",
    "regression",
)

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
_DEFAULT_SIZES = {
    "n_layer": 24,
    "d_model": 1024,
    "n_head": 16,
    "d_inner": 4096,
    "vocab_size": 32000,
}

# Entries without a counterpart here, with their values for models of ours. Those of a folder are
# kept in the `run.json` next to its checkpoint, and return from there.
CARRIED: Mapping[str, Any] = {
    "attn_type": "bi",
    "bi_data": False,
    "bos_token_id": 1,
    "clamp_len": -1,
    "dropout": 0.1,
    "end_n_top": 5,
    "eos_token_id": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "mem_len": None,
    "pad_token_id": 5,
    "reuse_len": None,
    "same_length": False,
    "start_n_top": 5,
    "summary_last_dropout": 0.1,
    "tie_word_embeddings": True,
    "use_mems_eval": True,
    "use_mems_train": False,
}

# How questions and contexts are cut, which that library's config may have as entries of ours.
SPAN_LENGTHS = ("doc_stride", "max_query_length", "max_answer_length")

# What a model of ours was pretrained to do, where it is not the permutation objective: another
# entry of ours, as without it a model of `masked` would look like one with a trained query stream.
OBJECTIVE = "objective"


@dataclasses.dataclass(frozen=True)
class Model:
    """A model in common terms."""

    config: XLNetConfig
    head: str  # a key of `CLASSES`
    labels: Optional[tuple[str, ...]] = None  # names of the outputs, if they have any
    problem: str = ONE_LABEL  # of SEQUENCE
    summary_type: str = "last"  # as in `ClassifierSettings`
    use_summ_proj: bool = True
    # Known entries of `CARRIED` and `SPAN_LENGTHS`, and `OBJECTIVE`.
    carried: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def class_name(self) -> str:
        return CLASSES[self.head]

    @property
    def prefix(self) -> str:
        """The beginning of the names of the network's tensors there."""
        return "" if self.head == NETWORK else "transformer."

    def pairs(self, scope: str, outputs: int) -> list[weights.Pair]:
        """The weights of both sides. scope, outputs: name and outputs of our output layer."""
        parts = [weights.SUMMARY] if self.use_summ_proj and self.head in _SUMMED_UP else []
        parts += [] if self.head == NETWORK else [self.head]
        return weights.pairs(self.config, parts, scope, outputs, self.prefix)


# ---- from theirs ----


def read(path: str) -> Model:
    """Reads the file; raises its errors as `parse`."""
    return parse(files.read_json(path, "config"), path)


def parse(values: dict[str, Any], path: str) -> Model:
    """The model of the content of the file, or of the section `huggingface` of a `run.json`;
    refuses what is not an XLNet, or cannot be computed here."""
    if not is_text(json.dumps(values, ensure_ascii=False)):
        raise UserError(f"{path} has half a character: an escape like \\ud800 by itself")
    if values.get("model_type") != "xlnet":
        raise UserError(
            "{}: model_type is {!r}, expected 'xlnet'".format(path, values.get("model_type"))
        )
    classes = values.get("architectures")
    heads = {name: head for head, name in CLASSES.items()}
    if not (isinstance(classes, list) and len(classes) == 1 and classes[0] in list(heads)):
        raise UserError(
            "{}: architectures is {!r}, expected one of {}".format(path, classes, ", ".join(heads))
        )
    head = heads[classes[0]]

    # Entries that are used here need their type, and the value that is computed here.
    known = (*CARRIED, *SPAN_LENGTHS, OBJECTIVE)
    carried = {name: values[name] for name in known if name in values}
    if not isinstance(carried.get(OBJECTIVE, ""), str):
        raise UserError(f"{path}: {OBJECTIVE} is {carried[OBJECTIVE]!r}, expected a name")
    for name in ("clamp_len", "start_n_top", "end_n_top", *SPAN_LENGTHS):
        if type(carried.get(name, 0)) is not int:
            raise UserError(f"{path}: {name} is {carried[name]!r}, expected an integer")
    must_be: dict[str, Any] = {"layer_norm_eps": 1e-12}
    if head not in (NETWORK, weights.LM):
        must_be.update(attn_type="bi", bi_data=False, same_length=False)
    for name, expected in must_be.items():
        value = carried.get(name, expected)
        if value != expected:
            raise UserError(
                f"{path}: {name} is {value!r}, expected {expected!r}: nothing else can be "
                "computed here"
            )

    config, labels = _architecture(values, path), _labels(values, path)
    problem = ONE_LABEL
    if head == weights.SEQUENCE:
        # Without a problem type, that library takes one label for scores.
        by_count = SCORE if labels is not None and len(labels) == 1 else ONE_LABEL
        problem = by_count if values.get("problem_type") is None else values["problem_type"]
        if problem not in (ONE_LABEL, MANY_LABELS, SCORE):
            raise UserError(
                "{}: problem_type is {!r}, expected one of {}".format(
                    path, problem, ", ".join((ONE_LABEL, MANY_LABELS, SCORE))
                )
            )
    summary = _summary(values, path) if head in _SUMMED_UP else {}
    return Model(config, head, labels, problem, carried=carried, **summary)


def _architecture(values: dict[str, Any], path: str) -> XLNetConfig:
    activation = values.get("ff_activation", "gelu")
    if activation not in list(_ACTIVATIONS):  # a list has no hash
        raise UserError(
            "{}: ff_activation is {!r}, expected one of {}".format(
                path, activation, ", ".join(_ACTIVATIONS)
            )
        )
    # What a config leaves out has that library's default.
    sizes = {ours: values.get(theirs, _DEFAULT_SIZES[theirs]) for ours, theirs in _SIZES.items()}
    try:
        d_head = values["d_head"] if "d_head" in values else sizes["d_model"] // sizes["n_head"]
        return XLNetConfig(
            d_head=d_head,
            ff_activation=_ACTIVATIONS[activation],
            untie_r=values.get("untie_r", True),
            **sizes,
        )
    except (UserError, TypeError, ZeroDivisionError) as e:
        raise UserError(f"{path}: {e}") from None


def _labels(values: dict[str, Any], path: str) -> Optional[tuple[str, ...]]:
    """The names of `id2label` in the order of their ids; None without any."""
    names = values.get("id2label")
    if names is None:
        return None
    # Ids are the keys, as text.
    found: Any = isinstance(names, dict) and [names.get(str(id)) for id in range(len(names))]
    if not found or not all(isinstance(name, str) and name for name in found):
        raise UserError(f"{path}: id2label is {names!r}, expected a name for each of 0, 1, ...")
    if len(set(found)) < len(found):
        raise UserError(f"{path}: id2label has two labels of the same name")
    return tuple(found)


def _summary(values: dict[str, Any], path: str) -> dict[str, Any]:
    """How the vector of a text is made, as fields of `Model`."""
    summary_type = values.get("summary_type", "last")
    use_proj = values.get("summary_use_proj", True)
    activation = values.get("summary_activation", "tanh") or None  # null or ""
    if summary_type not in ("last", "first", "mean"):
        raise UserError(f"{path}: summary_type is {summary_type!r}, expected last, first or mean")
    # With a projection the vector goes through tanh, without one it stays as it is.
    expected = "tanh" if use_proj else None
    if activation != expected or values.get("summary_proj_to_labels"):
        raise UserError(
            f"{path}: summary_activation is {activation!r} with summary_use_proj {use_proj!r}, "
            f"expected {expected!r}, and no summary_proj_to_labels"
        )
    return {"summary_type": summary_type, "use_summ_proj": bool(use_proj)}


# ---- to theirs ----


def carried(model: Model) -> dict[str, Any]:
    """The section `huggingface` of a `run.json`, which `parse` takes."""
    return dict(sorted(_entries(model).items()))


def describe(model: Model, dtype: str) -> dict[str, Any]:
    """The file of a model with weights of `dtype`; refuses what that library cannot compute."""
    config = model.config
    # There the width of heads follows from the others.
    if config.d_head * config.n_head != config.d_model:
        raise UserError(
            f"{CONFIG_NAME}: d_head is {config.d_head}, but Hugging Face's library has "
            f"none but d_model / n_head, {config.d_model / config.n_head:g}"
        )
    if model.head in _SUMMED_UP and model.summary_type == "attn":
        raise UserError("summary_type is attn, which Hugging Face's library does not have")
    return dict(sorted(dict(_entries(model), dtype=dtype).items()))


def _entries(model: Model) -> dict[str, Any]:
    config = model.config
    values = {
        **CARRIED,
        **model.carried,
        "architectures": [model.class_name],
        "model_type": "xlnet",
        **{theirs: getattr(config, ours) for ours, theirs in _SIZES.items()},
        "d_head": config.d_head,
        "ff_activation": _THEIR_ACTIVATION[config.ff_activation],
        "untie_r": config.untie_r,
        "summary_type": model.summary_type,
        "summary_use_proj": model.use_summ_proj,
        # That library refuses null, and takes "" as no function.
        "summary_activation": "tanh" if model.use_summ_proj else "",
    }
    if model.head == weights.SEQUENCE and model.problem != ONE_LABEL:
        values["problem_type"] = model.problem
    # That library counts outputs by labels, also of scores.
    labels = ("LABEL_0",) if model.problem == SCORE else model.labels
    if labels is not None:
        values["id2label"] = {str(id): label for id, label in enumerate(labels)}
        values["label2id"] = {label: id for id, label in enumerate(labels)}
    return values
