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
    """Gives a file, or a directory with all its files, its final name."""
    # The disk has the content before the name, and the name when this returns: even after a loss of
    # power a final name never belongs to half a file.
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
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):  # the file system cannot sync
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def writing(path: str, is_lasting: bool = True) -> Iterator[IO[bytes]]:
    """Yields a new file, local or remote, that has its name only once the block succeeds.

    A symbolic link stays, and the file that it leads to is replaced. A device or a FIFO is written
    to itself.

    Args:
      path: the file to write.
      is_lasting: wait for the disk, some milliseconds; not where the file is remote.
    """
    if is_remote(path):
        temporary = _temporary(path)
        systems, folder = _file_systems(), os.path.dirname(path)
        if not systems.exists(folder):
            with contextlib.suppress(OSError):  # another worker has made it
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
        if e.filename is None:  # a failed write; NumPy's has no number, and only a text
            raise OSError(e.errno or errno.EIO, e.strerror or str(e), path) from e
        raise
    finally:
        remove([temporary])


def _temporary(path: str) -> str:
    """A name next to a path that no other process has, on any machine; it ends in the number of
    this process (`remove_unfinished`)."""
    return f"{path}.partial-{uuid.uuid4().hex[:8]}-{os.getpid()}"


@contextlib.contextmanager
def new_directory(path: str) -> Iterator[str]:
    """Yields a temporary directory next to `path`, which may be an empty directory; renames it to
    `path` only if the block succeeds."""
    if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
        raise wrong(path, "what is there already", "a new or an empty directory")
    path = os.path.realpath(path)  # a link would not be replaced by a directory
    remove_unfinished(path)
    temporary = _temporary(path)
    os.makedirs(temporary)
    try:
        yield temporary
        sync_and_rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_unfinished(start: str) -> None:
    """Removes the temporary files and directories of `writing` and `new_directory` whose names
    begin with `start`, and whose process has ended."""
    # Only processes of this host are known, so this must not be called where other hosts write.
    for path in glob.glob(glob.escape(start) + "*.partial-*"):
        number = path.rpartition("-")[2]
        if not number.isdecimal():
            continue
        process = int(number)
        # a killed run may have had our number: in containers it is often 1
        is_alive = process != os.getpid()
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            is_alive = False
        except PermissionError:  # of somebody else
            continue
        if is_alive:
            continue
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def is_standard_output(path: object) -> bool:
    """Whether a path, the value of a flag, means the standard output."""
    return path in ("-", "/dev/stdout")


def write_text(path: str, text: str) -> None:
    """Writes a UTF-8 text file, completely or not at all; "-" is the standard output."""
    write_lines(path, [text])


def write_lines(path: str, lines: Iterable[str]) -> None:
    """As `write_text`, with lines that include their ends."""
    if is_standard_output(path):
        for line in lines:
            print(line, end="")
        sys.stdout.flush()
        return
    with writing(path) as f:
        text = io.TextIOWrapper(f, encoding="utf-8", newline="\n")
        text.writelines(lines)
        text.detach()  # flushes, and leaves f open


def write_json(path: str, value: object) -> None:
    """Writes `value` as indented JSON, as `write_text` does. NaN, which JSON does not have, is
    null, and so is infinity."""
    valid = json.loads(json.dumps(value), parse_constant=lambda _: None)
    text = json.dumps(valid, indent=2, ensure_ascii=False)
    write_text(path, text + "\n")


def parse_json(text: str | bytes, nan_is_null: bool = False) -> Any:
    """The value of JSON, as text or in one of its encodings; a ValueError if it is not JSON.

    nan_is_null: in rows of data, as Python and pandas write NaN for a missing value.
    """
    constant = _with_null if nan_is_null else None
    try:
        return json.loads(text, parse_constant=constant, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _with_null(name: str) -> float | None:
    """The value of NaN, Infinity or -Infinity in JSON."""
    return None if name == "NaN" else float(name)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a ValueError if it has a key twice, which would have two meanings."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key '{key}' twice in an object")
        found[key] = value
    return found


def read_json(path: str, what: str) -> dict[str, Any]:
    """The JSON object in a file, local or remote. what: the role of the file in errors, such as
    "model config"."""
    require_file(path, what)
    with open_binary(path) as f:
        try:
            value = parse_json(f.read())
        except ValueError as e:
            raise wrong(f"{what} {path}", f"not valid JSON: {e}", "JSON") from None
    if not isinstance(value, dict):
        raise wrong(f"{what} {path}", type(value).__name__, "a JSON object")
    return value


def copy(source: str, target: str) -> None:
    """Copies a local file, completely or not at all; copying a file onto itself does nothing."""
    if os.path.exists(target) and os.path.samefile(source, target):
        return
    with open(source, "rb") as read, writing(target) as f:
        shutil.copyfileobj(read, f)


def require_file(path: str | None, what: str) -> None:
    """Raises UserError unless `path` is a file; `what` is its flag or role."""
    if not path:
        raise wrong(what, "no file", "one")
    if os.path.isdir(path):
        raise wrong(what, f"the directory {path}", "a file")
    if not exists(path):
        raise wrong(what, f"no such file: {path}", "one that exists")


def matching(pattern: str) -> list[str]:
    """The local files and directories that match a glob pattern, sorted. The name of one that
    exists is not a pattern, whatever signs it has."""
    if os.path.lexists(pattern):
        return [pattern]
    return sorted(glob.glob(pattern, recursive=True))


def require_directory(path: str, what: str) -> None:
    """Raises UserError unless `path` is a directory."""
    if os.path.isdir(path) or is_remote(path):
        return
    if os.path.exists(path):
        raise wrong(what, f"the file {path}", "a directory")
    raise wrong(what, f"no such directory: {path}", "one that exists")


def check_output(
    output: str | None, paths: Iterable[str], what: str = "output"
) -> None:
    """Checks the path of an output file before the work begins.

    Args:
      output: the path; None or empty if no file is wanted.
      paths: the input files; "-" is the standard input.
      what: the flag that names the output.

    Raises:
      UserError: the output is a directory, is in a directory that does not exist, is one of the
        input files, or cannot be written to.
    """
    if not output or is_standard_output(output):
        return
    if output.endswith(os.sep) or os.path.isdir(output):
        raise wrong(what, f"the directory {output}", "a file")
    for path in paths:
        if os.path.realpath(path) == os.path.realpath(output):
            raise wrong(what, f"{output}, which is an input", "another name")
    directory = os.path.dirname(os.path.realpath(output))
    if not os.path.exists(directory):  # a misspelt one is not made
        raise wrong(what, f"no such directory: {directory}", "one that exists")
    require_writable(directory, what)


def require_writable(directory: str, what: str) -> None:
    """Raises UserError unless files can be made in `directory`, which need not exist."""
    if not is_writable(directory):
        found = f"{directory}, which cannot be written to"
        raise wrong(what, found, "a directory that can")


def is_writable(directory: str) -> bool:
    """Whether files can be made in `directory`, which need not exist."""
    there = os.path.abspath(directory)
    while not os.path.exists(there):
        there = os.path.dirname(there)
    return os.path.isdir(there) and os.access(there, os.W_OK)


def require_no_pattern(path: str, what: str) -> None:
    """Raises UserError if TensorFlow would take the path of a checkpoint for a pattern."""
    if set(path) & set("*?["):
        expected = "a name without * ? [, which TensorFlow takes for a pattern"
        raise wrong(what, path, expected)


def sha256(path: str) -> str:
    """Returns the SHA-256 of a local or remote file as hexadecimal text."""
    digest = hashlib.sha256()  # hashlib.file_digest is new in Python 3.11
    with open_binary(path) as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def digest_of(path: str) -> str:
    """The SHA-256 of a file, or of all files in a directory with their names."""
    if not os.path.isdir(path):
        return sha256(path)
    found = []
    for directory, _, names in os.walk(path):
        found += [os.path.join(directory, name) for name in names]
    digest = hashlib.sha256()
    for each in sorted(found):
        digest.update(os.fsencode(f"{sha256(each)} {os.path.relpath(each, path)}\0"))
    return digest.hexdigest()


def directory_of(checkpoint: str) -> str:
    """The directory of a checkpoint given as directory, prefix or `.../latest`."""
    return (
        checkpoint if os.path.isdir(checkpoint) else os.path.dirname(checkpoint) or "."
    )


# Remote files (gs://, s3://, hdfs://) on Apache Beam's file systems; where TensorFlow is loaded, as
# in training, on its own. It is not imported for them: each process that prepares text would wait.


def is_remote(path: str) -> bool:
    """Whether a path is a URL, such as gs://bucket/file."""
    return "://" in path


def matching_sizes(pattern: str) -> dict[str, int]:
    """Returns the local or remote files that a pattern matches, and their sizes [bytes]."""
    if not is_remote(pattern):  # without links to nowhere, which have no size
        existing = filter(os.path.exists, matching(pattern))
        return {path: os.path.getsize(path) for path in existing}
    if gfile := _gfile(pattern):
        with errors.reading(pattern, "check its name and your rights"):
            return {path: gfile.stat(path).length for path in gfile.glob(pattern)}
    sizes = {}
    for result in _file_systems().match([pattern]):
        for found in result.metadata_list:
            sizes[found.path] = found.size_in_bytes
    return sizes


def exists(path: str) -> bool:
    """Whether a remote file, or a local file or directory, exists."""
    return bool(matching_sizes(path)) if is_remote(path) else os.path.exists(path)


def size(path: str) -> int:
    """Returns the size of a local or remote file [bytes]."""
    found = matching_sizes(path)
    if path not in found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return found[path]


def open_binary(path: str, buffering: int = -1) -> IO[bytes]:
    """Opens a local or remote file for reading, without unpacking it."""
    if not is_remote(path):
        return open(path, "rb", buffering=buffering)
    if gfile := _gfile(path):
        return gfile.GFile(path, "rb")
    from apache_beam.io.filesystem import CompressionTypes

    return _file_systems().open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def local(path: str) -> str:
    """The path; of a remote file that of a copy, which is removed when the process ends."""
    if not is_remote(path):
        return path
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copied = os.path.join(folder, os.path.basename(path))
    with open_binary(path) as source, open(copied, "wb") as f:
        shutil.copyfileobj(source, f)
    return copied


def remove(paths: Iterable[str]) -> None:
    """Removes local or remote files; those that are gone already are no error."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            if not is_remote(path):
                os.remove(path)
            elif exists(path):
                _file_systems().delete([path])


def remove_matching(directory: str, pattern: str) -> None:
    """Removes the local or remote files in a directory that have such names."""
    remove(matching_sizes(os.path.join(glob.escape(directory), pattern)))


def _gfile(path: str) -> Any:
    """`tf.io.gfile` where TensorFlow is loaded and knows the path's scheme; otherwise None."""
    tensorflow: Any = sys.modules.get("tensorflow")
    known = tensorflow.io.gfile.get_registered_schemes() if tensorflow else ()
    return tensorflow.io.gfile if path.partition("://")[0] in known else None


def _file_systems() -> Any:
    """Apache Beam's `FileSystems`; a UserError if it is not installed."""
    try:
        from apache_beam.io.filesystems import FileSystems
    except ImportError:
        remedy = "pip install 'apache-beam[dask]>=2.50'"
        raise wrong("remote files", "no Apache Beam", "it", remedy) from None
    return FileSystems
