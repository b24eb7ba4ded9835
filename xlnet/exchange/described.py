"""What a model directory was trained for, `task.json`, in the terms of `config_json.Model`."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Optional

from xlnet import files
from xlnet.config import ClassifierSettings, XLNetConfig
from xlnet.errors import UserError
from xlnet.exchange import config_json, weights
from xlnet.finetuning import task_json
from xlnet.tasks import known
from xlnet.tasks.registry import KINDS
from xlnet.tasks.task import Task
from xlnet.tokenization import Tokenizer

# Our kinds of tasks in their terms: output layer, what it is trained for.
_THEIRS = {
    "classification": (weights.SEQUENCE, config_json.ONE_LABEL),
    "multi_label": (weights.SEQUENCE, config_json.MANY_LABELS),
    "regression": (weights.SEQUENCE, config_json.SCORE),
    "ranking": (weights.SEQUENCE, config_json.SCORE),
    "multiple_choice": (weights.CHOICE, config_json.ONE_LABEL),
}
_KINDS = {theirs: kind for kind, theirs in _THEIRS.items() if kind != "ranking"}


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of the files that a converted model predicts, and the length of its texts; the fields
    are those of `ClassifierSettings`."""
    text_a_column: str = ClassifierSettings.text_a_column
    text_b_column: Optional[str] = None
    choice_columns: Optional[str] = None
    max_seq_length: int = 512


def find_kind(model: config_json.Model) -> Optional[str]:
    """The name of our kind of task for their model; None where it has no task, or none of ours."""
    return _KINDS.get((model.head, model.problem))


def scope(model: config_json.Model) -> str:
    """The name that our output layer gets."""
    kind = find_kind(model)
    return KINDS[kind].head_scope(known.CUSTOM) if kind else "tagging_" + known.CUSTOM


def names_of(model: config_json.Model, outputs: int) -> Optional[tuple[str, ...]]:
    """The labels of their model; None for scores.

    Args:
      outputs: of the output layer in its file.

    Raises:
      UserError: `config.json` has another number of them.
    """
    if model.problem == config_json.SCORE:
        if outputs != 1:
            raise UserError("%s: problem_type is regression, but there are %d outputs; expected 1"
                            % (config_json.NAME, outputs))
        return None
    labels = model.labels or tuple("LABEL_%d" % id for id in range(outputs))
    if model.head != weights.CHOICE and len(labels) != outputs:
        raise UserError("%s: id2label has %d labels, but there are %d outputs"
                        % (config_json.NAME, len(labels), outputs))
    return labels


def describe(model: config_json.Model, tokenizer: Tokenizer, columns: Columns) -> dict[str, Any]:
    """The `task.json` of their model, whose `find_kind` is not None.

    Raises:
      UserError: the columns do not go with the kind of task.
    """
    settings = ClassifierSettings(
        task_name=known.CUSTOM, data_dir="", output_dir="", model_dir="", model_config_path="",
        spiece_model_file=tokenizer.path, is_regression=model.problem == config_json.SCORE,
        multi_label=model.problem == config_json.MANY_LABELS, summary_type=model.summary_type,
        use_summ_proj=model.use_summ_proj, **dataclasses.asdict(columns))
    return task_json.describe(settings, _task(model, settings), tokenizer)


def _task(model, settings):
    labels, choices = model.labels, _listed(settings.choice_columns)
    if (model.head == weights.CHOICE) != bool(choices):
        raise UserError("choice_columns: %s" % (
            "a multiple-choice model needs the columns of its answers" if not choices
            else "%s has none" % model.class_name))
    if model.head == weights.CHOICE and len(choices) > 1 and len(labels or ()) != len(choices):
        labels = tuple(map(str, range(len(choices))))
    kind = KINDS[find_kind(model)]
    return Task(known.CUSTOM, text_a=_listed(settings.text_a_column),
                text_b=_listed(settings.text_b_column), label=(settings.label_column,),
                labels=labels, metrics=kind.default_metrics, kind=kind, id=settings.id_column,
                id_required=True, choices=choices, cut_first=bool(choices))


def _listed(names):
    return tuple(name.strip() for name in (names or "").split(",") if name.strip())


def read(directory: str, config: XLNetConfig) -> Optional[tuple[config_json.Model, str]]:
    """What the `task.json` of a model directory says: the model, and its output layer's name. None
    where there is none.

    Raises:
      UserError: it is of a kind of task that Hugging Face's library does not have.
    """
    path = os.path.join(directory, task_json.TASK_NAME)
    if not os.path.exists(path):
        return None
    stored = files.read_json(path, "task")
    kind = stored.get("kind")
    if kind not in _THEIRS:
        raise UserError("%s: kind is %r, which Hugging Face's library does not have; expected one "
                        "of %s" % (path, kind, ", ".join(_THEIRS)))
    head, problem = _THEIRS[kind]
    labels = stored.get("labels")
    model = config_json.Model(
        config, head, labels and tuple(labels), problem, stored["summary_type"],
        stored["use_summ_proj"])
    return model, stored["head"]
