"""`run.json`, the one document of a model directory: what was asked for, what it resolved to, and
digests of what was read.

A run writes it once its first checkpoint is restored or about to be saved, and `best/`, exports and
converted models have it, too. `read` is the only reader and `write` the only writer. The format, by
key, is in docs/reference/files.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import json
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Optional, TypeVar, cast

import xlnet
from xlnet import files
from xlnet.errors import UserError
from xlnet.model_directory import earlier
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.fields import Settings, check_value, default_of
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.settings.network import CONFIG_NAME, NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import (
    BEST,
    EARLIER_NAMES,
    EVALUATIONS_NAME,
    RELEASED_NAME,
    RUN_NAME,
    OptimizationSettings,
)
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer

_log = logging.getLogger(__name__)

FORMAT = 1
_OF_COMMANDS = ("allow_changes",)  # settings that no run has
_OF_EVALUATIONS = ("dev", "metric", "eval_record_info_dir")  # entries of `read`
# Entries of `read` that are compared.
_COMPARED = (
    "train",
    "dev",
    "metric",
    "record_info_dir",
    "eval_record_info_dir",
    "objective_module",
)
# What those are that no setting of their name says, and the flags that name them.
_FILES = {
    "train": "the files to train on (--data_dir or --train_file)",
    "dev": "the files to evaluate on (--data_dir or --dev_file; of questions also --predict_file)",
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
      asked: the settings that the user gave, by name.
      task: what a fine-tuned model does, see `task_settings.describe_task`; None: only pretrained.
      text: the vocabulary and how text is cleaned, see `text_of`.
      read: digests of the files that the run reads, by what they are for.
      huggingface: the entries of `config.json` that only Hugging Face's library uses; None: the
        weights are not from there.
      history: the documents that this one replaces, the first one first.
    """

    path: str
    program: Optional[str]
    resolved: dict[str, Any]
    asked: dict[str, Any] = dataclasses.field(default_factory=dict)
    task: Optional[dict[str, Any]] = None
    text: dict[str, Any] = dataclasses.field(default_factory=dict)
    read: dict[str, Any] = dataclasses.field(default_factory=dict)
    huggingface: Optional[dict[str, Any]] = None
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def directory(self) -> str:
        return os.path.dirname(self.path)

    def value_of(self, field: dataclasses.Field[Any]) -> Any:
        """The value of a setting; its default if the document leaves it out."""
        return self.resolved.get(field.name, default_of(field))


def weights_in(directory: str) -> list[str]:
    """The index files of the checkpoints in a directory."""
    return glob.glob(os.path.join(glob.escape(directory), "model.ckpt-*.index"))


def path_in(directory: str) -> str:
    """The `run.json` of a directory."""
    return os.path.join(directory, RUN_NAME)


# ---- reading and writing


def read(directory: str) -> Optional[RunDocument]:
    """The document of a directory; None if it has none, as with released checkpoints.

    Raises:
      UserError: the file is not as our programs write it.
    """
    path = path_in(directory)
    if os.path.exists(path):
        values = files.read_json(path, "run")
        if values.get("format") != FORMAT:
            raise UserError(
                f"{path}: format is {values.get('format')!r}, expected {FORMAT}: another version "
                "of this library wrote it"
            )
    else:
        found = earlier.read(directory)
        if not found:
            return None
        path, values = found
    names = [field.name for field in dataclasses.fields(RunDocument)[1:]]
    sections = {name: values[name] for name in names if name in values}
    parts = dict(sections)
    if isinstance(sections.get("read"), dict):
        parts["read.splits"] = sections["read"].get("splits", {})
    for name, value in parts.items():
        kind = {"program": str, "history": list}.get(name, dict)
        may_be_none = name in ("program", "task", "huggingface")
        if not (isinstance(value, kind) or value is None and may_be_none):
            raise UserError(
                f"{path} is not as a program of ours writes it: {name} is {value!r:.80}, "
                f"expected {kind.__name__}"
            )
    missing = [name for name in ("program", "resolved") if name not in sections]
    if missing:
        raise UserError(f"{path} is not as a program of ours writes it: it has no {missing[0]}")
    return RunDocument(path, **sections)


@contextlib.contextmanager
def malformed_as_user_error(path: str) -> Iterator[None]:
    """Raises UserError where the values of a document are not as our programs write them."""
    try:
        yield
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise UserError(
            f"{path} is not as a program of ours writes it: {type(e).__name__}: {e}"
        ) from e


def write(
    directory: str,
    document: RunDocument,
    config: Optional[XLNetConfig] = None,
    tokenizer: Optional[Tokenizer] = None,
) -> None:
    """Writes the document of a directory, after `xlnet_config.json` and `spiece.model` with its
    description if they are given.

    A document that is there is kept as history if it says something else. The files of earlier
    versions are replaced, also in `best/`.
    """
    from xlnet.engine import checkpoint

    # The files without which the weights are of no use come before the settings.
    if config:
        config.to_json(os.path.join(directory, CONFIG_NAME))
    if tokenizer:
        tokenizer.save(os.path.join(directory, SPIECE_NAME))
    path, before = path_in(directory), read(directory)
    history = document.history
    if before:
        # What converted weights came with stays with them. So do the digests of what a run was
        # evaluated on if the command that resumes it does not evaluate: the evaluations stay, too.
        evaluated = {name: before.read[name] for name in _OF_EVALUATIONS if name in before.read}
        document = dataclasses.replace(
            document,
            huggingface=document.huggingface or before.huggingface,
            read={**evaluated, **document.read},
        )
        is_same = _said(before) == _said(document)
        if is_same and before.path == path:
            return
        history = before.history
        if not is_same and before.program:
            history = [
                *history,
                {
                    "until": time.strftime("%Y-%m-%d %H:%M:%S"),
                    "until_step": checkpoint.step_of(directory),
                    **{name: getattr(before, name) for name in ("asked", "resolved", "read")},
                },
            ]
    values = dict(_said(document), asked=document.asked, history=history)
    files.write_json(path, {"format": FORMAT, "version": xlnet.__version__, **values})
    # Those of `best/` say less without those that are next to it.
    best = os.path.join(directory, BEST)
    of_best = read(best) if before and before.path != path else None
    if of_best:
        write(best, of_best)
    files.remove(os.path.join(directory, name) for name in EARLIER_NAMES)


def _said(document: RunDocument) -> dict[str, Any]:
    """All that a document says of a run, but for how it was asked for."""
    names = ("program", "resolved", "task", "text", "read", "huggingface")
    # As JSON has it: tuples are lists.
    return json.loads(json.dumps({name: getattr(document, name) for name in names}))


def to_share(document: RunDocument) -> RunDocument:
    """The document of weights that leave their directory: without the paths and devices of the
    commands that made them, and without the documents that it replaced."""
    groups = (
        *(PretrainingSettings, ClassifierSettings, TaggerSettings, SpanSettings),
        *(NetworkSettings, OptimizationSettings, DeviceSettings),
    )
    of_commands = {
        field.name
        for group in groups
        for field in dataclasses.fields(group)
        if field.metadata["belongs_to"] == "call"
    }
    resolved = {name: value for name, value in document.resolved.items() if name not in of_commands}
    if resolved.get("metric"):  # perhaps FILE.py:FUNCTION
        resolved["metric"] = os.path.basename(resolved["metric"])
    return dataclasses.replace(document, resolved=resolved, asked={}, history=[])


def text_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """The section `text`."""
    return {
        "spiece_sha256": tokenizer.sha256,
        "uncased": tokenizer.uncased,
        "keep_accents": tokenizer.keep_accents,
    }


def values_of(groups: Sequence[Settings]) -> dict[str, Any]:
    """The section `resolved` of groups of settings."""
    values = {
        field.name: _value(group, field.name)
        for group in groups
        for field in dataclasses.fields(group)
    }
    return {
        name: value
        for name, value in sorted(values.items())
        if value is not None and name not in _OF_COMMANDS
    }


def asked_of(groups: Sequence[Settings], given: Collection[str]) -> dict[str, Any]:
    """The section `asked`: the settings in `given`."""
    return {name: value for name, value in values_of(groups).items() if name in given}


def _value(group: Settings, name: str) -> Any:
    """The value of a setting; of the precision, which has two settings, the one that they say."""
    value = getattr(group, name)
    if name == "precision" and value is None:
        return "bf16" if getattr(group, "use_bfloat16", False) else "fp32"
    return value


# ---- a run that resumes, and what is done with its weights


def inherit(
    groups: Groups,
    given: Collection[str],
    run: RunDocument,
    *,
    is_training: bool,
    agree: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType({}),
) -> tuple[Groups, list[str]]:
    """The settings of a command on the weights of a run: those that are not given are the run's.

    Args:
      groups: groups of settings, as given or with their defaults.
      given: the names of the settings that the user gave, at any value.
      run: the document next to the weights.
      is_training: whether the run resumes; otherwise only what belongs to its model counts.
      agree: of settings that are not compared as others are, by name: whether the values of the run
        and the command agree.

    Returns:
      The groups; in words, the given settings that differ from the run's where the run would become
      another one (`refuse`).
    """
    fields = [field for group in groups for field in dataclasses.fields(group)]
    alternatives = {field.name: field.metadata["instead_of"] for field in fields}
    alternatives = alternatives | {b: a for a, b in alternatives.items() if b}
    given = {*given, *(["precision"] if "use_bfloat16" in given else ())}
    resumes = is_training and run.program is not None
    changed, different = [], []
    for group in groups:
        inherited = {}
        for field in dataclasses.fields(group):
            name, belongs_to = field.name, field.metadata["belongs_to"]
            if belongs_to == "call" or not (resumes or belongs_to in ("model", "files")):
                continue
            was, now = run.value_of(field), _value(group, name)
            if name in given:
                if name in agree:
                    is_fine = agree[name](was, now)
                else:
                    is_fine = was == now or _may_differ(belongs_to, run, is_training)
                if not is_fine:
                    different.append(f"{name} was {_in_words(was)}, is {_in_words(now)}")
            elif name in run.resolved and alternatives.get(name) not in given:
                check_value(field, was, run.path)
                inherited[name] = was
        changed.append(dataclasses.replace(group, **inherited))
    return cast(Groups, tuple(changed)), different


def _may_differ(belongs_to: str, run: RunDocument, is_training: bool) -> bool:
    """Whether a setting may have another value than the run has."""
    if belongs_to == "evaluations":
        return not _is_evaluated(run)
    return belongs_to == "free" or belongs_to == "files" and not is_training


def _is_evaluated(run: RunDocument) -> bool:
    return os.path.exists(os.path.join(run.directory, EVALUATIONS_NAME))


def _in_words(value: Any) -> str:
    return "not given" if value is None else str(value)


def differences(before: RunDocument, now: RunDocument) -> list[str]:
    """In words, which files that a run has read have other content now; those that only one of both
    has read are not compared."""
    found = []
    for name in _COMPARED:
        digests = [document.read.get(name) for document in (before, now)]
        if None in digests or digests[0] == digests[1]:
            continue
        if name in _OF_EVALUATIONS and not _is_evaluated(before):
            continue
        if name in _FILES:
            found.append(f"{_FILES[name]} have other content")
            continue
        paths = [_path_of(document, name) for document in (before, now)]
        end = " with other content" if paths[0] == paths[1] else ""
        found.append(f"{name} was {_in_words(paths[0])}, is {_in_words(paths[1])}{end}")
    return found


def _path_of(document: RunDocument, name: str) -> Optional[str]:
    """The path that was read, perhaps by an earlier command, as `write` keeps its digest."""
    earlier_ones = [each.get("resolved", {}) for each in reversed(document.history)]
    return next((each[name] for each in (document.resolved, *earlier_ones) if each.get(name)), None)


def refuse(run: RunDocument, different: Sequence[str], allow_changes: bool) -> None:
    """Raises UserError if there are differences from a run, or notes them if they are allowed."""
    _refuse(
        f"model_dir: the run in {run.directory or '.'} has other settings",
        different,
        "or give another model_dir, or --allow_changes=True",
        allow_changes,
    )


def _refuse(what: str, different: Sequence[str], remedy: str, allow_changes: bool) -> None:
    if not different:
        return
    listed = "; ".join(different)
    if not allow_changes:
        raise UserError(f"{what}: {listed}; leave them out or give them as they were, {remedy}")
    _log.info("note: settings changed: %s", listed)


def start_from(
    network: NetworkSettings, given: Collection[str], run: RunDocument, allow_changes: bool
) -> NetworkSettings:
    """How a network runs whose initial weights are those of another run: as they were trained.

    Args:
      network: as given, or its defaults.
      given: the names of the settings that the user gave, at any value.
      run: the document next to the initial weights.
      allow_changes: whether given settings that differ are noted, not refused.

    Raises:
      UserError: a given setting differs, such as `clamp_len`.
    """
    (network,), different = inherit((network,), given, run, is_training=False)
    _refuse(
        f"init_checkpoint: the weights in {run.directory or '.'} were trained with other settings",
        different,
        "or --allow_changes=True",
        allow_changes,
    )
    return network


def refuse_released(model_dir: str) -> None:
    """Raises UserError if a run without initial weights would begin in a directory of released or
    converted ones: it would start from random weights, next to those that were meant."""
    if os.path.exists(os.path.join(model_dir, RELEASED_NAME + ".index")):
        raise UserError(
            f"model_dir: {model_dir} has weights to start from ({RELEASED_NAME}) and no run that "
            "could resume; give it as init_checkpoint, and another model_dir"
        )


def with_start_of_run(now: RunDocument) -> RunDocument:
    """The document of a run that begins or resumes. One that resumes names the weights that it
    began with, which its command may leave out; a note says that others are not used."""
    before = read(now.directory) if weights_in(now.directory) else None
    if not before or before.program is None or before.path != now.path:
        return now  # converted, or by an earlier version, which did not always say it
    name = "init_checkpoint"
    was, given = before.resolved.get(name), now.resolved.get(name)
    if given is not None and given != was:
        _log.info(
            "note: %s: %s is not used, as the run in %s resumes; it began from %s",
            name,
            given,
            now.directory or ".",
            "random weights" if was is None else was,
        )
    resolved = {key: value for key, value in now.resolved.items() if key != name}
    if was is not None:
        resolved[name] = was
    return dataclasses.replace(now, resolved=dict(sorted(resolved.items())))


def check_resumed(
    now: RunDocument, config: XLNetConfig, tokenizer: Tokenizer, allow_changes: bool
) -> None:
    """Raises UserError if the checkpoints in the directory of a run that begins are of another
    network or vocabulary or were trained on other files, or if `best/` is of another run."""
    from xlnet.engine import checkpoint

    prefixes = checkpoint.all_prefixes(now.directory)
    if prefixes:
        check_weights(prefixes[-1][1], config, tokenizer, "model_dir")
        before = read(now.directory)
        if before:
            refuse(before, differences(before, now), allow_changes)
            if allow_changes and _is_evaluated(before):
                _log.info(
                    "note: best/ is chosen among all evaluations in %s, also those before a change "
                    "of settings; give another model_dir if they cannot be compared",
                    before.directory or ".",
                )
        return
    # Nothing resumes, and training would replace the best model.
    best = os.path.join(now.directory, BEST)
    is_of_run = os.path.exists(os.path.join(now.directory, EVALUATIONS_NAME))
    if checkpoint.named_by_state_file(best) and not is_of_run:
        raise UserError(
            f"model_dir: {best} has a model, but {now.directory} has no run that it could be from; "
            "give another model_dir"
        )


def check_host(now: RunDocument, groups: Sequence[Settings]) -> None:
    """Compares with the first host's document, once that is written; a UserError if a setting
    differs on which the steps or the checkpoints of all hosts depend.

    Args:
      now: this host's.
      groups: its settings.
    """
    first = read(now.directory)
    if not first:
        return
    different = []
    for group in groups:
        for field in dataclasses.fields(group):
            if field.metadata["belongs_to"] in ("call", "evaluations"):
                continue
            was, mine = first.value_of(field), now.value_of(field)
            if was != mine:
                different.append(f"{field.name} is {mine}, not {was}")
    for name in ("record_info_dir", "eval_record_info_dir", "objective_module"):
        # A digest without the setting is of what an earlier command has evaluated.
        paths = [document.resolved.get(name) for document in (first, now)]
        was, mine = (
            document.read.get(name) if name in document.resolved else None
            for document in (first, now)
        )
        if was != mine:
            end = " with other content" if paths[0] == paths[1] else ""
            different.append(f"{name} is {paths[1]}, not {paths[0]}{end}")
    if different:
        raise UserError(
            "this host has other settings than the first one: {}; give all hosts "
            "the same command".format("; ".join(different))
        )


# ---- weights, and what is next to them


def check_weights(prefix: str, config: XLNetConfig, tokenizer: Tokenizer, flag: str) -> None:
    """Compares with the architecture and the vocabulary next to a checkpoint, if they are there; a
    UserError that names `flag` if they are others, or text was cleaned in another way."""
    from xlnet.engine import checkpoint

    checkpoint.check_config(prefix, config)
    check_vocabulary(os.path.dirname(prefix), tokenizer)
    spiece = os.path.join(os.path.dirname(prefix), SPIECE_NAME)
    if os.path.exists(spiece):
        if files.sha256(spiece) != tokenizer.sha256:
            raise UserError(
                f"{flag}: {spiece} differs from {tokenizer.path}; weights keep their vocabulary"
            )
        Tokenizer(spiece, tokenizer.uncased, tokenizer.keep_accents)  # raises if they differ


def check_vocabulary(directory: str, tokenizer: Tokenizer) -> None:
    """Raises UserError unless weights in `directory` were trained with this vocabulary, or their
    document does not say it."""
    found = read(directory)
    stored = found.text.get("spiece_sha256") if found else None
    if found and stored and stored != tokenizer.sha256:
        raise UserError(
            f"{found.path}: the weights next to it were trained with another vocabulary than "
            f"{tokenizer.path} (SHA-256 {stored!s:.12}, not {tokenizer.sha256!s:.12})"
        )
