"""The training engine: nothing here knows a task or an objective.

`loop` is the training: when a run steps, saves, evaluates, selects and stops. `estimator` builds
and runs its step of the parts in `optimizer`, on `devices` and as one of several hosts
(`multi_host`). `checkpoint` and `recurrent_memory` have the state of a run, `best_checkpoint` its
best checkpoint. `progress` reports to the user. `session` has the weights of a checkpoint, for
evaluation and inference.
Private TensorFlow is used in `devices` and `multi_host` alone.
"""
