"""Raw text to tokens, sequences, records and batches, without TensorFlow until batches are read.

`tokenizer` makes tokens of text, `offsets` says which characters they are. `reading`
and `sentences` make lines of files, `tokenized` tokens of lines, `sequences` text
streams of tokens; `record_writer` writes them; `preparation` shares the work out and
resumes it, with `processes`; `beam` does the same for corpora that one machine cannot hold.
`manifest`, `feature_spec` and `tfrecord` are the records;
`input_pipeline` makes batches of them, `permutation` targets and orders.
"""
