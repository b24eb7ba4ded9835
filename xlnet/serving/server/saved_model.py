"""Exported models in a session: what they can be asked, from JSON and back.

Only TensorFlow is needed, and tensorflow-text for models that take raw text.
Shape letters: B rows.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet import errors, files
from xlnet.errors import UserError
from xlnet.serving.export.graph_tokenizer import require_tensorflow_text

DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

# What a value of a row, and a list of such, is called.
_WORDS = {"U": ("text", "texts"), "i": ("a whole number", "whole numbers"),
          "f": ("a number", "numbers")}


# Beside the graph: what wrote it, and its checksum. Weights have their own.
GRAPH_NAME, EXTRA, VERSIONS_NAME = "saved_model.pb", "assets.extra", "versions.json"


class BadRequest(UserError):
    """A row that a signature does not take."""


class Input(NamedTuple):
    """dtype: NumPy's, object for text. shape: of a row's value, -1 for any size."""
    tensor: str
    dtype: np.dtype
    shape: tuple[int, ...]


class SavedModel:
    """A SavedModel, loaded. Any number of threads may ask it.

    Args:
      path: of the directory with `saved_model.pb`, or of one that has such as numbers, of which
        the highest is taken.

    Raises:
      UserError: there is none, it is damaged, or this process lacks an operation of it.
    """

    def __init__(self, path: str):
        self.path = newest_version(path)
        tf.logging.set_verbosity(tf.logging.ERROR)
        with contextlib.suppress(UserError):    # its operations, if there are any in the graph
            require_tensorflow_text()
        self._session = tf.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            damaged = _check_graph(self.path)
            try:
                loaded = tf.saved_model.load(self._session, [tf.saved_model.SERVING], self.path)
            except (tf.errors.OpError, ValueError, OSError, RuntimeError, LookupError,
                    TypeError) as e:
                why = errors.reason(e)
                hint = "pip install tensorflow-text" if "Sentencepiece" in why else \
                    "%s damaged: export or copy it again" % damaged
                raise UserError("model %s: %s; %s" % (self.path, why, hint)) from None
        self._signatures = loaded.signature_def
        named = [name for name in self._signatures if name != DEFAULT and name[:2] != "__"]
        self.names = sorted(named) or [DEFAULT]

    def inputs(self, signature: str) -> dict[str, Input]:
        """What a row of a signature has, by name.

        Raises:
          BadRequest: there is no such signature.
        """
        if signature not in self._signatures:
            raise BadRequest("no signature '%s' (there are %s)" % (
                signature, ", ".join(self.names)))
        return {name: Input(info.name, np.dtype(tf.as_dtype(info.dtype).as_numpy_dtype),
                            tuple(dim.size for dim in info.tensor_shape.dim[1:]))
                for name, info in sorted(self._signatures[signature].inputs.items())}

    def run(self, signature: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Answers: arrays [B, ...] by name for arrays [B, ...] by name.

        Raises:
          BadRequest: the network has no answer to them, such as to ids beyond its vocabulary.
        """
        inputs = self.inputs(signature)
        try:
            return self._session.run(
                {name: info.name for name, info in self._signatures[signature].outputs.items()},
                {inputs[name].tensor: value for name, value in arrays.items()})
        except tf.errors.InvalidArgumentError as e:
            raise BadRequest(_reason(e.message)) from None

    def warm_up(self) -> None:
        """Asks each signature once, as a first answer takes longer than those after it."""
        for signature in self.names:
            self.run(signature, {
                name: np.full([1, *map(abs, kind.shape)], "a" if kind.dtype == object else 0,
                              kind.dtype)
                for name, kind in self.inputs(signature).items()})

    def arrays(self, signature: str, rows: Sequence[Any]) -> dict[str, np.ndarray]:
        """Rows as JSON has them: dicts by name, or, of a signature with one input, its values.

        Raises:
          BadRequest: a row does not fit.
        """
        inputs = self.inputs(signature)
        rows = [row if isinstance(row, dict) else _alone(number, row, inputs)
                for number, row in enumerate(rows)]
        for number, row in enumerate(rows):
            if set(row) != set(inputs):
                raise BadRequest("row %d has %s, expected %s" % (
                    number, ", ".join(map(str, row)) or "nothing", ", ".join(inputs)))
        return {name: _column(name, kind, [row[name] for row in rows])
                for name, kind in inputs.items()}


def _reason(message):
    """The line of TensorFlow's message that says what is wrong."""
    lines = [line.strip() for line in message.splitlines()]
    return next((line for line in lines if line and not line.startswith(
        ("Graph execution error", "Detected at", "Node:", "[["))), message)


def _check_graph(path):
    """What else may be damaged where the graph is the one that was exported, or one that others
    wrote, without a checksum.

    Raises:
      UserError: it is another one.
    """
    versions, graph = os.path.join(path, EXTRA, VERSIONS_NAME), os.path.join(path, GRAPH_NAME)
    stored = files.read_json(versions, "model") if os.path.exists(versions) else {}
    expected = stored.get("graph_sha256")
    if not expected or not os.path.exists(graph):
        return "%s or variables/variables.* is" % GRAPH_NAME
    if files.sha256(graph) != expected:
        raise UserError("%s is damaged: its checksum is not the one in %s; export or copy it again"
                        % (graph, versions))
    return "variables/variables.* are"


def _alone(number, value, inputs):
    if len(inputs) > 1:
        raise BadRequest("row %d is %s, expected an object with %s" % (
            number, type(value).__name__, ", ".join(inputs)))
    return dict.fromkeys(inputs, value)


def _column(name, kind, values):
    """The values of an input in all rows, an array [B, ...]."""
    is_text = kind.dtype == object
    expected = "U" if is_text else kind.dtype.kind
    arrays: list[np.ndarray] = []
    for number, value in enumerate(values):
        try:                                            # of texts, each as long as the longest
            array = np.array(value, object if is_text else None)
        except ValueError:
            array = np.zeros(0, object)                 # lists of different lengths
        fits = (all(isinstance(each, str) for each in array.ravel()) if is_text
                else array.dtype.kind in ("if" if expected == "f" else expected))
        if array.ndim != len(kind.shape) or not fits:
            one, several = _WORDS[expected]
            raise BadRequest("row %d: '%s' is not %s" % (
                number, name, "a list of " + several if kind.shape else one))
        for size, wanted in zip(array.shape, arrays[0].shape if arrays else kind.shape):
            if wanted not in (size, -1):
                raise BadRequest("row %d: '%s' has %d values, expected %d%s" % (
                    number, name, size, wanted, " as in row 0" if -1 in kind.shape else ""))
        arrays.append(array if is_text else _within(number, name, array, kind.dtype))
    if is_text:
        encoded = np.array([_encoded(name, value) for value in values], object)
        return encoded.reshape([len(values), *arrays[0].shape])
    return np.stack(arrays)


def _within(number, name, array, dtype):
    """The numbers in another format, where they are the same."""
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    wrong = ~np.isfinite(result) if dtype.kind == "f" else result != array
    if wrong.any():
        raise BadRequest("row %d: '%s' has %s, which is no %s" % (
            number, name, array[wrong][0], dtype.name))
    return result


def _encoded(name, value):
    if isinstance(value, list):
        return [_encoded(name, each) for each in value]
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise BadRequest("'%s' has half a character: an escape like \\ud800 by itself" % name
                         ) from None


def as_rows(arrays: Mapping[str, np.ndarray]) -> list[Any]:
    """Arrays [B, ...] by name as B rows that `json` can write, see `as_row`."""
    columns = {name: plain(value) for name, value in arrays.items()}
    return [as_row(dict(zip(columns, values))) for values in zip(*columns.values())]


def as_row(outputs: dict[str, Any]) -> Any:
    """The outputs of a row as TensorFlow Serving answers: a dict, or, of one, its value alone."""
    return outputs if len(outputs) > 1 else next(iter(outputs.values()))


def plain(array: np.ndarray) -> list:
    """An array as nested lists that `json` can write."""
    if array.dtype == object:
        return [plain(each) if isinstance(each, np.ndarray) else
                each.decode() if isinstance(each, bytes) else each for each in array]
    if array.dtype.kind == "f":         # the fewest digits that are this number
        digits = np.array([float(str(value)) for value in array.ravel()])
        return digits.reshape(array.shape).tolist()
    return array.tolist()


def newest_version(path: str) -> str:
    """The directory of a SavedModel.

    Raises:
      UserError: there is none.
    """
    if os.path.exists(os.path.join(path, "saved_model.pb")):
        return path
    versions = [name for name in (os.listdir(path) if os.path.isdir(path) else ())
                if name.isdecimal() and os.path.exists(os.path.join(path, name, "saved_model.pb"))]
    if not versions:
        raise UserError("model: no saved_model.pb in %s; xlnet export writes one" % path)
    return os.path.join(path, max(versions, key=int))
