"""What every training needs, whatever is trained; nothing here knows a task or an objective.

`trainer` decides when a run saves, evaluates, selects and stops. `estimator` runs `train_step`,
which has `optimizer` (Adam, rates, clipping), `distribution` (devices), `multi_host`. `checkpoint`,
`saving` and `recurrent_memory` keep a run, `best_checkpoint` keeps the best of it, `run_settings`
what it was begun with. `predictor` has a checkpoint's answers, `progress` is what a user sees.
`checkpoint_tools` is for checkpoints outside of any run. `private_tf` is all that is reached in
private TensorFlow.
"""
