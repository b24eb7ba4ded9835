"""Memories beside a checkpoint: each host reads its own rows."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from xlnet.engine import devices, recurrent_memory
from xlnet.engine.devices import Devices

SHAPE = (2, 3, 4)  # L, M, D
STORED = np.random.default_rng(0).normal(size=(8, *SHAPE)).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    """The memories of step 5 in two files, as two hosts write them."""
    for first in (0, 4):
        np.save(tmp_path / f"memory-5-{first}.npy", STORED[first : first + 4])
    return tmp_path


def load(folder, hosts, host):
    """What a host of so many gets: [rows,L,M,D]."""
    with tf.Graph().as_default(), tf.Session() as session:
        variable = devices.local_variable("memory", [len(STORED) // hosts, *SHAPE])
        session.run(variable.initializer)
        run_devices = Devices(None, hosts=hosts, host=host)
        training = types.SimpleNamespace(session=session, memory=[variable], step=5)
        recurrent_memory.load(training, str(folder), run_devices)
        return session.run(variable)


def test_nothing_is_remembered_past_the_start_of_a_stream(graph):
    """Neither NaN nor infinity, which times 0 are NaN."""
    config = types.SimpleNamespace(n_layer=1, d_model=1)
    store = recurrent_memory.Memory(config, 2, tf.constant([1, 0]))
    new = tf.constant([[[[np.nan], [np.inf]]], [[[1.0], [2.0]]]])
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        session.run(store.update(new))
        assert session.run(store.value).ravel().tolist() == [0.0, 0.0, 1.0, 2.0]


@pytest.mark.parametrize("hosts", (1, 2, 4))
def test_any_number_of_hosts_takes_its_rows(folder, hosts):
    found = [load(folder, hosts, host) for host in range(hosts)]
    np.testing.assert_array_equal(np.concatenate(found), STORED)


def test_memories_of_another_batch_size_are_noted(folder, caplog):
    caplog.set_level("INFO", "xlnet")
    (folder / "memory-5-4.npy").unlink()
    assert not load(folder, 2, 0).any()
    said = "have the shape [4, 2, 3, 4], those of this run [8, 2, 3, 4]"
    assert said in caplog.messages[0]
