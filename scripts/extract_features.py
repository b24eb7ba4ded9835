"""Writes what the network makes of each text of a file: vectors, from any of its layers."""

import recipes  # finds the library

from xlnet.programs.extract_features import run

if __name__ == "__main__":
    run()
