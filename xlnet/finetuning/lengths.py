"""The length of a fine-tuning run, and its intervals of evaluation and saving, in steps."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from collections.abc import Collection

from xlnet import files
from xlnet.models.resolved import AnySettings, weights_in
from xlnet.settings.finetuning import FINETUNING_NAME
from xlnet.settings.training import OptimizationSettings

EPOCHS = 3.0                    # the default length
_MOST_UNSAVED = 1000            # steps between checkpoints by default, if an epoch has more

_log = logging.getLogger(__name__)


def with_length(settings: AnySettings, optimization: OptimizationSettings, given: Collection[str]
                ) -> tuple[AnySettings, OptimizationSettings]:
    """The settings with the length that was given, that of the run that resumes, or 3 epochs."""
    if not settings.do_train or {"epochs", "train_steps"} & set(given):
        return settings, optimization
    path = os.path.join(settings.model_dir, FINETUNING_NAME + ".json")
    if weights_in(settings.model_dir) and os.path.exists(path):
        before = files.read_json(path, "model_dir")
    else:
        _log.info("note: neither epochs nor train_steps is given: %g epochs", EPOCHS)
        before = {"epochs": EPOCHS}
    return (dataclasses.replace(settings, epochs=before.get("epochs")),
            dataclasses.replace(optimization, train_steps=before.get(
                "train_steps", optimization.train_steps)))


def in_steps(settings: AnySettings, optimization: OptimizationSettings, num_rows: int
             ) -> tuple[AnySettings, OptimizationSettings]:
    """The settings with epochs over `num_rows` rows converted to steps.

    A row of several windows counts once, so an epoch passes over a part of the windows. By default
    a run is evaluated and saved once an epoch, and saved every 1,000 steps if an epoch has more.
    """
    epoch = num_rows / settings.train_batch_size
    if settings.epochs:
        optimization = dataclasses.replace(
            optimization, train_steps=max(1, round(settings.epochs * epoch)))
    optimization.check_warmup()
    once = max(1, math.ceil(epoch))
    return dataclasses.replace(
        settings, eval_steps=once if settings.eval_steps is None else settings.eval_steps,
        save_steps=settings.save_steps or min(once, _MOST_UNSAVED)), optimization
