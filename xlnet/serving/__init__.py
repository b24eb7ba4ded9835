"""A trained model in use, without a trainer: from Python, exported, filling in, writing on.

`directory` finds the files of a model, and none outside of its directory; `loaded` reads what they
say; `session` has its weights in one session, for batches of any size and length. `load` is
`xlnet.load`, `model` the object that it gives: `batches` cuts records, `vectors` has what each
layer makes of a text, `features` writes that for the texts of a file. Answers go through the same
contract of a task type, and the same encoding, as `--do_predict`.
"""
