"""What a model was trained for, as `run.json` says it, in entries of `config.json`, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from xlnet.convert import config_json
from xlnet.corpus.tokenizer import Tokenizer
from xlnet.runs import task_settings
from xlnet.runs.run_document import RunDocument
from xlnet.settings.finetuning import (
    QUESTION_SPECIAL_TOKENS,
    ClassifierSettings,
    FineTuningSettings,
    SpanSettings,
    TaggerSettings,
)
from xlnet.settings.network import NetworkSettings
from xlnet.support.errors import wrong
from xlnet.tasks.features import encoding
from xlnet.tasks.tagging import schemes
from xlnet.tasks.task import Columns as TaskColumns
from xlnet.tasks.task import Task
from xlnet.tasks.types import custom, known
from xlnet.tasks.types.known import TASK_TYPES

# Our task types in their terms: (class, problem). The first one is that of their model.
_THEIRS = {
    "classification": (config_json.SEQUENCE, config_json.ONE_LABEL),
    "multi_label": (config_json.SEQUENCE, config_json.MANY_LABELS),
    "regression": (config_json.SEQUENCE, config_json.SCORE),
    "ranking": (config_json.SEQUENCE, config_json.SCORE),
    "multiple_choice": (config_json.CHOICE, None),
    "tagging": (config_json.TOKENS, None),
    "spans": (config_json.SPANS, None),
}
_BEAMS = (
    "start_n_top",
    "end_n_top",
)  # of questions: task options here, entries of a config there
_SCHEMES = ("bio2", "bioes", "bmes")  # that taggers learn here


@dataclasses.dataclass(frozen=True)
class Columns:
    """Fields of `ClassifierSettings` for the files that a converted model predicts."""

    text_a_column: str = ClassifierSettings.text_a_column
    text_b_column: Optional[str] = None
    choice_columns: Optional[str] = None
    max_seq_length: Optional[int] = None  # None: that of the folder, or 512


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
    task = Task(known.CUSTOM, TaskColumns(), None, (), TASK_TYPES[name])
    return task.head.scope()


def labels_of(entries: Mapping[str, Any], outputs: int) -> Optional[tuple[str, ...]]:
    """The labels of their model with so many outputs; None for scores."""
    labels = tuple(entries.get("id2label", {}).values())
    labels = labels or tuple(f"LABEL_{id}" for id in range(outputs))
    is_score = entries.get("problem_type") == config_json.SCORE
    count = 1 if is_score else len(labels)
    if entries["architectures"][0] in (config_json.SEQUENCE, config_json.TOKENS):
        if count != outputs:
            raise wrong(
                f"{config_json.NAME}: id2label", f"{count} labels", f"{outputs}"
            )
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
    entities = {schemes.split(tag)[1] for tag in tags if tag != schemes.OUTSIDE}
    for scheme in _SCHEMES:
        if set(schemes.all_tags(entities, scheme)) == set(tags):
            return scheme
    return None


def describe(
    entries: Mapping[str, Any],
    labels: Optional[tuple[str, ...]],
    tokenizer: Tokenizer,
    columns: Columns,
    max_seq_length: int,
) -> RunDocument:
    """The document of their model, which must have no reason `why_not`.

    Args:
      entries: as of `config_json.read`.
      labels: as of `labels_of`.
      tokenizer: its vocabulary.
      columns: of the files to predict.
      max_seq_length: in place of that of `columns` [tokens].
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
        common.update(dataclasses.asdict(columns), max_seq_length=max_seq_length)
        settings = ClassifierSettings(
            is_regression=kind == "regression",
            multi_label=kind == "multi_label",
            summary_type=entries["summary_type"],
            use_summ_proj=bool(entries["summary_use_proj"]),
            **common,
        )
    if kind == "multiple_choice":
        if not columns.choice_columns:
            raise wrong("choice_columns", "nothing", "the columns of the answers")
        # The labels of the model if there is one for each column; else numbers from 0 on.
        count = columns.choice_columns.count(",") + 1
        if len(labels or ()) != count:
            labels = tuple(map(str, range(count)))
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
    if problem == config_json.SCORE:
        labels = ("LABEL_0",)
    if labels:
        entries.update(config_json.of_labels(labels))
    options = stored.get("kind_options", {})
    entries.update((name, options[name]) for name in _BEAMS if name in options)
    return entries
