"""Fine-tuning, as one story read downward.

`start` goes from the settings to the predictions, `run` from the rows to the loop; `data` reads
files to batches; `model` is the step: the network with the output layer of a task and its loss;
`evaluate` evaluates and predicts, `predictor` predicts rows in memory, `verdict` says whether it
learned. Task types are in `tasks`, model directories in `runs`.
"""
