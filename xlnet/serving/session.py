"""The weights of a model in one session, restored once; any number of threads may ask it.

Shape letters: B batch, T tokens of a record, C choices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from xlnet.config import DeviceSettings
from xlnet.engine import checkpoint, distribution, private_tf, training
from xlnet.engine.restoring import Restoring
from xlnet.errors import UserError
from xlnet.models import layout
from xlnet.records import feature_spec
from xlnet.serving.loaded import TunedFor

_DTYPES = {"int": tf.int32, "float": tf.float32}

IDS = ("input_ids", "input_mask", "segment_ids")      # features of any number of tokens


def placeholders(tuned: TunedFor) -> dict[str, tf.Tensor]:
    """The features of a record of this task, of any batch; those by token of any length too."""
    task = tuned.task
    length = layout.of_records(tuned.settings, task).max_seq_length
    features = feature_spec.finetuning_features(
        length, task.kind.label_features(task, length), task.kind.num_choices(task, False))
    by_token = (*IDS, *task.kind.token_features)
    return {name: tf.placeholder(
        _DTYPES[dtype], [None, None] if name in by_token else [None, *shape], name)
        for name, shape, dtype in features if name != "is_real_example"}


class Restored:
    """A graph without anything of training, with the weights of a checkpoint.

    Args:
      build: function that builds the graph; it returns dicts of inputs and of outputs, tensors by
        name.
      prefix: of the checkpoint.

    Raises:
      UserError: the checkpoint is not whole, or lacks a variable of the graph.
    """

    def __init__(self, build: Callable[[], tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]],
                 prefix: str, device: DeviceSettings):
        training.set_up_process()
        devices = distribution.connect(device)
        with private_tf.gradients_forgotten(), tf.Graph().as_default() as graph:
            self._inputs, self._outputs = build()
            missing = checkpoint.compare(prefix, tf.global_variables()).missing
            if missing:
                raise UserError("checkpoint %s lacks %d of the model's variables: %s" % (
                    prefix, len(missing), ", ".join(missing[:3]) + ", ..." * (len(missing) > 3)))
            restore = Restoring()
            graph.finalize()
        self._session = tf.Session(graph=graph, config=distribution.session_config(devices))
        restore(self._session, prefix)

    def __call__(self, names: Any, features: Mapping[str, np.ndarray]) -> Any:
        """The outputs of these names, any structure of them, for a dict of arrays; features that
        the graph has no input for are passed over."""
        wanted = tf.nest.map_structure(self._outputs.__getitem__, names)
        return self._session.run(wanted, {
            tensor: features[name] for name, tensor in self._inputs.items()})

    def close(self) -> None:
        """Frees the session; nothing can be asked any more."""
        self._session.close()
