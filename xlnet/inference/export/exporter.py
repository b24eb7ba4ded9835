"""Writes models as SavedModels, for TensorFlow Serving and any process with TensorFlow."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import platform
import shlex
import unicodedata
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
import sentencepiece
import tensorflow.compat.v1 as tf

import xlnet
from xlnet.corpus.tokenizer import SPIECE_NAME
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.engine.devices import connect, set_up_process, without_registered_gradients
from xlnet.inference.export.signatures import BUILDERS, Signature
from xlnet.runs import model_files, run_document
from xlnet.runs.model_files import LoadedModel
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.network import CONFIG_NAME, NetworkSettings
from xlnet.settings.training import RUN_NAME
from xlnet.support import files
from xlnet.support.errors import UserError, reason, wrong

_log = logging.getLogger(__name__)

# The precision of the network, by the type of its stored matrices.
DTYPES = {"float32": "fp32", "bfloat16": "bf16"}

# The directory of our files next to the graph, and those of its files that only exports have.
_EXTRA, _VERSIONS, _LABELS, _EXAMPLES_FILE = (
    "assets.extra",
    "versions.json",
    "labels.json",
    "examples.json",
)

_README = pathlib.Path(__file__).with_name("readme_template.txt")

# Of the example that is recorded for each signature: the tokens of a request by ids, and texts.
_TOKENS = 8
_EXAMPLES = {
    "text_a": "Paris",
    "text_b": "Another text that goes with it.",
    "choices": "One answer.",
}


def export(
    model_dir: str,
    export_dir: str,
    *,
    names: Optional[Sequence[str]] = None,
    dtype: str = "float32",
    **given: Optional[str],
) -> str:
    """Writes a model as a SavedModel into `export_dir`, as its next version; returns the directory
    of that.

    Args:
      names: of the signatures; None: the usual ones, with a note about each that it cannot have.
      dtype: a key of `DTYPES`.
      given: `model_config_path`, `spiece_model_file`, in place of those of the model.
    """
    for name in names or ():
        if name not in BUILDERS:
            raise wrong("signatures", f"'{name}'", ", ".join(BUILDERS))
    if os.path.exists(export_dir) and not os.path.isdir(export_dir):
        raise wrong("output", f"the file {export_dir}", "a directory")
    files.require_writable(export_dir, "output")
    # The model is read first, so that no directory is left if it is refused.
    set_up_process()
    network = NetworkSettings(precision=DTYPES[dtype])
    model = model_files.read(model_dir, network=network, **given)

    # A server of the directory takes the highest number; an incomplete version has no such name.
    os.makedirs(export_dir, exist_ok=True)
    versions = [int(name) for name in os.listdir(export_dir) if name.isdecimal()]
    target = os.path.join(export_dir, str(1 + max(versions, default=0)))
    with files.new_directory(target) as directory:
        name = os.path.basename(os.path.abspath(export_dir))
        made = _write(model, directory, names, dtype, name)
    paths = filter(pathlib.Path.is_file, pathlib.Path(target).rglob("*"))
    size = sum(path.stat().st_size for path in paths)
    _log.info(
        "exported %s to %s: signatures %s, %s, %s MB",
        model.prefix,
        target,
        ", ".join(made),
        dtype,
        f"{size / 1e6:,.1f}",
    )
    return target


def export_weights(model_dir: str, target: str) -> None:
    """Writes the weights of a model, and the files that are needed to use them, to the directory
    `target`: without the optimizer's state, a third of a checkpoint of a run."""
    set_up_process()
    chosen = best_checkpoint.best_or_newest(model_dir)
    prefix = chosen[1] if chosen else checkpoint.resolve(model_dir, "model_dir")
    run = run_document.read(os.path.dirname(prefix))
    with files.new_directory(target) as directory:
        best_checkpoint.export(prefix, directory)
        # The document in place of the copies: it says nothing of where the run was made.
        files.remove([os.path.join(directory, RUN_NAME)])
        if run:
            run_document.write(directory, run_document.to_share(run))
    _log.info("weights of %s: %s", prefix, target)


def _write(
    model: LoadedModel,
    directory: str,
    names: Optional[Sequence[str]],
    dtype: str,
    served_as: str,
) -> list[str]:
    """Writes the SavedModel and our files next to it; returns the names of its signatures."""
    devices = connect(DeviceSettings(device="cpu", num_hosts=1))
    with (
        without_registered_gradients(),
        tf.Graph().as_default(),
        tf.Session(config=devices.session_config()) as session,
    ):
        made = _build(model, names)
        checkpoint.Restoring()(session, model.prefix)

        # An example for each signature with its answer, for the README and check_export.py.
        requests, answers = {}, {}
        for name, signature in made.items():
            request = _request(signature.inputs, model)
            feeds = {signature.inputs[key]: value for key, value in request.items()}
            requests[name] = request
            try:
                answers[name] = session.run(signature.outputs, feeds)
            except tf.errors.InvalidArgumentError as e:  # one of the graph's own checks
                expected = f"an answer to an example for signature {name}"
                raise wrong(model.prefix, reason(e), expected) from None

        # The most convenient signature is the default one, too.
        found = {}
        for name, signature in made.items():
            found[name] = tf.saved_model.predict_signature_def(*signature)
        default = next(name for name in ("text", "vectors", "ids") if name in found)
        builder = tf.saved_model.Builder(directory)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            strip_default_attrs=True,
            signature_def_map={"serving_default": found[default], **found},
        )
        builder.save()

    # Files that TensorFlow Serving ignores: what the model is, and which programs made it.
    extra = os.path.join(directory, _EXTRA)
    os.makedirs(extra, exist_ok=True)
    model.config.to_json(os.path.join(extra, CONFIG_NAME))
    model.tokenizer.save(os.path.join(extra, SPIECE_NAME))
    if model.run:
        run_document.write(extra, run_document.to_share(model.run))
    if model.tuned and model.tuned.task.labels is not None:
        files.write_json(os.path.join(extra, _LABELS), list(model.tuned.task.labels))
    files.write_json(
        os.path.join(extra, _VERSIONS),
        {
            "xlnet": xlnet.__version__,
            "tensorflow": tf.__version__,
            "python": platform.python_version(),
            "sentencepiece": sentencepiece.__version__,
            "unicode": unicodedata.unidata_version,
            "dtype": dtype,
            "checkpoint": os.path.basename(model.prefix),
            "signatures": sorted(made),
        },
    )
    examples = {}
    for name in made:
        inputs, outputs = _plain(requests[name]), _plain(answers[name])
        examples[name] = {"inputs": inputs, "outputs": outputs}
    files.write_json(os.path.join(extra, _EXAMPLES_FILE), examples)
    files.write_text(
        os.path.join(directory, "README.md"),
        _readme(model, served_as, dtype, default, requests[default]),
    )
    return list(made)


def _build(model: LoadedModel, names: Optional[Sequence[str]]) -> dict[str, Signature]:
    # If no names are given, a signature that the model cannot have is only noted, such as raw text
    # without tensorflow-text.
    made = {}
    for name in names or (("ids", "text") if model.tuned else ("vectors",)):
        try:
            made[name] = BUILDERS[name](model)
        except UserError as e:
            if names:
                raise
            _log.warning("note: no signature %s: %s", name, e)
    if not made:
        raise wrong("model", "no signature that it can have", "one")
    return made


def _request(
    inputs: Mapping[str, tf.Tensor], model: LoadedModel
) -> dict[str, np.ndarray]:
    """An example for a signature: dict of arrays [1, ...]."""
    count = model.tuned.task.head.num_choices(False) if model.tuned else 1
    request = {}
    for name, tensor in inputs.items():
        shape = [size or _TOKENS * count for size in tensor.shape.as_list()[1:]]
        fill: Any = 0
        if tensor.dtype == tf.string:
            fill = _EXAMPLES[name]
        elif name == "input_ids":
            fill = model.tokenizer.cls_id
        request[name] = np.full([1, *shape], fill, tensor.dtype.as_numpy_dtype)
    return request


def _plain(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """Arrays by name for JSON, with their types: see scripts/check_export.py."""
    found = {}
    for name, array in arrays.items():
        dtype = tf.as_dtype(array.dtype).name
        found[name] = {"dtype": dtype, "value": _listed(array)}
    return found


def _listed(array: np.ndarray) -> list:
    """An array as nested lists for `json`."""
    if array.dtype == object:
        return np.vectorize(tf.compat.as_str, otypes=[object])(array).tolist()
    if array.dtype.kind == "f":  # the fewest digits that are this number
        digits = np.array([float(str(value)) for value in array.ravel()])
        return digits.reshape(array.shape).tolist()
    return array.tolist()


def _readme(
    model: LoadedModel,
    name: str,
    dtype: str,
    signature: str,
    request: Mapping[str, np.ndarray],
) -> str:
    """The README, in Markdown, of a model that is served under a name, with a request."""
    about = "A pretrained XLNet: a vector for each text."
    if model.tuned:
        task = model.tuned.task
        outputs = task.head.outputs_in_words()
        about = f"An XLNet for the task {task.name} ({task.type.name}): {outputs}."
    instance = {key: _listed(value)[0] for key, value in request.items()}
    return _README.read_text("utf-8").format(
        name=name,
        about=about,
        dtype=dtype,
        version=tf.__version__,
        mount=shlex.quote(f"type=bind,source=/path/to/{name},target=/models/{name}"),
        name_of_model=shlex.quote("MODEL_NAME=" + name),
        name_in_address=urllib.parse.quote(name),
        signature=signature,
        request=json.dumps({"signature_name": signature, "instances": [instance]}),
    )
