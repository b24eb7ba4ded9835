"""The settings of a task, resolved: those given and those that its model keeps.

`task.json`, next to a model's weights, says what it was trained for and has the settings of the
model (`of_model`). So the model's directory is enough to evaluate, predict and continue training.
TensorFlow is not needed.
"""

from __future__ import annotations

import dataclasses
import glob
import logging
import os
from collections.abc import Collection
from typing import Any, Optional, TypeVar

from xlnet import files
from xlnet.errors import MissingFlag, UserError
from xlnet.settings.fields import check_value, field_of
from xlnet.settings.finetuning import FINETUNING_NAME, TASK_NAME, TaskSettings
from xlnet.settings.network import CARRIED_NAME, CONFIG_NAME, NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import PRETRAINING_NAME
from xlnet.settings.training import BEST
from xlnet.tasks.types import known
from xlnet.tasks.types.known import TASK_TYPES
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer, descriptions_beside

_log = logging.getLogger(__name__)

_OF_FILES = ("_column", "_columns", "_separator")       # ends of names of settings

AnySettings = TypeVar("AnySettings", bound=TaskSettings)


def resolve(settings: AnySettings, given: Collection[str]) -> AnySettings:
    """The settings of a run.

    If `model_dir` has a model, settings that are not given are those of its training, and its
    vocabulary and architecture are used; otherwise those next to `init_checkpoint`.

    Args:
      given: names of the settings that the user gave, at any value.

    Raises:
      UserError: a given setting contradicts the model, without `allow_changes`.
      MissingFlag: a required setting is neither given nor kept.
    """
    home = home_of(settings.model_dir)
    if home:
        settings = _with_kept(settings, given, os.path.join(home, TASK_NAME))
        settings = _with_own_files(settings, home)
        settings.check()
    elif not settings.do_train and not weights_in(settings.model_dir):
        raise UserError("model_dir: no checkpoint in %s; train with --do_train=True first"
                        % settings.model_dir)
    if settings.init_checkpoint:
        settings = _with_own_files(settings, directory_of(settings.init_checkpoint))
    require(settings, "task_name", "spiece_model_file", "model_config_path")
    if settings.needs_data_dir:
        require(settings, "data_dir")
    if settings.do_train:
        require(settings, "output_dir")
    return settings


def home_of(model_dir: str) -> Optional[str]:
    """The directory of a model's files: `model_dir`, or its `best` if only that has any; None if
    there is no model."""
    for directory in (model_dir, os.path.join(model_dir, BEST)):
        if os.path.exists(os.path.join(directory, TASK_NAME)) and weights_in(directory):
            return directory
    return None


def directory_of(checkpoint: str) -> str:
    """The directory of a checkpoint given as directory, prefix or `.../latest`."""
    return checkpoint if os.path.isdir(checkpoint) else os.path.dirname(checkpoint) or "."


def weights_in(directory: str) -> list[str]:
    """The index files of the checkpoints in a directory."""
    return glob.glob(os.path.join(glob.escape(directory), "model.ckpt-*.index"))


def clamp_len_of(model_dir: str, init_checkpoint: Optional[str] = None) -> int:
    """The `clamp_len` that a fine-tuned model, or else the initial weights, were trained with; -1
    if their files do not say so."""
    home = home_of(model_dir)
    if home:
        return kept_clamp_len(home, model_dir)
    return kept_clamp_len(*[directory_of(init_checkpoint)] if init_checkpoint else [])


def kept_clamp_len(*directories: str) -> int:
    """The `clamp_len` in the first file with it of those next to weights in these directories."""
    for path in (os.path.join(directory, name) for directory in directories for name in (
            TASK_NAME, FINETUNING_NAME + ".json", PRETRAINING_NAME + ".json", CARRIED_NAME)):
        kept = files.read_json(path, "settings").get("clamp_len") if os.path.exists(path) else None
        if kept is not None:
            check_value(field_of(NetworkSettings, "clamp_len"), kept, path)
            return kept
    return NetworkSettings.clamp_len


def kept_by_model(settings: TaskSettings) -> dict[str, Any]:
    """The settings that `task.json` keeps, by name."""
    return {name: getattr(settings, name) for name in _of_model(settings)}


def _of_model(settings):
    return [field.name for field in dataclasses.fields(settings) if field.metadata["of_model"]]


def _with_kept(settings, given, path):
    described = files.read_json(path, "model_dir")
    trained = TASK_TYPES.get(str(described.get("kind")))
    if trained and trained.program != settings.program:
        raise UserError("model_dir: the model of %s was trained with %s; use that"
                        % (path, trained.program))
    if "task_name" in given and _answered_by(settings.task_name) != described.get("task"):
        return settings         # another task: refused later
    kept = _kept(settings, described)
    _check_kept(settings, kept, path)
    compared = set(given) - {"task_name"}
    if described.get("task") != known.CUSTOM:
        compared -= {"is_regression"}       # it is compared with the task
    other = [(name, getattr(settings, name), value) for name, value in kept.items()
             if name in compared and getattr(settings, name) != value]
    if not settings.do_train:       # columns of another file may have other names
        other = [(name, now, was) for name, now, was in other if not name.endswith(_OF_FILES)
                 or name == "text_b_column" and bool(now) != bool(was)]
    if other and not settings.allow_changes:
        raise UserError("%s; leave out what the model keeps, or give --allow_changes=True" % (
            "; ".join("%s is %s, but %s says %s" % (name, _words(now), path, _words(was))
                      for name, now, was in other)))
    for name, now, was in other:
        _log.info("note: %s is %s, %s says %s", name, _words(now), path, _words(was))
    return dataclasses.replace(settings, **{name: value for name, value in kept.items()
                                            if name not in given})


def _answered_by(task_name):
    """The name, in `task.json`, of the task whose models predict the task `task_name`."""
    try:
        task = known.find_task(task_name)
    except UserError:           # own files, or unknown
        return known.plain(task_name)
    return task.trained_as or task.name


def _kept(settings, described):
    """The settings in a `task.json`; older versions have fewer."""
    if "settings" in described:
        kept = dict(described["settings"])
        if kept.get("query_id_column"):     # once True in own rankings, now refused
            kept["is_regression"] = False
        if not kept.get("multi_label"):     # kept by earlier versions, without effect
            kept.pop("label_thresholds", None)
        cutoff = kept.get("ranking_cutoff", 10)     # a setting of earlier versions
        if described.get("kind") == "ranking" and cutoff != 10:
            kept["metric"] = ",".join(filter(None, (
                kept.get("metric"), "ndcg@%d" % cutoff, "map", "err@%d" % cutoff)))
    else:
        kept = dict(described, **_columns(described), task_name=described.get("task", ""),
                    multi_label=described.get("kind") == "multi_label")
        kept.pop("metric", None)        # the task's first one, whatever was given
    return {name: kept[name] for name in _of_model(settings) if name in kept}


def _check_kept(settings, kept, path):
    """Raises UserError for a value of a `task.json` that no program writes."""
    for field in dataclasses.fields(settings):
        if field.name in kept and (kept[field.name] is not None or field.default is not None):
            check_value(field, kept[field.name], path)


def _columns(described):
    """The settings for the columns of an older `task.json`, which has them under `columns`."""
    columns = {name: ",".join(value) if isinstance(value, list) else value
               for name, value in described.get("columns", {}).items()}
    names = {"choices": "choice_columns", "query": "query_id_column"}
    return {names.get(name, name + "_column"): value or None for name, value in columns.items()}


def _words(value):
    return "not given" if value is None else str(value)


def _with_own_files(settings, home):
    """The settings with the model's vocabulary and architecture, unless others are given."""
    own = {"spiece_model_file": SPIECE_NAME, "model_config_path": CONFIG_NAME}
    return dataclasses.replace(settings, **{
        name: os.path.join(home, file) for name, file in own.items()
        if not getattr(settings, name) and os.path.exists(os.path.join(home, file))})


def require(settings: TaskSettings, *names: str) -> None:
    """Raises MissingFlag for settings that have no value."""
    for name in names:
        if not getattr(settings, name):
            raise MissingFlag("flag --%s is required: %s" % (
                name, field_of(settings, name).metadata["help"]))


def read_vocabulary(settings: TaskSettings, config: XLNetConfig) -> Tokenizer:
    """The `Tokenizer`, which cleans text as in pretraining; has as many pieces as the network."""
    tokenizer = Tokenizer(settings.spiece_model_file, settings.uncased, settings.keep_accents,
                          descriptions=descriptions_beside(settings.model_dir,
                                                           settings.init_checkpoint))
    if tokenizer.vocab_size != config.n_token:
        raise UserError("n_token is %d in %s, but %s has %d pieces" % (
            config.n_token, settings.model_config_path, settings.spiece_model_file,
            tokenizer.vocab_size))
    return tokenizer
