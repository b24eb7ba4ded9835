"""The training engine: nothing here knows a task or an objective.

`trainer` decides when a run saves, evaluates, selects and stops. `estimator` runs the step of
`train_step`, with `optimizer`, `devices` and `multi_host`. `checkpoint` and `recurrent_memory` have
the state of a run, `best_checkpoint` its best checkpoint. `predictor` runs a checkpoint over a
file, `progress` reports to the user. Private TensorFlow is used in `devices` and `multi_host`
alone.
"""
