"""What a model directory holds, for training (`finetuning`) and inference (`serving`).

`task_json` describes what it was trained for, `resolved` resolves settings from that and from
flags, `layout` has the length of its records, `task_model` is its network with the task's output
layer.
"""
