"""Pretraining on the engine's trainer.

Begin with `run`: what is read, trained and evaluated. `model` is a step on one device, `objectives`
the targets and the losses, `held_out` the evaluation; `sources` finds the data.

A module of your own, named by --objective_module, calls `register_order` for a factorization order,
and `objectives.register` for an objective.
"""

from xlnet.batches.permutation import register_order

__all__ = ["register_order"]
