"""Inference with trained models, from Python and exported.

`load` is `xlnet.load`, `model` the object that it returns, whose methods are a file
each: `prediction`, `vectors`, `filling`, `generation`, `factorization`.
`method` is what the methods share; `language_model` reads
token by token. A task type predicts with the same methods as with
`--do_predict`. `exporter` writes SavedModels.
"""
