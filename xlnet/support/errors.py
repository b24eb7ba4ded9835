"""`UserError`, the exception that users see, and other errors explained in one line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any


class UserError(ValueError):
    """Bad input: one line that names the file, flag or row, what was found and what was expected.

    Entry points print it without a traceback and exit with `status`.
    """

    status = 1


class MissingFlag(UserError):
    """A required flag is missing."""

    status = 2


class Unfinished(UserError):
    """A signal ended a run before its work was done; the same command resumes it."""

    # EX_TEMPFAIL of sysexits.h, "try again later". Schedulers take 0 for finished work, and would
    # not start the run again.
    status = 75


def wrong(where: str, found: object, expected: str, remedy: str = "") -> UserError:
    """The error of bad input, in the one shape that all of them have.

    Args:
      where: the file and line, the flag or the field.
      found: what is there, in words, or as a value that is shown by `str`.
      expected: what should be there, in words.
      remedy: the flag that changes it, or what else to do; "": not said.

    Returns:
      an error to raise, such as `data.csv:7: found 'x', expected a number; --label_column`.
    """
    suffix = f"; {remedy}" if remedy else ""
    return UserError(f"{where}: found {found}, expected {expected}{suffix}")


def require_finite(values: Any) -> None:
    """Raises UserError if an array of outputs of the network has NaN or infinity: a label or text
    that is chosen by them would look like a valid prediction."""
    import numpy as np  # help and errors do without it

    if not np.isfinite(values).all():
        where, found = "outputs of the network", "NaN or infinity"
        raise wrong(where, found, "finite numbers", "if precision is fp16, fp32")


def escape_control_characters(text: str, kept: str = "") -> str:
    """A text that is safe for a terminal: characters that are not printable, except those in
    `kept`, are escaped as Python does. Errors quote files, whose bytes must not control the
    terminal."""
    safe = ""
    for character in text:
        is_safe = character.isprintable() or character in kept
        # `repr` has quotation marks around the escape.
        safe += character if is_safe else repr(character)[1:-1]
    return safe


# ---- errors of TensorFlow and the operating system, in one line ----
#
# `cli.command` has `translated_errors` around every program; the library uses it where it knows
# more than the error says, such as which records are being read. Errors without a case keep their
# traceback, except those of the operating system, of which `cli` shows the text. TensorFlow is not
# imported: classes are known by name.


_ANY = ("OpError", "OSError")
_LESS_MEMORY = (
    "more --grad_accum_steps, --recompute=True, --precision=bf16, a smaller --train_batch_size or "
    "--eval_batch_size, a shorter --max_seq_length or --mem_len"
)

# Known failures, of which the first that applies is taken. Each has:
# - classes by name, one of which is that of the error or of its bases ("OpError": any error that
#   TensorFlow raises from a graph);
# - a pattern that is searched in the error's `reason`; "" matches any;
# - the message. It may have {reason}; {file}, which the error names; the named groups of the
#   pattern; and the arguments of `translated_errors`. If one of its fields has no value, the case
#   does not apply.
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
    """Turns a known failure of the block (`_CASES`) into a `UserError` of one line.

    `known` are values for fields of the messages: `records`, the path of the records being read;
    `model_dir`, of the run; `fewer`, how to use fewer processes; `file`, if the error names none.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as e:
        message = _known_message(e, **known)
        if message is None:
            raise
        raise UserError(message) from e


# Classes of the errors that libraries raise at a file that is damaged or of another form; "error"
# is that of zlib. Others, such as AttributeError, are bugs and keep their traceback.
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
def reading(name: str, remedy: str) -> Iterator[None]:
    """As `translated_errors`, around a block that reads a file. Other failures to read it become a
    `UserError`, too. name: the file, as errors name it; remedy: the end of the error."""
    try:
        with translated_errors(file=name):
            yield
    except UserError:
        raise
    except Exception as e:
        if not _classes(e) & _UNREADABLE:
            raise
        raise UserError(f"{name} cannot be read: {reason(e)}; {remedy}") from e


def _known_message(error: Exception, **known: Any) -> str | None:
    """The message of the first of `_CASES` that applies to an error; None if none does. known: as
    of `translated_errors`."""
    why = reason(error)
    for classes, pattern, message in _CASES:
        match = re.search(pattern, why)
        if not match or not _classes(error) & set(classes):
            continue
        values = {**known, "reason": why, **match.groupdict()}
        if file := _file(error, why):
            values["file"] = file
        with contextlib.suppress(KeyError):  # a field has no value: try the next case
            return message.format(**values)
    return None


def _classes(error: BaseException) -> set[str]:
    """The names of an error's class and of its bases."""
    return {base.__name__ for base in type(error).__mro__}


# Beginnings of lines that TensorFlow puts around the reason: the node, where the graph was made,
# hints; and empty lines.
_AROUND = re.compile(
    r"\s*$|\s+File \"|Graph execution error|Detected at|Node: |\s*\[\[|Hint: "
    r"|Original stack trace|Restoring from checkpoint failed|From /job:"
    r"|\d+ root error|\d+ (successful|derived) "
)


def reason(error: Exception) -> str:
    """The line of an error's message that says what happened."""
    # TensorFlow's errors have a `message`, those of the operating system `strerror`: the reason
    # without the number of the error and the name of the file, which `str` has, too.
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
    # The reason is the first line that is not `_AROUND` it. The "(0) DATA_LOSS: " before it, which
    # is there where several devices failed, is left out.
    lines = [line for line in text.split("\n") if not _AROUND.match(line)]
    if not lines:
        return type(error).__name__
    return re.sub(r"^\s*\(\d+\) [A-Z_ ]+: ", "", lines[0]).strip()


# Suffixes that the name of a file has while it is written: by `files.writing`, and by TensorFlow.
_WHILE_WRITTEN = re.compile(
    r"\.partial-[0-9a-f]+(?=/|$)|_temp/part-.*$|\.tempstate\d+$"
)


def _file(error: Exception, why: str) -> str | None:
    """The final name of the file that an error names; None if it names none. why: the error's
    `reason`."""
    # Python's errors have names as attributes: `filename`, and of a copy or a move its target as
    # `filename2`. TensorFlow's begin with a path: "/models/a.index; No such file or directory".
    path = getattr(error, "filename2", None) or getattr(error, "filename", None)
    if not path:
        match = re.match(r"([^\s;:]*/[^\s;:]+)[;:]", why)
        path = match.group(1) if match else None
    return _WHILE_WRITTEN.sub("", str(path)) if path else None
