"""Reads the files of a trained model: its network, its vocabulary and its task.

A model directory may come from anybody. Only files with the names below are read, and they cannot
lead elsewhere: a symbolic link out of the directory is refused, and so is a file `checkpoint` that
points elsewhere (`checkpoint.newest`). Nothing is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from typing import Any, Optional, Union

from xlnet import files
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.errors import UserError
from xlnet.models import resolved, task_json
from xlnet.models.task_model import TaskModel
from xlnet.serving.settings import LoadSettings
from xlnet.settings.fields import check_value, field_of
from xlnet.settings.finetuning import (
    FINETUNING_NAME,
    TASK_NAME,
    ClassifierSettings,
    FineTuningSettings,
    SpanSettings,
    TaggerSettings,
    TaskSettings,
)
from xlnet.settings.network import CARRIED_NAME, CONFIG_NAME, NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import PRETRAINING_NAME, PretrainingSettings
from xlnet.settings.training import BEST
from xlnet.tasks.types.known import TASK_TYPES
from xlnet.tasks.types.task import Task
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer, description_path

MAX_SEQ_LENGTH = 512    # of a model that is only pretrained: that of its pretraining [tokens]

_SETTINGS: dict[str, type[Union[ClassifierSettings, TaggerSettings, SpanSettings]]] = {
    group.program: group for group in (ClassifierSettings, TaggerSettings, SpanSettings)}
_READ = re.compile("|".join((*map(re.escape, (
    TASK_NAME, CONFIG_NAME, SPIECE_NAME, description_path(SPIECE_NAME), "checkpoint",
    PRETRAINING_NAME + ".json", FINETUNING_NAME + ".json", CARRIED_NAME, BEST)),
    r".*\.ckpt.*")))


@dataclasses.dataclass(frozen=True)
class TunedFor:
    """What a model was fine-tuned for.

    Attributes:
      task: the task.
      settings: those that the model keeps, as a run that predicts has them.
      scope: name of the output layer.
    """
    task: Task
    settings: FineTuningSettings
    scope: str


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A trained model without its weights.

    Attributes:
      prefix: of the checkpoint with the weights.
      tuned: None for a model that is only pretrained, on `objective`.
    """
    prefix: str
    config: XLNetConfig
    tokenizer: Tokenizer
    network: NetworkSettings
    tuned: Optional[TunedFor]
    objective: str = PretrainingSettings.objective

    @property
    def max_seq_length(self) -> int:
        """Tokens of a text, special ones included."""
        return self.tuned.settings.max_seq_length if self.tuned else MAX_SEQ_LENGTH

    def task_model(self) -> TaskModel:
        """The network with the output layer of its task."""
        assert self.tuned is not None, "a pretrained model has no task"
        return TaskModel(self.config, self.tuned.task, self.network, self.tuned.settings,
                         self.tuned.scope)


def read(path: str, *, model_config_path: Optional[str] = None,
         spiece_model_file: Optional[str] = None, use_checkpoint: str = "best",
         network: Optional[NetworkSettings] = None) -> LoadedModel:
    """Reads all of a model but its weights.

    Args:
      path: a model directory, a directory with a released checkpoint, or a checkpoint prefix.
      model_config_path: the architecture; None: the file next to the checkpoint.
      spiece_model_file: the vocabulary; None: the file next to the checkpoint.
      use_checkpoint: "best": that of `best/` if it is there, or else the newest; "newest".
      network: precision and the like; None: the defaults.

    Raises:
      UserError: a file is missing or damaged, does not fit the others, or leads out of the
        directory.
    """
    network = network or NetworkSettings()
    given: dict[str, Any] = dict(model_dir=path, model_config_path=model_config_path or "",
                                 spiece_model_file=spiece_model_file or "")
    network.check()
    TaskSettings(do_predict=True, **given).check()
    LoadSettings(path, use_checkpoint=use_checkpoint).check()
    prefix, home, is_tuned = _find(path, use_checkpoint)
    if is_tuned and not os.path.isdir(path):
        path = given["model_dir"] = home
    task_path = os.path.join(home, TASK_NAME)
    with _as_written(task_path):
        settings = _settings(task_path, given) if is_tuned else TaskSettings(**given)
    settings = _beside(settings, home)
    config = XLNetConfig(json_path=settings.model_config_path)
    tokenizer = resolved.read_vocabulary(settings, config)
    network = dataclasses.replace(network, clamp_len=resolved.kept_clamp_len(
        home, *[path] * os.path.isdir(path)))
    checkpoint.check_config(prefix, config)
    if is_tuned:
        with _as_written(task_path):
            tuned = _tuned_for(path, settings, tokenizer)
        return LoadedModel(prefix, config, tokenizer, network, tuned)
    return LoadedModel(prefix, config, tokenizer, network, None, _objective(home))


def _find(path, use_checkpoint):
    """(prefix of the checkpoint, directory of the other files, whether it has a `task.json`)"""
    if os.path.isdir(path):
        _check_inside(path, path)
        _check_inside(os.path.join(path, BEST), path)
        chosen = best_checkpoint.chosen(path, use_checkpoint)
        home = resolved.home_of(path)
        prefix = chosen[1] if chosen else checkpoint.resolve(path, "model_dir")
        return prefix, home or path, home is not None
    prefix = checkpoint.resolve(path, "model_dir")
    home = os.path.dirname(prefix) or "."
    _check_inside(home, home)
    return prefix, home, os.path.exists(os.path.join(home, TASK_NAME))


def _check_inside(directory, root):
    """Raises UserError if a model's file in `directory` is a symbolic link out of `root`."""
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        if _READ.fullmatch(name):
            files.require_inside(os.path.join(directory, name), root, "the model's")


@contextlib.contextmanager
def _as_written(path):
    """Raises UserError if a `task.json` does not have the form that our programs write."""
    try:
        yield
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise UserError("%s is not as a program of ours writes it: %s: %s"
                        % (path, type(e).__name__, e)) from e


def _settings(path, given):
    """The settings of a run that predicts with the model of a `task.json`."""
    stored = files.read_json(path, "task")
    its_type = TASK_TYPES.get(stored.get("kind", "classification"))
    if not its_type:
        raise UserError("%s: kind is %r, expected one of %s" % (path, stored["kind"],
                                                                ", ".join(TASK_TYPES)))
    if its_type.has_labels and not _are_names(stored.get("labels")) and "kind" in stored:
        raise UserError("%s: labels is %r, expected a list of names" % (path, stored["labels"]))
    settings = _SETTINGS[its_type.program](do_predict=True, predict_file="-", **given)
    return resolved.resolve(settings, [name for name, value in given.items() if value])


def _objective(home):
    """That of the pretraining run in `home`; a released model has the default."""
    path = os.path.join(home, PRETRAINING_NAME + ".json")
    stored = files.read_json(path, "pretraining") if os.path.exists(path) else {}
    field = field_of(PretrainingSettings, "objective")
    kept = stored.get(field.name, field.default)
    check_value(field, kept, path)
    return kept


def _are_names(labels: Any) -> bool:
    return isinstance(labels, list) and bool(labels) and all(
        isinstance(label, str) for label in labels)


def _beside(settings, home):
    """The settings with the architecture and the vocabulary next to the checkpoint, unless others
    are given."""
    for name, file in (("model_config_path", CONFIG_NAME), ("spiece_model_file", SPIECE_NAME)):
        if not getattr(settings, name):
            path = os.path.join(home, file)
            if not os.path.exists(path):
                raise UserError("model: no %s in %s; give %s" % (file, home, name))
            settings = dataclasses.replace(settings, **{name: path})
    return settings


def _tuned_for(path, settings, tokenizer):
    task = task_json.find_task(settings)
    described = task_json.describe(settings, task, tokenizer)
    for each in (path, os.path.join(path, BEST)):
        task_json.check(each, described, settings)
    return TunedFor(task, settings, described["head"])
