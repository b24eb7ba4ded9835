"""What a model directory holds, for those who train it and for those who use it.

`task_json` says what it was trained for, `settled` makes settings of that and of what is given;
`layout` says how long its records are, `task_model` is its network with the output layer of its
task. How it is trained belongs in `finetuning`, how it is used in `serving`.
"""
