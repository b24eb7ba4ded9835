"""Files: checked by name, written completely or not at all, local or remote."""

from __future__ import annotations

import contextlib
import difflib
import errno
import glob
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, Optional, Union

from xlnet import encodings
from xlnet.errors import UserError


def make_directory(path: str) -> None:
    """Makes a directory, and those above it; it may exist.

    If it disappears while `os.makedirs` looks at it, as when a disk is removed, that reports that
    it exists: the second try tells.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        if os.path.lexists(path):
            raise
        os.makedirs(path, exist_ok=True)


def put(source: str, target: str) -> None:
    """Gives a file, or a directory with all its files, its final name.

    The disk has the content before the name, and the name when this returns, so that even after a
    loss of power a final name never belongs to half a file.
    """
    for directory, _, names in os.walk(source):
        for name in names:
            sync(os.path.join(directory, name))
        sync(directory)
    if not os.path.isdir(source):
        sync(source)
    os.replace(source, target)
    sync(os.path.dirname(os.path.abspath(target)))


def sync(path: str) -> None:
    """Waits until the disk has a file, or the names in a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):     # the file system cannot sync
            raise OSError(e.errno, e.strerror, path) from None
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: str, is_lasting: bool = True) -> Iterator[str]:
    """Yields a temporary name next to `path`; renames it to `path` only if the block succeeds.

    is_lasting: whether to wait for the disk, some milliseconds; needless for files that are
      regenerated if their checksum is wrong.
    """
    make_directory(os.path.dirname(os.path.abspath(path)))
    temporary = "%s.partial-%d" % (path, os.getpid())
    try:
        yield temporary
        (put if is_lasting else os.replace)(temporary, path)
    except OSError as e:
        if e.filename is None:      # a failed write; NumPy's has no number, and only a text
            raise OSError(e.errno or errno.EIO, e.strerror or str(e), path) from e
        raise
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


@contextlib.contextmanager
def new_directory(path: str) -> Iterator[str]:
    """Yields a temporary directory next to `path`, to be filled; renames it to `path` only if the
    block succeeds.

    Raises:
      UserError: `path` is a file, or a directory that is not empty.
    """
    if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
        raise UserError("%s is there already, expected a new or an empty directory" % path)
    path = os.path.realpath(path)       # a link would not be replaced by a directory
    sweep(path)
    temporary = "%s.partial-%d" % (path, os.getpid())
    os.makedirs(temporary)
    try:
        yield temporary
        put(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sweep(start: str) -> None:
    """Removes the temporary files and directories of `replacing` and `new_directory` whose names
    begin with `start`, and whose process has ended.

    It knows the processes of this host only: call it where no other host writes.
    """
    for path in glob.glob(glob.escape(start) + "*.partial-*"):
        number = path.rpartition("-")[2]
        if number.isdecimal() and not _is_alive(int(number)):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def _is_alive(process):
    """Whether another process has this number; that of a killed run may be our own: 1 in
    containers."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return process != os.getpid()


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 text file, completely or not at all; "-" is the standard output."""
    write_lines(path, [text])


def write_lines(path: str, lines: Iterable[str], is_lasting: bool = True) -> None:
    """As `write_text`, with lines that include their ends; `is_lasting` as for `replacing`."""
    if path == "-":
        for line in lines:
            print(line, end="")
        sys.stdout.flush()
        return
    with replacing(path, is_lasting) as temporary:
        with open(temporary, "w", encoding="utf-8", newline="\n") as f:
            f.writelines(lines)


def write_json(path: str, value: object, is_lasting: bool = True) -> None:
    """Writes `value` as indented JSON, as `write_lines` does."""
    write_lines(path, [json.dumps(value, indent=2, ensure_ascii=False) + "\n"], is_lasting)


def parse_json(text: Union[str, bytes]) -> Any:
    """The value of JSON, as text or as UTF-8.

    Raises:
      ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text if isinstance(text, str) else text.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_json(path: str, what: str) -> dict[str, Any]:
    """Reads a JSON object, local or remote; `what` is its role in errors ("model config", ...)."""
    require_file(path, what)
    with open_binary(path) as f:
        try:
            value = parse_json(f.read())
        except ValueError as e:
            raise UserError("%s %s: not valid JSON: %s; correct it, or write it again with the "
                            "program that made it" % (what, path, e)) from None
    if not isinstance(value, dict):
        raise UserError("%s %s: expected a JSON object, found %s"
                        % (what, path, type(value).__name__))
    return value


def read_array(source: Union[str, IO[bytes]], mapped: bool = False) -> Any:
    """A NumPy array from a .npy file, or from an open one at its position; never an object.

    Args:
      mapped: map the file into memory rather than read it.

    Raises:
      ValueError: there is no complete array.
      OSError: the file cannot be read.
    """
    import numpy as np
    try:
        return np.load(source, mmap_mode="r" if mapped else None, allow_pickle=False)
    except OSError:
        raise
    except Exception as e:
        raise ValueError("is not a complete array: %s" % e) from None


def copy(source: str, target: str) -> None:
    """Copies a file, completely or not at all; copying a file onto itself does nothing."""
    if os.path.exists(target) and os.path.samefile(source, target):
        return
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)


def require_file(path: Optional[str], what: str) -> None:
    """Raises UserError unless `path` is a file; `what` is its flag or role."""
    if not path:
        raise UserError("%s: no file given" % what)
    if os.path.isdir(path):
        raise UserError("%s: %s is a directory, expected a file" % (what, path))
    if not exists(path):
        raise UserError("%s: no such file: %s" % (what, path))


def require_directory(path: str, what: str) -> None:
    """Raises UserError unless `path` is a directory; names one of a similar name."""
    if os.path.isdir(path) or is_remote(path):
        return
    if os.path.exists(path):
        raise UserError("%s: %s is a file, expected a directory" % (what, path))
    raise UserError("%s: no such directory: %s%s" % (what, path, similar(path)))


def similar(path: str) -> str:
    """`"; did you mean 'x'?"` for a path of which a part does not exist, or an empty string."""
    path, rest = path.rstrip("/"), ""
    while path and not os.path.exists(os.path.dirname(path) or "."):
        path, rest = os.path.dirname(path), os.path.join(os.path.basename(path), rest).rstrip("/")
    parent = os.path.dirname(path)
    close: list[str] = []
    with contextlib.suppress(OSError):
        close = difflib.get_close_matches(os.path.basename(path), os.listdir(parent or "."), n=1)
    return "; did you mean '%s'?" % os.path.join(parent, close[0], rest).rstrip("/") if close \
        else ""


def require_inside(path: str, root: str, whose: str) -> None:
    """Raises UserError if symbolic links lead from `path` out of the directory `root`; `whose`
    directory that is, for the error: "the model's"."""
    root, target = os.path.realpath(root), os.path.realpath(path)
    if os.path.commonpath([root, target]) != root:
        raise UserError("%s leads to %s, outside of %s directory; copy the file into it" % (
            path, target, whose))


def check_output(output: Optional[str], paths: Iterable[str], what: str = "output") -> None:
    """Raises UserError if the output is a directory, or one of the input files; what: the flag."""
    if output and (output.endswith(os.sep) or os.path.isdir(output)):
        raise UserError("%s: %s is a directory, expected a file" % (what, output))
    if output and os.path.exists(output) and any(
            os.path.exists(path) and os.path.samefile(path, output) for path in paths):
        raise UserError("%s: %s is an input, too; give another name" % (what, output))


def require_writable(directory: str, what: str) -> None:
    """Raises UserError unless files can be made in `directory`, which need not exist."""
    there = os.path.abspath(directory)
    while not os.path.exists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there) or not os.access(there, os.W_OK):
        raise UserError("%s: %s cannot be written to; copy what is needed elsewhere and give that "
                        "directory, or change the rights" % (what, directory))


def require_utf8(path: str, what: str) -> None:
    """Raises UserError for a path of bytes that are not UTF-8, which TensorFlow and SentencePiece
    do not take."""
    if any("\udc80" <= character <= "\udcff" for character in path):
        raise UserError("%s: %s has a byte that is not UTF-8; give the file or directory another "
                        "name" % (what, path))


def require_no_pattern(path: str, what: str) -> None:
    """Raises UserError if TensorFlow would take the path of a checkpoint for a pattern."""
    if set(path) & set("*?["):
        raise UserError("%s: %s has one of * ? [, which TensorFlow takes for a pattern of names; "
                        "rename it, or give it by another name" % (what, path))


def utf8(line: bytes, where: str, expected: str = "", encoding: Optional[str] = None) -> str:
    """The text of a line.

    Args:
      where: the position of the line, for errors.
      expected: what is expected there, for errors; "": nothing is said.
      encoding: of the line; None: UTF-8.

    Raises:
      UserError: the line does not have this encoding.
    """
    try:
        return line.decode(encoding or "utf-8")
    except UnicodeDecodeError as e:
        raise UserError("%s: not %s: byte 0x%02x at column %d%s" % (
            where, encoding or "UTF-8", line[e.start], e.start + 1,
            "; expected " + expected if expected else "" if encoding else
            encodings.hint(line))) from None


def sha256(path: str) -> str:
    """Returns the SHA-256 of a file as hexadecimal text."""
    digest = hashlib.sha256()               # hashlib.file_digest is new in Python 3.11
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


# Remote files (gs://, s3://, hdfs://) on Apache Beam's file systems. tf.io.gfile would import
# TensorFlow into each process that prepares text.

def is_remote(path: str) -> bool:
    return "://" in path


def match(pattern: str) -> dict[str, int]:
    """Returns the local or remote files that a pattern matches, and their sizes [bytes]."""
    if not is_remote(pattern):
        return {path: os.path.getsize(path) for path in glob.glob(pattern)}
    return {found.path: found.size_in_bytes for result in _file_systems().match([pattern])
            for found in result.metadata_list}


def exists(path: str) -> bool:
    """Whether a local or remote file or directory exists."""
    return _file_systems().exists(path) if is_remote(path) else os.path.exists(path)


def size(path: str) -> int:
    """Returns the size of a local or remote file [bytes]."""
    if not is_remote(path):
        return os.path.getsize(path)
    return _file_systems().match([path])[0].metadata_list[0].size_in_bytes


def open_binary(path: str, buffering: int = -1) -> IO[bytes]:
    """Opens a local or remote file for reading, without unpacking it."""
    if not is_remote(path):
        return open(path, "rb", buffering=buffering)
    from apache_beam.io.filesystem import CompressionTypes
    return _file_systems().open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def _file_systems():
    try:
        from apache_beam.io.filesystems import FileSystems
    except ImportError:
        raise UserError("remote files need Apache Beam; pip install '.[beam]'") from None
    return FileSystems
