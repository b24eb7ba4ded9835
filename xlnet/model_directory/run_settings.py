"""The settings of a run, its architecture and its vocabulary, in its model directory: to repeat the
run, and to compare on resume. Files are compared by their content, never by their names.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Iterator
from typing import Any, Optional

from xlnet import files
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.errors import UserError
from xlnet.settings.network import CONFIG_NAME, XLNetConfig
from xlnet.tokenization.tokenizer import SPIECE_NAME, Tokenizer, check_vocabulary

_log = logging.getLogger(__name__)

# Settings that all hosts must share although a resumed run may change them: the learning rate
# depends on the first, and hosts save together.
_OF_ALL_HOSTS = ("train_steps", "save_steps", "eval_steps", "eval_record_info_dir")

# The files that fine-tuning reads: their use in words, and when their content may change.
_FILES = {"train": ("to train on", "same"), "dev": ("to evaluate on", "evaluation")}


class SavedRunSettings:
    """The settings of a run as `<name>.json`, earlier ones as `<name>_history.json`.

    groups: settings dataclasses, one of them with `allow_changes`. evaluates: whether the run
    evaluates during training. more: values to write instead of those of the groups. contents:
    digests of what the run reads, compared in place of its path: by the name of the setting that
    is the path, or of one of `_FILES`.
    """

    def __init__(
        self,
        model_dir: str,
        name: str,
        groups: tuple,
        *,
        evaluates: bool,
        leave_out: tuple[str, ...] = (),
        more: Optional[dict[str, Any]] = None,
        contents: Optional[dict[str, Any]] = None,
    ):
        self._path = os.path.join(model_dir, name + ".json")
        self._history_path = os.path.join(model_dir, name + "_history.json")
        self._model_dir = model_dir
        self._evaluates = evaluates
        self._fields = {
            field.name: field for group in groups for field in dataclasses.fields(group)
        }
        self._allows_changes = any(getattr(group, "allow_changes", False) for group in groups)
        values = {
            field.name: getattr(group, field.name)
            for group in groups
            for field in dataclasses.fields(group)
            if field.name not in ("allow_changes", *leave_out)
        }
        values = dict(values, **(more or {}), about=contents or {})
        self.values = {name: value for name, value in sorted(values.items()) if value is not None}

    def check(self, config: XLNetConfig, tokenizer: Tokenizer) -> None:
        """Compares with what the run in `model_dir` has so far.

        Raises:
          UserError: as of `check_weights`; a setting that affects training differs, and
            `allow_changes` is off; or there is a best model, but not the run that it is of.
        """
        # Without a checkpoint nothing resumes, whatever settings an earlier try has left.
        prefixes = checkpoint.all_prefixes(self._model_dir)
        if not prefixes:
            self._check_best()
            return
        # Do architecture and vocabulary fit the checkpoint, and the settings those that it has?
        check_weights(prefixes[-1][1], config, tokenizer, "model_dir")
        if not os.path.exists(self._path):
            return
        before = self._read()
        changes = [
            f"{field.name} was {was}, is {now}"
            for field, was, now in self._changes(before)
            if self._matters(field.metadata["resume"])
            and not (field.name == "eval_record_info_dir" and was is None)
        ]
        changes += [
            f"the files {words} have other content"
            for name, (words, resume) in _FILES.items()
            if before["about"].get(name) != self.values["about"].get(name) and self._matters(resume)
        ]
        if not changes:
            return
        if not self._allows_changes:
            raise UserError(
                "model_dir: the run in {} has other settings: {}; give them as they were, or "
                "another model_dir, or --allow_changes=True".format(
                    self._model_dir, "; ".join(changes)
                )
            )
        _log.info("note: settings changed: %s", "; ".join(changes))

    def check_host(self) -> None:
        """Compares with the first host's, once that has begun; a UserError if a setting differs on
        which the steps or the checkpoints of all hosts depend."""
        if not os.path.exists(self._path):
            return
        different = [
            f"{field.name} is {now}, not {was}"
            for field, was, now in self._changes(self._read())
            if field.metadata["resume"] == "same" or field.name in _OF_ALL_HOSTS
        ]
        if different:
            raise UserError(
                "this host has other settings than the first one: {}; give all hosts "
                "the same command".format("; ".join(different))
            )

    def _read(self) -> dict[str, Any]:
        return {"about": {}, **files.read_json(self._path, "model_dir")}

    def _check_best(self) -> None:
        """Training would replace it."""
        best, evaluations = (
            os.path.join(self._model_dir, name)
            for name in (best_checkpoint.BEST, best_checkpoint.EVALUATIONS_NAME)
        )
        if checkpoint.named_by_state_file(best) and not os.path.exists(evaluations):
            raise UserError(
                f"model_dir: {best} has a model, but {self._model_dir} has no run that it "
                "could be from; "
                "give another model_dir"
            )

    def _changes(self, before: dict[str, Any]) -> Iterator[tuple[dataclasses.Field, Any, Any]]:
        """Yields (field, old value, new value) of the settings that differ."""
        for name, field in self._fields.items():
            was, now = (_value(values, field) for values in (before, self.values))
            # A path is compared by the content that it had, and has now.
            digests = [values["about"].get(name) for values in (before, self.values)]
            if digests == [None, None]:
                if was != now:
                    yield field, was, now
            elif digests[0] != digests[1]:
                yield field, was, f"{now} with other content" if was == now else now

    def _matters(self, resume: str) -> bool:
        """Whether a difference does; resume: as of `fields.setting`."""
        # Another metric or dev file makes the evaluations that are kept incomparable: without any
        # it may change.
        if resume == "evaluation":
            return self._evaluates and os.path.exists(
                os.path.join(self._model_dir, best_checkpoint.EVALUATIONS_NAME)
            )
        return resume == "same"

    def write(self, config: XLNetConfig, tokenizer: Tokenizer) -> None:
        """Writes `xlnet_config.json`, `spiece.model` with its description, and the settings; moves
        the ones that they replace to the history."""
        # The files without which the weights are of no use come before the settings.
        config.to_json(os.path.join(self._model_dir, CONFIG_NAME))
        tokenizer.save(os.path.join(self._model_dir, SPIECE_NAME))
        if os.path.exists(self._path):
            before = self._read()
            if before == self.values:
                return
            past = (
                files.read_json(self._history_path, "model_dir")["history"]
                if os.path.exists(self._history_path)
                else []
            )
            files.write_json(
                self._history_path,
                {
                    "history": past
                    + [
                        {
                            "until": time.strftime("%Y-%m-%d %H:%M:%S"),
                            "until_step": checkpoint.step_of(self._model_dir),
                            "settings": before,
                        }
                    ]
                },
            )
        files.write_json(self._path, self.values)


def _value(values: dict[str, Any], field: dataclasses.Field) -> Any:
    """A setting among kept ones; one that is missing had its default."""
    if field.name == "precision" and "precision" not in values:
        return "bf16" if values.get("use_bfloat16") else "fp32"
    return values.get(field.name, None if field.default is dataclasses.MISSING else field.default)


def check_weights(prefix: str, config: XLNetConfig, tokenizer: Tokenizer, flag: str) -> None:
    """Compares with the architecture and the vocabulary next to a checkpoint, if they are there; a
    UserError that names `flag` if they are others, or text was cleaned in another way."""
    checkpoint.check_config(prefix, config)
    check_vocabulary(os.path.dirname(prefix), tokenizer)
    spiece = os.path.join(os.path.dirname(prefix), SPIECE_NAME)
    if os.path.exists(spiece):
        if files.sha256(spiece) != tokenizer.sha256:
            raise UserError(
                f"{flag}: {spiece} differs from {tokenizer.path}; weights keep their vocabulary"
            )
        Tokenizer(spiece, tokenizer.uncased, tokenizer.keep_accents)  # raises if they differ
