"""Shared by several test files; no test file imports another one.

paths: the repository, the golden values, the folder of real data. golden: golden files and how
close is equal. command: a program run within the test's process. pretraining, finetuning and
preparation: small runs of train_gpu.py, run_classifier.py and data_utils.py. official: rows of the
known tasks in the forms of their files. vocabulary: a tiny SentencePiece model. windows: small
texts as tokens. What only one test file needs stays there.
"""
