"""Fine-tuning, as one story read downward.

`fine_tune` is the story. `resolve` makes a `TaskRun` of the settings of a command line, and the
training of it; `data` reads files to rows; `run` is the training step. `model` is the network with
the output layer of a task, and the predictor of rows; `evaluate` evaluates and predicts; `verdict`
says whether it learned. Task types are in `tasks`, model directories in `runs`.
"""
