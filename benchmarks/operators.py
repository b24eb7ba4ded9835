"""Where a step spends its time: a table of operators for benchmarks/HISTORY.md.

    python benchmarks/operators.py --works=finetune --n_layer=4
    python benchmarks/operators.py --works=finetune --products

For each kind of operator, of one traced step after others: its time summed over threads, how many
there are, and the bytes that they read and wrote. TensorFlow's own rewriting of the graph, which
joins operators, is part of what is seen. With --products, instead: each matrix product of the step
timed alone, in its own shape and layout; what a step would take if all else took no time.
"""

import collections
import dataclasses
import os
import re
from typing import Optional

import products
import tensorflow.compat.v1 as tf
from repository import ROOT
from time_xlnet import build
from work import WORKS

from xlnet import cli
from xlnet.engine.devices import share_one_heap
from xlnet.errors import UserError
from xlnet.settings.fields import setting
from xlnet.settings.network import XLNetConfig

# seconds: of all its runs. count: of runs. read, written: bytes.
Share = collections.namedtuple("Share", "seconds count read written")

# [allocator and sizes] name = Operator(sources); oneDNN's kernels have names of their own.
_LABEL = re.compile(r"(?:\[.*?\] )?(\S+) = _?(?:Mkl(?:Native)?)?(\w+)\((.*)\)$")


@dataclasses.dataclass(frozen=True)
class OperatorSettings:
    """operators.py: what to trace."""
    model_config_path: str = setting(os.path.join(ROOT, "configs/model/base.json"),
                                     "JSON with the architecture; weights are random")
    works: str = setting("pretrain,finetune,infer", "comma-separated, of: " + ", ".join(WORKS))
    precision: str = setting("fp32", "of matmuls", choices=("fp32", "bf16"))
    recompute: bool = setting(False, "trace training with --recompute")
    n_layer: Optional[int] = setting(None, "layers, in place of the file's", minimum=1)
    batch: Optional[int] = setting(None, "rows, in place of the work's", minimum=1)
    length: Optional[int] = setting(None, "tokens of a row, in place of the work's", minimum=1)
    products: bool = setting(False, "time each matrix product of the step alone instead")
    top: int = setting(20, "kinds of operators shown, those with most time", minimum=1)


def main(settings):
    unknown = set(settings.works.split(",")) - set(WORKS)
    if unknown:
        raise UserError("works: '%s' is unknown, expected some of %s" % (
            min(unknown), ", ".join(WORKS)))
    architecture = XLNetConfig(json_path=settings.model_config_path).to_dict()
    architecture["n_layer"] = settings.n_layer or architecture["n_layer"]
    options = dict(precision=settings.precision, recompute=settings.recompute)
    for name in settings.works.split(","):
        work = WORKS[name].resized(settings.batch, settings.length)
        print("\n%s %d × %d, %d layers, %s\n" % (
            name, work.batch, work.length, architecture["n_layer"], settings.precision))
        if settings.products:
            products.show(graph_of(work, XLNetConfig(**architecture), options))
        else:
            show(trace(work, XLNetConfig(**architecture), options), settings.top)


def graph_of(work, config, options):
    """The graph of a step, as it is built."""
    with tf.Graph().as_default() as graph:
        build(work, config, options)
    return graph


def trace(work, config, options, warm_up=2):
    """The `StepStats` of one step, after `warm_up` others."""
    with tf.Graph().as_default():
        fetches, feed, session_config = build(work, config, options)
        with tf.Session(config=session_config) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(warm_up):
                session.run(fetches, feed)
            metadata = tf.RunMetadata()
            session.run(fetches, feed, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
                        metadata)
    return metadata.step_stats


def shares(step_stats):
    """A dict of the kind of operator to its `Share`."""
    nodes = [node for device in step_stats.dev_stats for node in device.node_stats]
    written = {node.node_name: sum(
        output.tensor_description.allocation_description.requested_bytes
        for output in node.output) for node in nodes}
    found = collections.defaultdict(lambda: Share(0., 0, 0, 0))
    for node in nodes:
        label = _LABEL.match(node.timeline_label)
        if not label:       # the step itself, or an input
            continue
        sources = (source.strip().lstrip("^").partition(":")[0] for source in label[3].split(","))
        so_far = found[label[2]]
        found[label[2]] = Share(
            so_far.seconds + (node.op_end_rel_micros - node.op_start_rel_micros) / 1e6,
            so_far.count + 1, so_far.read + sum(written.get(source, 0) for source in sources),
            so_far.written + written[node.node_name])
    return found


def show(step_stats, top):
    found = shares(step_stats)
    whole = sum(share.seconds for share in found.values())
    print("| operator | fraction of the time, % | seconds | runs | MB read | MB written |\n"
          "|---|---|---|---|---|---|")
    ordered = sorted(found.items(), key=lambda item: -item[1].seconds)
    for name, share in ordered[:top] + [("all", total(found.values()))]:
        print("| %s | %.1f | %.3f | %s | %s | %s |" % (
            name, 100 * share.seconds / whole, share.seconds, *map("{:,.0f}".format, (
                share.count, share.read / 1e6, share.written / 1e6))))


def total(found):
    return Share(*map(sum, zip(*found)))


if __name__ == "__main__":
    tf.disable_eager_execution()
    share_one_heap()
    cli.run(main, OperatorSettings, about="shows where a step spends its time")
