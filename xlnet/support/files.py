"""Files: checked by name, written completely or not at all, local or remote."""

from __future__ import annotations

import atexit
import contextlib
import errno
import glob
import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from typing import IO, Any

from xlnet.support import errors
from xlnet.support.errors import wrong


def sync_and_rename(source: str, target: str) -> None:
    """Renames a file, or a directory with all its files, to its final name, once the disk has it.

    The disk has the content before the name, and the name when this returns: even after a loss of
    power a final name never belongs to half a file.
    """
    for directory, _, names in os.walk(source):  # nothing if `source` is a file
        for name in names:
            sync(os.path.join(directory, name))
        sync(directory)
    if not os.path.isdir(source):
        sync(source)
    os.replace(source, target)
    sync(os.path.dirname(os.path.abspath(target)))


def sync(path: str) -> None:
    """Waits until the disk has the content of a file, or the names in a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as e:
        # File systems that cannot sync say so; there is nothing to wait for.
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def writing(path: str, is_lasting: bool = True) -> Iterator[IO[bytes]]:
    """Yields a new file, local or remote, that is given its name only if the block succeeds.

    The directory of the file is made if needed. If `path` is a symbolic link, the link stays, and
    the file that it leads to is replaced. A device or a FIFO is written to directly.

    Args:
      path: the file to write.
      is_lasting: whether to wait until the disk has it, some milliseconds; ignored if it is remote.
    """
    if is_remote(path):
        temporary = _temporary(path)
        systems, folder = _file_systems(), os.path.dirname(path)
        if not systems.exists(folder):
            with contextlib.suppress(OSError):  # another worker has just made it
                systems.mkdirs(folder)
        with systems.create(temporary) as f:
            yield f
        systems.rename([temporary], [path])
        return
    # A device or a FIFO has no other name to be written under.
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as f:
            yield f
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    temporary = _temporary(target)
    try:
        with open(temporary, "wb") as f:
            yield f
        if is_lasting:
            sync_and_rename(temporary, target)
        else:
            os.replace(temporary, target)
    except OSError as e:
        if e.filename is None:
            # The error of a failed write does not name the file. That of NumPy has a text alone,
            # without a number.
            raise OSError(e.errno or errno.EIO, e.strerror or str(e), path) from e
        raise
    finally:
        remove([temporary])  # there is none after a success


def _temporary(path: str) -> str:
    """A temporary name next to `path`, which no other process on any machine uses. What a killed
    process has left under it is never read."""
    return f"{path}.partial-{uuid.uuid4().hex[:8]}"


@contextlib.contextmanager
def new_directory(path: str) -> Iterator[str]:
    """Yields a temporary directory next to `path`, and renames it to `path` only if the block
    succeeds. Raises UserError if `path` is there already, unless it is an empty directory."""
    if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
        raise wrong(path, "what is there already", "a new or an empty directory")
    path = os.path.realpath(path)  # a directory cannot be renamed to a symbolic link
    temporary = _temporary(path)
    os.makedirs(temporary)
    try:
        yield temporary
        sync_and_rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def is_standard_output(path: object) -> bool:
    """Whether a path, the value of a flag, means the standard output."""
    return path in ("-", "/dev/stdout")


def write_text(path: str, text: str) -> None:
    """Writes a text, as `write_lines` does."""
    write_lines(path, [text])


def write_lines(path: str, lines: Iterable[str]) -> None:
    """Writes lines, which include their line ends, to a UTF-8 text file, completely or not at all;
    to the standard output if `path` is "-"."""
    if is_standard_output(path):
        for line in lines:
            print(line, end="")
        sys.stdout.flush()
        return
    with writing(path) as f:
        text_file = io.TextIOWrapper(f, encoding="utf-8", newline="\n")
        text_file.writelines(lines)
        text_file.detach()  # flushes, and leaves `f` open for `writing`


def write_json(path: str, value: object) -> None:
    """Writes `value` as indented JSON, as `write_lines` does. NaN and infinity, which JSON does not
    have, are written as null."""
    # `dumps` writes them by name, and `loads` calls `parse_constant` for such names.
    valid = json.loads(json.dumps(value), parse_constant=lambda _: None)
    text = json.dumps(valid, indent=2, ensure_ascii=False)
    write_text(path, text + "\n")


def parse_json(text: str | bytes, nan_is_null: bool = False) -> Any:
    """The value that a JSON text has.

    Args:
      text: the text, or its bytes as UTF-8, UTF-16 or UTF-32.
      nan_is_null: whether NaN is None, as in rows of data: Python and pandas write NaN for a
        missing value. Otherwise NaN is a float.

    Raises:
      ValueError: it is not JSON, or an object has a key twice.
    """
    # `json` calls `parse_constant` with the names NaN, Infinity and -Infinity, which without it are
    # floats, and `object_pairs_hook` with the keys and values of each object.
    parse_constant = _nan_as_none if nan_is_null else None
    try:
        return json.loads(
            text, parse_constant=parse_constant, object_pairs_hook=_without_duplicates
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _nan_as_none(name: str) -> float | None:
    """None for "NaN", and the float for "Infinity" and "-Infinity"."""
    return None if name == "NaN" else float(name)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The dict of the (key, value) pairs of an object in JSON; a ValueError if a key is there
    twice, as it is unclear which value is meant."""
    by_key: dict[str, Any] = {}
    for key, value in pairs:
        if key in by_key:
            raise ValueError(f"the key '{key}' twice in an object")
        by_key[key] = value
    return by_key


def read_json(path: str, role: str) -> dict[str, Any]:
    """The JSON object in a local or remote file; a UserError if there is none. role: what the file
    is for, such as "model config", with which errors begin."""
    require_file(path, role)
    with open_binary(path) as f:
        try:
            value = parse_json(f.read())
        except ValueError as e:
            raise wrong(f"{role} {path}", f"not valid JSON: {e}", "JSON") from None
    if not isinstance(value, dict):
        raise wrong(f"{role} {path}", type(value).__name__, "a JSON object")
    return value


def copy(source: str, target: str) -> None:
    """Copies a local file, completely or not at all; copying a file onto itself does nothing."""
    if os.path.exists(target) and os.path.samefile(source, target):
        return
    with open(source, "rb") as f, writing(target) as copied:
        shutil.copyfileobj(f, copied)


def require_file(path: str | None, role: str) -> None:
    """Raises UserError unless `path` is a local or remote file. role: its flag or what it is for,
    with which the error begins."""
    if not path:
        raise wrong(role, "no file", "one")
    if os.path.isdir(path):
        raise wrong(role, f"the directory {path}", "a file")
    if not exists(path):
        raise wrong(role, f"no such file: {path}", "one that exists")


def matching(pattern: str) -> list[str]:
    """The paths of the local files and directories that match a glob pattern, sorted; [] if there
    is none. A path that exists is taken as it is, even if it has *, ? or [."""
    if os.path.lexists(pattern):
        return [pattern]
    return sorted(glob.glob(pattern, recursive=True))


def require_directory(path: str, role: str) -> None:
    """Raises UserError, which begins with `role`, unless `path` is a directory. Remote paths are
    not checked: their directories need not exist."""
    if os.path.isdir(path) or is_remote(path):
        return
    if os.path.exists(path):
        raise wrong(role, f"the file {path}", "a directory")
    raise wrong(role, f"no such directory: {path}", "one that exists")


def check_output(
    output: str | None, paths: Iterable[str], flag: str = "output"
) -> None:
    """Checks the path of an output file before the work begins.

    Args:
      output: the path; None or "": no file is wanted.
      paths: the paths of the input files; "-", the standard input, may be among them.
      flag: the flag that names the output, with which errors begin.

    Raises:
      UserError: the output is a directory, is in a directory that does not exist, is one of the
        input files, has the name of a compressed file, or cannot be written to.
    """
    if not output or is_standard_output(output):
        return
    if output.endswith(os.sep) or os.path.isdir(output):
        raise wrong(flag, f"the directory {output}", "a file")
    if output.endswith((".gz", ".parquet")):
        raise wrong(flag, output, "the name of a text file, not compressed")
    for path in paths:
        if os.path.realpath(path) == os.path.realpath(output):
            raise wrong(flag, f"{output}, which is an input", "another name")
    directory = os.path.dirname(os.path.realpath(output))
    if not os.path.exists(directory):  # a misspelt one is not made
        raise wrong(flag, f"no such directory: {directory}", "one that exists")
    require_writable(directory, flag)


def require_writable(directory: str, role: str) -> None:
    """Raises UserError, which begins with `role`, unless files can be made in `directory`, which
    need not exist."""
    if not is_writable(directory):
        found = f"{directory}, which cannot be written to"
        raise wrong(role, found, "a directory that can")


def is_writable(directory: str) -> bool:
    """Whether files can be made in `directory`, which need not exist."""
    # If it does not exist, it would be made in the nearest directory above that does.
    nearest = os.path.abspath(directory)
    while not os.path.exists(nearest):
        nearest = os.path.dirname(nearest)
    return os.path.isdir(nearest) and os.access(nearest, os.W_OK)


def require_no_pattern(path: str, role: str) -> None:
    """Raises UserError, which begins with `role`, if TensorFlow would take the path of a checkpoint
    for a glob pattern."""
    if set(path) & set("*?["):
        expected = "a name without * ? [, which TensorFlow takes for a pattern"
        raise wrong(role, path, expected)


def sha256(path: str) -> str:
    """Returns the SHA-256 of a local or remote file as hexadecimal text."""
    digest = hashlib.sha256()  # hashlib.file_digest is new in Python 3.11
    with open_binary(path) as f:
        while block := f.read(2**20):  # a MiB at a time
            digest.update(block)
    return digest.hexdigest()


def digest_of(path: str) -> str:
    """The SHA-256 of a file, or of the contents and relative paths of all files in a directory, as
    hexadecimal text."""
    if not os.path.isdir(path):
        return sha256(path)
    in_directory = []
    for directory, _, names in os.walk(path):
        in_directory += [os.path.join(directory, name) for name in names]
    digest = hashlib.sha256()
    for file in sorted(in_directory):  # file systems list them in any order
        name = os.path.relpath(file, path)
        digest.update(os.fsencode(f"{sha256(file)} {name}\0"))
    return digest.hexdigest()


def directory_of(checkpoint: str) -> str:
    """The directory of a checkpoint, which is given as this directory, as a prefix or as
    DIRECTORY/latest."""
    if os.path.isdir(checkpoint):
        return checkpoint
    return os.path.dirname(checkpoint) or "."


# ---- remote files (gs://, s3://, hdfs://)
#
# They are read and written by Apache Beam's file systems. Where TensorFlow is loaded, as in
# training, it reads them itself. It is not imported only to read files: each process that prepares
# text would wait for that.


def is_remote(path: str) -> bool:
    """Whether a path is a URL, such as gs://bucket/file."""
    return "://" in path


def matching_sizes(pattern: str) -> dict[str, int]:
    """The sizes [bytes] of the local or remote files that match a glob pattern, by path; {} if
    there is none."""
    if not is_remote(pattern):
        # A broken symbolic link matches, but has no size.
        existing = filter(os.path.exists, matching(pattern))
        return {path: os.path.getsize(path) for path in existing}
    if gfile := _gfile(pattern):
        with errors.reading(pattern, "check its name and your rights"):
            return {path: gfile.stat(path).length for path in gfile.glob(pattern)}
    sizes = {}
    (result,) = _file_systems().match([pattern])  # one for each pattern
    for file in result.metadata_list:
        sizes[file.path] = file.size_in_bytes
    return sizes


def exists(path: str) -> bool:
    """Whether a remote file, or a local file or directory, exists."""
    return bool(matching_sizes(path)) if is_remote(path) else os.path.exists(path)


def size(path: str) -> int:
    """Returns the size of a local or remote file [bytes]; a FileNotFoundError if there is none."""
    sizes = matching_sizes(path)
    if path not in sizes:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return sizes[path]


def open_binary(path: str, buffering: int = -1) -> IO[bytes]:
    """Opens a local or remote file for reading its bytes as they are, compressed ones, too.

    buffering: the buffer of a local file [bytes]; -1: the default of `open`.
    """
    if not is_remote(path):
        return open(path, "rb", buffering=buffering)
    if gfile := _gfile(path):
        return gfile.GFile(path, "rb")
    from apache_beam.io.filesystem import CompressionTypes

    return _file_systems().open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def local(path: str) -> str:
    """`path` if it is local, else the path of a local copy of the remote file, which is removed
    when the process ends."""
    if not is_remote(path):
        return path
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copied = os.path.join(folder, os.path.basename(path))
    with open_binary(path) as source, open(copied, "wb") as f:
        shutil.copyfileobj(source, f)
    return copied


def remove(paths: Iterable[str]) -> None:
    """Removes local or remote files. A file that does not exist is not an error."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            if not is_remote(path):
                os.remove(path)
            elif exists(path):
                _file_systems().delete([path])


def remove_matching(directory: str, pattern: str) -> None:
    """Removes the local or remote files in a directory whose names match a glob pattern."""
    # The directory's own name is not a pattern.
    remove(matching_sizes(os.path.join(glob.escape(directory), pattern)))


def _gfile(path: str) -> Any:
    """`tf.io.gfile` if TensorFlow is loaded and knows the path's scheme, such as gs; else None."""
    tensorflow: Any = sys.modules.get("tensorflow")
    if not tensorflow:
        return None
    gfile, scheme = tensorflow.io.gfile, path.partition("://")[0]
    return gfile if scheme in gfile.get_registered_schemes() else None


def _file_systems() -> Any:
    """Apache Beam's `FileSystems`; a UserError if it is not installed."""
    try:
        from apache_beam.io.filesystems import FileSystems
    except ImportError:
        remedy = "pip install 'apache-beam[dask]>=2.50'"
        raise wrong("remote files", "no Apache Beam", "it", remedy) from None
    return FileSystems
