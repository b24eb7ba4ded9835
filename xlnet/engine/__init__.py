"""What every training needs, whatever is trained; nothing here knows a task or an objective.

`trainer` decides when a run saves, evaluates, selects, stops and goes back. It has `optimization`
(Adam, rates, clipping), `distribution`, `meeting` and `hosts` (devices), `training` (the step),
`checkpoint`, `saving` and `memory` (what is kept), `selection` (the best of it), `inference` (what
a checkpoint answers), `kept_settings` and `lock` (what a directory was begun with, and who trains
there), `reports` (what a user sees). `checkpoint_tools` is for checkpoints outside of any run.
`private_tf` is all that is reached in private TensorFlow.
"""
