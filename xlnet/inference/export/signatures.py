"""The signatures of an exported model, built in one graph on the same weights.

`ids` takes the features of records, `text` raw text, `vectors` raw text for a vector of each.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.finetuning import predictor
from xlnet.finetuning.model import TaskModel
from xlnet.inference import vectors
from xlnet.inference.export.graph_text import (
    GraphEncoder,
    GraphTokenizer,
    is_blank,
    refused,
)
from xlnet.model import heads, modeling
from xlnet.runs.model_files import LoadedModel
from xlnet.runs.task_settings import FineTunedTask
from xlnet.support.errors import wrong

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
