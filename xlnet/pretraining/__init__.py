"""Pretraining: what it adds to the engine's trainer.

`objectives` says what is predicted, `model` is trained on them, `sources` finds the data,
`held_out` evaluates and shows a `filled_window`, `run` puts it together. How a run goes belongs in
`engine`.
"""
