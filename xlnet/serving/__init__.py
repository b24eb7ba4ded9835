"""Inference with trained models: from Python, exported, served over HTTP.

`load` is `xlnet.load`, `model` the object that it returns. `model_directory.model_files` reads the
files of a model and none outside of its directory; `session` holds the weights and cuts records
into batches. `texts` turns arguments into rows. `vectors` computes hidden states; `language_model`
reads token by token, for `filling`, `generation` and `attention`, with `sampling`. A task type
predicts with the same reader, head and scorer as with `--do_predict`.
"""
