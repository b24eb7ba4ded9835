"""Trains a SentencePiece vocabulary with XLNet's special symbols at the ids of released models."""

import recipes  # finds the library

from xlnet.programs.train_sentencepiece import run

if __name__ == "__main__":
    run()
