"""The settings of a task: those given, and those that the model keeps in its `run.json`.

The document says what a model was trained for, so that its directory and one file are enough to
evaluate, to predict and to continue. TensorFlow is imported only where checkpoints are read.
"""

from __future__ import annotations

import dataclasses
import glob
import logging
import os
from collections.abc import Collection, Mapping
from typing import Any, TypeVar, get_args

from xlnet.corpus import record_files
from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer
from xlnet.runs import run_document
from xlnet.runs.run_document import RunDocument
from xlnet.settings.finetuning import FineTuningSettings, FormSettings, TaskSettings
from xlnet.settings.network import CONFIG_NAME, NetworkSettings, XLNetConfig
from xlnet.settings.training import BEST, RUN_NAME, OptimizationSettings
from xlnet.support import files
from xlnet.support.errors import MissingFlag, wrong
from xlnet.tasks import encoding, known
from xlnet.tasks.contract import Task

_log = logging.getLogger(__name__)

# Settings of files that a model has next to its weights, and the names of these files.
OWN_FILES = {"model_config_path": CONFIG_NAME, "spiece_model_file": SPIECE_NAME}

# Keys of the section `task` of a document on which the meaning of the weights depends.
_OF_WEIGHTS = ("task", "kind", "labels", "head", "summary_type", "use_summ_proj")

AnySettings = TypeVar("AnySettings", bound=TaskSettings)


@dataclasses.dataclass(frozen=True)
class FineTunedTask:
    """What a model is fine-tuned for: the task and the settings of the run; of a loaded model,
    those of a run that predicts."""

    task: Task
    settings: FineTuningSettings

    @property
    def scope(self) -> str:
        """The name of the output layer's variables."""
        return self.task.scope(self.settings.cls_scope)

    @property
    def layout(self) -> encoding.Layout:
        """The length of a record's text or choice, and how longer texts are truncated."""
        settings = self.settings
        return encoding.Layout(
            settings.max_seq_length,
            # Of a text with one of its choices, the text is cut.
            cut_first=bool(self.task.columns.choices),
            long_document=settings.long_document,
        )

    def features(self, is_training: bool) -> tuple[record_files.Feature, ...]:
        """The features of a record: name, shape and dtype of each."""
        length = self.settings.max_seq_length
        of_task = self.task.features(length)
        num_choices = self.task.num_choices(is_training)
        return record_files.finetuning_features(length, of_task, num_choices)


# ---- where a model is


def read_model(model_dir: str) -> RunDocument | None:
    """The document of the fine-tuned model in a directory, or in its `best` if only that has
    weights; None if neither has weights, or the weights are not those of a fine-tuned model."""
    # A directory that was copied to predict may have `best` alone. A document without weights is
    # left out: a run that failed before its first checkpoint leaves one, but nothing resumes.
    for home in (model_dir, os.path.join(model_dir, BEST)):
        if run_document.weights_in(home):
            document = run_document.read(home)
            if document and document.task is not None:
                return document
            return None
    return None


def group_of(document: RunDocument) -> Any:
    """The class of settings, one of `FineTuningSettings`, of the program that trained a model."""
    task_type = known.type_of(document.task or {}, document.path)
    for group in get_args(FineTuningSettings):
        if group.program == task_type.program:
            return group
    raise AssertionError(task_type.program)


# ---- the settings of a run


def inherited_settings(
    settings: AnySettings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    given: Collection[str],
    document: RunDocument | None,
) -> tuple[AnySettings, NetworkSettings, OptimizationSettings]:
    """The settings of a command, with those that it inherits from its model.

    A value comes from the first of: the flag, the model in `model_dir`, the files next to the
    initial weights, the default. The vocabulary and the architecture are the model's own files.

    Args:
      settings: as given, or their defaults, like the next two.
      network: how the network is run.
      optimization: of the optimizer.
      given: the names of the settings that the user gave, also those given as their default.
      document: of the fine-tuned model in `model_dir`, by `read_model`; None: there is none.

    Returns:
      `settings`, `network` and `optimization` with the inherited values.

    Raises:
      UserError: a given setting contradicts the model, without `allow_changes`.
      MissingFlag: a required setting is neither given nor kept.
    """
    # What the model in `model_dir` has.
    if document:
        with run_document.malformed_as_user_error(document.path):
            _check_program(settings, given, document)
            # A training resumes its run, and inherits what belongs to the run, too. So does an
            # evaluation of the run's own files: it reads and divides them as the run did.
            reads_files_of_run = settings.needs_data_dir and not settings.data_dir
            of_run = settings.do_train or reads_files_of_run
            # Training may have chosen a threshold. A command that only predicts inherits it, unless
            # the user of the run gave one.
            chosen = (document.task or {}).get("threshold")
            if chosen is not None and not settings.do_train:
                resolved = {"predict_threshold": chosen, **document.resolved}
                document = dataclasses.replace(document, resolved=resolved)
            (inherited, network, optimization), different = run_document.inherit(
                (settings, network, optimization), given, document, of_run=of_run
            )
            _check_form_to_predict(settings, inherited)
            settings = inherited
        if settings.do_train:
            run_document.refuse(document, different, settings.allow_changes)
        settings = with_own_files(settings, document.directory)
        settings.check()
    else:
        _check_directory(settings)
    # What the initial weights have. A new run keeps the limit of distances (`clamp_len`) with which
    # they were trained; a run that resumes has inherited it.
    if settings.init_checkpoint:
        start = files.directory_of(settings.init_checkpoint)
        settings = with_own_files(settings, start)
        of_start = None if document else run_document.read(start)
        if of_start:
            (network,), _ = run_document.inherit(
                (network,), given, of_start, of_run=False
            )
    # By now, each of these is given, inherited or the name of a file.
    require(settings, "task_name", "spiece_model_file", "model_config_path")
    if settings.needs_data_dir:
        require(settings, "data_dir")
    return settings, network, optimization


def _check_form_to_predict(asked: TaskSettings, inherited: TaskSettings) -> None:
    """Raises UserError where a file to predict would be read in another form than the command asks
    for. asked: the settings of the command; inherited: the same with those of the run."""
    if not asked.predict_file:
        return
    for field in dataclasses.fields(FormSettings):
        name = field.name
        value = getattr(inherited, name)
        if value != getattr(asked, name):
            found = f"{name} '{value}' of the files that the model was trained on"
            expected = "the form of this file, or a command for it alone"
            raise wrong("predict_file", found, expected, f"--{name}")


def _check_program(
    settings: TaskSettings, given: Collection[str], document: RunDocument
) -> None:
    """Raises UserError if a model was trained with another program than that of `settings`, or on
    another task than a given `task_name`."""
    path, stored = document.path, document.task or {}
    task_type = known.type_of(stored, path)
    if task_type.program != settings.program:
        found = f"the model of {path}, trained with {task_type.program}"
        raise wrong("model_dir", found, f"one of {settings.program}")
    if "task_name" not in given:
        return
    wanted = known.CUSTOM
    if known.canonical_name(settings.task_name) != known.CUSTOM:
        task = known.find_task(settings.task_name)
        # Some tasks are predicted by the model of another one.
        wanted = task.published.trained_as or task.name
    if wanted != stored["task"]:
        raise wrong(f"model_dir: {path}: task", stored["task"], wanted, "--task_name")


def _check_directory(settings: TaskSettings) -> None:
    """Raises UserError if the command cannot begin in `model_dir`, where `read_model` finds no
    fine-tuned model:

    - the directory has weights of pretraining;
    - it has no weights, and the command does not train;
    - it has no weights, and `init_checkpoint` does not exist, or is not given although the
      directory has released weights.

    Later checks would find this, too, but speak of a missing task or vocabulary.
    """
    if run_document.weights_in(settings.model_dir):
        document = run_document.read(settings.model_dir)
        # Weights without a document may be fine-tuned ones of the original implementation. Those
        # of a document without a program are converted, perhaps with an output layer to predict.
        if document and (document.program or settings.do_train):
            found = f"a pretrained model, by {document.path}"
            expected = "a fine-tuned one; to fine-tune it, give it as init_checkpoint"
            raise wrong("model_dir", found, expected)
        return
    if not settings.do_train:
        found = f"no checkpoint in {settings.model_dir}"
        raise wrong("model_dir", found, "a trained model", "--do_train")
    if not settings.init_checkpoint:
        run_document.refuse_released(settings.model_dir)
        return
    start = files.directory_of(settings.init_checkpoint)
    if not glob.glob(os.path.join(glob.escape(start), "*.index")):
        found = f"no checkpoint {settings.init_checkpoint}"
        raise wrong("init_checkpoint", found, "one that exists")


def with_own_files(settings: AnySettings, home: str) -> AnySettings:
    """The settings with the vocabulary and the architecture next to the weights in the directory
    `home`, unless others are given."""
    paths: dict[str, Any] = {}
    for name, file in OWN_FILES.items():
        path = os.path.join(home, file)
        if not getattr(settings, name) and os.path.exists(path):
            paths[name] = path
    return dataclasses.replace(settings, **paths)


def require(settings: TaskSettings, *names: str) -> None:
    """Raises MissingFlag if one of the settings `names` is None or ""."""
    for name in names:
        if not getattr(settings, name):
            meaning = settings.__dataclass_fields__[name].metadata["help"]
            raise MissingFlag(f"flag --{name} is required: {meaning}")


def read_vocabulary(
    settings: TaskSettings, config: XLNetConfig, weights: Mapping[str, str]
) -> Tokenizer:
    """The tokenizer of `spiece_model_file`.

    Args:
      settings: as they are resolved.
      config: the architecture.
      weights: the directories of weights that are used, by the flag that names each.

    Raises:
      UserError: it is not the vocabulary of the weights, or has not as many pieces as the network.
    """
    tokenizer = Tokenizer(
        settings.spiece_model_file,
        settings.uncased,
        settings.keep_accents,
    )
    for flag, directory in weights.items():
        run_document.check_vocabulary(directory, tokenizer, flag)
    if tokenizer.vocab_size != config.n_token:
        expected = f"{tokenizer.vocab_size}, the pieces of {settings.spiece_model_file}"
        raise wrong(
            f"n_token of {settings.model_config_path}", config.n_token, expected
        )
    return tokenizer


# ---- what a model was trained for


def task_of_run(settings: FineTuningSettings, document: RunDocument | None) -> Task:
    """Returns the `Task` of a run.

    Args:
      settings: as they are resolved.
      document: of the model in `model_dir`; None: there is none. Without training, the task has its
        labels, so that the directory and one file are enough to predict.
    """
    if not document:
        return known.resolve_task(settings)
    stored = document.task or {}
    with run_document.malformed_as_user_error(document.path):
        # The file that the model was trained on is divided as in training: the examples of "dev"
        # are those that were held out.
        if settings.dev_share is None and _is_train_file(settings, document):
            settings = dataclasses.replace(settings, dev_share=stored.get("dev_share"))
        return known.resolve_task(settings, stored)


def _is_train_file(settings: TaskSettings, document: RunDocument) -> bool:
    """Whether a command that does not train has as `data_dir` the one file that the model was
    trained on: by its path, as rows may have been added, or by its content."""
    if settings.do_train or not os.path.isfile(settings.data_dir):
        return False
    resolved = document.resolved
    trained_on = resolved.get("train_file") or resolved.get("data_dir") or ""
    if os.path.exists(trained_on) and os.path.samefile(trained_on, settings.data_dir):
        return True
    return document.digests.get("train") == [files.digest_of(settings.data_dir)]


def describe_task(settings: FineTuningSettings, task: Task) -> dict[str, Any]:
    """The section `task` of `run.json`: what the output layer is for, with the labels, and what the
    train file determined."""
    return {
        "task": task.published.trained_as or task.name,
        "kind": task.kind,
        "kind_options": dataclasses.asdict(task.options),
        "labels": list(task.labels) or None,  # None: the task has none
        "head": task.scope(settings.cls_scope),
        "summary_type": settings.summary_type,
        "use_summ_proj": settings.use_summ_proj,
        "columns": dataclasses.asdict(task.columns),
        "dev_share": task.files.dev_share,
    }


def document_of(
    settings: FineTuningSettings,
    network: NetworkSettings,
    task: Task,
    tokenizer: Tokenizer,
) -> RunDocument:
    """The document of a fine-tuned model that no run of ours has trained, or not yet: `program` is
    None, and `resolved` has only what belongs to the model."""
    document = RunDocument(
        run_document.path_in(settings.model_dir),
        program=None,
        resolved=run_document.values_of((settings, network)),
        task=describe_task(settings, task),
        text=run_document.text_of(tokenizer),
    )
    return run_document.to_share(document)


def check_trained_for(model_dir: str, settings: FineTuningSettings, task: Task) -> None:
    """Raises UserError if `model_dir` has checkpoints that were trained for something else than
    `task` with these settings.

    The original implementation writes no `run.json`: its checkpoints are used if they have the
    output layer, but training does not continue from them.
    """
    from xlnet.engine import checkpoint  # imports TensorFlow

    newest = checkpoint.newest(model_dir)  # a prefix; None: no checkpoint
    if not newest:
        return
    document, wanted = run_document.read(model_dir), describe_task(settings, task)
    if document and document.task is not None:
        for key in _OF_WEIGHTS:
            was, now = document.task.get(key), wanted[key]
            if was != now:
                where = f"model_dir: {document.path}"
                raise wrong(where, f"{key} {was}", f"{key} {now}")
        return
    # No document says the task, so the names of the variables must. Some output layers are in the
    # scope "model" of the network, some are next to it.
    layer = wanted["head"] + "/"
    names = [name.removeprefix("model/") for name in checkpoint.names(newest)]
    has_layer = any(name.startswith(layer) for name in names)
    if settings.do_train or not has_layer:
        found = f"no {RUN_NAME} with a task in {model_dir}, which has checkpoints"
        expected = f"those of {settings.program}"
        raise wrong("model_dir", found, expected, "--init_checkpoint to start from")
    assumed = "task, vocabulary and settings are those given"
    _log.info("note: %s has no %s: %s", model_dir, RUN_NAME, assumed)


def check_start(settings: FineTuningSettings, task: Task) -> None:
    """Raises UserError if `init_checkpoint` has an output layer of the same name as this run, but
    with other labels, or labels in another order: training would start from it."""
    if task.columns.choices:  # one output scores each choice, whatever the labels are
        return
    document = run_document.read(files.directory_of(settings.init_checkpoint or ""))
    if not document or not document.task:
        return
    stored, wanted = document.task, describe_task(settings, task)
    before, now = stored.get("labels"), wanted["labels"]
    if stored.get("head") == wanted["head"] and before != now:
        where = f"init_checkpoint: labels of the output layer {wanted['head']}"
        raise wrong(where, before, f"{now}, or a new layer", "--cls_scope")
