"""Shared by several test files; no test file imports another one. What only one needs stays there.

pretraining, finetuning, preparation: small runs of train_gpu.py, run_classifier.py, data_utils.py.
"""
