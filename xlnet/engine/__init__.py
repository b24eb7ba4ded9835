"""The training engine: nothing here knows a task or an objective.

`trainer` decides when a run saves, evaluates, selects and stops. `estimator` runs the step of
`train_step`, with `optimizer`, `distribution` (devices) and `multi_host`. `checkpoint`, `saving`
and `recurrent_memory` save the state of a run, `best_checkpoint` its best checkpoint,
`run_settings` its settings. `predictor` runs a checkpoint over a file, `progress` reports to the
user. `checkpoint_tools` works on checkpoints outside of a run. `private_tf` has all uses of private
TensorFlow.
"""
