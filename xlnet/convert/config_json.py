"""`config.json` of Hugging Face's library: its entries, checked and complete, are the terms of all
conversions.

`read` returns such entries of a file, or of the section `huggingface` of a `run.json`, in which a
converted checkpoint keeps them.

The second part says what a model was trained for, as `run.json` does, in these entries, and back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

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
from xlnet.corpus.tokenizer import Tokenizer, is_text
from xlnet.runs import task_settings
from xlnet.runs.run_document import RunDocument
from xlnet.settings.finetuning import (
    QUESTION_SPECIAL_TOKENS,
    ClassifierSettings,
    FineTuningSettings,
    SpanSettings,
    TaggerSettings,
    names_in,
)
from xlnet.settings.network import CONFIG_NAME, NetworkSettings, XLNetConfig
from xlnet.support.errors import UserError, wrong
from xlnet.tasks import custom, known
from xlnet.tasks.features import encoding
from xlnet.tasks.known import TASK_TYPES
from xlnet.tasks.tagging import schemes
from xlnet.tasks.task import Columns, Task

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
        is_named = names and all(isinstance(each, str) and each for each in names)
        if not is_named or len(set(names)) < len(names):
            expected = "a name of its own for each of 0, 1, ..."
            raise wrong(f"{path}: id2label", repr(labels), expected)
        values.update(of_labels(names))
    if name == SEQUENCE:
        # Without a problem type, that library takes one label for scores.
        by_count = SCORE if len(labels or ()) == 1 else ONE_LABEL
        values["problem_type"] = given.get("problem_type") or by_count
        allowed["problem_type"] = (ONE_LABEL, MANY_LABELS, SCORE)
    if name in _SUMMED_UP:
        # With a projection the vector goes through tanh, without one it stays as it is.
        has_projection = values["summary_use_proj"]
        # Null in older files.
        values["summary_activation"] = values["summary_activation"] or ""
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
        ours, theirs = "model/sequnece_summary/summary", "sequence_summary.summary"
        found += weights.dense(ours, theirs, config.d_model, config.d_model)
    return found + weights.output_layer(config, name, scope, outputs)


# Our task types in their terms: (class, problem). The first one is that of their model.
_THEIRS = {
    "classification": (SEQUENCE, ONE_LABEL),
    "multi_label": (SEQUENCE, MANY_LABELS),
    "regression": (SEQUENCE, SCORE),
    "ranking": (SEQUENCE, SCORE),
    "multiple_choice": (CHOICE, None),
    "tagging": (TOKENS, None),
    "spans": (SPANS, None),
}
_BEAMS = (
    "start_n_top",
    "end_n_top",
)  # of questions: task options here, entries of a config there
_SCHEMES = ("bio2", "bioes", "bmes")  # that taggers learn here


def find_type(entries: Mapping[str, Any]) -> Optional[str]:
    """The name of our task type for their model; None: there is none."""
    for name, theirs in _THEIRS.items():
        if theirs == (entries["architectures"][0], entries.get("problem_type")):
            return name
    return None


def scope(entries: Mapping[str, Any]) -> str:
    """The name of our output layer."""
    name = find_type(entries)
    if not name:
        return ""
    task = Task(known.CUSTOM, Columns(), None, (), TASK_TYPES[name])
    return task.head.scope()


def labels_of(entries: Mapping[str, Any], outputs: int) -> Optional[tuple[str, ...]]:
    """The labels of their model with so many outputs; None for scores."""
    labels = tuple(entries.get("id2label", {}).values())
    labels = labels or tuple(f"LABEL_{id}" for id in range(outputs))
    is_score = entries.get("problem_type") == SCORE
    count = 1 if is_score else len(labels)
    if entries["architectures"][0] in (SEQUENCE, TOKENS):
        if count != outputs:
            raise wrong(f"{NAME}: id2label", f"{count} labels", f"{outputs}")
    return None if is_score else labels


def why_not(entries: Mapping[str, Any]) -> Optional[str]:
    """Why no program of ours can use their model with its task; None: one can."""
    kind, name = find_type(entries), entries["architectures"][0]
    if not kind:
        return f"{name} has no task of ours"
    if kind == "tagging" and not _scheme(list(entries.get("id2label", {}).values())):
        return f"its labels are not the tags of {', '.join(_SCHEMES)}"
    return None


def _scheme(tags: Sequence[str]) -> Optional[str]:
    """The scheme whose tags these are; None: of none."""
    for scheme in _SCHEMES:
        if set(schemes.all_tags(tags, scheme)) == set(tags):
            return scheme
    return None


def describe(
    entries: Mapping[str, Any],
    labels: Optional[tuple[str, ...]],
    tokenizer: Tokenizer,
    columns: Mapping[str, Any],
    max_seq_length: int,
) -> RunDocument:
    """The document of their model, which must have no reason `why_not`.

    Args:
      entries: as of `read`.
      labels: as of `labels_of`.
      tokenizer: its vocabulary.
      columns: of the files to predict, as of `ClassifierSettings`.
      max_seq_length: of a text [tokens].
    """
    encoding.check_max_seq_length(max_seq_length)
    kind = find_type(entries)
    scheme = _scheme(labels or ()) if kind == "tagging" else None
    common: dict[str, Any] = dict(
        task_name=known.CUSTOM,
        data_dir="",
        output_dir="",
        model_dir="",
        model_config_path="",
        spiece_model_file=tokenizer.path,
        max_seq_length=max_seq_length,
    )
    # The settings with which our program would train the model.
    settings: FineTuningSettings
    if kind == "tagging":
        settings = TaggerSettings(scheme=scheme, **common)
    elif kind == "spans":
        # Our defaults are for 512 tokens; shorter models get what fits.
        room = max_seq_length - QUESTION_SPECIAL_TOKENS
        query = min(SpanSettings.max_query_length, room // 2)
        stride = min(SpanSettings.doc_stride, room - query)
        common.update((name, entries[name]) for name in _BEAMS)
        settings = SpanSettings(max_query_length=query, doc_stride=stride, **common)
    else:
        common.update(columns)
        settings = ClassifierSettings(
            is_regression=kind == "regression",
            multi_label=kind == "multi_label",
            summary_type=entries["summary_type"],
            use_summ_proj=bool(entries["summary_use_proj"]),
            **common,
        )
    if kind == "multiple_choice":
        choices = names_in(columns.get("choice_columns"))
        if not choices:
            raise wrong("choice_columns", "nothing", "the columns of the answers")
        # The labels of the model if there is one for each column; else numbers from 0 on.
        if len(labels or ()) != len(choices):
            labels = tuple(map(str, range(len(choices))))
    # The section `task` as training here would have written it.
    options = {"scheme": scheme, "is_spaced": True, "knows_spaces": True}
    stored: dict[str, Any] = {
        "labels": labels,
        "columns": {"label": []},
        "kind_options": options,
    }
    return task_settings.document_of(
        settings,
        NetworkSettings(clamp_len=entries["clamp_len"]),
        custom.resolve_task(settings, stored),
        tokenizer,
    )


def to_huggingface_model(run: RunDocument) -> dict[str, Any]:
    """The entries by the task of a document, {} without a task."""
    stored = run.task
    if stored is None:
        return {}
    kind, labels = stored.get("kind"), stored.get("labels")
    if kind not in _THEIRS:
        raise wrong(f"{run.path}: kind", repr(kind), f"one of {', '.join(_THEIRS)}")
    name, problem = _THEIRS[kind]
    has_projection = stored["use_summ_proj"]
    entries: dict[str, Any] = {
        "architectures": [name],
        "summary_type": stored["summary_type"],
        "summary_use_proj": has_projection,
        # That library refuses null, and takes "" as no function.
        "summary_activation": "tanh" if has_projection else "",
    }
    if problem:
        entries["problem_type"] = problem
    # that library counts outputs by labels, also of scores
    if problem == SCORE:
        labels = ("LABEL_0",)
    if labels:
        entries.update(of_labels(labels))
    options = stored.get("kind_options", {})
    entries.update((name, options[name]) for name in _BEAMS if name in options)
    return entries
