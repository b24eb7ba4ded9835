"""Shared by all tests: golden values, a graph of one's own, the folder of real data sets."""

import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import pytest  # noqa: E402

GOLDEN = ROOT / "tests" / "golden"


class Golden:
    """One golden file: `settings`, and arrays under in/, var/, out/ by the rest of their name."""

    def __init__(self, name):
        with np.load(GOLDEN / (name + ".npz"), allow_pickle=True) as arrays:
            self.settings = json.loads(str(arrays["settings"]))
            self._arrays = {key: arrays[key] for key in arrays.files if key != "settings"}

    def group(self, prefix):
        return {key[len(prefix):]: value for key, value in self._arrays.items()
                if key.startswith(prefix)}

    def __getitem__(self, key):
        return self._arrays[key]


@pytest.fixture
def golden():
    return Golden


@pytest.fixture
def graph():
    """A fresh default graph."""
    import tensorflow.compat.v1 as tf
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with pretraining records and a tiny model config, for `pretraining_runs`."""
    import pretraining_runs
    folder = tmp_path_factory.mktemp("pretraining")
    pretraining_runs.make_place(folder)
    return folder


def assert_close(actual, expected, name="", rtol=1e-5):
    """Largest difference at most `rtol` of the largest expected magnitude (at least 0.01)."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, (name, actual.shape, expected.shape)
    scale = max(np.abs(expected).max(initial=0), 1e-2)
    error = np.abs(actual - expected).max(initial=0) / scale
    assert error <= rtol, "%s: relative error %.2e" % (name, error)
