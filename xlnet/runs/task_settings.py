"""The settings of a task: those given, and those that the model keeps in its `run.json`.

The document (`RunDocument`) says what a model was trained for, so that its directory and one file
are enough to evaluate, to predict and to resume. TensorFlow is imported only where checkpoints are
read.
"""

from __future__ import annotations

import dataclasses
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

# Settings of files that a model has next to its weights, and the names of these files. A given
# setting replaces the file.
MODEL_FILES = {"model_config_path": CONFIG_NAME, "spiece_model_file": SPIECE_NAME}

# Keys of the section `task` of a document on which the meaning of the weights depends.
_OF_WEIGHTS = ("task", "kind", "labels", "head", "summary_type", "use_summ_proj")

AnySettings = TypeVar("AnySettings", bound=TaskSettings)


@dataclasses.dataclass(frozen=True)
class FineTunedTask:
    """What a model is, or will be, fine-tuned for: the task and the settings of the run; of a
    loaded model, those of a run that predicts."""

    task: Task
    settings: FineTuningSettings

    @property
    def layout(self) -> encoding.Layout:
        """The length of a record, of a multiple choice for each choice; and how longer texts are
        cut."""
        return encoding.Layout(
            self.settings.max_seq_length,
            # Of a text with one of its choices, the text is cut.
            cut_first=bool(self.task.columns.choices),
        )

    def features(self, is_training: bool) -> tuple[record_files.Feature, ...]:
        """The features of a record: name, shape and dtype of each. is_training: a record may have
        more texts in training, as the pairs of documents of a ranking."""
        length = self.settings.max_seq_length
        of_task = self.task.features(length)
        num_choices = self.task.num_choices(is_training)
        return record_files.finetuning_features(length, of_task, num_choices)


# ---- which model is there


def finetuned_document(model_dir: str) -> RunDocument | None:
    """The document of the fine-tuned model in a directory, or in its `best` if only that has
    weights; None without weights, or if they are not those of a fine-tuned model."""
    # A directory that was copied to predict may have `best` alone. A document without weights is
    # that of a run that failed before its first checkpoint: nothing resumes.
    for directory in (model_dir, os.path.join(model_dir, BEST)):
        if run_document.weights_in(directory):
            document = run_document.read(directory)
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
    """The three groups of settings of a command, with the values that it inherits from its model.

    A value comes from the first of: the flag, the file of `--config`, the model in `model_dir`, the
    files next to the initial weights, the default. The vocabulary and the architecture are the
    model's own files.

    Args:
      settings: as given, or their defaults, like the next two.
      network: how the network is run.
      optimization: the length of the training, its learning rate and optimizer.
      given: names of the settings that the user gave, also those given as their default.
      document: what `finetuned_document` finds in `model_dir`.

    Raises:
      UserError: a given setting contradicts the model, without `allow_changes`.
      MissingFlag: a required setting is neither given nor kept.
    """
    # What the model in `model_dir` has.
    if document:
        with run_document.malformed_as_user_error(document.path):
            _check_program(settings, given, document)
            # A training resumes as it began, so it inherits what belongs to the run, too, not only
            # to the model. So does a command that names no files: it reads those of the run, and
            # divides them as the run did.
            reads_files_of_run = settings.needs_data_dir and not settings.data_dir
            of_run = settings.do_train or reads_files_of_run
            # A training chooses its threshold itself; other commands have that which was chosen
            # with the best weights, unless the training was given one.
            directory = os.path.join(document.directory, BEST)
            best = run_document.read(directory) or document
            chosen = (best.task or {}).get("threshold")
            with_threshold = document
            if chosen is not None and not settings.do_train:
                resolved = {"predict_threshold": chosen, **document.resolved}
                with_threshold = dataclasses.replace(document, resolved=resolved)
            # differences: in words, the given settings that contradict the run
            (inherited, network, optimization), differences = run_document.inherit(
                (settings, network, optimization), given, with_threshold, of_run=of_run
            )
            _check_form_to_predict(settings, inherited)
            settings = inherited
        if settings.do_train:
            run_document.refuse(document, differences, settings.allow_changes)
        settings = with_model_files(settings, document.directory)
        settings.check()  # inherited values may not fit those that are given
    else:
        _check_directory(settings)
    # What the initial weights have. They were trained with a limit of distances (`clamp_len`),
    # which a new run keeps. Of a training that resumes, the model has it already.
    if settings.init_checkpoint:
        directory = files.directory_of(settings.init_checkpoint)
        settings = with_model_files(settings, directory)
        of_weights = None if document else run_document.read(directory)
        if of_weights:
            (network,), _ = run_document.inherit(
                (network,), given, of_weights, of_run=False
            )
    # By now, each of these is given, inherited or the path of one of the model's files.
    _require(settings, "task_name", "spiece_model_file", "model_config_path")
    if settings.needs_data_dir:
        _require(settings, "data_dir")
    return settings, network, optimization


def _check_form_to_predict(asked: TaskSettings, inherited: TaskSettings) -> None:
    """Raises UserError if a file to predict would be read in another form than the command asks
    for, as a command that also reads the files of the run inherits their form.

    Args:
      asked: the settings of the command.
      inherited: the same with what they inherit from the run.
    """
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
    """Raises UserError if the model of a document was trained by another program than that of the
    settings, or for another task than `task_name`, if that is given."""
    path, stored = document.path, document.task or {}
    task_type = known.type_of(stored, path)
    if task_type.program != settings.program:
        found = f"the model of {path}, trained with {task_type.program}"
        raise wrong("model_dir", found, f"one of {settings.program}")
    if "task_name" not in given:
        return
    asked = known.CUSTOM
    if known.canonical_name(settings.task_name) != known.CUSTOM:
        # Some tasks are predicted by the model of another one.
        task = known.find_task(settings.task_name)
        asked = task.published.trained_as or task.name
    if asked != stored["task"]:
        raise wrong(f"model_dir: {path}: task", stored["task"], asked, "--task_name")


def _check_directory(settings: TaskSettings) -> None:
    """Raises UserError if the command cannot begin in `model_dir`, which has no fine-tuned model
    (by `finetuned_document`):

    - the directory has weights of pretraining;
    - it has no weights, and the command does not train;
    - it has no weights, and `init_checkpoint` does not exist, or is not given although the
      directory has released weights.

    Later errors would be about a task or a vocabulary that is missing because of that.
    """
    if run_document.weights_in(settings.model_dir):
        document = run_document.read(settings.model_dir)
        if document:  # weights without one are the original implementation's
            found = f"a pretrained model, by {document.path}"
            expected = "a fine-tuned one; to fine-tune it, give it as init_checkpoint"
            raise wrong("model_dir", found, expected)
        return
    if not settings.do_train:
        found = f"no checkpoint in {settings.model_dir}"
        raise wrong("model_dir", found, "a trained model", "--do_train")
    if not settings.init_checkpoint:
        # The user may mean released weights in `model_dir`, from which no training starts.
        run_document.refuse_released(settings.model_dir)
        return
    from xlnet.engine import checkpoint  # imports TensorFlow

    checkpoint.resolve(settings.init_checkpoint)


def with_model_files(settings: AnySettings, directory: str) -> AnySettings:
    """The settings with the paths of the vocabulary and the architecture in a model's directory, as
    far as they are there and no others are given."""
    paths: dict[str, Any] = {}
    for name, file in MODEL_FILES.items():
        path = os.path.join(directory, file)
        if not getattr(settings, name) and os.path.exists(path):
            paths[name] = path
    return dataclasses.replace(settings, **paths)


def _require(settings: TaskSettings, *names: str) -> None:
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
      settings: of the task, with the file and how text is cleaned.
      config: the architecture, with the number of pieces.
      weights: the directories of weights that were trained with this vocabulary, by the flags that
        name them, for errors.

    Raises:
      UserError: the weights were trained with another vocabulary, or it has another number of
        pieces than the network.
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
    """The `Task` of resolved settings.

    Args:
      settings: with what is inherited from the model.
      document: of the fine-tuned model; None without one. Unless the settings train, the task has
        the labels of the model, as the files of the settings may have others or none.
    """
    if not document:
        return known.resolve_task(settings)
    stored = document.task or {}
    with run_document.malformed_as_user_error(document.path):
        # If these are the rows that the model was trained on, dev is what that training held out.
        if settings.dev_share is None and _is_train_file(settings, document):
            settings = dataclasses.replace(settings, dev_share=stored.get("dev_share"))
        return known.resolve_task(settings, stored)


def _is_train_file(settings: TaskSettings, document: RunDocument) -> bool:
    """Whether a command that does not train has as `data_dir` the one file that the model was
    trained on: by its path, as rows may have been added, or by its content."""
    if settings.do_train or not os.path.isfile(settings.data_dir):
        return False
    resolved = document.resolved
    train_file = resolved.get("train_file") or resolved.get("data_dir") or ""
    if os.path.exists(train_file) and os.path.samefile(train_file, settings.data_dir):
        return True
    return document.digests.get("train") == [files.digest_of(settings.data_dir)]


def describe_task(settings: FineTuningSettings, task: Task) -> dict[str, Any]:
    """The section `task` of `run.json`: what the output layer is for, with its labels in the order
    of their ids, None without labels; and how the files of the training were read and divided."""
    return {
        "task": task.published.trained_as or task.name,
        "kind": task.kind,
        "kind_options": dataclasses.asdict(task.options),
        "labels": list(task.labels) or None,
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
    """The document of a model that no program of this library has trained, or not yet: `program` is
    None, and `resolved` has the settings that belong to the model alone, not to a run."""
    document = RunDocument(
        run_document.path_in(settings.model_dir),
        program=None,
        resolved=run_document.values_of((settings, network)),
        task=describe_task(settings, task),
        text=run_document.text_of(tokenizer),
    )
    return run_document.without_run_settings(document)


def check_trained_for(model_dir: str, settings: FineTuningSettings, task: Task) -> None:
    """Raises UserError if `model_dir` has checkpoints that were trained for something else than
    `task` with these settings.

    The original implementation writes no `run.json`: its checkpoints are used if they have the
    output layer, but training does not continue from them.
    """
    from xlnet.engine import checkpoint  # imports TensorFlow

    if not checkpoint.newest(model_dir):
        return
    document, described = run_document.read(model_dir), describe_task(settings, task)
    if document and document.task is not None:
        where = f"model_dir: {document.path}"
        for key in _OF_WEIGHTS:
            was, now = document.task.get(key), described[key]
            if was != now:
                raise wrong(where, f"{key} {was}", f"{key} {now}")
        # A converted model may be used for either; a training has compared the column itself.
        had_text_b = bool(document.task.get("columns", {}).get("text_b"))
        is_trained_here = document.program and not settings.do_train
        if is_trained_here and had_text_b != bool(task.columns.text_b):
            found = "a model of pairs" if had_text_b else "a model of single texts"
            raise wrong(where, found, "the same texts", "--text_b_column")
        return
    # Without a document, the original implementation may have trained the task. Where the
    # checkpoint has no such output layer, restoring it fails.
    if settings.do_train:
        found = f"no {RUN_NAME} with a task in {model_dir}, which has checkpoints"
        expected = f"those of {settings.program}"
        raise wrong("model_dir", found, expected, "--init_checkpoint to start from")
    assumed = "task, vocabulary and settings are those given"
    _log.info("note: %s has no %s: %s", model_dir, RUN_NAME, assumed)


def check_initial_labels(settings: FineTuningSettings, task: Task) -> None:
    """Raises UserError if the output layer of `init_checkpoint` has the name of this run's, so that
    its weights are used, but other labels, or in another order."""
    if task.columns.choices:  # one output scores each choice, whatever the labels are
        return
    document = run_document.read(files.directory_of(settings.init_checkpoint or ""))
    if not document or not document.task:
        return
    stored, described = document.task, describe_task(settings, task)
    was, now = stored.get("labels"), described["labels"]
    if stored.get("head") == described["head"] and was != now:
        where = f"init_checkpoint: labels of the output layer {described['head']}"
        raise wrong(where, was, f"{now}, or a new layer", "--cls_scope")
