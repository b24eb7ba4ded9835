"""Writes on from texts."""

import recipes  # finds the library

from xlnet.programs.generate import run

if __name__ == "__main__":
    run()
