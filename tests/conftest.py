"""Fixtures of all tests: golden values, a graph of one's own, records to pretrain on."""

import functools
import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ON_GPU = os.environ.get("XLNET_TEST_GPU") == "1"
# shared by the processes of a test run, and no TF32: golden values have 1e-5
if ON_GPU:
    os.environ.update(TF_FORCE_GPU_ALLOW_GROWTH="true", NVIDIA_TF32_OVERRIDE="0")
else:
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
pytest.register_assert_rewrite("helpers")


# Folders of which all tests are slow: programs that are started, disturbed and killed, the sample,
# benchmarks, the commands of the documents. Others carry the mark themselves.
SLOW = ("faults", "scripts", "documents")


def pytest_ignore_collect(collection_path, config):
    """Without slow tests these folders need not be imported either."""
    return collection_path.name in SLOW and config.option.markexpr == "not slow" or None


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name in SLOW:
            item.add_marker(pytest.mark.slow)


def pytest_sessionstart():
    """Tests that were to run on a GPU do not pass on a CPU unnoticed."""
    if ON_GPU:
        import tensorflow as tf2

        from xlnet.engine import devices

        if not tf2.config.list_physical_devices("GPU"):
            pytest.exit(f"XLNET_TEST_GPU=1: {devices.NO_GPU}", returncode=1)


@pytest.fixture(scope="session", autouse=True)
def threads():
    """TensorFlow makes its threads once in a process: all tests of one have those of all cores,
    whichever comes first, also where a program would divide them."""
    from xlnet.engine import session

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(session, "divide_cores", lambda config, parts: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_matmul_broadcasts(threads):
    """In the graphs of all programs, task types and exports that the tests build."""
    from helpers import matmuls

    with pytest.MonkeyPatch.context() as patched:
        matmuls.refuse_broadcast(patched)
        yield


@pytest.fixture
def golden():
    from helpers.golden import Golden

    return Golden


@pytest.fixture
def graph():
    """A fresh default graph, whose weights are drawn alike in each run: one draw in some hundreds
    has a gradient that cancels to so little that rounding shows.
    """
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as g:
        tf.set_random_seed(0)
        yield g


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with pretraining records and a tiny model config, for `helpers.pretraining`."""
    from helpers import pretraining

    folder = tmp_path_factory.mktemp("pretraining")
    pretraining.make_place(folder)
    return folder


@pytest.fixture(scope="session")
def model_of(tmp_path_factory):
    """Function from the name of a kind of task to a model directory of it, made once, with random
    weights: not to be changed."""
    from helpers.models import make_model

    return functools.lru_cache(maxsize=None)(
        lambda kind: make_model(tmp_path_factory.mktemp("models") / kind, kind)
    )


@pytest.fixture(scope="module")
def loaded(model_of):
    """Function from the name of a kind of task to its model of `xlnet.load`, loaded once, which
    computes two texts at once."""
    import xlnet

    made = {}

    def load(kind):
        if kind not in made:
            made[kind] = xlnet.load(model_of(kind), device="cpu", batch_size=2)
        return made[kind]

    yield load
    for model in made.values():
        model.close()


@pytest.fixture(scope="module")
def quick_start():
    """All sessions run their graphs as they were built, not those of training alone. TensorFlow
    rewrites a graph before it is first used, which takes as long as building it. For tests of what
    runs read, write, say and refuse; tests of numbers have the graphs that users have."""
    from xlnet.engine.devices import Devices

    make = Devices.session_config

    def as_built(*given, **named):
        config = make(*given, **named)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        return config

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Devices, "session_config", as_built)
        yield


@pytest.fixture(scope="session")
def permuted(tmp_path_factory):
    """A pretrained model with random weights, `helpers.language_model.Pretrained`: never changed,
    as all tests share it."""
    from helpers.language_model import Pretrained

    return Pretrained(tmp_path_factory.mktemp("permuted"), is_causal=False)


@pytest.fixture(scope="session")
def causal(tmp_path_factory):
    """The same, of the causal objective."""
    from helpers.language_model import Pretrained

    return Pretrained(tmp_path_factory.mktemp("causal"), is_causal=True)
