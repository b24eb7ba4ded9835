"""`run.json`, the one document of a model directory: the settings of the run, what the model is
trained for, and digests of what it was trained on.

A run writes it once its first checkpoint is restored or about to be saved, and `best/`, exports and
converted models have it, too. `read` is the only reader and `write` the only writer. The format, by
key, is in docs/reference/files.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeVar, cast

import xlnet
from xlnet.corpus.tokenizer import SPIECE_NAME, Tokenizer
from xlnet.settings.fields import Settings, check_value
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.settings.network import (
    ARCHITECTURE_KEYS,
    CONFIG_NAME,
    NetworkSettings,
    XLNetConfig,
)
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import (
    BEST,
    RELEASED_NAME,
    RUN_NAME,
    OptimizationSettings,
)
from xlnet.support import files
from xlnet.support.errors import UserError, wrong

_log = logging.getLogger(__name__)

FORMAT = 1
# The keys of the file besides its format and version, in the order of the fields of `RunDocument`.
_SECTIONS = ("program", "resolved", "task", "text", "read")

# Files of a run. Their content is compared, not their names, and none of those of a task is
# inherited where another one is given.
_TASK_FILES = ("data_dir", "train_file", "dev_file")
_FILES = (*_TASK_FILES, "eval_record_info_dir")
# Settings of a run that a command which resumes it may change: its files, its length and its
# intervals. The name of a task has synonyms; `task_settings` compares the task itself.
_MAY_CHANGE = (
    *_FILES,
    "train_steps",
    "epochs",
    "patience",
    "save_steps",
    "eval_steps",
    "max_save",
    "task_name",
)
# Settings that have lines of their own in the banner of a run, or say what it does.
_IN_BANNER = """
model_dir record_info_dir objective seq_len reuse_len mem_len num_predict train_batch_size
grad_accum_steps train_steps epochs warmup_steps save_steps max_save do_train task_name do_eval
do_predict max_seq_length long_document init_checkpoint spiece_model_file model_config_path
precision use_bfloat16 device
""".split()
# Entries of `RunDocument.digests`, and what they are of.
_CONTENT = {
    "train": "the files to train on (--data_dir or --train_file)",
    "code": "the files of an own task type (--own_module)",
    "record_info_dir": "the records (--record_info_dir)",
    "eval_record_info_dir": "the held-out records (--eval_record_info_dir)",
}

Groups = TypeVar("Groups", bound=tuple[Settings, ...])


@dataclasses.dataclass(frozen=True)
class RunDocument:
    """The content of a `run.json`.

    Attributes:
      path: the file that was read, or is to be written.
      program: the command whose run wrote it, such as "xlnet classify"; None: the weights are not
        from a run, but converted, and only what belongs to a model is known.
      resolved: the settings by name; one without a value is left out. Of pretraining also the
        architecture, in place of the path of its file.
      task: what a fine-tuned model does, see `task_settings.describe_task`; None: only pretrained.
      text: the vocabulary and how text is cleaned, see `text_of`.
      digests: SHA-256 of the content of the files that the run trains on, by what they are for, a
        key of `_CONTENT`. The section `read` of the file.
    """

    path: str
    program: str | None
    resolved: dict[str, Any]
    task: dict[str, Any] | None = None
    text: dict[str, Any] = dataclasses.field(default_factory=dict)
    digests: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def directory(self) -> str:
        """The directory of the file, which is the model directory or its `best`."""
        return os.path.dirname(self.path)

    def value_of(self, field: dataclasses.Field[Any]) -> Any:
        """The value of a setting; its default if the document leaves it out."""
        return self.resolved.get(field.name, field.default)


def weights_in(directory: str) -> list[str]:
    """The index files of the checkpoints in a directory."""
    return glob.glob(os.path.join(glob.escape(directory), "model.ckpt-[0-9]*.index"))


def path_in(directory: str) -> str:
    """The `run.json` of a directory."""
    return os.path.join(directory, RUN_NAME)


# ---- reading and writing


def read(directory: str) -> RunDocument | None:
    """The document of a directory; None if it has none, as with released checkpoints.

    Raises:
      UserError: the file is not as our programs write it.
    """
    path = path_in(directory)
    if not os.path.exists(path):
        return None
    values = {"task": None, "text": {}, "read": {}, **files.read_json(path, "run")}
    if values.get("format") != FORMAT:
        raise wrong(f"{path}: format", repr(values.get("format")), str(FORMAT))
    if "program" not in values or "resolved" not in values:
        raise wrong(path, "one of them or none", "program and resolved")
    sections: list[Any] = []
    for key in _SECTIONS:
        value, kind = values[key], str if key == "program" else dict
        may_be_none = key in ("program", "task")
        if not (isinstance(value, kind) or value is None and may_be_none):
            raise wrong(f"{path}: {key}", f"{value!r:.80}", kind.__name__)
        sections.append(value)
    return RunDocument(path, *sections)


@contextlib.contextmanager
def malformed_as_user_error(path: str) -> Iterator[None]:
    """Raises UserError where the values of a document are not as our programs write them."""
    try:
        yield
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise wrong(
            path, f"{type(e).__name__}: {e}", "what a program of ours writes"
        ) from e


def write(
    directory: str,
    document: RunDocument,
    config: XLNetConfig | None = None,
    tokenizer: Tokenizer | None = None,
) -> None:
    """Writes the document of a directory, after `xlnet_config.json` and `spiece.model` with its
    description if they are given: without these the weights are of no use."""
    if config:
        config.to_json(os.path.join(directory, CONFIG_NAME))
    if tokenizer:
        tokenizer.save(os.path.join(directory, SPIECE_NAME))
    _, *values = dataclasses.astuple(document)
    sections = dict(zip(_SECTIONS, values))
    files.write_json(
        path_in(directory),
        {"format": FORMAT, "version": xlnet.__version__, **sections},
    )


def to_share(document: RunDocument) -> RunDocument:
    """The document of weights that leave their directory: what belongs to the model alone, without
    the paths of whoever trained it."""
    of_model = set(ARCHITECTURE_KEYS)
    for group in (
        PretrainingSettings,
        ClassifierSettings,
        TaggerSettings,
        SpanSettings,
        NetworkSettings,
    ):
        for field in dataclasses.fields(group):
            if field.metadata["belongs_to"] == "model":
                of_model.add(field.name)
    resolved = {}
    for name, value in document.resolved.items():
        if name in of_model:
            resolved[name] = value
    if resolved.get("metric"):  # perhaps FILE.py:FUNCTION
        resolved["metric"] = os.path.basename(resolved["metric"])
    return dataclasses.replace(document, resolved=resolved)


def text_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """The section `text` of a document: the vocabulary and how text is cleaned for it."""
    return {
        "spiece_sha256": tokenizer.sha256,
        "uncased": tokenizer.uncased,
        "keep_accents": tokenizer.keep_accents,
    }


def values_of(groups: Sequence[Settings]) -> dict[str, Any]:
    """The section `resolved` of a document: the values of all settings of some groups, by name.
    Paths of files are absolute, as a later command may be given in another directory."""
    values = {}
    for group in groups:
        for field in dataclasses.fields(group):
            value = _value(group, field.name)
            if value is not None and field.name != "allow_changes":
                values[field.name] = value
    # Of two names of a length the document has the one that says it.
    if values.get("epochs"):
        values.pop("train_steps", None)
    return dict(sorted(values.items()))


def changed(groups: Sequence[Settings]) -> str:
    """The settings that differ from their defaults, as `name=value` in one line, but for those that
    the banner of a run shows anyway (`_IN_BANNER`)."""
    found = []
    for group in groups:
        for field in dataclasses.fields(group):
            value = getattr(group, field.name)
            if field.name not in _IN_BANNER and value not in (None, field.default):
                found.append(f"{field.name}={value}")
    return " ".join(found) or "defaults"


def _value(group: Settings, name: str) -> Any:
    """The value of a setting as a document has it: an absolute path; of the precision, which has
    two settings, the one that they say."""
    value = getattr(group, name)
    if name == "precision" and value is None:
        return "bf16" if getattr(group, "use_bfloat16", False) else "fp32"
    return absolute(value) if value and name in (*_FILES, "init_checkpoint") else value


def absolute(paths: str) -> str:
    """Absolute paths with commas between."""
    found = []
    for path in paths.split(","):
        path = path.strip()
        found.append(path if files.is_remote(path) else os.path.abspath(path))
    return ",".join(found)


# ---- a run that resumes, and what is done with its weights


def inherit(
    groups: Groups, given: Collection[str], run: RunDocument, *, of_run: bool
) -> tuple[Groups, list[str]]:
    """The settings of a command on the weights of a run: those that are not given are the run's.

    Args:
      groups: groups of settings, as given or with their defaults.
      given: the names of the settings that the user gave, at any value.
      run: the document next to the weights.
      of_run: whether what belongs to the run is inherited, too, not to the model alone.

    Returns:
      The groups; in words, the given settings with which the run would learn something else
      (`refuse`).
    """
    given = set(given)
    if "use_bfloat16" in given:
        given.add("precision")
    if given & set(_TASK_FILES):
        given |= set(_TASK_FILES)
    inherits = ("model", "run") if of_run and run.program else ("model",)
    changed, different = [], []
    for group in groups:
        inherited = {}
        for field in dataclasses.fields(group):
            name = field.name
            if field.metadata["belongs_to"] not in inherits:
                continue
            was, now = run.value_of(field), _value(group, name)
            if name in given:
                if was != now and name not in _MAY_CHANGE:
                    different.append(
                        f"{name} was {_in_words(was)}, is {_in_words(now)}"
                    )
            elif name in run.resolved and field.metadata["instead_of"] not in given:
                check_value(field, was, run.path)
                inherited[name] = was
        changed.append(dataclasses.replace(group, **inherited))
    return cast(Groups, tuple(changed)), different


def _in_words(value: Any) -> str:
    """The value of a setting, for an error."""
    return "not given" if value is None else str(value)


def refuse(run: RunDocument, different: Sequence[str], allow_changes: bool) -> None:
    """Raises UserError if there are differences from a run, or notes them if they are allowed."""
    if not different:
        return
    listed = "; ".join(different)
    if not allow_changes:
        where = f"model_dir: the run in {run.directory or '.'}"
        expected = "those of the run, or another model_dir"
        raise wrong(where, f"other settings: {listed}", expected, "--allow_changes")
    _log.info("note: settings changed: %s", listed)


def refuse_released(model_dir: str) -> None:
    """Raises UserError if a run without initial weights would begin in a directory of released or
    converted ones: it would start from random weights, next to those that were meant."""
    if os.path.exists(os.path.join(model_dir, RELEASED_NAME + ".index")):
        found = f"weights to start from, {RELEASED_NAME}, and no run"
        expected = "a directory of this run, and that one as init_checkpoint"
        raise wrong(f"model_dir: {model_dir}", found, expected)


def check_resumed(
    now: RunDocument, config: XLNetConfig, tokenizer: Tokenizer, allow_changes: bool
) -> None:
    """Raises UserError if the checkpoints in the directory of a run that begins are of another
    network or vocabulary or were trained on other files, or if `best/` is of another run."""
    from xlnet.engine import checkpoint

    newest = checkpoint.newest(now.directory)
    if newest:
        check_weights(newest, config, tokenizer, "model_dir")
        before = read(now.directory)
        if before:
            refuse(before, differences(before, now), allow_changes)
        return
    # Nothing resumes, and training would replace the best model.
    best = os.path.join(now.directory, BEST)
    if checkpoint.newest(best):
        found = f"a model in {best}, and no checkpoint to resume from"
        raise wrong("model_dir", found, "another directory")


def differences(before: RunDocument, now: RunDocument) -> list[str]:
    """In words, which files (`_CONTENT`) have other content than those that a run was trained on.
    Files that only one of the two has read are not compared."""
    found = []
    for name, what in _CONTENT.items():
        was, mine = before.digests.get(name), now.digests.get(name)
        if was and mine and was != mine:
            found.append(f"{what} have other content")
    return found


def check_host(now: RunDocument) -> None:
    """Compares `now`, a host's document of pretraining, with the first host's, once that is
    written; a UserError if a setting differs on which the steps or the checkpoints of all hosts
    depend."""
    first = read(now.directory)
    if not first:
        return
    different = differences(first, now)
    for group in (PretrainingSettings, NetworkSettings, OptimizationSettings):
        for field in dataclasses.fields(group):
            was, mine = first.value_of(field), now.value_of(field)
            if (
                field.metadata["belongs_to"]
                and field.name not in _FILES
                and was != mine
            ):
                different.append(f"{field.name} is {mine}, not {was}")
    if different:
        raise wrong(
            "this host", "; ".join(different), "the same command as on the first one"
        )


# ---- weights, and what is next to them


def check_weights(
    prefix: str, config: XLNetConfig, tokenizer: Tokenizer, flag: str
) -> None:
    """Compares with the architecture and the vocabulary next to a checkpoint, if they are there; a
    UserError that names `flag` if they are others, or text was cleaned in another way."""
    from xlnet.engine import checkpoint

    checkpoint.check_config(prefix, config)
    check_vocabulary(os.path.dirname(prefix), tokenizer, flag)


def check_vocabulary(directory: str, tokenizer: Tokenizer, flag: str) -> None:
    """Raises UserError that names `flag` unless weights in `directory` were trained with this
    vocabulary, or neither their document nor a file says it."""
    path, run = os.path.join(directory, SPIECE_NAME), read(directory)
    text = dict(run.text) if run else {}
    if not text and os.path.exists(path):  # of released weights
        text["spiece_sha256"] = files.sha256(path)
    for name, now in text_of(tokenizer).items():
        was = text.get(name, now)
        if was == now:
            continue
        where = f"{flag}: {tokenizer.path}"
        weights = f"the weights in {directory or '.'}"
        if name == "spiece_sha256":
            raise wrong(where, "another vocabulary", f"that of {weights}")
        raise wrong(f"{where}: {name}", now, f"{was}, as {weights} were trained")
