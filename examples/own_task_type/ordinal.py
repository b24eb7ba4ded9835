"""A task type of one's own, complete in this file: ordinal regression.

A level out of L in an order is learned as L - 1 decisions, "above the first one", "above the second
one", ..., each a logistic regression (https://doi.org/10.1007/3-540-44795-4_13).
"""

import dataclasses

import numpy as np

from xlnet import tasks
from xlnet.corpus.feature_spec import Feature
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.types import contract, simple


def closeness(task, decisions, gold_labels, values):
    """1 less the mean distance of the levels, as a fraction of the largest one."""
    return 1 - np.abs(decisions - gold_labels).mean() / (len(task.labels) - 1)


class Reader(contract.Reader):
    def from_train_file(self, path):  # of own files; a `Task` may name its labels
        levels = {row.label for row in self.read(path, True)}
        return dataclasses.replace(self.task, labels=simple.sorted_names(levels))

    def parse_label(self, cells):
        level = "".join(map(str, cells[:1])).strip()
        return (
            (level, None)
            if level in (self.task.labels or [level])
            else (
                None,
                "level '{}', expected one of {}".format(
                    level, ", ".join(self.task.labels)
                ),
            )
        )

    def label_array(self, rows):
        above = self.task.scorer.gold_labels(rows)[:, None] > np.arange(
            len(self.task.labels) - 1
        )
        return above.astype(np.float32)  # [n,L-1]


class Head(contract.Head):
    def features(self, length):
        return (Feature("label_ids", (len(self.task.labels) - 1,), "float"),)

    def logits(self, nn, features, is_training):
        return nn.dense(
            nn.summary(), len(self.task.labels) - 1, nn.scope + "/logit"
        )  # [B,L-1]

    def loss(self, nn, logits, features, options):
        import tensorflow.compat.v1 as tf

        return tf.reduce_sum(
            nn.sigmoid_cross_entropy(logits, features["label_ids"]), axis=1
        )

    def outputs(self, nn, logits, features):
        import tensorflow.compat.v1 as tf

        return {"values": tf.sigmoid(logits)}


class Scorer(contract.Scorer):
    """A prediction is the probability, float32 [L-1], that the level is above each but the last
    one; decisions and gold labels are the level's index."""

    default_metrics = ("closeness", "accuracy")
    metrics = {"closeness": closeness, "accuracy": split_metrics.accuracy}
    column = "level"

    @property
    def probabilities(self):
        return ["above_" + label for label in self.task.labels[:-1]]

    def gold_labels(self, rows):
        return np.array(
            [self.task.labels.index(row.label or self.task.labels[0]) for row in rows]
        )

    def decide(self, values, threshold=contract.THRESHOLD):
        return (np.asarray(values) >= threshold).sum(axis=1)

    def texts(self, values, threshold):
        return [self.task.labels[level] for level in self.decide(values, threshold)]


ORDINAL = tasks.register(
    contract.TaskType("ordinal", Reader, Head, Scorer, has_labels=True)
)
