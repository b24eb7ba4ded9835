"""Processor time of a token, by how long the text already is: `python benchmarks/generation.py`.

Beside it the same without anything kept: the network reads all of the text for each token. Weights
are random; time does not depend on them.
"""

import dataclasses
import os
import time

import numpy as np
import repository  # finds the library

from xlnet import cli
from xlnet.settings.fields import Settings, setting
from xlnet.settings.network import NetworkSettings, XLNetConfig

LENGTHS = (64, 256, 512, 1024, 2048)
CHUNK = 64          # tokens read at a time on the way to a length, which it divides


@dataclasses.dataclass(frozen=True)
class GenerationTimes(Settings):
    """Which network, how much of the text it sees."""
    model_config_path: str = setting(os.path.join(repository.ROOT, "configs", "model", "base.json"),
                                     "JSON with the architecture")
    context: int = setting(512, "tokens that are kept, a multiple of %d" % CHUNK, minimum=CHUNK)
    tokens: int = setting(11, "tokens, the first of which prepares; the median of the others",
                          minimum=2)


def main(settings):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow.compat.v1 as tf

    from xlnet.network import heads, modeling
    from xlnet.serving import language_model
    from xlnet.serving.session import Part
    config = XLNetConfig(json_path=settings.model_config_path)
    network = NetworkSettings()
    with tf.Graph().as_default() as graph:
        inputs, outputs = language_model.build(config, network, is_causal=True)
        ids = tf.placeholder(tf.int32, [1, None])
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            whole = modeling.transformer_xl(config, network.run_config(False), input_ids=ids,
                                            attn_type="uni")
            last = heads.lm_logits(whole.sequence[:, -1:], whole.embedding_table)
        session = tf.Session(graph=graph)
        session.run(tf.global_variables_initializer())
    text = np.random.RandomState(0).randint(0, config.n_token, (1, max(LENGTHS)))
    part = Part(session, inputs, outputs)

    def kept(length):
        reading = language_model.Reading(part, settings.context, True)
        for begin in range(0, length, CHUNK):
            reading.read(text[:, begin:begin + CHUNK], range(begin, begin + CHUNK))
        return median_of([lambda end=end: reading.read(text[:, :1], [end])
                          for end in range(length, length + settings.tokens)])

    def anew(length):
        return median_of([lambda: session.run(last, {ids: text[:, :length]})] * 2)
    print("| tokens before | keys and values kept, last %d | all read anew |\n|---|---|---|"
          % settings.context)
    for length in LENGTHS:
        print("| %d | %.0f ms | %.0f ms |" % (length, 1000 * kept(length), 1000 * anew(length)),
              flush=True)


def median_of(works):
    """The median processor time of these functions; the first one, which prepares, aside."""
    taken = []
    for work in works:
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return float(np.median(taken[1:]))


if __name__ == "__main__":
    cli.run(main, GenerationTimes,
            about="processor time of a token, by how long the text already is")
