"""Fills blanks in texts: the likeliest fillings, with their joint probability."""

import recipes  # finds the library

from xlnet.programs.fill_mask import run

if __name__ == "__main__":
    run()
