"""`xlnet.load`: a trained model as a Python object. TensorFlow is imported when it is called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from xlnet.inference.settings import LoadSettings, ModelSettings, from_keywords
from xlnet.settings.network import NetworkSettings
from xlnet.support import system
from xlnet.support.errors import wrong

if TYPE_CHECKING:
    from xlnet.inference.model import Model
    from xlnet.runs.model_files import LoadedModel


def load(
    path: str | os.PathLike[str], *, batch_size: int = 32, **settings: Any
) -> Model:
    """Loads a trained model.

    Args:
      path: a model directory of any of the programs, of which the checkpoint in `best/` is taken
        if it is there, or else the newest; its DIRECTORY/latest, the newest; a directory with a
        released checkpoint, its config and its vocabulary; or a checkpoint prefix.
      batch_size: texts that go through the network together.
      settings: the others of `LoadSettings`:
        model_config_path: the architecture, if it is not xlnet_config.json next to the checkpoint.
        spiece_model_file: the vocabulary, if it is not spiece.model next to the checkpoint.
        device: "auto": the first GPU, or the CPU where there is none; "gpu"; "cpu".
        precision: of the matmuls, "fp32", "bf16" or "fp16".
        own_module: FILE.py that registers the model's own task type, if nothing else imports it.

    Returns:
      An `inference.model.Model`; it knows what it was trained for. Close it, or use it as a context
      manager.

    Examples:
      >>> with xlnet.load("model") as model:
      ...     print(model.classify("It rains.").label)
      weather

    Raises:
      UserError: there is no model, it is damaged or contradicts itself, or an argument is wrong.
    """
    # All arguments are checked before a file is read.
    if not isinstance(batch_size, int) or batch_size < 1:
        raise wrong("batch_size", repr(batch_size), "an integer, at least 1")
    if "model_dir" in settings:
        raise wrong("model_dir", "a setting of this name", "the model as the path")
    keywords = {"model_dir": path, **settings}
    for name, value in keywords.items():
        if isinstance(value, os.PathLike):
            keywords[name] = os.fspath(value)
    return open_model(from_keywords(LoadSettings, keywords), batch_size)


def open_model(
    settings: LoadSettings, batch_size: int = 32, most_tokens: int | None = None
) -> Model:
    """The model of settings that are checked.

    Args:
      settings: which model, and the device.
      batch_size: texts that go through the network together, at most.
      most_tokens: tokens that go through the network together, at most, but at least one text;
        None: any number.
    """
    loaded = read_files(settings)
    from xlnet.inference.model import Model  # not above: imports TensorFlow

    model = Model(loaded, settings.device, batch_size, most_tokens)
    # Making a method builds its part of the graph. The one that is probably called first is made
    # here, so that the first result does not wait. A model that is only pretrained has no verb.
    model.method("predict" if model.verb else "vectors")
    return model


def read_files(settings: ModelSettings) -> LoadedModel:
    """All of a model but its weights; UserError where a file is missing, damaged or does not fit
    the others."""
    # Before the imports below, which would import TensorFlow with all that its libraries log.
    system.import_tensorflow()
    from xlnet.runs import model_files
    from xlnet.tasks import known

    # A task type that `own_module` registers must be known before the model directory names it.
    known.load_own_types(settings.own_module)
    return model_files.read(
        settings.model_dir,
        model_config_path=settings.model_config_path,
        spiece_model_file=settings.spiece_model_file,
        network=NetworkSettings(precision=settings.precision),
    )
