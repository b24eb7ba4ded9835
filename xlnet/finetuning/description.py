"""What a model directory was trained for: `task.json`, which stands beside its checkpoints."""

import os

from xlnet import files
from xlnet.engine import checkpoint, selection
from xlnet.errors import UserError
from xlnet.finetuning import own_data, tasks

TASK_NAME = "task.json"


def head_scope(task, cls_scope=None):
    """Name of the output layer in a checkpoint: "classification_<task>" or "regression_<task>";
    `cls_scope` stands in for the task's name."""
    return tasks.head_name(task, cls_scope) if cls_scope else task.head


def describe(settings, task, tokenizer):
    """What `task.json` says: all, beside the architecture, that predictions depend on."""
    return {
        "task": task.trained_as or task.name,
        "labels": None if task.is_regression else list(task.labels),
        "is_regression": task.is_regression,
        "head": head_scope(task, settings.cls_scope),
        "uncased": tokenizer.uncased,
        "keep_accents": tokenizer.keep_accents,
        "summary_type": settings.summary_type,
        "use_summ_proj": settings.use_summ_proj,
        "spiece_sha256": tokenizer.sha256,
        "max_seq_length": settings.max_seq_length,
        "long_document": settings.long_document,
        "kind": task.kind,
    }


# The network has no positions of its own, so any length and any number of windows will do; labels
# and the output layer's name tell the kind of task.
_MAY_DIFFER = ("max_seq_length", "long_document", "kind")


def check(model_dir, wanted):
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


def find_task(settings):
    """Returns the `tasks.Task` of the settings.

    Own files that are not trained on have the labels of the model, so that its directory and one
    file are enough to predict.
    """
    for directory in (settings.model_dir, os.path.join(settings.model_dir, selection.BEST)):
        path = os.path.join(directory, TASK_NAME)
        has_labels = not settings.is_regression and not settings.query_id_column
        if not settings.do_train and has_labels and os.path.exists(path):
            labels = files.read_json(path, "model_dir").get("labels")
            if not labels and tasks.plain(settings.task_name) == tasks.CUSTOM:
                raise UserError("model_dir: %s has is_regression True, not False" % path)
            return own_data.get_task(settings, labels)
    return own_data.get_task(settings)
