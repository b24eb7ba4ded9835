"""Pretraining, as one story read downward.

`resolve` makes a `PretrainingRun` of the settings of a command line; `run` is its training step, on
the targets and the network of `objectives`; `held_out` evaluates.

A module of your own, named by --own_module, calls `register_order` for a factorization order,
and `objectives.register` for an objective.
"""

from xlnet.corpus.permutation import register_order

__all__ = ["register_order"]
