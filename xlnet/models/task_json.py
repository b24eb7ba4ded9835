"""`task.json`, next to the checkpoints of a model: what it was trained for."""

from __future__ import annotations

import dataclasses
import logging
import os

from xlnet import files
from xlnet.engine import checkpoint
from xlnet.errors import UserError
from xlnet.models import resolved
from xlnet.settings.finetuning import FINETUNING_NAME, TASK_NAME, FineTuningSettings
from xlnet.settings.network import NetworkSettings
from xlnet.tasks.types import custom, known
from xlnet.tasks.types.task import Task
from xlnet.tokenization.tokenizer import Tokenizer

_log = logging.getLogger(__name__)


def describe(settings: FineTuningSettings, task: Task, tokenizer: Tokenizer,
             clamp_len: int = NetworkSettings.clamp_len) -> dict:
    """The content of `task.json`: all that predictions depend on, except the architecture."""
    return {
        "task": task.trained_as or task.name,
        "labels": None if task.labels is None else list(task.labels),
        "is_regression": task.is_regression,
        "head": task.head.scope(settings.cls_scope),
        "uncased": tokenizer.uncased,
        "keep_accents": tokenizer.keep_accents,
        "clamp_len": clamp_len,
        "summary_type": settings.summary_type,
        "use_summ_proj": settings.use_summ_proj,
        "spiece_sha256": tokenizer.sha256,
        "kind": task.type.name,
        "kind_options": dataclasses.asdict(task.options),
        "columns": {name: getattr(task, name) for name in _COLUMNS},
        "settings": dict(resolved.kept_by_model(settings), is_regression=(
            settings.is_regression if task.name == known.CUSTOM else task.is_regression)),
    }


_COLUMNS = ("text_a", "text_b", "label", "id", "choices", "query")

# The weights do not depend on these: the network has no absolute positions, so it takes any length
# and any number of windows. `resolved` compares the settings.
_MAY_DIFFER = ("kind_options", "columns", "settings", "clamp_len", "dev_share", "train_sha256")


def check(model_dir: str, wanted: dict, settings: FineTuningSettings) -> None:
    """Raises UserError if `model_dir` has checkpoints that were trained for something else.

    The original implementation writes no `task.json`: its checkpoints are used if they have the
    output layer, but training does not continue from them.

    Args:
      wanted: what `describe` returns for the settings.
    """
    prefixes = checkpoint.all_prefixes(model_dir)
    if not prefixes:
        return
    path = os.path.join(model_dir, TASK_NAME)
    if not os.path.exists(path):
        if settings.do_train or not _has_layer(prefixes[-1][1], wanted["head"]):
            raise UserError("model_dir: the checkpoints in %s are not %s's (no %s); use another "
                            "model_dir and give this one as init_checkpoint"
                            % (model_dir, settings.program, TASK_NAME))
        _log.info("note: %s has no %s: task, vocabulary and settings are those given", model_dir,
                  TASK_NAME)
        return
    stored = files.read_json(path, "model_dir")
    different = ["%s %s, not %s" % (name, _words(stored.get(name)), _words(value))
                 for name, value in wanted.items()
                 if name not in _MAY_DIFFER and stored.get(name) != value
                 and not (name == "kind" and name not in stored)]   # older versions
    if different:
        raise UserError("model_dir: %s has %s" % (path, "; ".join(different)))
    for _, prefix in prefixes[-1:]:
        outputs = checkpoint.shapes(prefix).get("model/%s/logit/bias" % wanted["head"])
        if outputs and wanted["labels"] and outputs != [len(wanted["labels"])]:
            raise UserError("model_dir: %s has %d labels, but the output layer %s of %s has %d "
                            "outputs" % (path, len(wanted["labels"]), wanted["head"], prefix,
                                         outputs[0]))
    share = wanted.get("dev_share", 0.0)
    if (settings.do_train or share) and stored.get("dev_share", share) != share \
            and not settings.allow_changes:
        raise UserError("model_dir: the fraction of the train file that is held out as dev is %g "
                        "in %s, here it is %g; give dev_share and the files as they were, or "
                        "--allow_changes=True" % (stored["dev_share"], path, share))


def _has_layer(prefix, scope):
    return any(name.startswith((scope + "/", "model/%s/" % scope))
               for name in checkpoint.names(prefix))


def _words(value):
    return "/".join(value) if isinstance(value, list) else "none" if value is None else str(value)


def find_task(settings: FineTuningSettings) -> Task:
    """Returns the `Task` of resolved settings.

    Without training, own files have the labels of the model: its directory and one file are enough
    to predict.
    """
    home = resolved.home_of(settings.model_dir)
    if not home:
        return custom.get_task(settings)
    path = os.path.join(home, TASK_NAME)
    stored = files.read_json(path, "model_dir")
    if not settings.do_train and custom.find_type(settings).has_labels \
            and not stored.get("labels") and known.plain(settings.task_name) == known.CUSTOM:
        raise UserError("model_dir: %s has is_regression True, not False" % path)
    if settings.dev_share is None and _is_train_file(settings, stored):
        settings = dataclasses.replace(settings, dev_share=stored.get("dev_share"))
    return custom.get_task(settings, stored)


def _is_train_file(settings, stored):
    """Whether `data_dir` is the one file that a model was trained on: by its path, as rows may have
    been added, or by its content."""
    if settings.do_train or not os.path.isfile(settings.data_dir):
        return False
    path = os.path.join(settings.model_dir, FINETUNING_NAME + ".json")
    run = files.read_json(path, "model_dir") if os.path.exists(path) else {}
    named = [run[name] for name in ("data_dir", "train_file") if run.get(name)]
    return any(os.path.exists(one) and os.path.samefile(one, settings.data_dir)
               for one in named) or stored.get("train_sha256") == [
                   files.digest_of(settings.data_dir)]
