"""A tiny SentencePiece model of generated English."""

import io
import pathlib

import numpy as np
import sentencepiece

CONTROL = ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"]
WORDS = "the cat sat on a mat while two dogs ran past old houses near 13 rivers in 2010".split()


def train_tiny_model(path, control=CONTROL, user_defined=("<eop>", "3,")):
    """Trains a model of 80 pieces on generated sentences and writes it to `path`."""
    rng = np.random.RandomState(0)
    sentences = [" ".join(rng.choice(WORDS, 8)) for _ in range(300)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, vocab_size=80,
        control_symbols=list(control), user_defined_symbols=list(user_defined),
        hard_vocab_limit=False, num_threads=1, minloglevel=2)
    pathlib.Path(path).write_bytes(model.getvalue())
    return str(path)
