"""A task type of one's own, complete in this file: how alike two texts are that are read apart.

The answer is the cosine of the texts' vectors (https://arxiv.org/abs/1908.10084), so that the
vectors of a collection may be computed once.
"""

import numpy as np

from xlnet.records.feature_spec import Feature
from xlnet.tasks.metrics import split_metrics
from xlnet.tasks.types.kind import THRESHOLD, Kind


class TwoTowers(Kind):
    """An answer is a cosine, float32; the truth a number from -1 to 1."""
    name = "two_towers"
    baseline_words = "mean"
    default_metrics = ("spearman", "pearson")
    metrics = {"spearman": split_metrics.spearman, "pearson": split_metrics.pearson}
    verb = "score"

    def parse_pairs(self, task, text_a, text_b, choices):
        return ((text_a, None), (text_b, None)), None       # two inputs of one text, not one of two

    def num_choices(self, task, is_training):
        return 2                                            # C, as many as parse_pairs returns

    def parse_label(self, task, cells):
        try:
            return float(cells[0]), None
        except (IndexError, TypeError, ValueError):
            return None, "'%s' is not a number from -1 to 1" % "".join(map(str, cells))

    def label_array(self, task, rows):
        return np.array([row.label or 0 for row in rows], np.float32)

    def label_features(self, task, length):
        return (Feature("label_ids", (), "float"),)

    def logits(self, nn, task, features, is_training):
        tf, vectors = nn.tf, nn.summary()                                             # [B*2,D]
        vectors = tf.math.l2_normalize(tf.reshape(vectors, [-1, 2, vectors.shape[-1]]), axis=2)
        return tf.reduce_sum(vectors[:, 0] * vectors[:, 1], axis=1)                   # [B]

    def loss(self, nn, task, logits, features, options):
        return nn.tf.square(logits - features["label_ids"])

    def constant_answer(self, task, truth):
        return truth.mean()

    def prediction_columns(self, task, rows, values, threshold):
        return [("id", [row.id for row in rows]),
                ("cosine", self.answer_texts(task, values, threshold))]

    def answer_texts(self, task, values, threshold):
        return ["%.6f" % value for value in values]

    def results(self, task, rows, values, threshold=THRESHOLD):
        return self.checked(task, values, len(rows)).tolist()
