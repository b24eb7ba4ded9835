"""Models of Hugging Face's library, read and written without it.

`conversion` turns a folder of that library into a checkpoint of ours and back, with `safetensors`
(files), `weights` (names and shapes), `config_json`, `tokenizer_files`, and `huggingface_task` (the
task of a run.json in their terms). Nothing is unpickled or run, and no name in a file leads out of
its folder. "Theirs" and "there" mean that library, "ours" and "here" this one.
"""
