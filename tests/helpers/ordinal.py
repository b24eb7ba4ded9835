"""A kind of task of one's own, whole in this file: ordinal regression.

A grade out of L in an order is learned as L - 1 decisions, "above the first one", "above the second
one", ..., each a logistic regression (https://doi.org/10.1007/3-540-44795-4_13).
"""

import numpy as np

from xlnet.records.feature_spec import Feature
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.types.kind import THRESHOLD, Kind


def closeness(task, decisions, truth, values):
    """1 less the mean distance of the grades, as a share of the largest one."""
    return 1 - np.abs(decisions - truth).mean() / (len(task.labels) - 1)


class Ordinal(Kind):
    """An answer is the probability, float32 [L-1], that the grade is above each but the last one;
    decisions and the truth are the grade's place in the order."""
    name = "ordinal"
    has_labels = True
    default_metrics = ("closeness", "accuracy")
    metrics = {"closeness": closeness, "accuracy": split_metrics.accuracy,
               "spearman": split_metrics.spearman}

    def parse_label(self, task, cells):
        grade = str(cells[0]).strip() if cells else ""
        if grade in task.labels:
            return grade, None
        return None, "grade '%s', expected one of %s" % (grade, ", ".join(task.labels))

    def truth(self, task, rows):
        return np.array([task.labels.index(row.label or task.labels[0]) for row in rows])

    def label_array(self, task, rows):
        above = self.truth(task, rows)[:, None] > np.arange(len(task.labels) - 1)      # [n,L-1]
        return above.astype(np.float32)

    def label_features(self, task, length):
        return (Feature("label_ids", self.answer_shape(task), "float"),)

    def logits(self, nn, task, features, is_training):
        return nn.dense(nn.summary(), len(task.labels) - 1, nn.scope + "/logit")       # [B,L-1]

    def loss(self, nn, task, logits, features, options):
        return nn.tf.reduce_sum(nn.sigmoid_cross_entropy(logits, features["label_ids"]), axis=1)

    def answers(self, nn, task, logits):
        return {"values": nn.tf.sigmoid(logits)}

    def answer_shape(self, task):
        return (len(task.labels) - 1,)

    def decide(self, task, values, threshold=THRESHOLD):
        return (np.asarray(values) >= threshold).sum(axis=1)

    def constant_answer(self, task, truth):
        return np.mean(truth[:, None] > np.arange(len(task.labels) - 1), axis=0)

    def prediction_columns(self, task, rows, values, threshold):
        return [("id", [row.id for row in rows]),
                ("grade", self.answer_texts(task, values, threshold)),
                *(("p_above_" + label, ["%.6f" % p for p in column])
                  for label, column in zip(task.labels, values.T))]

    def answer_texts(self, task, values, threshold):
        return [task.labels[place] for place in self.decide(task, values, threshold)]
