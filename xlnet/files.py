"""Files: found or refused by name, written whole or not at all."""

import contextlib
import glob
import hashlib
import json
import os
import shutil

from xlnet.errors import UserError


@contextlib.contextmanager
def replacing(path):
    """Yields a temporary name beside `path`; renames it to `path` only if the block succeeds."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    temporary = "%s.partial-%d" % (path, os.getpid())
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def write_text(path, text):
    """Writes a UTF-8 text file, whole or not at all."""
    with replacing(path) as temporary:
        with open(temporary, "w", encoding="utf-8", newline="\n") as f:
            f.write(text)


def write_json(path, value):
    """Writes `value` as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path, what):
    """Reads a JSON object; `what` names its role in error messages ("model config", ...)."""
    require_file(path, what)
    with open(path, encoding="utf-8") as f:
        try:
            value = json.load(f)
        except ValueError as e:
            raise UserError("%s %s: not valid JSON: %s" % (what, path, e)) from None
    if not isinstance(value, dict):
        raise UserError("%s %s: expected a JSON object, found %s"
                        % (what, path, type(value).__name__))
    return value


def copy(source, target):
    """Copies a file, whole or not at all; copying a file onto itself does nothing."""
    if os.path.exists(target) and os.path.samefile(source, target):
        return
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)


def require_file(path, what):
    """Raises UserError unless `path` is a file; `what` is the flag or role it plays."""
    if not path:
        raise UserError("%s: no file given" % what)
    if os.path.isdir(path):
        raise UserError("%s: %s is a directory, expected a file" % (what, path))
    if not os.path.exists(path):
        raise UserError("%s: no such file: %s" % (what, path))


def expand(pattern, what):
    """Returns the sorted files that the comma-separated glob pattern(s) match, at least one."""
    paths = sorted(path for part in pattern.split(",") for path in glob.glob(part.strip())
                   if os.path.isfile(path))
    if not paths:
        raise UserError("%s: no file matches '%s'" % (what, pattern))
    return paths


def sha256(path):
    """Returns the SHA-256 of a file as hexadecimal text."""
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
