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
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from xlnet import files
from xlnet.engine import progress
from xlnet.errors import UserError
from xlnet.records import tfrecord
from xlnet.serving import vectors
from xlnet.serving.model import Model
from xlnet.tasks.types.task import Row

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LINES = 15
_ABOUT = "about.json"           # next to the parts: what they were made of


class Vectors(NamedTuple):
    """The vectors of some texts.

    Attributes:
      ids: names of the texts.
      values: an array of each text: [D] or [k,D], of tokens [T,D] or [k,T,D].
      pieces: of each text, T pieces; None: there is one vector of the text, not one of each token.
    """
    ids: Sequence[str]
    values: Sequence[np.ndarray]
    pieces: Any


class Form(NamedTuple):
    """A file format.

    Attributes:
      write: function of (path, `Vectors`).
      join: function of (path, paths of parts).
      has_tokens: whether it can hold the vectors of tokens, of texts of different lengths.
    """
    write: Callable[[str, Vectors], None]
    join: Callable[[str, Sequence[str]], None]
    has_tokens: bool


# ---- forms

def _write_json_lines(path, vectors):
    with open(path, "w", encoding="utf-8") as f:
        for number, (id, values) in enumerate(zip(vectors.ids, vectors.values)):
            pieces = "" if vectors.pieces is None else ', "pieces": ' + json.dumps(
                vectors.pieces[number], ensure_ascii=False)
            f.write('{"id": %s%s, "vector": %s}\n' % (
                json.dumps(id, ensure_ascii=False), pieces, _as_json(values)))


def _as_json(values):
    """Nested lists of numbers with the digits of a float32."""
    if values.ndim == 1:
        return "[%s]" % ", ".join(map("%.9g".__mod__, values.tolist()))
    return "[%s]" % ", ".join(map(_as_json, values))


def _write_numpy(path, vectors):
    with open(path, "wb") as f:
        np.save(f, np.stack(vectors.values))


def _write_records(path, vectors):
    with open(path, "wb") as f:
        for number, (id, values) in enumerate(zip(vectors.ids, vectors.values)):
            example = tf.train.Example()
            feature = example.features.feature
            feature["id"].bytes_list.value.append(id.encode())
            feature["shape"].int64_list.value.extend(values.shape)
            feature["vector"].float_list.value.extend(values.ravel().tolist())
            if vectors.pieces is not None:
                feature["pieces"].bytes_list.value.extend(
                    piece.encode() for piece in vectors.pieces[number])
            f.write(tfrecord.frame(example.SerializeToString(deterministic=True)))


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
    end = 0
    for array in arrays:
        whole[end:end + len(array)] = array
        end += len(array)
    whole.flush()


FORMS = {".jsonl": Form(_write_json_lines, _join_bytes, True),
         ".npy": Form(_write_numpy, _join_numpy, False),
         ".tfrecord": Form(_write_records, _join_bytes, True)}


# ---- parts

def check_output(output: str, pooling: str) -> None:
    """Raises UserError unless vectors of this `pooling` can be written to `output`."""
    form = FORMS.get(os.path.splitext(output)[1])
    if not form:
        raise UserError("output: %s, expected a name that ends in %s" % (
            output, ", ".join(FORMS)))
    if pooling == "none" and not form.has_tokens:
        raise UserError("output: %s holds vectors of texts; with pooling none each text has "
                        "as many as tokens: expected .jsonl or .tfrecord" % output)
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
    directory = output + ".parts"
    count = -(-len(rows) // rows_per_part)
    parts = [os.path.join(directory, "%06d%s" % (number, extension)) for number in range(count)]
    _keep(directory, _about(model, rows, layers, pooling, rows_per_part))
    missing = [number for number, part in enumerate(parts) if not os.path.exists(part)]
    if len(missing) < count:
        _log.info("%d of %d parts are there, resuming", count - len(missing), count)
    progress = _Progress(len(missing) * rows_per_part)
    for number in missing:
        some = rows[number * rows_per_part:(number + 1) * rows_per_part]
        with files.replacing(parts[number]) as temporary:
            FORMS[extension].write(temporary, _vectors(model, some, layers, pooling))
        progress.add(len(some))
    with files.replacing(output) as temporary:
        FORMS[extension].join(temporary, parts)
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
    texts = [(a, b) if b is not None else a for a, b in (row.pairs[0] for row in rows)]
    pieces = None
    if pooling == "none":
        pieces = [list(map(model.tokenizer.id_to_piece, ids.tolist()))
                  for ids in model.encode(texts)]
    return Vectors([row.id for row in rows], model.vectors(texts, layers, pooling), pieces)


class _Progress:
    """Logs from time to time how many texts are done."""

    def __init__(self, count: int):
        self._count, self._done = count, 0
        self._began = self._said = time.time()

    def add(self, rows: int) -> None:
        self._done += rows
        now = time.time()
        if now - self._said > _SECONDS_BETWEEN_LINES:
            self._said = now
            pace = (now - self._began) / self._done
            _log.info("%d/%d texts  %.1f texts/s  left %s", self._done, self._count, 1 / pace,
                      progress.clock(pace * max(self._count - self._done, 0)))
