"""Exported models in a session, and examples and answers from and to JSON.

Needs TensorFlow, and tensorflow-text for models that take raw text. Shape letters: B examples.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow.compat.v1 as tf
from google.protobuf import json_format

from xlnet import errors, files
from xlnet.errors import UserError
from xlnet.model_directory.model_files import MAX_SEQ_LENGTH
from xlnet.serving.export.graph_tokenizer import require_tensorflow_text

DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

# The names of a value, and of several, by the kind of its dtype.
_WORDS = {"U": ("text", "texts"), "i": ("an integer", "integers"),
          "f": ("a number", "numbers")}

# Files in the directory of the graph; VERSIONS_NAME has its checksum.
GRAPH_NAME, EXTRA, VERSIONS_NAME = "saved_model.pb", "assets.extra", "versions.json"
_TASK_NAME = "task.json"

_LABELS_SHOWN = 20


class Input(NamedTuple):
    """An input of a signature."""
    tensor: str
    dtype: np.dtype             # object: text
    shape: tuple[int, ...]      # of an example; -1: any size


class SavedModel:
    """A loaded SavedModel. Any number of threads may call it.

    Args:
      path: of a directory with `saved_model.pb`, or with numbered versions of such directories, of
        which it loads the highest.

    Attributes:
      path: of the directory with `saved_model.pb`.
      version: its number.
      about: what it is, in a line.
      labels: names in the order of the probabilities; None: it has none.
      names: of the signatures.
      default: the signature of requests that name none.
      alone: the signatures to compute outside of batches.

    Raises:
      UserError: there is no model, it is damaged, or this process lacks one of its operations.
    """

    alone: Sequence[str] = ()

    def __init__(self, path: str):
        self.path = newest_version(path)
        name = os.path.basename(os.path.abspath(self.path))
        self.version = name if name.isdecimal() else "1"
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
        usual = self._signatures.get(DEFAULT)
        self.default = next((name for name in named if usual in (None, self._signatures[name])),
                            DEFAULT)
        self.names = sorted({*named, self.default})
        task = self._extra(_TASK_NAME) or {}
        self.labels: Optional[list[str]] = task.get("labels")
        self.about = "An exported XLNet for the task %s (%s)%s" % (
            task["task"], task.get("kind", "classification"), ": labels " + ", ".join(
                self.labels[:_LABELS_SHOWN]) if self.labels else "") if "task" in task else \
            "An exported model"
        self._max_tokens = task.get("settings", {}).get(     # of a text; 0: not known
            "max_seq_length", MAX_SEQ_LENGTH * bool(self._extra(VERSIONS_NAME)))

    def _extra(self, name):
        path = os.path.join(self.path, EXTRA, name)
        return files.read_json(path, "model") if os.path.exists(path) else None

    def inputs(self, signature: str) -> dict[str, Input]:
        """The inputs of a signature by name.

        Raises:
          UserError: there is no such signature.
        """
        return {name: Input(info.name, np.dtype(tf.as_dtype(info.dtype).as_numpy_dtype),
                            tuple(dim.size for dim in info.tensor_shape.dim[1:]))
                for name, info in sorted(self._signature(signature).inputs.items())}

    def _signature(self, name):
        if name not in list(self._signatures):      # a protobuf map would encode the name
            raise UserError("no signature '%s' (there are %s)" % (name, ", ".join(self.names)))
        return self._signatures[name]

    def signature_def(self) -> dict[str, Any]:
        """All signatures in the form of TensorFlow Serving's metadata."""
        return {name: json_format.MessageToDict(
            self._signatures[name], preserving_proto_field_name=True) for name in self.names}

    def call(self, signature: str, parameters: Mapping[str, Any]) -> Any:
        """The first argument of `run` for a signature and the parameters of a request.

        Raises:
          UserError: it has no such parameters.
        """
        refuse_parameters(signature, parameters)
        return signature

    def example(self, signature: str) -> tuple[str, dict[str, np.ndarray]]:
        """The arguments of `run` for the shortest example of a signature."""
        return signature, {name: np.full([1, *map(abs, kind.shape)],
                                         b"a" if kind.dtype == object else 0, kind.dtype)
                           for name, kind in self.inputs(signature).items()}

    def warm_up(self) -> None:
        """Runs each signature once, as its first run takes longer."""
        for signature in self.names:
            self.run(*self.example(signature))

    def tokens(self, call: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Upper bounds of the tokens of each example, int [B], as a piece has at least a byte; 0 if
        the length of its texts is not known."""
        if all(value.dtype != object for value in arrays.values()):
            return np.full(*max(((len(value), value.shape[-1] if value.ndim > 1 else 1)
                                 for value in arrays.values()), key=lambda each: each[1]))
        sizes = [[sum(map(len, row)) for row in value.reshape(len(value), -1)]      # bytes
                 for value in arrays.values() if value.dtype == object]
        return np.minimum(self._max_tokens, 3 + np.sum(sizes, axis=0))

    def run(self, call: str, arrays: Mapping[str, np.ndarray]) -> list[Any]:
        """The answers to B examples, for `json`.

        Raises:
          UserError: the network cannot compute them, such as ids beyond its vocabulary.
        """
        inputs = self.inputs(call)
        try:
            outputs = self._session.run(
                {name: info.name for name, info in self._signatures[call].outputs.items()},
                {inputs[name].tensor: value for name, value in arrays.items()})
        except tf.errors.InvalidArgumentError as e:
            raise UserError(_reason(e.message)) from None
        columns = [plain(value) for value in outputs.values()]
        return [as_row(dict(zip(outputs, values))) for values in zip(*columns)]


def refuse_parameters(signature: str, parameters: Mapping[str, Any]) -> None:
    """Raises UserError if there are any."""
    if parameters:
        raise UserError("signature '%s' takes no parameters, found %s" % (
            signature, ", ".join(map(str, parameters))))


def arrays(inputs: Mapping[str, Input], rows: Sequence[Any]) -> dict[str, np.ndarray]:
    """Arrays [B, ...] by name from examples in JSON: dicts by name, or values of a single input.

    Raises:
      UserError: an example does not fit.
    """
    rows = [row if isinstance(row, dict) else _alone(number, row, inputs)
            for number, row in enumerate(rows)]
    for number, row in enumerate(rows):
        if set(row) != set(inputs):
            raise UserError("row %d has %s, expected %s" % (
                number, ", ".join(map(str, row)) or "nothing", ", ".join(inputs)))
    return {name: _column(name, kind, [row[name] for row in rows])
            for name, kind in inputs.items()}


def rows_of_columns(columns: Any) -> list[Any]:
    """The examples of TensorFlow Serving's column format: a dict of lists by name, or one list.

    Raises:
      UserError: it is neither, or the lists have different lengths.
    """
    if isinstance(columns, list):
        return columns
    if not isinstance(columns, dict) or not all(isinstance(each, list)
                                                for each in columns.values()):
        raise UserError('expected "inputs": {"name": [value, ...], ...}, or a list of values')
    if len({len(each) for each in columns.values()}) > 1:
        raise UserError("inputs have lists of %s, expected as many of each" % ", ".join(
            "%d (%s)" % (len(each), name) for name, each in columns.items()))
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def as_columns(rows: Sequence[Any]) -> Any:
    """Answers in TensorFlow Serving's column format."""
    return {name: [row[name] for row in rows] for name in rows[0]} if isinstance(
        rows[0], dict) else list(rows)


def _reason(message):
    """The line of TensorFlow's message with the reason."""
    lines = [line.strip() for line in message.splitlines()]
    return next((line for line in lines if line and not line.startswith(
        ("Graph execution error", "Detected at", "Node:", "[["))), message)


def _check_graph(path):
    """What is damaged if the model does not load, in words: not a graph with the right checksum.

    Raises:
      UserError: the graph has another checksum.
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
        raise UserError("row %d is %s, expected an object with %s" % (
            number, type(value).__name__, ", ".join(inputs)))
    return dict.fromkeys(inputs, value)


def _column(name, kind, values):
    """The values of an input as an array [B, ...]."""
    is_text = kind.dtype == object
    expected = "U" if is_text else kind.dtype.kind
    arrays: list[np.ndarray] = []
    for number, value in enumerate(values):
        try:                    # of objects, as NumPy's texts are all as long as the longest
            array = np.array(value, object)
            if not is_text and not any(isinstance(each, str) for each in array.ravel()):
                array = np.array(value)
        except ValueError:
            array = np.zeros(0, object)                 # lists of different lengths
        fits = (all(isinstance(each, str) for each in array.ravel()) if is_text
                else array.dtype.kind in ("if" if expected == "f" else expected))
        if array.ndim != len(kind.shape) or not fits:
            one, several = _WORDS[expected]
            raise UserError("row %d: '%s' is not %s" % (
                number, name, "a list of " + several if kind.shape else one))
        for size, wanted in zip(array.shape, arrays[0].shape if arrays else kind.shape):
            if wanted not in (size, -1):
                raise UserError("row %d: '%s' has %d values, expected %d%s" % (
                    number, name, size, wanted, " as in row 0" if -1 in kind.shape else ""))
        arrays.append(array if is_text else _within(number, name, array, kind.dtype))
    if not is_text:
        return np.stack(arrays)
    try:
        encoded = [text.encode() for array in arrays for text in array.ravel()]
    except UnicodeEncodeError:
        raise UserError("'%s' has half a character: an escape like \\ud800 by itself" % name
                        ) from None
    return np.array(encoded, object).reshape([len(values), *arrays[0].shape])


def _within(number, name, array, dtype):
    """The numbers in another dtype, which must not change them."""
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    wrong = ~np.isfinite(result) if dtype.kind == "f" else result != array
    if wrong.any():
        raise UserError("row %d: '%s' has %s, which is not a value of %s" % (
            number, name, array[wrong][0], dtype.name))
    return result


def as_row(outputs: dict[str, Any]) -> Any:
    """The outputs of an example as TensorFlow Serving has them: a dict, or the value of one."""
    return outputs if len(outputs) > 1 else next(iter(outputs.values()))


def plain(array: np.ndarray) -> list:
    """An array as nested lists for `json`."""
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
