"""Records to batches; what files hold is in `records`, what is done with a batch above.

`permutation` draws targets and factorization orders, `input_pipeline` reads records, draws what a
step predicts, and makes batches of both kinds of training.
"""
