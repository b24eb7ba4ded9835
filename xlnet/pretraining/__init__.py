"""Pretraining on the engine's trainer.

`objectives` defines the targets and the losses, `model` trains on them, `sources` finds the data,
`held_out` evaluates, `run` puts them together.
"""
