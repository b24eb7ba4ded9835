"""Makes a sample to try everything on from what every Python carries; nothing is downloaded.

Pretraining text: the language reference (`pydoc_data.topics`) and the docstrings of the standard
library. Classification set: docstrings labelled with the package they come from.
"""

import recipes  # finds the library

from xlnet.programs.make_sample import run

if __name__ == "__main__":
    run()
