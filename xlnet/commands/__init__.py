"""The programs: from flags to settings, one call into the library, and what is printed.

Each module with a function `run` is a subcommand of `xlnet` (see `main`); its docstring is the
text of `--help`. Modules are imported before `--help` is shown, so functions import TensorFlow.
"""

import importlib.util
import sys

_MISSING = [
    name
    for name in ("absl", "numpy", "sentencepiece", "tensorflow")
    if importlib.util.find_spec(name) is None
]
if _MISSING:  # a newcomer's first start is often outside of the environment
    sys.exit(
        "xlnet: {} has no {}: in the clone, run `bash scripts/setup.sh`, then `source "
        ".venv/bin/activate`; elsewhere, install with pip".format(
            sys.executable, ", ".join(_MISSING)
        )
    )
