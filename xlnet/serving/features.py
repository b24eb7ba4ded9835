"""The vectors of a file's texts, as a file.

They are computed part by part, each in a file of its own next to the output, so that a stopped run
resumes; at the end the parts become one file.

Shape letters: n texts, k layers, T tokens, D d_model.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlnet import files
from xlnet.errors import UserError
from xlnet.serving import jobs, vectors
from xlnet.serving.model import Model
from xlnet.tasks.types.task import Row

_log = logging.getLogger(__name__)

_ABOUT = "about.json"           # next to the parts: what they were made of


# ---- file formats: functions of the path, the texts' names, and an array of each text, [D] or
# [k,D], or [T,D] or [k,T,D] with its T pieces; and functions that join the files of parts

def _write_json_lines(path, ids, values, pieces):
    with open(path, "w", encoding="utf-8") as f:
        for number, (id, vector) in enumerate(zip(ids, values)):
            about = {"id": id, **({} if pieces is None else {"pieces": pieces[number]})}
            f.write('%s, "vector": %s}\n' % (
                json.dumps(about, ensure_ascii=False)[:-1], _as_json(vector)))


def _as_json(vector):
    """Nested lists of numbers with the digits of a float32."""
    if vector.ndim == 1:
        return "[%s]" % ", ".join(map("%.9g".__mod__, vector.tolist()))
    return "[%s]" % ", ".join(map(_as_json, vector))


def _write_numpy(path, ids, values, pieces):
    with open(path, "wb") as f:
        np.save(f, np.stack(values))


def _join_bytes(path, parts):
    with open(path, "wb") as whole:
        for part in parts:
            with open(part, "rb") as f:
                shutil.copyfileobj(f, whole)


def _read_part(path):
    try:
        return files.read_array(path, mapped=True)
    except ValueError as e:
        raise UserError("%s %s; remove it and start again: it is regenerated" % (path, e)) from None


def _join_numpy(path, parts):
    arrays = list(map(_read_part, parts))
    whole = np.lib.format.open_memmap(path, "w+", arrays[0].dtype, (
        sum(map(len, arrays)), *arrays[0].shape[1:]))
    np.concatenate(arrays, out=whole)
    whole.flush()


_FORMATS = {".jsonl": (_write_json_lines, _join_bytes), ".npy": (_write_numpy, _join_numpy)}


# ---- parts

def check_output(output: str, pooling: str) -> None:
    """Raises UserError unless vectors of this `pooling` can be written to `output`."""
    extension = os.path.splitext(output)[1]
    if extension not in _FORMATS:
        raise UserError("output: %s, expected a name that ends in %s" % (
            output, ", ".join(_FORMATS)))
    if pooling == "none" and extension == ".npy":
        raise UserError("output: %s holds vectors of texts; with pooling none each text has "
                        "as many as tokens: expected .jsonl" % output)
    if os.path.exists(output):
        raise UserError("output: %s is there already; remove it, or give another name"
                        % output)
    files.require_writable(os.path.dirname(os.path.abspath(output)), "output")


def extract(model: Model, rows: Sequence[Row], output: str, layers: Any, pooling: str,
            rows_per_part: int) -> None:
    """Writes the vectors of texts.

    Args:
      rows: the texts, n rows of a task without labels.
      output: its extension is the file format.
      layers: as of `Model.vectors`.
      pooling: as of `Model.vectors`.
      rows_per_part: texts of a part.

    Raises:
      UserError: as of `check_output`; there is no such layer; or there are parts with other
        texts or settings.
    """
    check_output(output, pooling)
    vectors.wanted(layers, pooling, model.n_layer)      # before something is kept
    extension = os.path.splitext(output)[1]
    write, join = _FORMATS[extension]
    directory = output + ".parts"
    begins = range(0, len(rows), rows_per_part)
    parts = [os.path.join(directory, "%06d%s" % (number, extension))
             for number in range(len(begins))]
    _keep(directory, _about(model, rows, layers, pooling, rows_per_part))
    missing = [(part, begin) for part, begin in zip(parts, begins) if not os.path.exists(part)]
    if len(missing) < len(parts):
        _log.info("%d of %d parts are there, resuming", len(parts) - len(missing), len(parts))
    with jobs.bar(len(missing) * rows_per_part, True) as progress:
        for part, begin in missing:
            some = rows[begin:begin + rows_per_part]
            with files.replacing(part) as temporary:
                write(temporary, [row.id for row in some], *_vectors(model, some, layers, pooling))
            progress.update(len(some))
    with files.replacing(output) as temporary:
        join(temporary, parts)
    shutil.rmtree(directory)
    _log.info("%s texts%s: %s", "{:,}".format(len(rows)),
              ", %d of them cut to %d tokens" % (model.cut, model.max_seq_length)
              if model.cut else "", output)


def _about(model, rows, layers, pooling, rows_per_part):
    """What the parts depend on."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps([row.id, row.pairs]).encode())
    return {"rows": digest.hexdigest(), "layers": layers, "pooling": pooling,
            "rows_per_part": rows_per_part, **model.fingerprint}


def _keep(directory, about):
    path = os.path.join(directory, _ABOUT)
    if not os.path.exists(path):
        files.write_json(path, about)
        return
    before = files.read_json(path, "output")
    different = [name for name, value in about.items() if before.get(name) != value]
    if different:
        raise UserError("output: the parts in %s were made with other %s; remove them, or "
                        "give another name" % (directory, ", ".join(different)))


def _vectors(model, rows, layers, pooling):
    """The arrays of rows, and the pieces of each if there is one vector of each token."""
    texts = [(a, b) if b is not None else a for a, b in (row.pairs[0] for row in rows)]
    pieces = [list(map(model.tokenizer.id_to_piece, ids.tolist()))
              for ids in model.encode(texts)] if pooling == "none" else None
    return model.vectors(texts, layers, pooling), pieces
