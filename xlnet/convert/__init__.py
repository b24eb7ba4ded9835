"""Models of other libraries: read, and written, without them.

`conversion` turns a folder of Hugging Face's library into a checkpoint of ours and back. It has
`folder` and `safetensors` (files), `weights` (names and shapes), `config_json`, `tokenizer_files`,
and `described` (our task.json in their terms, theirs in ours). Nothing is unpickled or run, and no
name in a file leads out of its folder.
"""
