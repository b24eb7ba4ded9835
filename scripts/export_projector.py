"""Writes embeddings as a folder for TensorBoard's projector."""

import recipes  # finds the library

from xlnet.programs.export_projector import run

if __name__ == "__main__":
    run()
