"""Fine-tuning: what training on tasks adds to the engine.

`rows` are those of a run, as records and batches; `model` is what is trained, with `mixout` if
asked; `settled` makes settings of what was given and what a model keeps, `task_json` describes a
model directory; `run` trains, evaluates and predicts, `trials` repeats it with other seeds;
`program` is what the entry points share. Files, labels and metrics belong in `tasks`.
"""
