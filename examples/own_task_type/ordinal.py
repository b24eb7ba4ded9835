"""A task type of one's own, complete in this file: ordinal regression, a level out of L learned as
L - 1 decisions, "above the first one", ..., by https://doi.org/10.1007/3-540-44795-4_13."""

import numpy as np

from xlnet import tasks
from xlnet.tasks import metrics
from xlnet.tasks.contract import Classification


def closeness(labels, decisions, values):
    """1 less the mean distance of the levels, as a fraction of the largest one."""
    return 1 - np.abs(decisions.sum(1) - labels.sum(1)).mean() / labels.shape[1]


@tasks.register
class Ordinal(Classification):  # a label is one of the names in the train file
    kind = "ordinal"
    measures = (closeness, metrics.accuracy)
    default_metrics = ("closeness", "accuracy")
    activation = "sigmoid"
    column = "level"
    loss_options = False

    def targets(self, rows):  # float32 [n,L-1]
        levels = super().targets(rows)[:, None]
        return (levels > np.arange(len(self.labels) - 1)).astype(np.float32)

    def loss(self, nn, logits, features, options):  # logits [B,L-1], the result [B]
        import tensorflow.compat.v1 as tf

        losses = nn.sigmoid_cross_entropy(logits, features["label_ids"])
        return tf.reduce_sum(losses, axis=1)

    def decide(self, values, threshold):  # in the form of `targets`
        return (values >= threshold).astype(np.float32)

    def label_of(self, decision):  # a row of what `decide` returns
        return self.labels[int(decision.sum())]
