"""The signatures of an exported model, built in one graph on the same weights.

`ids` takes the features of records, `text` raw text, `vectors` raw text for a vector of each.
Shape letters: B batch, T tokens, C choices, D width.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

import tensorflow.compat.v1 as tf

from xlnet.engine import train_step
from xlnet.errors import UserError
from xlnet.finetuning.model import TaskModel
from xlnet.model_directory.model_files import LoadedModel
from xlnet.network import heads, modeling
from xlnet.serving import session
from xlnet.serving.export.graph_encoding import WINDOW_OF, GraphEncoder
from xlnet.serving.export.graph_tokenizer import GraphTokenizer
from xlnet.tasks.features.encoding import Layout

GROUP = 32 * 512 ** 2           # windows x tokens² computed together

# inputs, outputs: dicts of tensors by name.
Signature = collections.namedtuple("Signature", "inputs outputs")


def _tuned(loaded):
    if loaded.tuned is None:
        raise UserError("the model is pretrained alone, it has no task to answer; expected "
                        "--signatures=vectors")
    return loaded.tuned


def _of_ids(loaded):
    inputs = session.placeholders(_tuned(loaded))
    return Signature(inputs, _answers(loaded, inputs))


def _of_text(loaded):
    tuned = _tuned(loaded)
    encoder = GraphEncoder(GraphTokenizer(loaded.tokenizer), tuned.layout, tuned.task.replacements)
    texts: dict[str, tf.Tensor] = {}

    def text(name, *shape):
        texts[name] = tf.placeholder(tf.string, [None, *shape], name)
        return texts[name]

    return Signature(texts, _answers(loaded, tuned.task.export.features(encoder, text)))


def _answers(loaded, features):
    network = TaskModel(loaded.config, loaded.tuned, loaded.network).predictions
    if WINDOW_OF in features:
        # As `Head.join` of the types that encode raw text: the mean over the windows of a text.
        outputs = {name: tf.math.segment_mean(value, features[WINDOW_OF])
                   for name, value in _in_groups(network, features).items()}
    else:
        outputs = network(features)
    return loaded.tuned.task.export.outputs(outputs, features,
                                            loaded.tuned.settings.predict_threshold)


def _of_vectors(loaded):
    """The mean of the last layer over the tokens of a text, including <sep> and <cls>."""
    texts = tf.placeholder(tf.string, [None], "text_a")
    features = GraphEncoder(GraphTokenizer(loaded.tokenizer),
                            Layout(loaded.max_seq_length)).pairs(texts)
    padding, run = features["input_mask"], loaded.network.run_config(False)
    with train_step.model_scope(kept_in=run.precision):
        sequence = modeling.transformer_xl(
            loaded.config, run, input_ids=features["input_ids"], seg_ids=features["segment_ids"],
            mask=padding[:, None] > 0).sequence
    vector = heads.summarize(loaded.config, run, sequence, summary_type="mean", padding=padding,
                             use_proj=False)
    return Signature({"text_a": texts}, {"vector": vector})


# Builds a signature of a model in the default graph; UserError if the model cannot have it.
BUILDERS: dict[str, Callable[[LoadedModel], Signature]] = {
    "ids": _of_ids, "text": _of_text, "vectors": _of_vectors}


def _in_groups(network, features):
    """`network` of the features of M windows in groups, which bounds the memory."""
    features = {name: value for name, value in features.items() if name != WINDOW_OF}
    count, length = (tf.shape(features["input_ids"])[axis] for axis in (0, 1))
    size = tf.maximum(GROUP // length ** 2, 1)
    with tf.Graph().as_default():           # only for the names and shapes of the outputs
        shapes = network({name: tf.placeholder(value.dtype, value.shape)
                          for name, value in features.items()})
    found = {name: tf.TensorArray(value.dtype, -(-count // size), infer_shape=False,
                                  element_shape=[None, *value.shape[1:]])
             for name, value in shapes.items()}

    def step(number, found):
        part = network({name: value[number * size:(number + 1) * size]
                        for name, value in features.items()})
        return number + 1, {name: array.write(number, part[name]) for name, array in found.items()}
    _, found = tf.while_loop(lambda number, found: number * size < count, step, (0, found),
                             parallel_iterations=1)
    return {name: tf.ensure_shape(array.concat(), [None, *shapes[name].shape[1:]])
            for name, array in found.items()}
