"""Models of Hugging Face's library, read and written without it.

`conversion` turns a folder of that library into a checkpoint of ours and back. The common terms are
the entries of `config.json` (`config_json`), also of tasks; `weights` has the names and shapes on
both sides and reads safetensors, `tokenizer_files` the vocabulary. Nothing is unpickled or run, and
no name in a file leads out of its folder. "Theirs" and "there" mean that
library, "ours" and "here" this one.
"""
