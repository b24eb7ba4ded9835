"""Warm-up requests for TensorFlow Serving, which it answers to itself before any other.

They are `PredictionLog`s of its API (tensorflow_serving/apis/prediction_log.proto), written without
its package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet import files
from xlnet.tokenization import wire

# Where TensorFlow Serving finds them in a SavedModel.
PATH = os.path.join("assets.extra", "tf_serving_warmup_requests")

# Numbers of the fields.
_PREDICT_LOG, _REQUEST, _MODEL_SPEC, _INPUTS, _SIGNATURE_NAME = 6, 1, 1, 2, 3
_KEY, _VALUE = 1, 2


def write(directory: str, requests: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Writes a request for each signature into a SavedModel: its inputs by name."""
    path = os.path.join(directory, PATH)
    files.make_directory(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for signature, inputs in requests.items():
            writer.write(prediction_log(signature, inputs))


def prediction_log(signature: str, inputs: Mapping[str, np.ndarray]) -> bytes:
    """A serialized `PredictionLog` of a request."""
    spec = wire.field(_SIGNATURE_NAME, signature.encode())
    request = wire.field(_MODEL_SPEC, spec) + b"".join(
        wire.field(_INPUTS, wire.field(_KEY, name.encode()) + wire.field(
            _VALUE, tf.make_tensor_proto(value).SerializeToString()))
        for name, value in inputs.items())
    return wire.field(_PREDICT_LOG, wire.field(_REQUEST, request))
