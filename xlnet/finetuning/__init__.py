"""Fine-tuning: what training on tasks adds to the engine.

`rows` has the records and batches of a run, `model` a training step, `lengths` their number; `run`
trains, evaluates and predicts; `program` is shared by the entry points. Files, labels and metrics
are in `tasks`, model directories in `models`.
"""
