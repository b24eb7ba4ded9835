"""The devices of a run: how they are found, what each of them works on, and the process and the
sessions that use them.

A replica is one copy of the network on one device. All hosts (machines) have the same number.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import logging
import os
import re
import socket
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import ops

from xlnet.engine import multi_host
from xlnet.settings.network import NetworkSettings
from xlnet.settings.training import DeviceSettings
from xlnet.support import errors, system

_log = logging.getLogger(__name__)

_GROUP_BYTES = 2**25  # of the gradients that are summed over replicas together
_M_ARENA_MAX = -8  # the option of malloc.h that limits the number of heaps
_CORES_OF_A_HEAP = 32
NO_GPU = "TensorFlow finds no GPU"


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices of a run, as this host sees them.

    Attributes:
      strategy: a `tf.distribute.Strategy`; None: one device.
      per_host: the number of replicas of each host.
      hosts: the number of hosts.
      host: the index of this one.
      description: in words, for the banner of a run.
      gpus: TensorFlow's physical devices that this host uses; (): the CPU, or a TPU.
      xla: whether the training step is compiled by XLA.
    """

    strategy: Any
    per_host: int = 1
    hosts: int = 1
    host: int = 0
    description: str = ""
    gpus: tuple[Any, ...] = ()
    xla: bool = False

    @property
    def replicas(self) -> int:
        """The number of replicas of all hosts."""
        return self.hosts * self.per_host

    @property
    def parallel_batches(self) -> int:
        """How many batches a device predicts in parallel, where no state is carried between them.

        Two on a CPU that is one device, each with half of the cores. More cores for one batch would
        make its matmuls faster, but hardly the operations between them (benchmarks/README.md).
        """
        is_one_cpu = not (self.gpus or self.strategy)
        return 2 if is_one_cpu and system.available_cores() > 1 else 1

    @property
    def is_chief(self) -> bool:
        """Whether this host is the one that writes checkpoints, evaluates and reports."""
        return self.host == 0

    def check_divides(self, batch_size: int, micro_batches: int) -> None:
        """Raises UserError unless the global batch has an equal part for each of the
        `micro_batches` of each replica."""
        if batch_size % (self.replicas * micro_batches):
            parts = f"{self.replicas} replicas x {micro_batches} micro-batches"
            raise errors.wrong("train_batch_size", batch_size, f"a multiple of {parts}")

    def session_config(self, is_training: bool = False) -> tf.ConfigProto:
        """The settings of a session on these devices.

        In training, Grappler is off: rewriting takes as long as building the graph and gains
        nothing (benchmarks/README.md), merges sums, so that the last bit depends on which term is
        first (`ops.gradients`), and fuses operations for which XLA has no kernels. Calls of a
        layer's function (`ops.traced_once`), which training alone has, are inlined: a call would
        hold its inputs until all its operations are done.
        """
        # Operations without a kernel for a GPU run on the CPU.
        config = tf.ConfigProto(allow_soft_placement=True)
        config.gpu_options.allow_growth = True
        # The first GPUs of the machine, as `connect` takes them: "0,1" for two. Without GPUs "",
        # all that TensorFlow sees, which are then none (`_gpus`).
        numbers = map(str, range(len(self.gpus)))
        config.gpu_options.visible_device_list = ",".join(numbers)
        # The meta optimizer is Grappler.
        config.graph_options.rewrite_options.disable_meta_optimizer = is_training
        config.graph_options.optimizer_options.do_function_inlining = is_training
        # TensorFlow has one device for all cores, unless it is told to make one for each replica;
        # with GPUs these are not used. Several hosts without GPUs have one replica each.
        if self.strategy and self.hosts == 1:
            config.device_count["CPU"] = self.per_host
        return config

    def precision_in_words(self, network: NetworkSettings) -> str:
        """The precision of the run and how its operations are run, for the banner."""
        # The precision of the settings is None if it is not given.
        words = str(network.run_config(is_training=True).precision)
        if network.recompute:
            words += ", recomputing"
        if self.xla or isinstance(self.strategy, tf2.distribute.TPUStrategy):
            words += ", compiled by XLA: the first step takes a minute or more"
        return words

    def rows(self, batch_size: int) -> slice:
        """This host's batch elements, a slice of the global batch of `batch_size`."""
        size = batch_size // self.hosts  # of each host's part
        return slice(self.host * size, (self.host + 1) * size)


def connect(settings: DeviceSettings) -> Devices:
    """Prepares the process, waits for all hosts if there are several, and returns the devices that
    the settings and, for several hosts, the environment describe.

    Raises:
      UserError: there are fewer devices, or settings and environment contradict each other.
    """
    set_up_process()
    if settings.use_tpu:
        if settings.xla:
            set_xla_flags()
        return _tpu(settings)

    # Find the hosts of the run and the devices of this one.
    hosts, host = multi_host.find_hosts(settings.num_hosts)
    per_host = settings.num_core_per_host  # replicas
    used = _gpus(settings)[:per_host]  # []: the CPU
    xla = settings.xla
    if xla is None:
        xla = bool(used)
    if xla:  # must be known before TensorFlow uses a device
        set_xla_flags()
    if used:
        _claim(used)
    description = _description(settings, used)

    # Wait until all hosts are there, then connect them.
    if hosts > 1:
        description = f"{hosts} hosts of {description}, this is number {host}"
        _log.info("note: %s; waiting until all of them are there", description)
        if not used and per_host > 1:
            expected = "1: each host without GPUs is one replica"
            raise errors.wrong("num_core_per_host", per_host, expected)
        strategy = multi_host.connect(host)
    else:
        strategy = _one_host(used, per_host) if per_host > 1 else None
    return Devices(strategy, per_host, hosts, host, description, tuple(used), xla)


def _gpus(settings: DeviceSettings) -> list[Any]:
    """All GPUs of this machine that TensorFlow finds, as physical devices. With --device=cpu they
    are hidden from TensorFlow, and the list is empty. A UserError if there are fewer than
    requested: several replicas on the CPU need --device=cpu."""
    if settings.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
        return []
    found = tf2.config.list_physical_devices("GPU")
    count = settings.num_core_per_host  # replicas
    if found and count > len(found):
        raise errors.wrong("num_core_per_host", count, f"at most {gpu_names(found)}")
    if not found and (count > 1 or settings.device == "gpu"):
        flag = "device" if settings.device == "gpu" else "num_core_per_host"
        raise errors.wrong(flag, NO_GPU, "GPUs", "or --device=cpu")
    return found


def _description(settings: DeviceSettings, used: Sequence[Any]) -> str:
    """The devices of this host in words. used: its GPUs; empty: the CPU."""
    if used:
        return gpu_names(used)
    words = f"CPU, {system.available_cores()} cores"
    if settings.num_core_per_host > 1:
        words += f" as {settings.num_core_per_host} replicas"
    return words if settings.device == "cpu" else f"{words}; {NO_GPU}"


def _one_host(used: Sequence[Any], count: int) -> tf2.distribute.Strategy:
    """The strategy of `count` replicas on one machine: on the GPUs `used`, or on the CPU if that is
    empty."""
    if used:
        return tf2.distribute.MirroredStrategy([f"/gpu:{i}" for i in range(count)])
    # The CPU devices of replicas are made with the session, later; within a graph a strategy does
    # not look for them before.
    with tf.Graph().as_default():
        return tf2.distribute.MirroredStrategy(
            [f"/cpu:{i}" for i in range(count)],
            cross_device_ops=tf2.distribute.ReductionToOneDevice(),
        )


def _tpu(settings: DeviceSettings) -> Devices:
    """The replicas of a TPU; a UserError without one. Never run: see docs/how_to/gpu.md."""
    try:
        address = re.fullmatch(r"grpc://(.+):(\d+)", settings.tpu_name)
        if address:  # TensorFlow would wait forever if no TPU listens there
            socket.create_connection((address[1], int(address[2])), timeout=20).close()
        resolver = tf2.distribute.cluster_resolver.TPUClusterResolver(settings.tpu_name)
        tf2.config.experimental_connect_to_cluster(resolver)
        tf2.tpu.experimental.initialize_tpu_system(resolver)
    except (tf.errors.OpError, OSError, ValueError, RuntimeError) as e:
        reason, _, _ = errors.reason(e).partition(". ")  # the first sentence
        where = f"tpu_name {settings.tpu_name}"
        raise errors.wrong(where, reason, "a TPU", "--use_tpu") from e
    strategy = tf2.distribute.TPUStrategy(resolver)
    count = strategy.num_replicas_in_sync
    return Devices(strategy, count, description=f"TPU, {count} replicas")


# ---- the GPUs of this machine


def _claim(used: Sequence[Any]) -> None:
    """Hides all GPUs but those `used`, and lets memory use of these grow as needed. Called before
    TensorFlow uses any."""
    try:
        tf2.config.set_visible_devices(list(used), "GPU")
        for gpu in used:
            tf2.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:  # within another program, such as a notebook
        # `Devices.session_config` asks for the same.
        _log.info("note: TensorFlow already uses GPUs; its settings stay")


def set_xla_flags() -> None:
    """Sets XLA's flags for GPUs in the environment of this process. XLA reads them once, when it
    first compiles; those that the user sets come later and win.

    On an H100, matmuls of cuBLAS were faster than those that XLA generates, and compiled in half
    the time. Both streams multiply by the same keys: XLA would merge the two matmuls, and copy the
    largest tensors of a layer, the scores, to do so.
    """
    flags = "--xla_gpu_enable_triton_gemm=false"
    if tf2.__version__.startswith("2.21."):  # an unknown flag ends the program
        flags += " --xla_gpu_dot_merger_threshold_mb=0"
    os.environ["XLA_FLAGS"] = f"{flags} {os.environ.get('XLA_FLAGS', '')}".strip()


def gpu_names(gpus: Sequence[Any]) -> str:
    """The number of GPUs and the name of the first, as "2 GPU (NVIDIA L4)"."""
    details = tf2.config.experimental.get_device_details(gpus[0])
    return f"{len(gpus)} GPU ({details.get('device_name', 'unknown')})"


def compute_capability(gpus: Sequence[Any]) -> tuple[int, int] | None:
    """The compute capability that NVIDIA GPUs have in common, such as (9, 0); None: they are of
    several kinds, not NVIDIA's, or none."""
    capabilities = set()
    for gpu in gpus:
        details = tf2.config.experimental.get_device_details(gpu)
        # None if it is not NVIDIA's.
        capabilities.add(details.get("compute_capability"))
    return capabilities.pop() if len(capabilities) == 1 else None


# ---- the process and its sessions


def set_up_process() -> None:
    """Prepares a process for training or inference: one heap, no logs of TensorFlow.

    By default the GNU C library gives each thread a heap, and memory that one thread frees is not
    used by another. All threads allocate from one heap here, or from a few on a machine with many
    cores, where they would wait for each other.
    """
    # `CDLL(None)` has the functions of this program and its C library. Only GNU's has this one.
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option and sys.platform == "linux":
        set_option(_M_ARENA_MAX, max(1, (os.cpu_count() or 1) // _CORES_OF_A_HEAP))
    tf.logging.set_verbosity(tf.logging.ERROR)
    # TensorFlow reads the options of datasets in graph mode, and warns that it does.
    warnings.filterwarnings(
        "ignore", message="To make it possible to preserve tf.data options"
    )


@contextlib.contextmanager
def unregistering_gradients() -> Iterator[None]:
    """Unregisters at its end the custom gradients that were registered inside, so that their graph
    can be freed. They must not be used afterwards.

    The registry is private TensorFlow (2.15.1 to 2.21.0): each use of a custom gradient in a graph
    adds an entry, whose closure holds tensors of the graph. TensorFlow never removes entries, so no
    graph would be freed.
    """
    registry = ops.gradient_registry._registry
    before = set(registry)
    try:
        yield
    finally:
        for name in [name for name in registry if name not in before]:
            del registry[name]


def divide_cores(config: tf.ConfigProto, parts: int) -> None:
    """Sets in `config` that an operation uses 1/`parts` of the cores, as `parts` calls of a session
    run in parallel.

    TensorFlow creates its threads once in a process: only the settings of the first session count,
    and TF_NUM_INTRAOP_THREADS takes precedence.
    """
    if "TF_NUM_INTRAOP_THREADS" not in os.environ:
        config.intra_op_parallelism_threads = max(1, system.available_cores() // parts)


# ---- in a step


def replica_index() -> int | tf.Tensor:
    """The index of the replica whose graph is being built, among those of all hosts; a tensor on a
    TPU, whose replicas share a graph."""
    index = tf2.distribute.get_replica_context().replica_id_in_sync_group
    constant = tf.get_static_value(index)  # None on a TPU
    return index if constant is None else int(constant)


def mean_over_replicas(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """The means of tensors over all replicas, of all hosts; each replica gets all of them, in the
    order of `tensors`.

    They are summed in groups, from the last tensor on, each group as soon as it is computed. The
    backward pass computes the last gradients first and continues while these are summed.
    """
    context = tf2.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return tensors
    groups: list[list[tf.Tensor]] = [[]]
    num_bytes = 0  # of the last group
    for tensor in reversed(tensors):
        if num_bytes >= _GROUP_BYTES:
            groups.append([])
            num_bytes = 0
        groups[-1].append(tensor)
        num_bytes += tensor.shape.num_elements() * tensor.dtype.size

    # This is called within the graph of a replica; `merge_call` changes to a context that sees all
    # replicas.
    def reduce(strategy: tf2.distribute.Strategy, *group: Any) -> list[Any]:
        # (values of all replicas, where their mean is to be: on the same devices)
        pairs = [(tensor, tensor) for tensor in group]
        mean = tf2.distribute.ReduceOp.MEAN
        return strategy.extended.batch_reduce_to(mean, pairs)

    means: list[tf.Tensor] = []
    for group in groups:
        means += context.merge_call(reduce, args=tuple(group))
    return means[::-1]  # as they were reversed before


def local_parts(variable: Any) -> tuple:
    """The copies of `variable`, or of another value that each replica has, of this host's replicas,
    in the order of the replicas."""
    return tf2.distribute.get_strategy().experimental_local_results(variable)


def local_variable(name: str, shape: Sequence[Any]) -> Any:
    """A variable of zeros, float32, that each replica has for itself, and no checkpoint has."""
    # ON_READ: the copies of the replicas may differ. ONLY_FIRST_REPLICA: outside of a replica the
    # variable reads as the first copy.
    return tf.get_variable(
        name,
        shape,
        tf.float32,
        zeros,
        trainable=False,
        use_resource=True,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def set_value(session: tf.Session, copy: Any, value: Any) -> None:
    """Sets a replica's copy of a variable by running its initializer on `value`: an assignment
    would be a new operation, and the graph of a session that is in use cannot grow."""
    initial_value = copy.initializer.inputs[1]  # the inputs are (variable, value)
    session.run(copy.initializer, {initial_value: value})


def base_name(variable: Any) -> str:
    """A variable's name in checkpoints: without its output number and its replica, as `w` of
    `w/replica_1:0`."""
    return re.sub(r"(/replica_\d+)?(:0)?$", "", variable.name)


def zeros(shape: Any, dtype: tf.DType, partition_info: Any = None) -> tf.Tensor:
    """Initializer for large variables: zeros that are created on the device of the variable.

    TensorFlow would compute `tf.zeros` as a constant at the start of the session, and keep it in
    addition to the variable. `Empty` counts as stateful, so it is not folded.
    """
    del partition_info
    return tf.raw_ops.Empty(shape=shape, dtype=dtype, init=True)
