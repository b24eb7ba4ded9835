"""What a model directory was trained for: `task.json`, which stands beside its checkpoints."""

from __future__ import annotations

import dataclasses
import os
from typing import Optional

from xlnet import files
from xlnet.config import FineTuningSettings
from xlnet.engine import checkpoint, selection
from xlnet.errors import UserError
from xlnet.tasks import custom, known
from xlnet.tasks.task import Task
from xlnet.tokenization import Tokenizer

TASK_NAME = "task.json"


def head_scope(task: Task, cls_scope: Optional[str] = None) -> str:
    """Name of the output layer in a checkpoint: "classification_<task>" or "regression_<task>";
    `cls_scope` stands in for the task's name."""
    return task.kind.head_scope(cls_scope) if cls_scope else task.head


def describe(settings: FineTuningSettings, task: Task, tokenizer: Tokenizer) -> dict:
    """What `task.json` says: all, beside the architecture, that predictions depend on."""
    return {
        "task": task.trained_as or task.name,
        "labels": None if task.labels is None else list(task.labels),
        "is_regression": task.is_regression,
        "head": head_scope(task, settings.cls_scope),
        "uncased": tokenizer.uncased,
        "keep_accents": tokenizer.keep_accents,
        "summary_type": settings.summary_type,
        "use_summ_proj": settings.use_summ_proj,
        "spiece_sha256": tokenizer.sha256,
        "max_seq_length": settings.max_seq_length,
        "long_document": settings.long_document,
        "max_segments": settings.max_segments,
        "kind": task.kind.name,
        "kind_options": dataclasses.asdict(task.kind),
        "columns": {name: getattr(task, name) for name in _COLUMNS},
        "metric": task.metrics[0],
        "predict_threshold": settings.predict_threshold,
    }


_COLUMNS = ("text_a", "text_b", "label", "id", "choices", "query")

# The network has no positions of its own, so any length and any number of windows will do; labels
# and the output layer's name tell the kind of task. The others say how to go on using the model.
_MAY_DIFFER = ("max_seq_length", "long_document", "max_segments", "kind", "kind_options", "columns",
               "metric", "predict_threshold")


def check(model_dir: str, wanted: dict) -> None:
    """Raises UserError where `model_dir` has checkpoints that were trained for something else."""
    if not checkpoint.all_prefixes(model_dir):
        return
    path = os.path.join(model_dir, TASK_NAME)
    if not os.path.exists(path):
        raise UserError("model_dir: the checkpoints in %s are not run_classifier.py's (no %s); use "
                        "another model_dir and give this one as init_checkpoint"
                        % (model_dir, TASK_NAME))
    stored = files.read_json(path, "model_dir")
    different = ["%s %s, not %s" % (name, _words(stored.get(name)), _words(value))
                 for name, value in wanted.items()
                 if name not in _MAY_DIFFER and stored.get(name) != value]
    if different:
        raise UserError("model_dir: %s has %s" % (path, "; ".join(different)))


def _words(value):
    return "/".join(value) if isinstance(value, list) else "none" if value is None else str(value)


def find_task(settings: FineTuningSettings) -> Task:
    """Returns the `Task` of the settings.

    Own files that are not trained on have the labels of the model, so that its directory and one
    file are enough to predict.
    """
    for directory in (settings.model_dir, os.path.join(settings.model_dir, selection.BEST)):
        path = os.path.join(directory, TASK_NAME)
        has_labels = custom.find_kind(settings).has_labels
        if not settings.do_train and has_labels and os.path.exists(path):
            stored = files.read_json(path, "model_dir")
            if not stored.get("labels") and known.plain(settings.task_name) == known.CUSTOM:
                raise UserError("model_dir: %s has is_regression True, not False" % path)
            return custom.get_task(settings, stored)
    return custom.get_task(settings)
