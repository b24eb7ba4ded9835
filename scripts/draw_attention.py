"""Draws what the heads of a pretrained network attend to in a text, in both streams."""

import recipes  # finds the library

from xlnet.programs.draw_attention import run

if __name__ == "__main__":
    run()
