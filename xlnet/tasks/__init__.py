"""Tasks without a network: types, data files, records, metrics, prediction files.

Nothing here imports TensorFlow, so that files can be checked and metrics used without it; training
is in `finetuning`. `types` has the task types and the tasks, `files` reads their files, `features`
makes arrays of the examples, `metrics` scores predictions, `output` writes them.
"""
