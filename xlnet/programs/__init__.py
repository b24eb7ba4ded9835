"""The programs: from flags to settings, one call into the library, and what is printed.

Each module with a function `run` is a subcommand of `xlnet` (see `commands`); its docstring is the
text of `--help`. Modules are imported before `--help` is shown, so functions import TensorFlow.
"""
