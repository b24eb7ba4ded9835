"""Reads the files of a trained model: its network, its vocabulary, its task, its learning curve."""

from __future__ import annotations

import csv
import dataclasses
import os
from typing import Any

from xlnet.corpus.tokenizer import Tokenizer
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.runs import run_document, task_settings
from xlnet.runs.run_document import RunDocument
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.finetuning import FineTuningSettings, TaskSettings
from xlnet.settings.network import NetworkSettings, XLNetConfig
from xlnet.settings.pretraining import ObjectiveSettings
from xlnet.settings.training import JOURNAL_NAME, OptimizationSettings
from xlnet.support.errors import wrong
from xlnet.tasks import known

# Of a model that is only pretrained: that of its pretraining [tokens].
MAX_SEQ_LENGTH = 512


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A trained model without its weights, which are in the checkpoint `prefix`; tuned: None for a
    model that is only pretrained, on `objective`; run: None for a released one."""

    prefix: str
    config: XLNetConfig
    tokenizer: Tokenizer
    network: NetworkSettings
    tuned: FineTunedTask | None
    objective: str
    run: RunDocument | None

    @property
    def max_seq_length(self) -> int:
        """Tokens of a text, special ones included."""
        return self.tuned.settings.max_seq_length if self.tuned else MAX_SEQ_LENGTH

    @property
    def attn_type(self) -> str:
        """That of the network as it was trained: "uni" of a causal one; fine-tuning is "bi"."""
        return "uni" if self.objective == "causal" else "bi"

    @property
    def tokens_before(self) -> int | None:
        """How many tokens before its own each token sees, as it was trained; None: all. Those of a
        causal network with `same_length` are as many as its memory had."""
        resolved = self.run.resolved if self.run else {}
        is_same_length = self.objective == "causal" and resolved.get("same_length")
        return resolved.get("mem_len") if is_same_length else None


def read(
    path: str,
    *,
    model_config_path: str | None = None,
    spiece_model_file: str | None = None,
    network: NetworkSettings | None = None,
) -> LoadedModel:
    """Reads all of a model but its weights; raises UserError where a file is missing or damaged,
    or does not fit the others.

    path: a model directory, a directory with a released checkpoint, or a checkpoint prefix. The
    architecture and the vocabulary are the files next to the checkpoint unless others are given. Of
    a model directory the checkpoint in `best/` is taken if it is there, or else the newest.
    """
    network = network or NetworkSettings()
    given: dict[str, Any] = dict(
        model_dir=path,
        model_config_path=model_config_path,
        spiece_model_file=spiece_model_file or "",
    )
    network.check()
    settings: Any = TaskSettings(do_predict=True, **given)
    settings.check()

    # Find the checkpoint. Its other files are next to it: `best/` has copies of them.
    found = best_checkpoint.best_or_newest(path) if os.path.isdir(path) else None
    prefix = found or checkpoint.resolve(path, "model_dir")
    home = os.path.dirname(prefix) or "."
    run = run_document.read(home)
    trained = run if run and run.task is not None else None

    # The settings, the architecture and the vocabulary that hold. A released model has the default
    # objective.
    pretrained_on = ObjectiveSettings()
    if trained:
        given["model_dir"] = home
        with run_document.malformed_as_user_error(trained.path):
            settings, network = _inherited(trained, network, given)
    elif run:
        (network, pretrained_on), _ = run_document.inherit(
            (network, pretrained_on), (), run, of_run=False
        )
    settings = task_settings.with_own_files(settings, home)
    for name, file in task_settings.OWN_FILES.items():
        if not getattr(settings, name):
            raise wrong("model", f"no {file} in {home}", "one", f"--{name}")
    config = XLNetConfig(json_path=settings.model_config_path)
    tokenizer = task_settings.read_vocabulary(settings, config, {"model_dir": home})
    checkpoint.check_config(prefix, config)

    # The task, which must be what the weights were trained for.
    tuned = None
    if trained:
        with run_document.malformed_as_user_error(trained.path):
            task = task_settings.task_of_run(settings, trained)
            task_settings.check_trained_for(home, settings, task)
        tuned = FineTunedTask(task, settings)
    objective = pretrained_on.objective
    return LoadedModel(prefix, config, tokenizer, network, tuned, objective, run)


def _inherited(
    run: RunDocument, network: NetworkSettings, given: dict[str, Any]
) -> tuple[FineTuningSettings, NetworkSettings]:
    """The settings of a run that predicts with a fine-tuned model: those of its document `run`, and
    the values in `given`."""
    # A file from a stranger: only what is checked here and by `inherited_settings` is used.
    stored = run.task or {}
    its_type, labels = known.type_of(stored, run.path), stored["labels"]
    are_names = isinstance(labels, list) and {type(each) for each in labels} == {str}
    if its_type.has_labels and not are_names:
        raise wrong(f"{run.path}: labels", repr(labels), "a list of names")
    group = task_settings.group_of(run)
    settings = group(do_predict=True, predict_file="-", **given)
    names = [name for name, value in given.items() if value]
    settings, network, _ = task_settings.inherited_settings(
        settings, network, OptimizationSettings(), names, run
    )
    return settings, network


def read_curve(model_dir: str) -> list[dict[str, float]]:
    """The lines of `training.csv`, numbers by column; [] if there is no such file."""
    path = os.path.join(model_dir, JOURNAL_NAME)
    if not os.path.exists(path):
        return []
    curve = []
    with open(path, newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            curve.append({name: float(x) for name, x in row.items()})
    return curve
