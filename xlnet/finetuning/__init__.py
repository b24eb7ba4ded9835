"""Fine-tuning: what training on tasks adds to the engine.

`rows` are those of a run, as records and batches; `model` is one step;
`lengths` says how many there are; `run` trains, evaluates and predicts, `trials` repeats it with
other seeds; `program` is what the entry points share. Files, labels and metrics belong in `tasks`,
what a model directory says of itself in `models`.
"""
