"""Tasks without a network: types, data files, records, metrics, prediction files.

Nothing here imports TensorFlow, so that files can be checked and metrics used without it; training
is in `finetuning`. Each of these imports from those before it: `fields`, a task as data, and its
predictions; `files` reads files; `encoding` makes arrays of rows; `metrics` scores
predictions; `contract` is what a task is, with the simple types; `tagging`, `questions` and
`ranking` have one of the other types each; `known` registers all types, has the published tasks and
makes one of a user's own files; `results` scores predictions, and writes them and the scores.
"""

from typing import TypeVar

_Registered = TypeVar("_Registered")


def register(its_type: _Registered) -> _Registered:
    """Makes a user's task type, a subclass of `contract.Task`, available by its name `kind`;
    returns it, to be used as a decorator. The module that --own_module names calls this."""
    # Imported here, as `known` imports the modules of this package.
    from xlnet.tasks import known

    return known.register(its_type)
