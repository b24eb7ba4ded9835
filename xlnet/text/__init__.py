"""Raw text to pretraining records, without TensorFlow; tables of tasks are read in `tasks`.

`reading`, `text_forms`, `parquet` and `sentences` make lines of files, `corpus` tokens of lines,
`windows` streams of windows of tokens; `record_writer` writes them; `preparation` shares the work
out and resumes it, with `token_store` for tokens and `processes` for the work; `merging` and `beam`
are for corpora made in several places.
"""
