"""The programs: from flags to settings, one call into the library, and what is printed.

`main.COMMANDS` names the function of each subcommand of `xlnet`, its program. `cli` makes settings
of the flags and calls the program with them. The docstring of the program, or of its module, is the
text of `--help`. Modules are imported before `--help` is shown, so TensorFlow, which takes seconds,
is imported in functions.
"""

import importlib.util
import sys

for _name in ("absl", "numpy", "sentencepiece", "tensorflow"):
    # A newcomer's first start is often outside of the environment.
    if importlib.util.find_spec(_name) is None:
        sys.exit(
            f"xlnet: {sys.executable} has no {_name}: in the clone, run `bash scripts/setup.sh`, "
            "then `source .venv/bin/activate`; elsewhere, install with pip"
        )
