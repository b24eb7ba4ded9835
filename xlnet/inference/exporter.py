"""Writes models as SavedModels, for TensorFlow Serving and any process with TensorFlow.

Of the signatures `ids` takes the features of records, `text` raw text, `vectors` raw text for a
vector of each.
"""

from __future__ import annotations

import logging
import os
from typing import Optional

import tensorflow.compat.v1 as tf

from xlnet.corpus.tokenizer import SPIECE_NAME
from xlnet.engine import best_checkpoint, checkpoint
from xlnet.engine.devices import connect, set_up_process, without_registered_gradients
from xlnet.finetuning.model import TaskModel, placeholders
from xlnet.inference import vectors
from xlnet.inference.graph_text import GraphEncoder, GraphTokenizer
from xlnet.model import heads
from xlnet.runs import model_files, run_document
from xlnet.runs.model_files import LoadedModel
from xlnet.runs.task_settings import FineTunedTask
from xlnet.settings.devices import DeviceSettings
from xlnet.settings.network import CONFIG_NAME, DTYPES, NetworkSettings
from xlnet.settings.training import RUN_NAME
from xlnet.support import files
from xlnet.support.errors import UserError
from xlnet.tasks.types.contract import Reader

_log = logging.getLogger(__name__)

_EXTRA = "assets.extra"  # files beside the graph, which TensorFlow Serving ignores


def export(
    model_dir: str,
    export_dir: str,
    *,
    precision: str = "fp32",
    **given: Optional[str],
) -> str:
    """Writes a model as a SavedModel into `export_dir`, as its next version; returns the directory
    of that.

    A fine-tuned model has `ids`, and `text` or a note that it cannot have it, such as without
    tensorflow-text; a pretrained one has `vectors`.

    Args:
      precision: of its stored matrices and of the network, "fp32" or "bf16".
      given: `model_config_path`, `spiece_model_file`, in place of those of the model.
    """
    files.require_writable(export_dir, "output")
    # The model is read first, so that no directory is left if it is refused.
    network = NetworkSettings(precision=precision)
    model = model_files.read(model_dir, network=network, **given)

    # A server of the directory takes the highest number; an incomplete version has no such name.
    os.makedirs(export_dir, exist_ok=True)
    versions = [int(name) for name in os.listdir(export_dir) if name.isdecimal()]
    target = os.path.join(export_dir, str(1 + max(versions, default=0)))
    with files.new_directory(target) as directory:
        made = _write(model, directory)
    _log.info(
        "exported %s to %s: signatures %s, %s",
        model.prefix,
        target,
        ", ".join(made),
        DTYPES[precision],
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


def _write(model: LoadedModel, directory: str) -> list[str]:
    """Writes the SavedModel, with what the model is beside it; returns the names of its
    signatures."""
    devices = connect(DeviceSettings(device="cpu", num_hosts=1))
    with (
        without_registered_gradients(),
        tf.Graph().as_default(),
        tf.Session(config=devices.session_config()) as session,
    ):
        made = _build(model)
        checkpoint.restore(session, model.prefix, tf.global_variables())
        found = {}
        for name, signature in made.items():
            found[name] = tf.saved_model.predict_signature_def(*signature)
        # The most convenient signature is the default one, too.
        default = list(made)[-1]
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


# ---- the signatures, built in one graph on the same weights


# Inputs and outputs of a part of the graph, tensors by name.
Signature = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]


def _build(model: LoadedModel) -> dict[str, Signature]:
    """The signatures that a model can have, the most convenient one last."""
    if model.tuned is None:
        return {"vectors": _of_vectors(model)}
    made = {"ids": _of_ids(model, model.tuned)}
    try:
        made["text"] = _of_text(model, model.tuned)
    except UserError as e:
        _log.warning("note: no signature text: %s", e)
    return made


def _of_ids(loaded: LoadedModel, tuned: FineTunedTask) -> Signature:
    inputs = placeholders(tuned)
    return inputs, _answers(loaded, tuned, inputs)


def _of_text(loaded: LoadedModel, tuned: FineTunedTask) -> Signature:
    # The graph makes the inputs of plain texts and pairs.
    reader = tuned.task.type.reader
    has_own_pairs = reader.parse_pairs is not Reader.parse_pairs
    if has_own_pairs or reader.encode is not Reader.encode:
        raise UserError(
            f"texts of task type {tuned.task.type.name} cannot be encoded in the graph; serve "
            "the model directory (xlnet serve), or the signature ids of an export"
        )
    encoder = GraphEncoder(
        GraphTokenizer(loaded.tokenizer),
        tuned.layout,
        tuned.task.published.replacements,
    )
    texts = {}
    for name in tuned.task.reader.texts:
        texts[name] = tf.placeholder(tf.string, [None], name)
    return texts, _answers(loaded, tuned, encoder.pairs(*texts.values()))


def _answers(
    loaded: LoadedModel, tuned: FineTunedTask, features: dict[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    model = TaskModel(loaded.config, tuned, loaded.network)
    return tuned.task.head.named_outputs(
        model.outputs(features), tuned.settings.threshold
    )


def _of_vectors(loaded: LoadedModel) -> Signature:
    """The mean of the last layer over the tokens of a text, including <sep> and <cls>."""
    texts = tf.placeholder(tf.string, [None], "text_a")
    layout = vectors.layout_of(loaded)
    encoder = GraphEncoder(GraphTokenizer(loaded.tokenizer), layout)
    features = encoder.pairs(texts)
    # As `Model.vectors` with its defaults, whose graph has all layers and poolings.
    sequence = vectors.hidden_states(loaded, features)[-1]
    vector = heads.summarize(
        loaded.config,
        loaded.network.run_config(False),
        sequence,
        summary_type="mean",
        padding=features["input_mask"],
        use_proj=False,
    )
    return {"text_a": texts}, {"vector": vector}
