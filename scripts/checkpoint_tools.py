"""Looks at checkpoints, strips, averages, compares and casts them."""

import recipes  # finds the library

from xlnet.programs.checkpoint_tools import run

if __name__ == "__main__":
    run()
