"""Seconds for a token, by how long the text already is: `python benchmarks/generation.py`.

Beside it the same without anything kept: the network reads all of the text for each token. Weights
are random; time does not depend on them.
"""

import dataclasses
import os
import time

import numpy as np
import repository  # finds the library

from xlnet import cli
from xlnet.config import NetworkSettings, Settings, XLNetConfig, setting

LENGTHS = (64, 128, 256, 512, 1024, 2048)


@dataclasses.dataclass(frozen=True)
class GenerationTimes(Settings):
    """Which network, how much of the text it sees."""
    model_config_path: str = setting(os.path.join(repository.ROOT, "configs", "model", "base.json"),
                                     "JSON with the architecture")
    context: int = setting(512, "tokens that are kept", minimum=64)
    tokens: int = setting(10, "tokens that a time is the median of", minimum=1)


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
    reading = language_model.Reading(Part(session, inputs, outputs), settings.context, True)
    kept = seconds_by_length(
        settings.tokens, lambda end: reading.read(text[:, end - 1:end], [end - 1]))
    anew = {length: median_of(settings.tokens if length < 512 else 3,
                              lambda length=length: session.run(last, {ids: text[:, :length]}))
            for length in LENGTHS}
    print("| tokens before | keys and values kept, last %d | all read anew |\n|---|---|---|"
          % settings.context)
    for length in LENGTHS:
        print("| %d | %.0f ms | %.0f ms |" % (length, 1000 * kept[length], 1000 * anew[length]))


def seconds_by_length(tokens, read):
    """The median time of the tokens before each length, all of them read one after the other."""
    taken = np.zeros(max(LENGTHS) + 1)
    for end in range(1, max(LENGTHS) + 1):
        began = time.time()
        read(end)
        taken[end] = time.time() - began
    return {length: float(np.median(taken[length - tokens + 1:length + 1])) for length in LENGTHS}


def median_of(times, run):
    run()
    taken = []
    for _ in range(times):
        began = time.time()
        run()
        taken.append(time.time() - began)
    return float(np.median(taken))


if __name__ == "__main__":
    cli.run(main, GenerationTimes, about="seconds for a token, by how long the text already is")
