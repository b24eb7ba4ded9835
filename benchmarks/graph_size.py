"""Nodes of a training step's graph, and what it takes to build and to run it, by its length.

    python benchmarks/graph_size.py                                       # Base, 512 tokens
    python benchmarks/graph_size.py --lengths=8192 --recompute --steps=1  # a row of 8,192

Fine-tuning on a single row; each length has a process of its own. Nodes are counted with those of
the functions that the graph calls, as they are built.
"""

import dataclasses
import json
import os
import resource
import subprocess
import sys
import time

from repository import ROOT

from xlnet import cli
from xlnet.settings.fields import Settings, setting
from xlnet.settings.network import XLNetConfig


@dataclasses.dataclass(frozen=True)
class GraphSize(Settings):
    """graph_size.py: of which network, on how long a row."""
    model_config_path: str = setting(os.path.join(ROOT, "configs", "model", "base.json"),
                                     "JSON with the architecture")
    lengths: str = setting("512", "lengths of the row [tokens], comma-separated")
    recompute: bool = setting(False, "layers are computed again in the backward pass")
    steps: int = setting(0, "training steps that are run, too", minimum=0)
    is_alone: bool = setting(False, "measure the one length in this process and print JSON; what "
                                    "the program starts itself with")


def main(settings):
    if settings.is_alone:
        print(json.dumps(measure(settings, int(settings.lengths))))
        return
    print("| length | nodes | built [CPU s] | steps | a step [CPU s] | peak memory [MiB] |")
    print("|---|---|---|---|---|---|")
    for length in settings.lengths.split(","):
        done = subprocess.run(
            [sys.executable, __file__, "--is_alone", "--lengths=" + length,
             "--model_config_path=" + settings.model_config_path, "--steps=%d" % settings.steps,
             "--recompute=%s" % settings.recompute], stdout=subprocess.PIPE, check=True, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print("| %s | %d | %.1f | %d | %s | %.0f |" % (
            length, found["nodes"], found["built"], settings.steps,
            "%.1f" % found["step"] if settings.steps else "", found["peak"]), flush=True)


def measure(settings, length):
    """Nodes; CPU seconds of building, and of a step on average; peak memory [MiB]."""
    import tensorflow.compat.v1 as tf
    import time_xlnet
    from work import Work
    tf.disable_eager_execution()
    config = XLNetConfig(json_path=settings.model_config_path)
    began = time.process_time()
    fetches, feed, session_config = time_xlnet.build(
        Work("finetune", batch=1, length=length), config,
        {"precision": "fp32", "recompute": settings.recompute})
    built = time.process_time() - began
    if settings.steps:
        with tf.Session(config=session_config) as session:
            session.run(tf.global_variables_initializer())
            began = time.process_time()
            for _ in range(settings.steps):
                session.run(fetches, feed)
    graph = tf.get_default_graph().as_graph_def()
    nodes = len(graph.node) + sum(len(function.node_def) for function in graph.library.function)
    return {"nodes": nodes, "built": built,
            "step": (time.process_time() - began) / max(settings.steps, 1),
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


if __name__ == "__main__":
    cli.run(main, GraphSize, about="nodes of a training step's graph")
