"""What a model was trained for, as `run.json` says it, in terms of `config_json.Model`."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any, Optional

from xlnet.convert import config_json, weights
from xlnet.errors import UserError
from xlnet.model_directory import task_settings
from xlnet.model_directory.run_document import RunDocument
from xlnet.settings.finetuning import (
    QUESTION_SPECIAL_TOKENS,
    ClassifierSettings,
    FineTuningSettings,
    SpanSettings,
    TaggerSettings,
)
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.tasks.features import encoding
from xlnet.tasks.tagging import schemes
from xlnet.tasks.task import Columns as TaskColumns
from xlnet.tasks.task import Task
from xlnet.tasks.types import custom, known
from xlnet.tasks.types.known import TASK_TYPES
from xlnet.tokenization.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

# Our task types in their terms: (output layer, problem).
_THEIRS = {
    "classification": (weights.SEQUENCE, config_json.ONE_LABEL),
    "multi_label": (weights.SEQUENCE, config_json.MANY_LABELS),
    "regression": (weights.SEQUENCE, config_json.SCORE),
    "ranking": (weights.SEQUENCE, config_json.SCORE),
    "multiple_choice": (weights.CHOICE, config_json.ONE_LABEL),
    "tagging": (weights.TOKENS, config_json.ONE_LABEL),
    "spans": (weights.SPANS, config_json.ONE_LABEL),
}
# Of questions: task options here, entries of a config there.
_OF_SPANS = ("start_n_top", "end_n_top", *config_json.SPAN_LENGTHS)
_TYPES = {theirs: name for name, theirs in _THEIRS.items() if name != "ranking"}
# Settings of predictions that decide here alone, with the values that decide nothing.
_HERE_ALONE = {
    "long_document": "truncate",
    "fills_gaps": False,
    "predict_threshold": ClassifierSettings.predict_threshold,
}


@dataclasses.dataclass(frozen=True)
class Columns:
    """Fields of `ClassifierSettings` for the files that a converted model predicts."""

    text_a_column: str = ClassifierSettings.text_a_column
    text_b_column: Optional[str] = None
    choice_columns: Optional[str] = None
    max_seq_length: Optional[int] = None  # None: that of the folder, or 512


def find_type(model: config_json.Model) -> Optional[str]:
    """The name of our task type for their model; None: there is none."""
    return _TYPES.get((model.head, model.problem))


def scope(model: config_json.Model) -> str:
    """The name of our output layer."""
    name = find_type(model)
    if not name:
        return ""
    # The head of such a task knows its scope.
    task = Task(known.CUSTOM, TaskColumns(), None, (), TASK_TYPES[name])
    return task.head.scope()


def names_of(model: config_json.Model, outputs: int) -> Optional[tuple[str, ...]]:
    """The labels of their model with so many outputs; None for scores."""
    if model.problem == config_json.SCORE:
        if outputs != 1:
            raise UserError(
                f"{config_json.NAME}: problem_type is regression, but there are {outputs} "
                "outputs; expected 1"
            )
        return None
    labels = model.labels or tuple(f"LABEL_{id}" for id in range(outputs))
    for label in labels:
        # A prediction file has a label on each line, or several between tabs.
        if any(separator in label for separator in "\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"):
            raise UserError(
                f"{config_json.NAME}: id2label has {label!r}, expected labels without tabs and "
                "line breaks"
            )
    if model.head != weights.CHOICE and len(labels) != outputs:
        raise UserError(
            f"{config_json.NAME}: id2label has {len(labels)} labels, but there are "
            f"{outputs} outputs"
        )
    return labels


def why_not(model: config_json.Model) -> Optional[str]:
    """Why no program of ours can use their model with its task; None: one can."""
    if not find_type(model):
        return f"{model.class_name} has no task of ours"
    if model.head == weights.TOKENS and not _scheme(model.labels or ()):
        return (
            "its labels are not the tags of a scheme that is learned here, B-X for each I-X "
            "and the like: {}".format(", ".join((model.labels or ())[:4]))
        )
    return None


def describe(
    model: config_json.Model, tokenizer: Tokenizer, columns: Columns, max_seq_length: int
) -> RunDocument:
    """The document of their model, which must have no reason `why_not`; max_seq_length: in place
    of that of `columns` [tokens]."""
    encoding.check_max_seq_length(max_seq_length)
    columns = dataclasses.replace(columns, max_seq_length=max_seq_length)
    settings = _settings(
        model,
        columns,
        dict(
            task_name=known.CUSTOM,
            data_dir="",
            output_dir="",
            model_dir="",
            model_config_path="",
            spiece_model_file=tokenizer.path,
            max_seq_length=max_seq_length,
        ),
    )
    # The section `task` as training here would have written it.
    stored: dict[str, Any] = {
        "labels": model.labels,
        "columns": {"label": []},
        "kind_options": {
            "scheme": _scheme(model.labels or ()),
            "is_spaced": True,
            "knows_spaces": True,
        },
    }
    if model.head == weights.CHOICE:
        # The labels of the model if there is one for each column; else numbers from 0 on.
        count = (columns.choice_columns or "").count(",") + 1
        if count == 1 and not model.labels:
            raise UserError(
                f"choice_columns names one column, and {config_json.NAME} does not say how many "
                "answers there are; name a column for each"
            )
        if count > 1 and len(model.labels or ()) != count:
            stored["labels"] = tuple(map(str, range(count)))
    return task_settings.document_of(
        settings,
        NetworkSettings(clamp_len=model.carried.get("clamp_len", NetworkSettings.clamp_len)),
        custom.resolve_task(settings, stored),
        tokenizer,
    )


def _settings(
    model: config_json.Model, columns: Columns, common: dict[str, Any]
) -> FineTuningSettings:
    """The settings with which our program would train the model."""
    # Columns must fit the class, which reads texts, words or questions.
    if columns.choice_columns and model.head != weights.CHOICE:
        raise UserError(f"choice_columns: {model.class_name} has none")
    if model.head == weights.CHOICE and not columns.choice_columns:
        raise UserError("choice_columns: a multiple-choice model needs the columns of its answers")
    if model.head in (weights.TOKENS, weights.SPANS) and columns != Columns(
        max_seq_length=columns.max_seq_length
    ):
        raise UserError(
            "text_a_column, text_b_column: {} reads {}".format(
                model.class_name, "words" if model.head == weights.TOKENS else "questions"
            )
        )
    if model.head == weights.TOKENS:
        # A tagger's labels are known here: `names_of` gives them.
        return TaggerSettings(scheme=_scheme(model.labels or ()), **common)
    if model.head == weights.SPANS:
        # Our defaults are for 512 tokens; shorter models get what fits.
        room = common["max_seq_length"] - QUESTION_SPECIAL_TOKENS
        query = model.carried.get("max_query_length", min(SpanSettings.max_query_length, room // 2))
        lengths = {
            "max_query_length": query,
            "doc_stride": min(SpanSettings.doc_stride, room - query),
        }
        kept = {name: model.carried[name] for name in _OF_SPANS if name in model.carried}
        return SpanSettings(**{**lengths, **kept}, **common)
    common.update(dataclasses.asdict(columns))
    return ClassifierSettings(
        is_regression=model.problem == config_json.SCORE,
        multi_label=model.problem == config_json.MANY_LABELS,
        summary_type=model.summary_type,
        use_summ_proj=model.use_summ_proj,
        **common,
    )


# The schemes that taggers learn here, with the prefix of entities of one word.
_ALONE = {"bio2": "B", "bioes": "S", "bmes": "S"}


def _scheme(labels: Sequence[str]) -> Optional[str]:
    """The scheme of the labels; None if they are not tags, or tags of iob1: it has I-PER without
    B-PER, and its I begins entities, which is illegal here."""
    for scheme, alone in _ALONE.items():
        entities = schemes.labels_of([labels], scheme)
        if all(schemes.is_tag(label, scheme) for label in labels) and all(
            schemes.join(alone, entity) in labels for entity in entities
        ):
            return scheme
    return None


def read(run: RunDocument, config: XLNetConfig) -> Optional[tuple[config_json.Model, str]]:
    """The model by the task of a document, and the name of its output layer; None: no task."""
    stored = run.task
    if stored is None:
        return None
    kind = stored.get("kind")
    if kind not in _THEIRS:
        raise UserError(
            "{}: kind is {!r}, which Hugging Face's library does not have; expected one "
            "of {}".format(run.path, kind, ", ".join(_THEIRS))
        )
    head, problem = _THEIRS[kind]
    labels, options = stored.get("labels"), stored.get("kind_options", {})
    # The weights are the same there, but not the predictions. Questions have windows there, too.
    values = {**run.resolved, **options}
    if kind == "spans" and values.get("long_document") == "sliding":
        del values["long_document"]
    if kind not in ("multi_label", "spans") and (
        kind != "classification" or len(labels or ()) != 2
    ):
        values.pop("predict_threshold", None)
    alone = [
        f"{name}={values[name]}"
        for name, plain in sorted(_HERE_ALONE.items())
        if values.get(name, plain) != plain
    ]
    task = known.TASKS.get(str(stored.get("task")))
    if task and task.published.replacements:
        old, new = task.published.replacements[0]
        alone.append(f"replacements in texts (such as {new!r} for {old!r})")
    if alone:
        _log.warning(
            "note: the model predicts with %s here, which Hugging Face's library does not have",
            ", ".join(alone),
        )
    model = config_json.Model(
        config,
        head,
        labels and tuple(labels),
        problem,
        stored["summary_type"],
        stored["use_summ_proj"],
        {name: options[name] for name in _OF_SPANS if name in options},
    )
    return model, stored["head"]
