"""Pretraining on the engine's trainer.

`objectives` defines the targets and the losses, `model` trains on them, `sources` finds the data,
`held_out` evaluates and shows a `filled_window`, `run` puts them together.
"""
