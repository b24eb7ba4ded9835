"""The README of an exported model: what it is, how to serve and query it."""

from __future__ import annotations

import json
import shlex
import urllib.parse
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.serving.server import saved_model

_PAGE = """# {title}

{about}

Exported as {dtype} with TensorFlow {version}. `assets.extra/` has {extra}.

## Signatures

{signatures}

Batches may have any number of rows; a batch is as long as its longest text.{needs}

## TensorFlow Serving

```
docker run -p 8500:8500 -p 8501:8501 \\
    --mount {mount} \\
    -e {name_of_model} -t tensorflow/serving
```

It answers to the requests in `assets.extra/tf_serving_warmup_requests` before it takes others.

REST:

```
curl http://localhost:8501/v1/models/{name_in_address}:predict -d '{rest_request}'
```

```
{rest_answer}
```

gRPC (`pip install tensorflow-serving-api`):

```python
{grpc}
```

## In Python

```python
{python}
```
"""

_NEEDS = """
Raw text needs the operations of tensorflow-text in the process that serves the model, as those of
TensorFlow Serving's images are (`SentencepieceOp`, ...); in Python, `import tensorflow_text`."""

_GRPC = """import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

service = prediction_service_pb2_grpc.PredictionServiceStub(
    grpc.insecure_channel("localhost:8500"))
request = predict_pb2.PredictRequest()
request.model_spec.name = "{name}"
request.model_spec.signature_name = "{signature}"
{inputs}
answer = service.Predict(request)
{outputs}"""

_PYTHON = """import tensorflow as tf
{imports}
model = tf.saved_model.load("/path/to/{name}/1")
answer = model.signatures["{signature}"]({inputs})
{outputs}"""


def text(model: Any, name: str, dtype: str, requests: Mapping[str, Mapping[str, np.ndarray]],
         answers: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    """The README in Markdown.

    Args:
      model: a `loaded.LoadedModel`.
      name: under which it is served.
      requests, answers: an example for each signature, arrays [1, ...] by name.
    """
    signature = next(key for key in ("text", "vectors", "ids") if key in requests)
    request, answer = requests[signature], answers[signature]
    has_text = signature != "ids"
    return _PAGE.format(
        title=name, about=about(model) + ".", dtype=dtype, version=tf.__version__,
        mount=shlex.quote("type=bind,source=/path/to/%s,target=/models/%s" % (name, name)),
        name_of_model=shlex.quote("MODEL_NAME=" + name), name_in_address=urllib.parse.quote(name),
        extra=_extra(model),
        signatures="\n".join(_rows(requests, answers)), needs=_NEEDS if has_text else "",
        rest_request=json.dumps(dict(signature_name=signature, instances=[_row(request)])),
        rest_answer=json.dumps({"predictions": [saved_model.as_row(_row(answer))]}),
        grpc=_GRPC.format(name=name, signature=signature, inputs="\n".join(
            "request.inputs[%r].CopyFrom(tf.make_tensor_proto(%s))" % (key, _literal(value))
            for key, value in request.items()), outputs="\n".join(
            "tf.make_ndarray(answer.outputs[%r])      # %s" % (key, _short(value))
            for key, value in answer.items())),
        python=_PYTHON.format(
            name=name, signature=signature,
            imports="import tensorflow_text     # the operations on texts\n" if has_text else "",
            inputs=", ".join("%s=tf.constant(%s)" % (key, _literal(value))
                             for key, value in request.items()),
            outputs="\n".join("answer[%r].numpy()      # %s" % (key, _short(value))
                              for key, value in answer.items())))


def about(model: Any) -> str:
    """What a `loaded.LoadedModel` is, in a line."""
    if not model.tuned:
        return "A pretrained XLNet: a vector for each text"
    task = model.tuned.task
    return "An XLNet for the task %s (%s): %s" % (task.name, task.type.name, task.head.words())


def _extra(model):
    found = ["the architecture", "the vocabulary", "an example for each signature with its answer",
             "the versions it was made with"]
    if model.tuned:
        found.insert(0, "what the model was trained for, with its settings")
        if model.tuned.task.labels is not None:
            found.insert(0, "the labels in the order of the probabilities")
    return ", ".join(found[:-1]) + " and " + found[-1]


def _rows(requests, answers):
    """A table of the signatures."""
    yield "| signature | inputs | outputs |"
    yield "|---|---|---|"
    for name, inputs in requests.items():
        yield "| `%s` | %s | %s |" % (name, _tensors(inputs), _tensors(answers[name]))


def _tensors(arrays):
    return ", ".join("`%s` %s %s" % (
        name, "string" if value.dtype == object else value.dtype,
        ["batch", *["…"] * (value.ndim - 1)]) for name, value in arrays.items()).replace("'", "")


def _row(arrays):
    return {name: _plain(value[0]) for name, value in arrays.items()}


def _plain(value):
    """An array as JSON has it."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray):
        return [_plain(each) for each in value] if value.dtype == object else \
            np.vectorize(_rounded)(value).tolist() if value.dtype.kind == "f" else value.tolist()
    return _rounded(value) if isinstance(value, np.floating) else getattr(
        value, "item", lambda: value)()


def _rounded(value):
    return float("%.6g" % value)


def _literal(value):
    return json.dumps(_plain(value), ensure_ascii=False)


def _short(value):
    text = _literal(value)
    return text if len(text) < 70 else text[:66] + " ..."
