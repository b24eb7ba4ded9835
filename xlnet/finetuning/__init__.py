"""Fine-tuning.

`tasks`, `tables`, `task_files` and `own_data` make rows of files, `features` records of rows, and
`rows` ties them together; `model`, `mixout` and `description` are what is trained, `run` trains it,
`predictions` puts it to use, `evaluation`, `metrics` and `ranking` judge it,
`trials` repeats it with other seeds.
"""
