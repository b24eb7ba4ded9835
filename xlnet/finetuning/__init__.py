"""Fine-tuning, as one story read downward.

`commands.fine_tuning` is the story: `runs.task_settings` resolves what the command line and the
directory say, `data` reads files to rows and batches, `resolve` makes the training of them, `run`
is its step. `model` is the network with the output layer of a task, and the predictor of rows;
`evaluate` evaluates and predicts on all devices; `verdict` says whether it learned. Task types are
in `tasks`, model directories in `runs`.
"""
