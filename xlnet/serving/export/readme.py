"""The README of an exported model: what it is, how to serve and query it."""

from __future__ import annotations

import json
import pathlib
import shlex
import urllib.parse
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

_TEMPLATE = pathlib.Path(__file__).with_suffix(".md")
_NEEDS = """
Raw text needs the operations of tensorflow-text in the process that serves the model, as those of
TensorFlow Serving's images are (`SentencepieceOp`, ...); in Python, `import tensorflow_text`."""


def text(
    model: Any,
    name: str,
    dtype: str,
    requests: Mapping[str, Mapping[str, np.ndarray]],
    answers: Mapping[str, Mapping[str, np.ndarray]],
) -> str:
    """The README, in Markdown, of a `model_files.LoadedModel` that is served under a name; requests
    and answers: an example for each signature, arrays [1, ...] by name."""
    # What the model is, and which files are next to it.
    extra = ["the architecture", "the vocabulary", "an example for each signature with its answer"]
    about = "A pretrained XLNet: a vector for each text."
    if model.tuned:
        task = model.tuned.task
        about = (
            f"An XLNet for the task {task.name} ({task.type.name}): {task.head.outputs_in_words()}."
        )
        extra.insert(0, "what the model was trained for, with its settings")
        if task.labels is not None:
            extra.insert(0, "the labels in the order of the probabilities")

    # The most convenient signature is shown as a request.
    signature = next(key for key in ("text", "vectors", "ids") if key in requests)
    request, answer = requests[signature], answers[signature]
    rest = [plain(value)[0] for value in answer.values()]
    has_text = signature != "ids"
    return _TEMPLATE.read_text("utf-8").format(
        name=name,
        about=about,
        dtype=dtype,
        version=tf.__version__,
        mount=shlex.quote(f"type=bind,source=/path/to/{name},target=/models/{name}"),
        name_of_model=shlex.quote("MODEL_NAME=" + name),
        name_in_address=urllib.parse.quote(name),
        extra=", ".join(extra) + " and the versions it was made with",
        signature=signature,
        signatures="\n".join(
            f"| `{key}` | {_tensors(inputs)} | {_tensors(answers[key])} |"
            for key, inputs in requests.items()
        ),
        needs=_NEEDS if has_text else "",
        rest_request=json.dumps(
            dict(
                signature_name=signature,
                instances=[{key: plain(value)[0] for key, value in request.items()}],
            )
        ),
        rest_answer=json.dumps(
            {"predictions": [rest[0] if len(rest) == 1 else dict(zip(answer, rest))]}
        ),  # TensorFlow Serving leaves out the name of one output
        python_imports="import tensorflow_text     # the operations on texts\n" * has_text,
        python_inputs=", ".join(
            f"{key}=tf.constant({_literal(value)})" for key, value in request.items()
        ),
    )


def _tensors(arrays: Mapping[str, np.ndarray]) -> str:
    return ", ".join(
        "`{}` {} {}".format(
            name,
            "string" if value.dtype == object else value.dtype,
            ["batch", *["…"] * (value.ndim - 1)],
        )
        for name, value in arrays.items()
    ).replace("'", "")


def plain(array: np.ndarray) -> list:
    """An array as nested lists for `json`."""
    if array.dtype == object:
        values: list = []
        for each in array:
            if isinstance(each, np.ndarray):
                values.append(plain(each))
            else:
                values.append(each.decode() if isinstance(each, bytes) else each)
        return values
    if array.dtype.kind == "f":  # the fewest digits that are this number
        digits = np.array([float(str(value)) for value in array.ravel()])
        return digits.reshape(array.shape).tolist()
    return array.tolist()


def _literal(value: np.ndarray) -> str:
    return json.dumps(plain(value), ensure_ascii=False)
