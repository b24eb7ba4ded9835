"""`UserError`, the exception that users see, and other errors explained in one line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any


class UserError(ValueError):
    """Bad input: one line that names the file, flag or row, what was found and what was expected.

    Entry points print it without a traceback and exit with `status`. With `ends_at_once` they exit
    without clean-up, as a thread may be left in TensorFlow, which aborts a program that is ending.
    """

    status = 1
    ends_at_once = False


class MissingFlag(UserError):
    """A required flag is missing."""

    status = 2


class Unfinished(UserError):
    """A signal ended a run before its work was done; the same command resumes it."""

    # EX_TEMPFAIL of sysexits.h, "try again later". Schedulers take 0 for finished work, and would
    # not start the run again.
    status = 75


def wrong(where: str, found: object, expected: str, flag: str = "") -> UserError:
    """The error of bad input, in the one shape that all of them have.

    Args:
      where: the file and line, the flag or the field.
      found: what is there, as it is shown: `repr` of a text, a number.
      expected: what should be there.
      flag: the flag that changes it; "": none.

    Returns:
      an error to raise: `data.csv:7: found 'x', expected a number; --label_column`.
    """
    remedy = f"; {flag}" if flag else ""
    return UserError(f"{where}: found {found}, expected {expected}{remedy}")


def escape_control_characters(text: str, kept: str = "") -> str:
    """A text that is safe for a terminal: characters that are not printable, except `kept`, are
    escaped as Python does. Errors quote files, whose bytes must not control the terminal."""
    safe = ""
    for character in text:
        is_shown = character.isprintable() or character in kept
        safe += character if is_shown else repr(character)[1:-1]
    return safe


# ---- errors of TensorFlow and the operating system, in one line ----
#
# `cli.command` has `translated_errors` around every program; the library uses it where it knows
# more than the error says, such as which records are being read. Errors without a case keep their
# traceback, but for those of the operating system, of which the text is shown. TensorFlow is not
# imported: classes are known by name.


_ANY = ("OpError", "OSError")
_LESS_MEMORY = (
    "more --grad_accum_steps, --recompute=True, --precision=bf16, a smaller --train_batch_size or "
    "--eval_batch_size, a shorter --max_seq_length or --mem_len"
)

# Known failures: classes of the error or of its bases, by name ("OpError": any that TensorFlow
# raises from a graph); what is searched in its reason; and the message.
#
# The message may hold {reason}; {file}, which the error names; the pattern's named groups; and what
# `translated_errors` was given. Without a value for each the case does not apply.
_CASES = (
    (("OpError",), r"UserError: (?P<said>.+)", "{said}"),  # raised inside of the graph
    (
        _ANY,
        r"(?i)no space left on device|quota exceeded|\d+ requested and \d+ written",
        "{file}: no space left on the disk; free some and start again",
    ),
    (
        _ANY,
        r"(?i)(?P<said>permission denied|operation not permitted|read-only file system)",
        "{file}: {said}; change the rights, or give a directory elsewhere",
    ),
    (
        ("ResourceExhaustedError",),
        r"OOM when allocating tensor with shape(?P<shape>\[.*?\]).*device:(?P<device>\w+:\d+)",
        "out of memory on {device}, for a tensor {shape}; what helps: " + _LESS_MEMORY,
    ),
    (("MemoryError",), "", "out of memory: {reason}; what helps: " + _LESS_MEMORY),
    (
        ("BrokenProcessPool",),
        "",
        "a worker process was killed, perhaps for want of memory; {fewer}",
    ),
    (
        ("DataLossError",),
        "",
        "records: {records} is damaged: {reason}; remove it and start again to make it again",
    ),
    (
        ("NotFoundError",),
        r"Key (?P<key>\S+) not found in checkpoint",
        "model_dir: the checkpoint in {model_dir} has no {key}: its run has other settings, or it "
        "has weights alone; give the settings as they were, or the checkpoint as init_checkpoint "
        "of another model_dir",
    ),
    # What TensorFlow says of a file.
    (("OpError",), r"^\S*/\S+; (?P<said>.+)", "{file}: {said}"),
)


@contextlib.contextmanager
def translated_errors(**known: Any) -> Iterator[None]:
    """Turns a known failure into a `UserError` of one line.

    `known` are values for the lines of cases: `records`, the path of the records being read;
    `model_dir`, of the run; `fewer`, how to use fewer processes; `file`, if the error names none.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as e:
        line = _in_one_line(e, **known)
        if line is None:
            raise
        raise UserError(line) from e


# Errors of libraries at a file that is damaged, or another one; "error" is that of zlib.
_UNREADABLE = {
    "OpError",
    "OSError",
    "RuntimeError",
    "ValueError",
    "LookupError",
    "ArithmeticError",
    "EOFError",
    "error",
}


@contextlib.contextmanager
def reading(what: str, remedy: str) -> Iterator[None]:
    """Like `translated_errors`; any other failure to read the file `what` becomes a `UserError`."""
    try:
        with translated_errors(file=what):
            yield
    except UserError:
        raise
    except Exception as e:
        if not _classes(e) & _UNREADABLE:
            raise
        raise UserError(f"{what} cannot be read: {reason(e)}; {remedy}") from e


def _in_one_line(error: Exception, **known: Any) -> str | None:
    """The message for an error; None if it is not a known case."""
    why = reason(error)
    for classes, pattern, line in _CASES:
        found = re.search(pattern, why)
        if not found or not _classes(error) & set(classes):
            continue
        values = {**known, "reason": why, **found.groupdict()}
        if file := _file(error, why):
            values["file"] = file
        # a case applies if everything that its line names is known
        with contextlib.suppress(KeyError):
            return line.format(**values)
    return None


def _classes(error: BaseException) -> set[str]:
    """The names of an error's class and of its bases."""
    return {each.__name__ for each in type(error).__mro__}


# What TensorFlow puts around the reason: the node, where the graph was made, hints.
_AROUND = re.compile(
    r"\s*$|\s+File \"|Graph execution error|Detected at|Node: |\s*\[\[|Hint: "
    r"|Original stack trace|Restoring from checkpoint failed|From /job:"
    r"|\d+ root error|\d+ (successful|derived) "
)


def reason(error: Exception) -> str:
    """The line of an error's message that says what happened."""
    # TensorFlow's errors have a `message`, those of the operating system `strerror`.
    text = str(error)
    for name in ("strerror", "message"):
        text = getattr(error, name, None) or text
    # TensorFlow's messages have many lines, of which most say where it happened:
    #
    #     Graph execution error:
    #
    #     2 root error(s) found.
    #       (0) DATA_LOSS: corrupted record at 12
    #              [[{{node IteratorGetNext}}]]
    #
    # The reason is the first line that is not `_AROUND` it. Its number and the class of the error,
    # which it has where several devices failed, are left out.
    lines = [line for line in text.split("\n") if not _AROUND.match(line)]
    if not lines:
        return type(error).__name__
    return re.sub(r"^\s*\(\d+\) [A-Z_ ]+: ", "", lines[0]).strip()


# Suffixes of files that are being written, here and by TensorFlow.
_WHILE_WRITTEN = re.compile(
    r"\.partial-[0-9a-f-]+(?=/|$)|_temp/part-.*$|\.tempstate\d+$"
)


def _file(error: Exception, why: str) -> str | None:
    """The file that an error names, of a copy or a move its target; None if it names none. why: the
    error's reason."""
    # Python's errors have the name as an attribute, TensorFlow's in the text.
    named = getattr(error, "filename2", None) or getattr(error, "filename", None)
    if not named:
        found = re.match(r"([^\s;:]*/[^\s;:]+)[;:]", why)
        named = found.group(1) if found else None
    return _WHILE_WRITTEN.sub("", str(named)) if named else None
