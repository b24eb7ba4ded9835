"""Pretraining: `objectives`, the `model` that is trained on them, `sources` of data, `held_out`
evaluation, `run`: what all this adds to the trainer."""
