"""The programs: flags to settings, one call into the rooms below, what is printed.

Each module is a program that users start as a file of its name, at the root of the repository or in
`scripts/`, or, where the package is installed, as the command that `pyproject.toml` gives it.
`run` is its command line; `--help` comes before TensorFlow is imported, so what needs it is
imported inside of functions. What several of them share is in a module without `run`.
"""
