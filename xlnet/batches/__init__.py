"""Records to batches.

`permutation` samples targets and factorization orders; `input_pipeline` reads records and makes the
batches of pretraining and fine-tuning.
"""
