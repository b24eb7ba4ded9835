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

# Of a text for a model that is only pretrained [tokens], as in the pretraining of the paper.
MAX_SEQ_LENGTH = 512


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A trained model without its weights.

    Attributes:
      prefix: the path of the checkpoint that has the weights, without ".index".
      config: the architecture.
      tokenizer: the vocabulary, and how text is cleaned for it.
      network: how the network is run.
      tuned: what the model is fine-tuned for; None: it is only pretrained.
      objective: of a model that is only pretrained, that of its pretraining; else "permutation".
      document: of the run that trained it; None for released weights.
    """

    prefix: str
    config: XLNetConfig
    tokenizer: Tokenizer
    network: NetworkSettings
    tuned: FineTunedTask | None
    objective: str
    document: RunDocument | None

    @property
    def max_seq_length(self) -> int:
        """The most tokens of a text, with its special tokens."""
        return self.tuned.settings.max_seq_length if self.tuned else MAX_SEQ_LENGTH

    @property
    def attn_type(self) -> str:
        """Which tokens a token sees, as in training: "uni", only earlier ones, if the objective is
        causal; else "bi", also later ones."""
        return "uni" if self.objective == "causal" else "bi"

    @property
    def tokens_before(self) -> int | None:
        """How many of the tokens before it each token sees, as in training; None: all. A causal
        network with `same_length` sees as many as its memory had."""
        resolved = self.document.resolved if self.document else {}
        is_same_length = self.objective == "causal" and resolved.get("same_length")
        return resolved.get("mem_len") if is_same_length else None


def read(
    path: str,
    *,
    model_config_path: str | None = None,
    spiece_model_file: str | None = None,
    network: NetworkSettings | None = None,
) -> LoadedModel:
    """Reads all of a model but its weights.

    Args:
      path: a model directory, of which the checkpoint in `best/` is taken if there is one, or else
        the newest; a directory with a released checkpoint; or a checkpoint prefix.
      model_config_path: the file of the architecture; None: the one next to the checkpoint.
      spiece_model_file: the vocabulary; None: the one next to the checkpoint.
      network: how the network is run; None: by the defaults.

    Raises:
      UserError: a file is missing or damaged, or does not fit the others.
    """
    network = network or NetworkSettings()
    network.check()
    given: dict[str, Any] = dict(
        model_dir=path,
        model_config_path=model_config_path,
        spiece_model_file=spiece_model_file or "",
    )
    # They stay for a model that is only pretrained; a fine-tuned one has those of its program.
    settings: Any = TaskSettings(do_predict=True, **given)
    settings.check()

    # Find the checkpoint. Its other files are next to it: `best/` has copies of them.
    prefix = best_checkpoint.best_or_newest(path) if os.path.isdir(path) else None
    if prefix is None:  # not the directory of a run
        prefix = checkpoint.resolve(path, "model_dir")
    home = os.path.dirname(prefix) or "."
    document = run_document.read(home)
    finetuned = document if document and document.task is not None else None

    # The settings that hold: a document has them for a fine-tuned model, and the objective of a
    # pretrained one. A released model has the default objective.
    pretrained_on = ObjectiveSettings()
    if finetuned:
        given["model_dir"] = home
        with run_document.malformed_as_user_error(finetuned.path):
            settings, network = _settings_to_predict(finetuned, network, given)
    elif document:
        (network, pretrained_on), _ = run_document.inherit(
            (network, pretrained_on), given=(), document=document, of_run=False
        )

    # The architecture and the vocabulary, which must fit the weights.
    settings = task_settings.with_model_files(settings, home)
    for name, file in task_settings.MODEL_FILES.items():
        if not getattr(settings, name):
            raise wrong("model", f"no {file} in {home}", "one", f"--{name}")
    config = XLNetConfig(json_path=settings.model_config_path)
    tokenizer = task_settings.read_vocabulary(settings, config, {"model_dir": home})
    checkpoint.check_config(prefix, config)

    # The task, which must be what the weights were trained for.
    tuned = None
    if finetuned:
        with run_document.malformed_as_user_error(finetuned.path):
            task = task_settings.task_of_run(settings, finetuned)
            task_settings.check_trained_for(home, settings, task)
        tuned = FineTunedTask(task, settings)
    objective = pretrained_on.objective
    return LoadedModel(prefix, config, tokenizer, network, tuned, objective, document)


def _settings_to_predict(
    document: RunDocument, network: NetworkSettings, given: dict[str, Any]
) -> tuple[FineTuningSettings, NetworkSettings]:
    """The settings of a run that predicts with a fine-tuned model.

    Args:
      document: of the run that trained the model; what is not given is inherited from it.
      network: how the network is run, as given or by the defaults.
      given: settings of the task by name; None or "": not given.
    """
    # The document may be from a stranger: only what is checked here and by `inherited_settings` is
    # used.
    stored = document.task or {}
    task_type, labels = known.type_of(stored, document.path), stored["labels"]
    are_names = isinstance(labels, list) and {type(label) for label in labels} == {str}
    if task_type.has_labels and not are_names:
        raise wrong(f"{document.path}: labels", repr(labels), "a list of names")
    group = task_settings.group_of(document)
    # The texts come from the caller. "-" is in place of a file, so that no data_dir is required.
    settings = group(do_predict=True, predict_file="-", **given)
    names = [name for name, value in given.items() if value]
    settings, network, _ = task_settings.inherited_settings(
        settings, network, OptimizationSettings(), names, document
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
            curve.append({column: float(number) for column, number in row.items()})
    return curve
