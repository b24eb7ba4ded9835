"""Turns a folder of Hugging Face's library into a checkpoint of ours, and the other way."""

import recipes  # finds the library

from xlnet.programs.convert_checkpoint import run

if __name__ == "__main__":
    run()
