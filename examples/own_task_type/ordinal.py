"""A task type of one's own, complete in this file: ordinal regression.

A level out of L in an order is learned as L - 1 decisions, "above the first one", "above the second
one", ..., each a logistic regression (https://doi.org/10.1007/3-540-44795-4_13).
"""

import numpy as np

from xlnet import tasks
from xlnet.tasks import metrics
from xlnet.tasks.types import contract, simple


def above(task, rows):  # float32 [n,L-1]
    levels = simple.ids(task, rows)[:, None]
    return (levels > np.arange(len(task.labels) - 1)).astype(np.float32)


def loss(nn, logits, labels, options):  # logits and labels [B,L-1], the result [B]
    import tensorflow.compat.v1 as tf

    return tf.reduce_sum(nn.sigmoid_cross_entropy(logits, labels), axis=1)


def level_of(task, decisions):  # a row of what `decide` returns to a label
    return task.labels[int(decisions.sum())]


def closeness(labels, decisions, values):
    """1 less the mean distance of the levels, as a fraction of the largest one."""
    return 1 - np.abs(decisions.sum(1) - labels.sum(1)).mean() / labels.shape[1]


ORDINAL = tasks.register(
    contract.TaskType(
        "ordinal",
        parse=simple.parse_name,  # one of the names in the file, numbers by their size
        targets=above,
        loss=loss,
        activation="sigmoid",
        decide=simple.above_threshold,
        label_of=level_of,
        metrics=(closeness, metrics.accuracy),
        default_metrics=("closeness", "accuracy"),
        column="level",
        has_labels=True,
    )
)
