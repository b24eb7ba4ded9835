"""Tasks without a network: what they are, their files, their records, what answers are worth.

Nothing here imports TensorFlow, so that a file can be read and checked, and a metric used, without
it. What trains belongs in `finetuning`.

`types` has the task types and the tasks, `files` reads their files, `features` makes arrays of the
rows, `metrics` judges answers, `output` makes texts, tables and prediction files of them.
"""
