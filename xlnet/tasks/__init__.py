"""Tasks without a network: types, data files, records, metrics, prediction files.

Nothing here imports TensorFlow, so that files can be checked and metrics used without it; training
is in `finetuning`. Each of these imports from those before it: `task`, a task as data, and its
predictions; `files` reads files; `encoding` makes arrays of rows; `metrics` scores
predictions; `contract` is what a task is, with the simple types; `tagging`, `questions` and
`ranking` are a room each; `known` registers all types, has the published tasks and makes one of a
file of one's own; `results` scores predictions, and writes both.
"""

from typing import TypeVar

_Registered = TypeVar("_Registered")


def register(part: _Registered) -> _Registered:
    """Makes a task type, a subclass of `Task`, available by its name; returns it. --own_module
    imports a module with variables of such calls."""
    from xlnet.tasks import known

    return known.register(part)
