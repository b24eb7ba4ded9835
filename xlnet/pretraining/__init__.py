"""Pretraining on the engine's trainer.

Begin with `run`: what is read, trained and evaluated. `model` is a step on one device, `objectives`
the targets and the losses, `held_out` the evaluation; `sources` finds the data.
"""
