"""What an exported model can be asked: signatures, built in one graph on the same weights.

`ids` takes the features of records, `text` raw text, `vectors` raw text for a vector of each.
Shape letters: B batch, T tokens, C choices, D width.
"""

from __future__ import annotations

import collections
import functools
import re

import tensorflow.compat.v1 as tf

from xlnet.engine import training
from xlnet.errors import UserError
from xlnet.models import layout
from xlnet.network import modeling
from xlnet.serving import session
from xlnet.serving.graph_encoding import WINDOW_OF, GraphEncoder
from xlnet.serving.graph_tokenizer import GraphTokenizer
from xlnet.serving.loaded import LoadedModel
from xlnet.tasks.encoding import Layout

_MATRIX = re.compile("/transformer/.*(/kernel|/lookup_table)$")
_VECTOR_TOKENS = 512            # of a text, for models that do not say how long theirs are

NAMES = ("ids", "text", "vectors")

# inputs, outputs: dicts of tensors by name.
Signature = collections.namedtuple("Signature", "inputs outputs")


class Signatures:
    """Builds the signatures of a model in the default graph.

    Args:
      dtype: of the network's kernels and embeddings where they are kept: float32, or bfloat16.
    """

    def __init__(self, loaded: LoadedModel, dtype: tf.DType = tf.float32):
        self._loaded = loaded
        self._dtype = dtype

    @property
    def usual(self) -> tuple[str, ...]:
        """The names of those that a model of its sort is used by."""
        return ("ids", "text") if self._loaded.tuned else ("vectors",)

    def build(self, name: str) -> Signature:
        """The signature of this name, one of `NAMES`.

        Raises:
          UserError: this model has none.
        """
        return {"ids": self._of_ids, "text": self._of_text, "vectors": self._of_vectors}[name]()

    @functools.cached_property
    def _tokenizer(self):
        return GraphTokenizer(self._loaded.tokenizer)

    def _tuned(self):
        if self._loaded.tuned is None:
            raise UserError("the model is pretrained alone, it has no task to answer; expected "
                            "--signatures=vectors")
        return self._loaded.tuned

    def _of_ids(self):
        inputs = session.placeholders(self._tuned())
        return Signature(inputs, self._answers(inputs))

    def _of_text(self):
        tuned = self._tuned()
        task = tuned.task
        encoder = GraphEncoder(self._tokenizer, layout.of_records(tuned.settings, task),
                               task.replacements)
        choices = [task.kind.num_choices(task, False)]
        texts = {name: tf.placeholder(tf.string, [None] + choices * (name == "choices"), name)
                 for name in task.kind.texts_of_row(task)}
        return Signature(texts, self._answers(task.kind.graph_features(encoder, task, texts)))

    def _answers(self, features):
        tuned = self._tuned()
        kind = tuned.task.kind
        with self._kept_weights():
            answers = self._loaded.task_model().predictions(features)
        if WINDOW_OF in features:
            answers = kind.graph_join(tf, answers, features[WINDOW_OF])
        return kind.served(tf, tuned.task, answers, features, tuned.settings.predict_threshold)

    def _of_vectors(self):
        """The mean of the last layer over the tokens of a text, <sep> and <cls> among them."""
        config, network, tuned = self._loaded.config, self._loaded.network, self._loaded.tuned
        length = tuned.settings.max_seq_length if tuned else _VECTOR_TOKENS
        texts = tf.placeholder(tf.string, [None], "text_a")
        features = GraphEncoder(self._tokenizer, Layout(length)).pairs(texts)
        padding = features["input_mask"]
        with self._kept_weights(), training.model_scope():
            sequence = modeling.transformer_xl(
                config, network.run_config(False), input_ids=features["input_ids"],
                seg_ids=features["segment_ids"], hidden=padding[:, None] > 0).sequence
        vector = modeling.summarize(
            config, network.run_config(False), tf.cast(sequence, tf.float32), summary_type="mean",
            padding=padding, use_proj=False)
        return Signature({"text_a": texts}, {"vector": vector})

    def _kept_weights(self):
        """A scope in which matrices of the network are variables of the chosen type.

        The network rounds them to the type of its products anyway, so nothing is lost that bfloat16
        products would have. What is added, and what the output layer multiplies, stays float32.
        """
        def get(getter, name, shape=None, dtype=None, initializer=None, **kwargs):
            if self._dtype == tf.float32 or not _MATRIX.search(name):
                return getter(name, shape=shape, dtype=dtype, initializer=initializer, **kwargs)
            # Never drawn: a checkpoint has all of them.
            return tf.cast(getter(name, shape=shape, dtype=self._dtype,
                                  initializer=tf.initializers.zeros(), **kwargs), dtype)
        return tf.variable_scope(tf.get_variable_scope(), custom_getter=get)
