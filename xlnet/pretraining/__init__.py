"""Pretraining, as one story read downward.

`run` goes from the settings to the loop; `data` reads records to batches, which `sources` finds;
`model` is the step, with the targets and losses of `objectives`; `held_out` evaluates.

A module of your own, named by --own_module, calls `register_order` for a factorization order,
and `objectives.register` for an objective.
"""

from xlnet.corpus.permutation import register_order

__all__ = ["register_order"]
