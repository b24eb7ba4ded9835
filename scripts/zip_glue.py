"""Zips the prediction files of all GLUE tasks into one submission for the GLUE server."""

import recipes  # finds the library

from xlnet.programs.zip_glue import run

if __name__ == "__main__":
    run()
