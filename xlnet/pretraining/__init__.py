"""Pretraining: `objectives`, the `model` that is trained on them, `sources` of data, `run`."""
