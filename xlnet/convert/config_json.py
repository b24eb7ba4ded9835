"""`config.json` of Hugging Face's library: the entries that decide what a model computes.

Both conversions use them: `checked_entries` checks theirs, `run_document_of` turns them into a
document as `run.json`, and `entries_of` says in these terms what a checkpoint of ours is.
"Theirs" and "there" mean that library, "ours" and "here" this one.
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

# Our task types in their terms: (class, problem type; None for classes that have none). A model of
# theirs is of the first type that has its terms: "regression", never "ranking".
_THEIRS = {
    "classification": (SEQUENCE, ONE_LABEL),
    "multi_label": (SEQUENCE, MANY_LABELS),
    "regression": (SEQUENCE, SCORE),
    "ranking": (SEQUENCE, SCORE),
    "multiple_choice": (CHOICE, None),
    "tagging": (TOKENS, None),
    "spans": (SPANS, None),
}

_ACTIVATIONS = {  # theirs -> ours
    "relu": "relu",
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
}
_THEIR_ACTIVATION = {"relu": "relu", "gelu_erf": "gelu", "gelu": "gelu_new"}

# Entries that have the same name here.
_ARCHITECTURE = ("n_layer", "d_model", "n_head", "d_head", "d_inner", "untie_r")
_BEAMS = ("start_n_top", "end_n_top")  # options of the task type of questions
_SETTINGS = ("clamp_len", "mem_len", "same_length")  # settings of a run

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


def checked_entries(document: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The entries of `DEFAULTS` from a `config.json`, which may leave some out. Raises UserError
    for a model that is not an XLNet, or cannot be computed here. path: of the document, for
    errors."""
    entries = {name: document.get(name, default) for name, default in DEFAULTS.items()}
    classes = entries["architectures"]
    if classes not in [[name] for name in OUTPUT_LAYERS]:
        expected = f"one of {', '.join(OUTPUT_LAYERS)}"
        raise wrong(f"{path}: architectures", repr(classes), expected)
    class_name, labels = classes[0], entries["id2label"]
    # The values of an entry with which a model can be computed here.
    allowed: dict[str, tuple] = {"model_type": ("xlnet",), "layer_norm_eps": (1e-12,)}
    allowed["ff_activation"] = tuple(_ACTIVATIONS)
    if class_name not in (NETWORK, LM):  # fine-tuned
        allowed.update(attn_type=("bi",), bi_data=(False,), same_length=(False,))
        if not _are_names(labels):
            expected = "a name of its own for each of 0, 1, ..."
            raise wrong(f"{path}: id2label", repr(labels), expected)
    if class_name == SEQUENCE:
        # Without a problem type, that library takes one label for scores.
        by_count = SCORE if len(labels) == 1 else ONE_LABEL
        entries["problem_type"] = entries["problem_type"] or by_count
        allowed["problem_type"] = (ONE_LABEL, MANY_LABELS, SCORE)
    else:
        entries["problem_type"] = None
    if class_name in SUMMED_UP:
        # With a projection the vector goes through tanh, without one it stays as it is: older
        # files have null there.
        has_projection = entries["summary_use_proj"]
        entries["summary_activation"] = entries["summary_activation"] or ""
        allowed["summary_activation"] = ("tanh",) if has_projection else ("",)
        allowed["summary_type"] = ("last", "first", "mean")
    for name, values in allowed.items():
        if entries[name] not in values:
            raise wrong(f"{path}: {name}", repr(entries[name]), f"one of {values}")
    return entries


def _are_names(labels: Any) -> bool:
    """Whether labels are a dict with a name of its own for each of "0", "1", ..., and no others."""
    try:
        names = [labels[str(id)] for id in range(len(labels))]
    except (TypeError, KeyError):  # no dict, or one with other keys
        return False
    are_texts = all(isinstance(name, str) for name in names)
    return are_texts and len(set(names)) == len(names) > 0


def architecture(entries: Mapping[str, Any], path: str) -> XLNetConfig:
    """The architecture that the entries, as of `checked_entries`, describe; raises UserError, which
    names the `config.json` at `path`."""
    sizes = {name: entries[name] for name in _ARCHITECTURE}
    try:
        sizes["d_head"] = sizes["d_head"] or sizes["d_model"] // sizes["n_head"]
        return XLNetConfig(
            ff_activation=_ACTIVATIONS[entries["ff_activation"]],
            n_token=entries["vocab_size"],
            **sizes,
        )
    except (UserError, TypeError, ZeroDivisionError) as e:
        raise UserError(f"{path}: {e}") from None


def run_document_of(
    entries: Mapping[str, Any],
    tokenizer: Tokenizer,
    columns: Mapping[str, Any],
    max_seq_length: int,
) -> RunDocument:
    """The document of their model, as a run here would have written it.

    Args:
      entries: as of `checked_entries`.
      tokenizer: of the model.
      columns: `text_b_column` and `choice_columns` of `ClassifierSettings` for the files to
        predict, as flags give them, or some of these; read for models of `SUMMED_UP` alone.
      max_seq_length: of a text [tokens].
    """
    theirs = (entries["architectures"][0], entries["problem_type"])
    kinds = [kind for kind, terms in _THEIRS.items() if terms == theirs]
    if not kinds:  # the network or a language model
        settings_of_run = {"clamp_len": entries["clamp_len"]}
        if entries["attn_type"] == "uni":
            settings_of_run["objective"] = "causal"
        # The length that all positions see is that of the memory.
        if entries["same_length"] and entries["mem_len"]:
            settings_of_run.update(same_length=True, mem_len=entries["mem_len"])
        text = run_document.text_of(tokenizer)
        return RunDocument(path="", program=None, resolved=settings_of_run, text=text)

    # The settings with which our program would train the model, and its labels.
    kind, label_of = kinds[0], entries["id2label"]
    labels = [label_of[str(id)] for id in range(len(label_of))]
    settings: FineTuningSettings
    common: dict[str, Any] = {"model_dir": "", "max_seq_length": max_seq_length}
    if kind == "tagging":
        settings = TaggerSettings(scheme=_scheme(labels), **common)
    elif kind == "spans":
        common.update((name, entries[name]) for name in _BEAMS)
        # The lengths of our defaults, less if the text is short.
        common["max_query_length"] = min(64, max_seq_length // 4)
        common["doc_stride"] = min(128, max_seq_length // 2)
        settings = SpanSettings(**common)
    else:
        if kind == "multiple_choice":
            choices = names_in(columns.get("choice_columns"))
            if not choices:
                raise wrong("choice_columns", "nothing", "the columns of the answers")
            # The labels of the model if it has one for each column; else numbers from 0 on.
            if label_of == DEFAULTS["id2label"] or len(labels) != len(choices):
                labels = [str(number) for number in range(len(choices))]
        settings = ClassifierSettings(
            is_regression=kind == "regression",
            multi_label=kind == "multi_label",
            summary_type=entries["summary_type"],
            use_summ_proj=bool(entries["summary_use_proj"]),
            **common,
            **columns,
        )
    network = NetworkSettings(clamp_len=entries["clamp_len"])
    # As from the section `task` of a document. Types without labels do not read them.
    task = known.resolve_task(settings, stored={"labels": labels})
    return task_settings.document_of(settings, network, task, tokenizer)


def _scheme(tags: Sequence[str]) -> str:
    """The scheme, as of `TaggerSettings`, that has these tags and no others for their labels;
    "plain" if none has."""
    for scheme in sentences.PREFIXES:
        if set(sentences.all_tags(tags, scheme)) == set(tags):
            return scheme
    return sentences.PLAIN


def entries_of(
    document: RunDocument, config: XLNetConfig, has_lm: bool
) -> dict[str, Any]:
    """The entries for a checkpoint of ours, with `label2id`; raises UserError for a model that that
    library cannot compute.

    Args:
      document: of its run.
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
    for name in _SETTINGS:
        if name in document.resolved:
            entries[name] = document.resolved[name]
    # The objective here is an attention type there.
    objective = document.resolved.get("objective", "permutation")
    if objective == "causal":
        entries["attn_type"] = "uni"
    elif objective != "permutation":
        where = f"{document.path}: objective"
        raise wrong(where, objective, "permutation or causal")
    if document.task:
        entries.update(_entries_of_task(document.task, document.path))
    entries = checked_entries(entries, document.path)
    label_of = entries["id2label"]
    entries["label2id"] = {label: int(id) for id, label in label_of.items()}
    return entries


def _entries_of_task(stored: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The entries that depend on the task, from the section `task` of the document at `path`."""
    kind, labels = stored["kind"], stored["labels"]
    if kind not in _THEIRS:
        raise wrong(f"{path}: kind", repr(kind), f"one of {', '.join(_THEIRS)}")
    class_name, problem_type = _THEIRS[kind]
    has_projection = stored["use_summ_proj"]
    entries: dict[str, Any] = {
        "architectures": [class_name],
        "problem_type": problem_type,
        "summary_type": stored["summary_type"],
        "summary_use_proj": has_projection,
        # That library refuses null, and takes "" as no function.
        "summary_activation": "tanh" if has_projection else "",
    }
    # That library counts outputs by labels, also the one of scores.
    if problem_type == SCORE:
        labels = ("LABEL_0",)
    if labels:  # questions have none
        entries["id2label"] = {str(id): label for id, label in enumerate(labels)}
    for name in _BEAMS:
        if name in stored["kind_options"]:
            entries[name] = stored["kind_options"][name]
    return entries
