"""Fine-tuning, as one story read downward.

`start` goes from the settings to the predictions; `data` reads files to batches; `model` is the
network with the output layer of a task and its loss; `train` trains; `evaluate` evaluates and
predicts. Task types are in `tasks`, model directories in `model_directory`.
"""
