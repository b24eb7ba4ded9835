"""Tasks without a network: what they are, their files, their records, what answers are worth.

Nothing here imports TensorFlow, so that a file can be read and checked, and a metric used, without
it. What trains belongs in `finetuning`.

`task` is a task as data; `kind` what a kind of task has to say, `classification`, `regression`,
`multi_label`, `multiple_choice` and `ranking` are the kinds, `registry` lists them. `known` has the
public tasks, `custom` makes one of a user's own columns. `readers` makes tables of files, `parsing`
checked rows of tables, `encoding` records of rows. `metrics` and `evaluation` judge answers,
`prediction_files` writes them.
"""
