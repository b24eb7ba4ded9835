"""The settings of a task: those given and those in `task.json`, next to the weights of its model.

`task.json` says what a model was trained for, so that its directory and one file are enough to
evaluate, to predict and to continue. TensorFlow is imported only where checkpoints are read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import logging
import os
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, Optional, TypeVar

from xlnet import files
from xlnet.errors import MissingFlag, UserError
from xlnet.settings.fields import check_value, field_of
from xlnet.settings.finetuning import FINETUNING_NAME, TASK_NAME, FineTuningSettings, TaskSettings
from xlnet.settings.network import CARRIED_NAME, CONFIG_NAME, NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import PRETRAINING_NAME
from xlnet.settings.training import BEST, OptimizationSettings
from xlnet.tasks.features import encoding
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.task import Task
from xlnet.tasks.types import custom, known
from xlnet.tokenization.tokenizer import (
    SPIECE_NAME,
    Tokenizer,
    check_vocabulary,
    descriptions_beside,
)

_log = logging.getLogger(__name__)

OWN_FILES = {"model_config_path": CONFIG_NAME, "spiece_model_file": SPIECE_NAME}
# Ends of the names of settings that say what files are, which others than those of training may be.
_OF_FILES = (
    *("_column", "_columns", "_separator", "_form", "_format"),
    *("encoding", "delimiter", "quoting", "header", "keep_where", "decimal", "scheme"),
)
_COLUMNS = ("text_a", "text_b", "label", "id", "choices", "query")  # fields of `Columns`
_EPOCHS = 3.0  # the default length of training
_ROUND_TO = 8  # lengths of batches are multiples of it [tokens]

# Entries of `task.json` that may differ from the run's: the weights do not depend on them, as the
# network has no absolute positions and takes any length. `resolve` compares the settings.
_MAY_DIFFER = (
    "kind_options",
    "columns",
    "settings",
    "clamp_len",
    "dev_share",
    "train_sha256",
    "files_sha256",
    "module",
)

AnySettings = TypeVar("AnySettings", bound=TaskSettings)


class Padding(NamedTuple):
    """The padding that batches leave out."""

    side: str  # "left" or "right"
    token_features: tuple[str, ...]  # features [T] of the head that are truncated like the ids
    multiple: int  # the length of batches is a multiple of it [tokens]


@dataclasses.dataclass(frozen=True)
class FineTunedTask:
    """What a model is fine-tuned for: the task and the settings of the run; of a loaded model,
    those of a run that predicts."""

    task: Task
    settings: FineTuningSettings

    @property
    def scope(self) -> str:
        """The name of the output layer's variables."""
        return self.task.head.scope(self.settings.cls_scope)

    @property
    def layout(self) -> encoding.Layout:
        """The length of a record's text or choice (of all segments with --long_document=memory),
        and how longer texts are truncated."""
        settings = self.settings
        segments = settings.max_segments if settings.long_document == "memory" else 1
        return encoding.Layout(
            settings.max_seq_length * segments, self.task.cut_first, settings.long_document
        )

    @property
    def padding(self) -> Padding:
        """With memory, empty segments before a text are left out; its last segment is complete."""
        if self.settings.long_document == "memory":
            return Padding("left", (), self.settings.max_seq_length)
        return Padding(self.task.reader.pads, tuple(self.task.head.token_features), _ROUND_TO)


# ---- where a model is


def home_of(model_dir: str) -> Optional[str]:
    """The directory of a model's files: `model_dir`, or its `best` if only that has any; None if
    there is no model."""
    # A directory that was copied to predict may be `best` alone, without the checkpoints to resume.
    for directory in (model_dir, os.path.join(model_dir, BEST)):
        if os.path.exists(os.path.join(directory, TASK_NAME)) and weights_in(directory):
            return directory
    return None


def weights_in(directory: str) -> list[str]:
    """The index files of the checkpoints in a directory."""
    return glob.glob(os.path.join(glob.escape(directory), "model.ckpt-*.index"))


@contextlib.contextmanager
def malformed_as_user_error(path: str) -> Iterator[None]:
    """Raises UserError if a `task.json` does not have the form that our programs write."""
    try:
        yield
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise UserError(
            f"{path} is not as a program of ours writes it: {type(e).__name__}: {e}"
        ) from e


# ---- the settings of a run


def resolve(settings: AnySettings, given: Collection[str]) -> AnySettings:
    """The settings of a run.

    If `model_dir` has a model, settings that are not given are those of its training, and its
    vocabulary and architecture are used; otherwise those next to `init_checkpoint`.

    Args:
      settings: as given, or their defaults.
      given: names of the settings that the user gave, at any value.

    Raises:
      UserError: a given setting contradicts the model, without `allow_changes`.
      MissingFlag: a required setting is neither given nor kept.
    """
    # A value comes from the first of: the flag, the model that is there, the files next to the
    # initial weights, the default.
    #
    # Settings that the model in the directory keeps.
    home = home_of(settings.model_dir)
    if home:
        with malformed_as_user_error(os.path.join(home, TASK_NAME)):
            settings = _with_kept(settings, given, os.path.join(home, TASK_NAME))
        settings = with_own_files(settings, home)
        settings.check()
    elif not settings.do_train and not weights_in(settings.model_dir):
        raise UserError(
            f"model_dir: no checkpoint in {settings.model_dir}; train with --do_train=True first"
        )
    # Files next to the initial weights.
    if settings.init_checkpoint:
        if settings.do_train and not weights_in(settings.model_dir):  # else it resumes
            _require_checkpoint(settings.init_checkpoint)
        settings = with_own_files(settings, files.directory_of(settings.init_checkpoint))
    # Settings that no file has must be given, or have a default.
    require(settings, "task_name", "spiece_model_file", "model_config_path")
    if settings.needs_data_dir:
        require(settings, "data_dir")
    if settings.do_train and not settings.output_dir:
        settings = dataclasses.replace(
            settings, output_dir=os.path.join(settings.model_dir, "records")
        )
    return settings


def _require_checkpoint(path: str) -> None:
    """Raises UserError if there is no such checkpoint, before files next to it are missed."""
    directory = os.path.dirname(path) if os.path.basename(path) == "latest" else path
    if not os.path.isdir(directory) and not os.path.exists(path + ".index"):
        raise UserError(f"init_checkpoint: no checkpoint {path}{files.similar_checkpoint(path)}")


def kept_by_model(settings: TaskSettings) -> dict[str, Any]:
    """The settings that `task.json` keeps, by name."""
    return {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.metadata["kept_with_model"]
    }


def _with_kept(settings: AnySettings, given: Collection[str], path: str) -> AnySettings:
    """The settings with those of `task.json` that are not given."""
    # Is it a model of this program, and of this task?
    described = files.read_json(path, "model_dir")
    trained = known.type_of(described, path) if "kind" in described else None
    if trained and trained.program != settings.program:
        raise UserError(
            f"model_dir: the model of {path} was trained with {trained.program}; use that"
        )
    if "task_name" in given and _answered_by(settings.task_name) != described["task"]:
        return settings  # another task: refused later
    stored, kept = dict(described["settings"]), {}
    for name in kept_by_model(settings):
        field = field_of(settings, name)
        if name == "scheme" and stored.get(name) == "auto":
            continue  # older versions found the scheme: it is in `kind_options`
        if name in stored:
            kept[name] = stored[name]
            if stored[name] is not None or field.default is not None:
                check_value(field, stored[name], path)
    # Which given settings differ from the model's? Without training, columns may: another file may
    # have other names. Whether a known task has scores is compared with the task.
    compared = set(given) - {"task_name"}
    if described["task"] != known.CUSTOM:
        compared -= {"is_regression"}
    different = []
    for name, was in kept.items():
        now = getattr(settings, name)
        is_column = name.endswith(_OF_FILES) and not (
            name == "text_b_column" and bool(now) != bool(was)
        )
        if name == "metric" and now and was and split_metrics.is_same(now, was):
            continue
        if name in compared and now != was and (settings.do_train or not is_column):
            different.append((name, _words(now), path, _words(was)))
    if different and not settings.allow_changes:
        raise UserError(
            "{}; leave out what the model keeps, or give --allow_changes=True".format(
                "; ".join("{} is {}, but {} says {}".format(*one) for one in different)
            )
        )
    for one in different:
        _log.info("note: %s is %s, %s says %s", *one)
    return dataclasses.replace(
        settings, **{name: value for name, value in kept.items() if name not in given}
    )


def _answered_by(task_name: str) -> str:
    """The name, in `task.json`, of the task whose models predict the task `task_name`."""
    try:
        task = known.find_task(task_name)
    except UserError:  # own files, or unknown
        return known.plain(task_name)
    return task.published.trained_as or task.name


def _words(value: Any) -> str:
    return "not given" if value is None else str(value)


def with_own_files(settings: AnySettings, home: str) -> AnySettings:
    """The settings with the model's vocabulary and architecture, unless others are given."""
    own: dict[str, Any] = {
        name: os.path.join(home, file)
        for name, file in OWN_FILES.items()
        if not getattr(settings, name) and os.path.exists(os.path.join(home, file))
    }
    return dataclasses.replace(settings, **own)


def require(settings: TaskSettings, *names: str) -> None:
    """Raises MissingFlag for settings that have no value."""
    for name in names:
        if not getattr(settings, name):
            raise MissingFlag(
                "flag --{} is required: {}".format(name, field_of(settings, name).metadata["help"])
            )


def with_length(
    settings: AnySettings, optimization: OptimizationSettings, given: Collection[str]
) -> tuple[AnySettings, OptimizationSettings]:
    """The settings with the length that was given, that of the run that resumes, or 3 epochs."""
    if not settings.do_train or {"epochs", "train_steps"} & set(given):
        return settings, optimization
    path = os.path.join(settings.model_dir, FINETUNING_NAME + ".json")
    if weights_in(settings.model_dir) and os.path.exists(path):
        before = files.read_json(path, "model_dir")
    else:
        _log.info("note: neither epochs nor train_steps is given: %g epochs", _EPOCHS)
        before = {"epochs": _EPOCHS}
    return (
        dataclasses.replace(settings, epochs=before.get("epochs")),
        dataclasses.replace(
            optimization, train_steps=before.get("train_steps", optimization.train_steps)
        ),
    )


def clamp_len_of(*directories: Optional[str]) -> int:
    """The `clamp_len` in the first file with it of those next to weights in these directories; -1
    if none says it."""
    for directory in filter(None, directories):
        for name in (
            TASK_NAME,
            FINETUNING_NAME + ".json",
            PRETRAINING_NAME + ".json",
            CARRIED_NAME,
        ):
            path = os.path.join(directory, name)
            kept = files.read_json(path, "settings") if os.path.exists(path) else {}
            if kept.get("clamp_len") is not None:
                check_value(field_of(NetworkSettings, "clamp_len"), kept["clamp_len"], path)
                return kept["clamp_len"]
    return NetworkSettings.clamp_len


def read_vocabulary(settings: TaskSettings, config: XLNetConfig) -> Tokenizer:
    """The `Tokenizer`, which cleans text as in pretraining; has as many pieces as the network."""
    tokenizer = Tokenizer(
        settings.spiece_model_file,
        settings.uncased,
        settings.keep_accents,
        descriptions=descriptions_beside(settings.model_dir, settings.init_checkpoint),
    )
    for path in filter(None, (settings.model_dir, settings.init_checkpoint)):
        check_vocabulary(files.directory_of(path), tokenizer)
    if tokenizer.vocab_size != config.n_token:
        raise UserError(
            f"n_token is {config.n_token} in {settings.model_config_path}, but "
            f"{settings.spiece_model_file} has {tokenizer.vocab_size} pieces"
        )
    return tokenizer


# ---- task.json


def task_of_run(settings: FineTuningSettings) -> Task:
    """Returns the `Task` of resolved settings.

    Without training, own files have the labels of the model: its directory and one file are enough
    to predict. The one file that it was trained on has the dev split that training held out.
    """
    home = home_of(settings.model_dir)
    if not home:
        return custom.known_or_own(settings)
    path = os.path.join(home, TASK_NAME)
    stored = files.read_json(path, "model_dir")
    with malformed_as_user_error(path):
        if (
            not settings.do_train
            and custom.find_type(settings, stored).has_labels
            and not stored.get("labels")
            and known.plain(settings.task_name) == known.CUSTOM
        ):
            raise UserError(f"model_dir: {path} has is_regression True, not False")
        if settings.dev_share is None and _is_train_file(settings, stored):
            settings = dataclasses.replace(settings, dev_share=stored.get("dev_share"))
        return custom.known_or_own(settings, stored)


def _is_train_file(settings: TaskSettings, stored: dict[str, Any]) -> bool:
    """Whether `data_dir` is the one file that a model was trained on: by its path, as rows may have
    been added, or by its content."""
    if settings.do_train or not os.path.isfile(settings.data_dir):
        return False
    home, name = os.path.split(os.path.abspath(settings.model_dir))  # RUN of RUN/best
    path = os.path.join(home if name == BEST else settings.model_dir, FINETUNING_NAME + ".json")
    run = files.read_json(path, "model_dir") if os.path.exists(path) else {}
    named = [run[name] for name in ("data_dir", "train_file") if run.get(name)]
    return any(
        os.path.exists(one) and os.path.samefile(one, settings.data_dir) for one in named
    ) or stored.get("train_sha256") == [files.digest_of(settings.data_dir)]


def describe(
    settings: FineTuningSettings,
    task: Task,
    tokenizer: Tokenizer,
    clamp_len: int = NetworkSettings.clamp_len,
) -> dict[str, Any]:
    """The content of `task.json`: all that predictions depend on, except the architecture."""
    return {
        "task": task.published.trained_as or task.name,
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
        "module": known.module_of(task.type),
        "kind_options": dataclasses.asdict(task.options),
        "columns": {name: getattr(task.columns, name) for name in _COLUMNS},
        "settings": dict(
            kept_by_model(settings),
            is_regression=(
                settings.is_regression if task.name == known.CUSTOM else task.is_regression
            ),
        ),
    }


def check(model_dir: str, wanted: dict[str, Any], settings: FineTuningSettings) -> None:
    """Raises UserError if `model_dir` has checkpoints that were trained for something else than
    `wanted`: what `describe` returns for the settings, perhaps with `dev_share`.

    The original implementation writes no `task.json`: its checkpoints are used if they have the
    output layer, but training does not continue from them.
    """
    from xlnet.engine import checkpoint

    prefixes = checkpoint.all_prefixes(model_dir)
    if not prefixes:
        return
    path, prefix = os.path.join(model_dir, TASK_NAME), prefixes[-1][1]
    if not os.path.exists(path):
        scope = wanted["head"]
        has_layer = any(
            name.startswith((scope + "/", f"model/{scope}/")) for name in checkpoint.names(prefix)
        )
        if settings.do_train or not has_layer:
            raise UserError(
                f"model_dir: the checkpoints in {model_dir} are not {settings.program}'s "
                f"(no {TASK_NAME}); use another "
                "model_dir and give this one as init_checkpoint"
            )
        _log.info(
            "note: %s has no %s: task, vocabulary and settings are those given",
            model_dir,
            TASK_NAME,
        )
        return
    # The task: all that the weights depend on.
    stored = files.read_json(path, "model_dir")
    different = [
        f"{name} {_entry(stored.get(name))}, not {_entry(value)}"
        for name, value in wanted.items()
        if name not in _MAY_DIFFER and stored.get(name) != value
    ]
    if different:
        raise UserError("model_dir: {} has {}".format(path, "; ".join(different)))
    # The output layer: as many outputs as labels; an own type may have another number.
    labels = wanted.get("labels") or []
    outputs = (
        checkpoint.shapes(prefix).get("model/{}/logit/bias".format(wanted["head"]))
        if labels and not wanted["module"]
        else None
    )
    if outputs and outputs != [len(labels)]:
        raise UserError(
            "model_dir: {} has {} labels, but the output layer {} of {} has {} outputs".format(
                path, len(labels), wanted["head"], prefix, outputs[0]
            )
        )
    # The rows that were held out stay held out.
    share = wanted.get("dev_share", 0.0)
    if (
        (settings.do_train or share)
        and stored.get("dev_share", share) != share
        and not settings.allow_changes
    ):
        raise UserError(
            "model_dir: the fraction of the train file that is held out as dev is {:g} "
            "in {}, here it is {:g}; give dev_share and the files as they were, or "
            "--allow_changes=True".format(stored["dev_share"], path, share)
        )


def _entry(value: Any) -> str:
    return "/".join(value) if isinstance(value, list) else "none" if value is None else str(value)


def check_start(init_checkpoint: str, wanted: dict[str, Any]) -> None:
    """Compares the labels with those of the initial output layer, if it is the same one; a
    UserError if their number differs."""
    path = os.path.join(files.directory_of(init_checkpoint), TASK_NAME)
    stored = files.read_json(path, "init_checkpoint") if os.path.exists(path) else {}
    if stored.get("head") != wanted["head"] or stored.get("labels") == wanted["labels"]:
        return
    before, now = stored.get("labels"), wanted["labels"]
    what = "init_checkpoint: the output layer {} of {} has the labels {}, this run has {}".format(
        wanted["head"], path, ", ".join(before or ["a score"]), ", ".join(now or ["a score"])
    )
    if len(before or ()) != len(now or ()):
        raise UserError(f"{what}; give --cls_scope=NAME to begin with a new output layer")
    _log.warning(
        "note: %s, in this order; give --cls_scope=NAME to begin with a new output layer", what
    )
