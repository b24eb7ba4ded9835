"""Pretraining, as one story read downward: resolve a run, then train or evaluate."""

from __future__ import annotations

from collections.abc import Collection

from xlnet.engine import checkpoint, loop
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.pretraining import held_out
from xlnet.pretraining.resolve import resolve
from xlnet.settings.fields import Settings
from xlnet.settings.network import NetworkSettings
from xlnet.settings.pretraining import PretrainingSettings
from xlnet.settings.training import DeviceSettings, OptimizationSettings
from xlnet.support import system


def pretrain(
    settings: PretrainingSettings,
    architecture: Settings,
    network: NetworkSettings,
    optimization: OptimizationSettings,
    device: DeviceSettings,
    given: Collection[str],
) -> None:
    """Trains, or with `do_eval` evaluates; the arguments are those of `resolve`.

    Raises:
      UserError: something in the settings or the records is wrong.
      Unfinished: a signal stopped the training.
    """
    system.import_own_module(settings.own_module)
    run = resolve(settings, architecture, network, optimization, device, given)
    if run.settings.do_eval:
        assert run.weights, "`resolve` has found some"
        step = checkpoint.step_named(run.weights)
        held_out.HeldOut(run).evaluate_step(step, run.weights)
        return
    # Without patience: pretraining does not stop early.
    selection = BestCheckpoint(run.settings.model_dir, "loss", lower_is_better=True)
    # Without held-out records nothing is evaluated while training.
    evaluator = held_out.HeldOut(run) if run.held_out else None
    loop.fit(run, selection, evaluator)
