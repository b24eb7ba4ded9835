"""Reads the files of a trained model: its network, its vocabulary and its task.

A model directory may come from anybody. Only files with the names below are read, and they cannot
lead elsewhere: a symbolic link out of the directory is refused, and so is a file `checkpoint` that
points elsewhere (`checkpoint.newest`). Nothing is written.
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any, Optional, Union

from xlnet import files
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.errors import UserError
from xlnet.model_directory import task_settings
from xlnet.model_directory.task_settings import FineTunedTask
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
from xlnet.tasks.types import known
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer, description_path

MAX_SEQ_LENGTH = 512  # of a model that is only pretrained: that of its pretraining [tokens]

_SETTINGS: dict[str, type[Union[ClassifierSettings, TaggerSettings, SpanSettings]]] = {
    group.program: group for group in (ClassifierSettings, TaggerSettings, SpanSettings)
}
_READ = re.compile(
    "|".join(
        (
            *map(
                re.escape,
                (
                    TASK_NAME,
                    CONFIG_NAME,
                    SPIECE_NAME,
                    description_path(SPIECE_NAME),
                    "checkpoint",
                    PRETRAINING_NAME + ".json",
                    FINETUNING_NAME + ".json",
                    CARRIED_NAME,
                    BEST,
                ),
            ),
            r".*\.ckpt.*",
        )
    )
)


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A trained model without its weights, which are in the checkpoint `prefix`; tuned: None for a
    model that is only pretrained, on `objective`."""

    prefix: str
    config: XLNetConfig
    tokenizer: Tokenizer
    network: NetworkSettings
    tuned: Optional[FineTunedTask]
    objective: str = PretrainingSettings.objective

    @property
    def max_seq_length(self) -> int:
        """Tokens of a text, special ones included."""
        return self.tuned.settings.max_seq_length if self.tuned else MAX_SEQ_LENGTH


def read(
    path: str,
    *,
    model_config_path: Optional[str] = None,
    spiece_model_file: Optional[str] = None,
    use_checkpoint: str = "best",
    network: Optional[NetworkSettings] = None,
) -> LoadedModel:
    """Reads all of a model but its weights; raises UserError where a file is missing or damaged,
    does not fit the others, or leads out of the directory.

    path: a model directory, a directory with a released checkpoint, or a checkpoint prefix. The
    architecture and the vocabulary are the files next to the checkpoint unless others are given.
    use_checkpoint: "best": that of `best/` if it is there, or else the newest; "newest".
    """
    network = network or NetworkSettings()
    given: dict[str, Any] = dict(
        model_dir=path,
        model_config_path=model_config_path or "",
        spiece_model_file=spiece_model_file or "",
    )
    network.check()
    TaskSettings(do_predict=True, **given).check()

    # Find the checkpoint and the directory of its other files: `best/` has copies of them, those of
    # a prefix are next to it.
    if os.path.isdir(path):
        _check_inside(path, path)
        _check_inside(os.path.join(path, BEST), path)
        found = best_checkpoint.best_or_newest(path, use_checkpoint)
        prefix = found[1] if found else checkpoint.resolve(path, "model_dir")
        home = task_settings.home_of(path) or path
    else:
        prefix = checkpoint.resolve(path, "model_dir")
        home = os.path.dirname(prefix) or "."
        _check_inside(home, home)
    task_path = os.path.join(home, TASK_NAME)
    is_tuned = os.path.exists(task_path)
    if is_tuned and not os.path.isdir(path):
        given["model_dir"] = home

    # The settings, the architecture and the vocabulary that hold.
    settings: Any = TaskSettings(**given)
    if is_tuned:
        with task_settings.malformed_as_user_error(task_path):
            settings = _settings_to_predict(task_path, given)
    settings = task_settings.with_own_files(settings, home)
    for name, file in task_settings.OWN_FILES.items():
        if not getattr(settings, name):
            raise UserError(f"model: no {file} in {home}; give {name}")
    config = XLNetConfig(json_path=settings.model_config_path)
    tokenizer = task_settings.read_vocabulary(settings, config)
    network = dataclasses.replace(
        network, clamp_len=task_settings.clamp_len_of(home, path if os.path.isdir(path) else None)
    )
    checkpoint.check_config(prefix, config)
    if not is_tuned:
        return LoadedModel(prefix, config, tokenizer, network, None, _objective(home))

    # The task, which must be what the weights were trained for.
    with task_settings.malformed_as_user_error(task_path):
        task = task_settings.task_of_run(settings)
        described = task_settings.describe(settings, task, tokenizer)
        for each in (settings.model_dir, os.path.join(settings.model_dir, BEST)):
            task_settings.check(each, described, settings)
    return LoadedModel(prefix, config, tokenizer, network, FineTunedTask(task, settings))


def _check_inside(directory: str, root: str) -> None:
    """Raises UserError if a model's file in `directory` is a symbolic link out of `root`."""
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        if _READ.fullmatch(name):
            files.require_inside(os.path.join(directory, name), root, "the model's")


def _settings_to_predict(path: str, given: dict[str, Any]) -> FineTuningSettings:
    """The settings of a run that predicts with the model of a `task.json`."""
    # A file from a stranger: only what is checked here and by `resolve` is used.
    stored = files.read_json(path, "task")
    its_type = known.type_of(stored, path)
    labels = stored["labels"]
    are_names = (
        isinstance(labels, list) and labels and all(isinstance(label, str) for label in labels)
    )
    if its_type.has_labels and not are_names:
        raise UserError(f"{path}: labels is {labels!r}, expected a list of names")
    settings = _SETTINGS[its_type.program](do_predict=True, predict_file="-", **given)
    return task_settings.resolve(settings, [name for name, value in given.items() if value])


def _objective(home: str) -> str:
    """That of the pretraining run in `home`; a released model has the default."""
    path = os.path.join(home, PRETRAINING_NAME + ".json")
    stored = files.read_json(path, "pretraining") if os.path.exists(path) else {}
    field = field_of(PretrainingSettings, "objective")
    kept = stored.get(field.name, field.default)
    check_value(field, kept, path)
    return kept
