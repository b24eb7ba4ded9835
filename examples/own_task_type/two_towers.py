"""A task type of one's own, complete in this file: how alike two texts are that are read apart.

The output is the cosine of the texts' vectors (https://arxiv.org/abs/1908.10084), so that the
vectors of a collection may be computed once. The labels, the loss and the rest are those of a
regression.
"""

from xlnet import tasks
from xlnet.tasks.contract import Regression


@tasks.register
class TwoTowers(Regression):
    kind = "two_towers"
    default_metrics = ("spearman", "pearson")
    column = "cosine"

    def parse_pairs(self, text_a, text_b, choices):
        return (text_a, None), (text_b, None)  # two inputs, not one of two

    def num_choices(self, is_training):
        return 2  # C, as many as parse_pairs returns

    def logits(self, nn, features, is_training):
        import tensorflow.compat.v1 as tf

        vectors = nn.summary()  # [B*2,D]
        vectors = tf.reshape(vectors, [-1, 2, vectors.shape[-1]])
        vectors = tf.math.l2_normalize(vectors, axis=2)
        return tf.reduce_sum(vectors[:, 0] * vectors[:, 1], axis=1)  # [B]
