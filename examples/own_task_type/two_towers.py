"""A task type of one's own, complete in this file: how alike two texts are that are read apart.

The output is the cosine of the texts' vectors (https://arxiv.org/abs/1908.10084), so that the
vectors of a collection may be computed once. The labels, the loss and the rest of the scorer are
those of a regression.
"""

from xlnet import tasks
from xlnet.tasks.types.contract import TaskType
from xlnet.tasks.types.simple import (
    RegressionExport,
    RegressionHead,
    RegressionReader,
    RegressionScorer,
)


class TowersReader(RegressionReader):
    def parse_pairs(self, text_a, text_b, choices):
        return (
            (text_a, None),
            (text_b, None),
        ), None  # two inputs of one text, not one of two


class TowersHead(RegressionHead):
    def num_choices(self, is_training):
        return 2  # C, as many as parse_pairs returns

    def logits(self, nn, features, is_training):
        import tensorflow.compat.v1 as tf

        vectors = nn.summary()  # [B*2,D]
        vectors = tf.math.l2_normalize(
            tf.reshape(vectors, [-1, 2, vectors.shape[-1]]), axis=2
        )
        return tf.reduce_sum(vectors[:, 0] * vectors[:, 1], axis=1)  # [B]


class TowersScorer(RegressionScorer):
    default_metrics = ("spearman", "pearson")
    column = "cosine"


class TowersExport(RegressionExport):
    def features(self, encoder, text):
        return encoder.records([[text("text_a"), None], [text("text_b"), None]])


TWO_TOWERS = tasks.register(
    TaskType(
        "two_towers",
        TowersReader,
        TowersHead,
        TowersScorer,
        verb="score",
        export=TowersExport,
    )
)
