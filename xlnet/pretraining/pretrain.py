"""Pretraining, as one story read downward, from a run that `resolve` has made."""

from __future__ import annotations

from xlnet.engine import checkpoint, loop
from xlnet.engine.best_checkpoint import BestCheckpoint
from xlnet.pretraining import held_out
from xlnet.pretraining.run import PretrainingRun


def pretrain(run: PretrainingRun) -> None:
    """Trains, or with `do_eval` evaluates.

    Raises:
      UserError: something in the records or the checkpoints is wrong.
      Unfinished: a signal stopped the training.
    """
    if run.settings.do_eval:
        assert run.weights, "`resolve` has found some"
        step = checkpoint.step_in_name(run.weights)
        held_out.HeldOut(run).evaluate_step(step, run.weights)
        return
    # Without patience: pretraining does not stop early.
    selection = BestCheckpoint(run.settings.model_dir, "loss", lower_is_better=True)
    # Without held-out records nothing is evaluated while training.
    evaluator = held_out.HeldOut(run) if run.held_out else None
    loop.fit(run, selection, evaluator)
