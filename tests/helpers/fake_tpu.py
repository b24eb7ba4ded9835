"""A `TPUStrategy` of chips that are not there: it builds graphs, which no session can run."""

import contextlib

import numpy as np
import tensorflow as tf2
from tensorflow.python.tpu import topology as topologies
from tensorflow.python.tpu import tpu_strategy_util, tpu_system_metadata
from tensorflow.python.training import server_lib

_TASK = "/job:localhost/replica:0/task:0/device:"


class _Resolver(tf2.distribute.cluster_resolver.ClusterResolver):
    """Finds one host with the four chips of a topology."""

    environment = ""
    tpu_hardware_feature = None

    def __init__(self, topology):
        self._topology = topology

    def cluster_spec(self):
        return server_lib.ClusterSpec({})

    def master(self, *_, **__):
        return ""

    def num_accelerators(self, *_, **__):
        return {"TPU": 4}

    def get_job_name(self):
        return "localhost"

    def get_tpu_system_metadata(self):
        names = [f"TPU:{number}" for number in range(4)] + ["CPU:0"]
        return tpu_system_metadata.TPUSystemMetadata(
            num_cores=4,
            num_hosts=1,
            num_of_cores_per_host=4,
            topology=self._topology.serialized(),
            devices=[
                tf2.config.LogicalDevice(_TASK + name, name[:3]) for name in names
            ],
        )


@contextlib.contextmanager
def strategy():
    """The strategy of four chips, two by two, for the default graph."""
    chips = [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]]
    places = np.array([chips], np.int32)
    topology = topologies.Topology(mesh_shape=[2, 2, 1, 1], device_coordinates=places)
    initialized = tpu_strategy_util._INITIALIZED_TPU_SYSTEMS
    initialized[""] = topology
    try:
        yield tf2.distribute.TPUStrategy(_Resolver(topology))
    finally:
        del initialized[""]


def operations(graph):
    """Those that the chips run: a graph of all replicas, which XLA compiles."""
    return [op for op in graph.get_operations() if "_tpu_replicate" in op.node_def.attr]
