"""Makes a sample to try everything on from what every Python carries; nothing is downloaded."""

import recipes  # finds the library

from xlnet.programs.make_sample import run

if __name__ == "__main__":
    run()
