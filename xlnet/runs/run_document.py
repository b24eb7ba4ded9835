"""`run.json`, the one document of a model directory: the settings of the run, what the model is
trained for, and digests of what it was trained on.

A run writes it before its first step, or after it has restored a checkpoint; `best/`, exports and
converted models have it, too. `read` is the only reader and `write` the only writer. The format,
by key, is in docs/reference/files.md.
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
from xlnet.settings.finetuning import (
    ClassifierSettings,
    SpanSettings,
    TaggerSettings,
    names_in,
)
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

FORMAT = 1  # of the file; another number is refused
# The keys of the file besides its format and version, in the order of the fields of `RunDocument`
# after `path`; "read" has its `digests`.
_SECTIONS = ("program", "resolved", "task", "text", "read")

# Settings that name the files of a run. The content of the files is compared, not their names.
_TASK_FILES = ("data_dir", "train_file", "dev_file")
_FILES = (*_TASK_FILES, "eval_record_info_dir")
# Settings of a run that may change when it resumes: its files, its length and its intervals. The
# name of a task has synonyms; `task_settings` compares the task itself.
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
# Settings that have lines of their own in the banner of a run, its first lines of output, or that
# say what the run does.
_IN_BANNER = """
model_dir record_info_dir objective seq_len reuse_len mem_len num_predict train_batch_size
grad_accum_steps train_steps epochs warmup_steps save_steps max_save do_train task_name do_eval
do_predict max_seq_length init_checkpoint spiece_model_file model_config_path
precision use_bfloat16 device
""".split()
# The keys of `RunDocument.digests`, and in words what each is a digest of.
_CONTENT = {
    "train": "the files to train on (--data_dir or --train_file)",
    "held_out": "the rows that are held out of them (--dev_share or --dev_file)",
    "evaluated": "the files to evaluate on (--dev_file, of questions also --predict_file)",
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
      resolved: the values of the settings by name; a setting of None is left out. In pretraining
        also the architecture, in place of the path of its file.
      task: what a fine-tuned model does, see `task_settings.describe_task`; None: only pretrained.
      text: the vocabulary and how text is cleaned, see `text_of`; {}: not known.
      digests: of what the run trains and evaluates on, by the keys of `_CONTENT`: SHA-256 of the
        content of files, a hexadecimal text, or a list of them where there may be several; the
        share of rows that is held out, as text. The section `read` of the file.
    """

    path: str
    program: str | None
    resolved: dict[str, Any]
    task: dict[str, Any] | None = None
    text: dict[str, Any] = dataclasses.field(default_factory=dict)
    digests: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def directory(self) -> str:
        """The directory of the file."""
        return os.path.dirname(self.path)

    def value_of(self, field: dataclasses.Field[Any]) -> Any:
        """The value of a setting; its default if the document leaves it out."""
        return self.resolved.get(field.name, field.default)


def weights_in(directory: str) -> list[str]:
    """The paths of the index files of the checkpoints in a directory; []: it has no weights."""
    return glob.glob(os.path.join(glob.escape(directory), "model.ckpt-[0-9]*.index"))


def path_in(directory: str) -> str:
    """The path of the `run.json` of a directory."""
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
    # A file may lack three of the sections.
    content = {"task": None, "text": {}, "read": {}, **files.read_json(path, "run")}
    if content.get("format") != FORMAT:
        raise wrong(f"{path}: format", repr(content.get("format")), str(FORMAT))
    if "program" not in content or "resolved" not in content:
        raise wrong(path, "one of them or none", "program and resolved")
    sections: list[Any] = []
    for key in _SECTIONS:
        section = content[key]
        wanted = str if key == "program" else dict
        is_none = section is None and key in ("program", "task")
        if not is_none and not isinstance(section, wanted):
            raise wrong(f"{path}: {key}", f"{section!r:.80}", wanted.__name__)
        sections.append(section)
    return RunDocument(path, *sections)


@contextlib.contextmanager
def malformed_as_user_error(path: str) -> Iterator[None]:
    """Raises UserError, which begins with the path of the document, where the block fails as the
    values of the document are not as our programs write them."""
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
    """Writes the document to the `run.json` of a directory.

    If they are given, `config` is written to `xlnet_config.json` and `tokenizer` to `spiece.model`
    with its description first: a directory with a document then has what its weights need.
    """
    if config:
        config.to_json(os.path.join(directory, CONFIG_NAME))
    if tokenizer:
        tokenizer.save(os.path.join(directory, SPIECE_NAME))
    _path, *values = dataclasses.astuple(document)
    sections = dict(zip(_SECTIONS, values))  # both in the order of the fields
    files.write_json(
        path_in(directory),
        {"format": FORMAT, "version": xlnet.__version__, **sections},
    )


def without_run_settings(document: RunDocument) -> RunDocument:
    """A copy of the document for weights that leave their directory: with the settings that belong
    to the model alone, without paths on the machine that trained it."""
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
    if resolved.get("metric"):  # some with commas between, perhaps FILE.py:FUNCTION
        metrics = names_in(resolved["metric"])
        resolved["metric"] = ",".join(map(os.path.basename, metrics))
    return dataclasses.replace(document, resolved=resolved)


def text_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """The section `text` of a document: the vocabulary and how text is cleaned for it."""
    return {
        "spiece_sha256": tokenizer.sha256,
        "uncased": tokenizer.uncased,
        "keep_accents": tokenizer.keep_accents,
    }


def values_of(groups: Sequence[Settings]) -> dict[str, Any]:
    """The section `resolved` of a document: the values of all settings of `groups`, by name.

    A setting of None is left out, and so is `allow_changes`, which is permission for one command.
    Paths of files are absolute, as a later command may be given in another directory.
    """
    values = {}
    for group in groups:
        for field in dataclasses.fields(group):
            value = _stored_value(group, field.name)
            if value is not None and field.name != "allow_changes":
                values[field.name] = value
    # Where the length was given in epochs, the steps follow from it.
    if values.get("epochs"):
        values.pop("train_steps", None)
    return dict(sorted(values.items()))


def changed(groups: Sequence[Settings]) -> str:
    """The settings that differ from their defaults, as `name=value` in one line, or "defaults".
    Those that the banner of a run shows anyway (`_IN_BANNER`) are left out."""
    in_words = []
    for group in groups:
        for field in dataclasses.fields(group):
            value = getattr(group, field.name)
            if field.name not in _IN_BANNER and value not in (None, field.default):
                in_words.append(f"{field.name}={value}")
    return " ".join(in_words) or "defaults"


def _stored_value(group: Any, name: str) -> Any:
    """The value of the setting `name` of a group as a document stores it: paths of files are
    absolute, and `precision` is what it and `use_bfloat16` together say."""
    value = getattr(group, name)
    if name == "precision" and value is None:
        return "bf16" if group.use_bfloat16 else "fp32"
    if value and name in (*_FILES, "init_checkpoint", "record_info_dir"):
        return absolute(name, value)
    return value


def absolute(name: str, value: str) -> str:
    """The value of the setting `name` with absolute paths; URLs stay as they are."""
    paths = [value]
    # Flags such as --dev_file may name several files, with commas between.
    if name.endswith("_file") and not os.path.exists(value):
        paths = value.split(",")
    absolutes = []
    for path in paths:
        path = path.strip()
        absolutes.append(path if files.is_remote(path) else os.path.abspath(path))
    return ",".join(absolutes)


# ---- a run that resumes, and what is done with its weights


def inherit(
    groups: Groups, given: Collection[str], document: RunDocument, *, of_run: bool
) -> tuple[Groups, list[str]]:
    """The settings of a command on the weights of a run: those that are not given are the run's.

    Args:
      groups: groups of settings, as given or with their defaults.
      given: the names of the settings that the user gave, also those given as their default.
      document: of the run that trained the weights.
      of_run: whether the settings that belong to the run are inherited, too; else only those that
        belong to the model.

    Returns:
      The groups with the inherited values; and the given settings with which the run would learn
      something else, each in words, for `refuse`.
    """
    given = set(given)
    if "use_bfloat16" in given:  # another name of precision=bf16
        given.add("precision")
    if given & set(_TASK_FILES):  # the run's files are not mixed with given ones
        given |= set(_TASK_FILES)
    inherits = {"model"}
    if of_run and document.program:  # without a program the weights are not from a run
        inherits.add("run")
    new_groups, different = [], []
    for group in groups:
        inherited = {}
        for field in dataclasses.fields(group):
            name = field.name
            if field.metadata["belongs_to"] not in inherits:
                continue
            was, now = document.value_of(field), _stored_value(group, name)
            # Another setting for the same thing, as epochs for train_steps; None: there is none.
            other = field.metadata["instead_of"]
            # A given value is compared with that of the run. A value that is not given is taken
            # from the run if the run has one.
            if name in given:
                if was != now and name not in _MAY_CHANGE:
                    different.append(
                        f"{name} was {_in_words(was)}, is {_in_words(now)}"
                    )
            elif name in document.resolved and other not in given:
                check_value(field, was, document.path)
                inherited[name] = was
        new_groups.append(dataclasses.replace(group, **inherited))
    return cast(Groups, tuple(new_groups)), different


def _in_words(value: Any) -> str:
    """The value of a setting, for an error."""
    return "not given" if value is None else str(value)


def refuse(
    document: RunDocument, different: Sequence[str], allow_changes: bool
) -> None:
    """Raises UserError if settings or files differ from those of a run that resumes; logs a note
    instead if `allow_changes`.

    Args:
      document: of the run.
      different: the differences, each in words.
      allow_changes: the setting of this name.
    """
    if not different:
        return
    listed = "; ".join(different)
    if not allow_changes:
        where = f"model_dir: the run in {document.directory or '.'}"
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
    """Raises UserError unless a run may begin or resume in its directory.

    If the directory has checkpoints, the run resumes: they must be of the same network and
    vocabulary, and trained on the same files. If it has none, it must not have `best/` of another
    run.

    Args:
      now: the document of the run, not yet written.
      config: the architecture of the run.
      tokenizer: the vocabulary of the run.
      allow_changes: whether other files are only noted.
    """
    from xlnet.engine import checkpoint  # imports TensorFlow

    newest = checkpoint.newest(now.directory)  # a prefix; None: no checkpoint
    if newest:
        check_weights(newest, config, tokenizer, "model_dir")
        before = read(now.directory)
        if not before:
            found = f"checkpoints, and no {RUN_NAME} of their run"
            remedy = "another model_dir with --init_checkpoint starts from them"
            raise wrong(f"model_dir: {now.directory}", found, "both", remedy)
        refuse(before, differences(before, now), allow_changes)
        return
    # Nothing resumes, and training would replace the best model.
    best = os.path.join(now.directory, BEST)
    if checkpoint.newest(best):
        found = f"a model in {best}, and no checkpoint to resume from"
        raise wrong("model_dir", found, "another directory")


def differences(before: RunDocument, now: RunDocument) -> list[str]:
    """In words, the files (`_CONTENT`) whose content differs between the run of `before` and that
    of `now`. Files that only one of the two has read are not compared."""
    different = []
    for key, file_names in _CONTENT.items():
        was, new = before.digests.get(key), now.digests.get(key)
        if was and new and was != new:
            different.append(f"{file_names} have other content")
    return different


def check_host(now: RunDocument) -> None:
    """Raises UserError if this host was started with other files or settings than the first host.

    All hosts of a pretraining make the same steps and checkpoints, so settings that belong to the
    run or the model must agree. Nothing is compared before the first host has written its document.

    Args:
      now: the document of the run as this host would write it.
    """
    first = read(now.directory)
    if not first:
        return
    different = differences(first, now)
    for group in (PretrainingSettings, NetworkSettings, OptimizationSettings):
        for field in dataclasses.fields(group):
            # `differences` has compared files by content: their paths may differ between hosts.
            if not field.metadata["belongs_to"] or field.name in _FILES:
                continue
            expected, mine = first.value_of(field), now.value_of(field)
            if mine != expected:
                different.append(f"{field.name} is {mine}, not {expected}")
    if different:
        raise wrong(
            "this host", "; ".join(different), "the same command as on the first one"
        )


# ---- weights, and what is next to them


def check_weights(
    prefix: str, config: XLNetConfig, tokenizer: Tokenizer, flag: str
) -> None:
    """Raises UserError if the files next to a checkpoint say that its weights have another
    architecture or vocabulary, or that text was cleaned in another way.

    Args:
      prefix: the path of the checkpoint without ".index".
      config: the architecture that is expected.
      tokenizer: the vocabulary that is expected.
      flag: the flag that names the checkpoint, for the error about the vocabulary.
    """
    from xlnet.engine import checkpoint  # imports TensorFlow

    checkpoint.check_config(prefix, config)
    check_vocabulary(os.path.dirname(prefix), tokenizer, flag)


def check_vocabulary(directory: str, tokenizer: Tokenizer, flag: str) -> None:
    """Raises UserError if the weights in `directory` were trained with another vocabulary, or with
    text cleaned in another way; `flag`, which names the weights, is in the error. What neither
    their document nor a vocabulary next to them says is not compared."""
    path = os.path.join(directory, SPIECE_NAME)
    document = read(directory)
    text = dict(document.text) if document else {}
    if not text and os.path.exists(path):  # released weights have no document
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
