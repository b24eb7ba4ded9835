"""The one exception that users see, and the hint that goes with a misspelt name."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Bad input: one line that names the file, flag or row, what was found and what was expected.

    Entry points print it without a traceback and exit with `status`; `ends_at_once`: without taking
    anything down, for errors that may leave a thread in TensorFlow: it aborts the program where it
    comes back to an interpreter that is ending.
    """
    status = 1
    ends_at_once = False


class MissingFlag(UserError):
    """A flag that is needed was not given."""
    status = 2


def did_you_mean(name: str, choices: Iterable[object]) -> str:
    """Returns `"; did you mean 'x'?"` for the closest of `choices`, or an empty string."""
    close = difflib.get_close_matches(name, [str(choice) for choice in choices], n=1)
    return "; did you mean '%s'?" % close[0] if close else ""


def visible(text: str, kept: str = "") -> str:
    """A text for a terminal: what is no character of a line, or acts on the terminal, is written as
    Python writes it; but for the characters `kept`. What files hold stands in errors as it is."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character in kept else
                   repr(character)[1:-1] for character in text)
