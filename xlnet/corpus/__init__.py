"""Raw text to tokens, sequences, records and batches, without TensorFlow until batches are read.

`tokenizer` makes tokens of text, `offsets` says which characters they are. `reading`
and `sentences` make sentences of files, `tokenized` tokens of sentences, `sequences` text
streams of tokens; `preparation` shares the work out and resumes it, with `processes`;
`beam` does the same for corpora that one machine cannot hold. `manifest` and
`record_files` are the records; `input_pipeline` makes batches of them, `permutation`
targets and orders.
"""
