"""Reads the files that `run.json` replaces, as versions before 2.0 wrote them.

    task.json                                    the task of a fine-tuned model, and the settings
                                                 that predictions depend on
    pretraining.json, finetuning.json            all settings of the run; `about`: digests
    pretraining_history.json, finetuning_...     those that they replaced
    huggingface_config.json                      what converted weights came with

Nothing is written: a run that resumes there writes `run.json` and removes them.
"""

from __future__ import annotations

import functools
import logging
import os
from typing import Any, Optional

from xlnet import files
from xlnet.errors import UserError
from xlnet.settings.finetuning import ClassifierSettings, SpanSettings, TaggerSettings
from xlnet.settings.training import BEST, EARLIER_NAMES
from xlnet.tokenization.tokenizer import SPIECE_NAME

_log = logging.getLogger(__name__)

_CUSTOM = "custom"  # the task of own files; pretraining does not load the package of tasks
_OF_TEXT = ("spiece_sha256", "uncased", "keep_accents")
_DIGESTS = {"train_sha256": "train", "files_sha256": "splits"}


def read(directory: str) -> Optional[tuple[str, dict[str, Any]]]:
    """The path of the most important of these files in a directory, and the content of a `run.json`
    that says what they say; None if there are none."""
    # `best/` has no finetuning.json: that of its run is next to it.
    found, paths = {}, {}
    parent = os.path.join(directory, os.pardir)
    is_best = os.path.basename(os.path.abspath(directory)) == BEST
    for name in EARLIER_NAMES:
        path = os.path.join(directory, name)
        if is_best and name == "finetuning.json" and "task.json" in found:
            path = os.path.normpath(os.path.join(parent, name))
        if os.path.exists(path):
            found[name], paths[name] = files.read_json(path, "model_dir"), path
    if not found:
        return None
    first = next(iter(paths.values()))
    _note(os.path.dirname(first), ", ".join(found))
    try:
        return first, _content(found)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise UserError(
            f"{first} is not as a program of ours writes it: {type(e).__name__}: {e}"
        ) from e


@functools.cache
def _note(directory: str, names: str) -> None:
    """Says once what is read instead of a `run.json`."""
    _log.info("note: %s has no run.json; its %s of an earlier version is read", directory, names)


def _content(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The content of `run.json` from that of the files, by their names."""
    task = found.get("task.json")
    run = found.get("finetuning.json" if task else "pretraining.json")
    history = found.get("finetuning_history.json" if task else "pretraining_history.json", {})
    carried = found.get("huggingface_config.json")

    # The settings of the run, and the digests of what it read, with that of the vocabulary.
    resolved, about = _run(run or {})
    text = {"spiece_sha256": about[SPIECE_NAME]} if SPIECE_NAME in about else {}
    digests = {name: digest for name, digest in about.items() if name != SPIECE_NAME}
    if carried and "clamp_len" in carried:
        resolved.setdefault("clamp_len", carried["clamp_len"])

    # Of a fine-tuned model task.json takes precedence: it was written for the weights next to it.
    # `run.json` has what it said of the text, the files and the settings in sections of their own.
    if task:
        text = {name: task[name] for name in _OF_TEXT if name in task}
        digests.update({new: task[old] for old, new in _DIGESTS.items() if old in task})
        resolved.update(_kept(task))
        # Whether a known task has scores was not what the user set, but what the task says.
        if task.get("task") != _CUSTOM:
            resolved.pop("is_regression", None)
        in_other_sections = (*_OF_TEXT, *_DIGESTS, "settings", "clamp_len")
        task = {name: value for name, value in task.items() if name not in in_other_sections}
    return {
        "program": _program(resolved, is_tuned=bool(task)) if run is not None else None,
        "resolved": {name: value for name, value in resolved.items() if value is not None},
        "task": task,
        "text": text,
        "read": digests,
        "huggingface": carried,
        "history": [_past(one) for one in history.get("history", [])],
    }


def _run(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a run, and digests of what it read."""
    settings = {name: value for name, value in values.items() if name != "about"}
    if settings and "precision" not in settings:
        settings["precision"] = "bf16" if settings.get("use_bfloat16") else "fp32"
    return settings, dict(values.get("about", {}))


def _kept(task: dict[str, Any]) -> dict[str, Any]:
    """The settings that `task.json` keeps."""
    kept = dict(task.get("settings", {}))
    # The scheme was found in the file: it is in `kind_options`.
    if kept.get("scheme") == "auto":
        del kept["scheme"]
    if task.get("clamp_len") is not None:
        kept["clamp_len"] = task["clamp_len"]
    return kept


def _program(resolved: dict[str, Any], is_tuned: bool) -> str:
    if not is_tuned:
        return "xlnet pretrain"
    if "word_column" in resolved:
        return TaggerSettings.program
    if "question_column" in resolved:
        return SpanSettings.program
    return ClassifierSettings.program


def _past(one: dict[str, Any]) -> dict[str, Any]:
    resolved, about = _run(one["settings"])
    return {
        "until": one["until"],
        "until_step": one["until_step"],
        "asked": {},
        "resolved": resolved,
        "read": about,
    }
