"""Writes a trained model as a SavedModel, for TensorFlow Serving and any process with it."""

import recipes  # finds the library

from xlnet.programs.export import run

if __name__ == "__main__":
    run()
