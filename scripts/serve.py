"""Serves an exported model over HTTP: JSON in, JSON out. An example, for trials and small use."""

import recipes  # finds the library

from xlnet.programs.serve import run

if __name__ == "__main__":
    run()
