"""`config.json` of Hugging Face's library: the entries that decide what a model computes.

They are the terms of both conversions: `read` checks theirs, `describe_ours` says in these terms
what a checkpoint of ours is, and `describe_theirs` turns them into a document as `run.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlnet.convert.weights import (
    CHOICE,
    LM,
    NETWORK,
    OUTPUT_LAYERS,
    SCORE,
    SEQUENCE,
    SPANS,
    SUMMED_UP,
    TOKENS,
)
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.runs import run_document, task_settings
from xlnet.runs.run_document import RunDocument
from xlnet.settings.finetuning import (
    ClassifierSettings,
    FineTuningSettings,
    SpanSettings,
    TaggerSettings,
    names_in,
)
from xlnet.settings.network import CONFIG_NAME, NetworkSettings, XLNetConfig
from xlnet.support.errors import UserError, wrong
from xlnet.tasks import known
from xlnet.tasks.tagging import sentences

NAME = "config.json"

# The values of `problem_type`, with `SCORE`.
ONE_LABEL = "single_label_classification"
MANY_LABELS = "multi_label_classification"

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
_SCHEMES = ("bio2", "bioes", "bmes")

_ACTIVATIONS = {  # theirs -> ours
    "relu": "relu",
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
}
_THEIR_ACTIVATION = {"relu": "relu", "gelu_erf": "gelu", "gelu": "gelu_new"}

# Of the architecture, under the same name; n_token is their vocab_size.
_ARCHITECTURE = ("n_layer", "d_model", "n_head", "d_head", "d_inner", "untie_r")
_BEAMS = ("start_n_top", "end_n_top")  # of questions: options of our task
_SHARED = ("clamp_len", "mem_len", "same_length")  # settings here under the same name

# The entries, with that library's values of what a file leaves out.
DEFAULTS: Mapping[str, Any] = {
    "architectures": None,
    "attn_type": "bi",
    "bi_data": False,
    "clamp_len": -1,
    "d_head": None,
    "d_inner": 4096,
    "d_model": 1024,
    "end_n_top": 5,
    "ff_activation": "gelu",
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
    "layer_norm_eps": 1e-12,
    "mem_len": None,
    "model_type": None,
    "n_head": 16,
    "n_layer": 24,
    "problem_type": None,
    "same_length": False,
    "start_n_top": 5,
    "summary_activation": "tanh",
    "summary_type": "last",
    "summary_use_proj": True,
    "untie_r": True,
    "vocab_size": 32000,
}


def read(given: Mapping[str, Any], path: str) -> dict[str, Any]:
    """All entries of `DEFAULTS`; refuses what is not an XLNet, or cannot be computed here."""
    values = {name: given.get(name, default) for name, default in DEFAULTS.items()}
    classes = values["architectures"]
    if classes not in [[name] for name in OUTPUT_LAYERS]:
        expected = f"one of {', '.join(OUTPUT_LAYERS)}"
        raise wrong(f"{path}: architectures", repr(classes), expected)
    name, labels = classes[0], values["id2label"]
    allowed: dict[str, tuple] = {"model_type": ("xlnet",), "layer_norm_eps": (1e-12,)}
    allowed["ff_activation"] = tuple(_ACTIVATIONS)
    if name not in (NETWORK, LM):
        allowed.update(attn_type=("bi",), bi_data=(False,), same_length=(False,))
        if not _are_names(labels):
            expected = "a name of its own for each of 0, 1, ..."
            raise wrong(f"{path}: id2label", repr(labels), expected)
    if name == SEQUENCE:
        # Without a problem type, that library takes one label for scores.
        by_count = SCORE if len(labels) == 1 else ONE_LABEL
        values["problem_type"] = values["problem_type"] or by_count
        allowed["problem_type"] = (ONE_LABEL, MANY_LABELS, SCORE)
    else:
        values["problem_type"] = None
    if name in SUMMED_UP:
        # With a projection the vector goes through tanh, without one it stays as it is: older
        # files have null there.
        has_projection = values["summary_use_proj"]
        values["summary_activation"] = values["summary_activation"] or ""
        allowed["summary_activation"] = ("tanh",) if has_projection else ("",)
        allowed["summary_type"] = ("last", "first", "mean")
    for entry, choices in allowed.items():
        if values[entry] not in choices:
            raise wrong(f"{path}: {entry}", repr(values[entry]), f"one of {choices}")
    return values


def _are_names(labels: Any) -> bool:
    """Whether there is a name of its own for each of "0", "1", ..."""
    try:
        names = [labels[str(id)] for id in range(len(labels))]
    except (TypeError, KeyError):
        return False
    are_texts = all(isinstance(name, str) for name in names)
    return are_texts and len(set(names)) == len(names) > 0


def architecture(values: Mapping[str, Any], path: str) -> XLNetConfig:
    """The architecture of their entries."""
    sizes = {name: values[name] for name in _ARCHITECTURE}
    try:
        sizes["d_head"] = sizes["d_head"] or sizes["d_model"] // sizes["n_head"]
        return XLNetConfig(
            ff_activation=_ACTIVATIONS[values["ff_activation"]],
            n_token=values["vocab_size"],
            **sizes,
        )
    except (UserError, TypeError, ZeroDivisionError) as e:
        raise UserError(f"{path}: {e}") from None


def describe_theirs(
    entries: Mapping[str, Any],
    tokenizer: Tokenizer,
    columns: Mapping[str, Any],
    max_seq_length: int,
) -> RunDocument:
    """The document of their model.

    Args:
      entries: as of `read`.
      tokenizer: its vocabulary.
      columns: of the files to predict, as of `ClassifierSettings`.
      max_seq_length: of a text [tokens].
    """
    theirs = (entries["architectures"][0], entries["problem_type"])
    kinds = [kind for kind, each in _THEIRS.items() if each == theirs]
    if not kinds:  # it is only pretrained
        settings_of_run = {"clamp_len": entries["clamp_len"]}
        if entries["attn_type"] == "uni":
            settings_of_run["objective"] = "causal"
        if entries["same_length"] and entries["mem_len"]:
            settings_of_run.update(same_length=True, mem_len=entries["mem_len"])
        text = run_document.text_of(tokenizer)
        return RunDocument(path="", program=None, resolved=settings_of_run, text=text)
    kind, names = kinds[0], entries["id2label"]
    labels: Sequence[str] = [names[str(id)] for id in range(len(names))]
    options: dict[str, Any] = {}
    # The settings with which our program would train the model.
    settings: FineTuningSettings
    common: dict[str, Any] = {"model_dir": "", "max_seq_length": max_seq_length}
    if kind == "tagging":
        scheme = _scheme(labels)
        options = {"scheme": scheme, "is_spaced": True, "knows_spaces": True}
        settings = TaggerSettings(scheme=scheme, **common)
    elif kind == "spans":
        common.update((name, entries[name]) for name in _BEAMS)
        settings = SpanSettings(**common)
    else:
        if kind == "multiple_choice":
            choices = names_in(columns.get("choice_columns"))
            if not choices:
                raise wrong("choice_columns", "nothing", "the columns of the answers")
            # The labels of the model if it has one for each column; else numbers from 0 on.
            if names == DEFAULTS["id2label"] or len(labels) != len(choices):
                labels = [str(number) for number in range(len(choices))]
        settings = ClassifierSettings(
            is_regression=kind == "regression",
            multi_label=kind == "multi_label",
            summary_type=entries["summary_type"],
            use_summ_proj=bool(entries["summary_use_proj"]),
            **common,
            **columns,
        )
    # What `resolve_task` reads of the section `task`, as training here would have written it.
    stored: dict[str, Any] = {
        "labels": None if kind == "regression" else labels,
        "kind_options": options,
    }
    network = NetworkSettings(clamp_len=entries["clamp_len"])
    task = known.resolve_task(settings, stored)
    return task_settings.document_of(settings, network, task, tokenizer)


def _scheme(tags: Sequence[str]) -> str:
    """The scheme of `TaggerSettings` whose tags these are, "plain" if they are of none."""
    for scheme in _SCHEMES:
        if set(sentences.all_tags(tags, scheme)) == set(tags):
            return scheme
    return sentences.PLAIN


def describe_ours(
    run: RunDocument, config: XLNetConfig, has_lm: bool
) -> dict[str, Any]:
    """The entries of a checkpoint of ours; refuses what that library cannot compute.

    Args:
      run: its document.
      config: its architecture.
      has_lm: whether it has the output layer of a language model.
    """
    # There the width of heads follows from the others.
    if config.d_head * config.n_head != config.d_model:
        width = config.d_model / config.n_head
        expected = f"d_model / n_head, {width:g}, as in that library"
        raise wrong(f"{CONFIG_NAME}: d_head", config.d_head, expected)
    entries = dict(
        DEFAULTS,
        model_type="xlnet",
        architectures=[LM if has_lm else NETWORK],
        vocab_size=config.n_token,
        ff_activation=_THEIR_ACTIVATION[config.ff_activation],
    )
    for name in _ARCHITECTURE:
        entries[name] = getattr(config, name)
    for name in _SHARED:
        if name in run.resolved:
            entries[name] = run.resolved[name]
    # One direction is an attention type there.
    if run.resolved.get("objective") == "causal":
        entries["attn_type"] = "uni"
    if run.task:
        entries.update(_of_task(run.task, run.path))
    entries = read(entries, run.path)
    entries["label2id"] = {name: int(id) for id, name in entries["id2label"].items()}
    return entries


def _of_task(stored: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The entries by the section `task` of a document."""
    kind, labels = stored["kind"], stored["labels"]
    if kind not in _THEIRS:
        raise wrong(f"{path}: kind", repr(kind), f"one of {', '.join(_THEIRS)}")
    name, problem = _THEIRS[kind]
    has_projection = stored["use_summ_proj"]
    entries: dict[str, Any] = {
        "architectures": [name],
        "problem_type": problem,
        "summary_type": stored["summary_type"],
        "summary_use_proj": has_projection,
        # That library refuses null, and takes "" as no function.
        "summary_activation": "tanh" if has_projection else "",
    }
    # that library counts outputs by labels, also of scores
    if problem == SCORE:
        labels = ("LABEL_0",)
    if labels:
        entries["id2label"] = {str(id): label for id, label in enumerate(labels)}
    for name in _BEAMS:
        if name in stored["kind_options"]:
            entries[name] = stored["kind_options"][name]
    return entries
