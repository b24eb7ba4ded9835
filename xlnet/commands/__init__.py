"""The programs: from flags to settings, one call into the library, and what is printed.

`main.COMMANDS` has the function of each subcommand of `xlnet`. `cli` calls it with its settings,
which are made of the flags; its docstring, or that of its module, is the text of `--help`. Modules
are imported before `--help` is shown, so functions import TensorFlow.
"""

import importlib.util
import sys

for _name in ("absl", "numpy", "sentencepiece", "tensorflow"):
    # a newcomer's first start is often outside of the environment
    if importlib.util.find_spec(_name) is None:
        sys.exit(
            f"xlnet: {sys.executable} has no {_name}: in the clone, run `bash scripts/setup.sh`, "
            "then `source .venv/bin/activate`; elsewhere, install with pip"
        )
