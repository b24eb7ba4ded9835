"""Writes models as SavedModels, for TensorFlow Serving and any process with TensorFlow.

Of the signatures `ids` takes the features of records, `text` raw text, `vectors` raw text for a
vector of each.
"""

from __future__ import annotations

import collections
import logging
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Optional

import tensorflow.compat.v1 as tf

from xlnet.corpus.tokenizer import SPIECE_NAME
from xlnet.engine import best_checkpoint, checkpoint, train_step
from xlnet.engine.devices import connect, set_up_process, without_registered_gradients
from xlnet.finetuning import predictor
from xlnet.finetuning.model import TaskModel
from xlnet.inference import vectors
from xlnet.inference.graph_text import (
    GraphEncoder,
    GraphTokenizer,
    is_blank,
    refused,
)
from xlnet.model import heads, modeling
from xlnet.runs import model_files, run_document
from xlnet.runs.model_files import LoadedModel
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.network import CONFIG_NAME, NetworkSettings
from xlnet.settings.training import RUN_NAME
from xlnet.support import files
from xlnet.support.errors import UserError, wrong

_log = logging.getLogger(__name__)

# The precision of the network, by the type of its stored matrices.
DTYPES = {"float32": "fp32", "bfloat16": "bf16"}

_EXTRA = "assets.extra"  # files beside the graph, which TensorFlow Serving ignores


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
        made = _write(model, directory, names)
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
    model: LoadedModel, directory: str, names: Optional[Sequence[str]]
) -> list[str]:
    """Writes the SavedModel, with what the model is beside it; returns the names of its
    signatures."""
    devices = connect(DeviceSettings(device="cpu", num_hosts=1))
    with (
        without_registered_gradients(),
        tf.Graph().as_default(),
        tf.Session(config=devices.session_config()) as session,
    ):
        made = _build(model, names)
        checkpoint.Restoring()(session, model.prefix)
        found = {}
        for name, signature in made.items():
            found[name] = tf.saved_model.predict_signature_def(*signature)
        # The most convenient signature is the default one, too.
        default = next(name for name in ("text", "vectors", "ids") if name in found)
        builder = tf.saved_model.Builder(directory)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.SERVING],
            strip_default_attrs=True,
            signature_def_map={"serving_default": found[default], **found},
        )
        builder.save()
    extra = os.path.join(directory, _EXTRA)
    os.makedirs(extra, exist_ok=True)
    model.config.to_json(os.path.join(extra, CONFIG_NAME))
    model.tokenizer.save(os.path.join(extra, SPIECE_NAME))
    if model.run:
        run_document.write(extra, run_document.to_share(model.run))
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


# ---- the signatures, built in one graph on the same weights


# inputs, outputs: dicts of tensors by name.
Signature = collections.namedtuple("Signature", "inputs outputs")


def _tuned(loaded: LoadedModel) -> FineTunedTask:
    if loaded.tuned is None:
        raise wrong("model", "a pretrained one", "a task", "take the signature vectors")
    return loaded.tuned


def _of_ids(loaded: LoadedModel) -> Signature:
    inputs = predictor.placeholders(_tuned(loaded))
    return Signature(inputs, _answers(loaded, inputs))


def _of_text(loaded: LoadedModel) -> Signature:
    tuned = _tuned(loaded)
    encoder = GraphEncoder(
        GraphTokenizer(loaded.tokenizer),
        tuned.layout,
        tuned.task.published.replacements,
    )
    texts: dict[str, tf.Tensor] = {}

    # The task type calls this for each text that it takes. A text that is empty, perhaps after the
    # replacements of the task, is refused, as it is in calls from Python.
    def text(name: str, *shape: int) -> tf.Tensor:
        texts[name] = tf.placeholder(tf.string, [None, *shape], name)
        if shape or (name == "text_b" and tuned.task.reader.takes_empty_text_b):
            return texts[name]
        is_empty = is_blank(encoder.replaced(texts[name]))
        return refused(texts[name], is_empty, f"{name} is empty, expected a text")

    return Signature(
        texts, _answers(loaded, tuned.task.head.graph_features(encoder, text))
    )


def _answers(
    loaded: LoadedModel, features: dict[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    tuned = _tuned(loaded)
    outputs = _finite(TaskModel(loaded.config, tuned, loaded.network).outputs(features))
    return tuned.task.head.named_outputs(outputs, features, tuned.settings.threshold)


def _finite(outputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The same outputs [B, ...] of the network; an error of the graph if they are not finite
    numbers, by which a label would be chosen that looks like an answer."""
    # Not tf.debugging.check_numerics, which would not say which examples of a batch they are.
    found = {}
    for name, values in outputs.items():
        found[name] = values
        if values.dtype.is_floating:
            axes = list(range(1, values.shape.rank))
            is_bad = tf.reduce_any(~tf.math.is_finite(values), axis=axes)  # [B]
            said = "the outputs of the network are not finite numbers"
            found[name] = refused(values, is_bad, said)
    return found


def _of_vectors(loaded: LoadedModel) -> Signature:
    """The mean of the last layer over the tokens of a text, including <sep> and <cls>."""
    texts = tf.placeholder(tf.string, [None], "text_a")
    encoder = GraphEncoder(
        GraphTokenizer(loaded.tokenizer),
        vectors.layout_of(loaded),
        loaded.tuned.task.published.replacements if loaded.tuned else (),
    )
    features = encoder.pairs(texts)
    # As `Model.vectors` with its defaults, whose graph has all layers and poolings.
    padding, run = features["input_mask"], loaded.network.run_config(False)
    with train_step.model_scope(kept_in=run.precision):
        sequence = modeling.transformer_xl(
            loaded.config,
            run,
            input_ids=features["input_ids"],
            seg_ids=features["segment_ids"],
            mask=vectors.mask_of(loaded, padding),
            attn_type=loaded.attn_type,
        ).sequence
    vector = heads.summarize(
        loaded.config,
        run,
        sequence,
        summary_type="mean",
        padding=padding,
        use_proj=False,
    )
    return Signature({"text_a": texts}, _finite({"vector": vector}))


# Builds a signature of a model in the default graph; UserError if the model cannot have it.
BUILDERS: dict[str, Callable[[LoadedModel], Signature]] = {
    "ids": _of_ids,
    "text": _of_text,
    "vectors": _of_vectors,
}
