"""Draws the curves of one or several trainings."""

import recipes  # finds the library

from xlnet.programs.draw_curves import run

if __name__ == "__main__":
    run()
