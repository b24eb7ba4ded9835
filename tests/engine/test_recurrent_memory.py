"""Memories beside a checkpoint: each host reads its own rows, and only what was written."""

import tracemalloc
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from xlnet.engine import recurrent_memory
from xlnet.engine.devices import Devices

ROWS, SHAPE = 8, (2, 3, 4)  # L, M, D
STORED = np.random.default_rng(0).normal(size=(ROWS, *SHAPE)).astype(np.float32)
LATER = 128 + 4 * 3 * 24 + 10  # [bytes] in the fourth row of a file


@pytest.fixture
def folder(tmp_path):
    """The memories of step 5 in two files, as two hosts write them."""
    for first in (0, 4):
        recurrent_memory.write(str(tmp_path / (f"memory-5-{first}.npy")), STORED[first : first + 4])
    return tmp_path


def load(folder, hosts, host, rows=ROWS):
    """What a host of so many gets: [rows,L,M,D]."""
    devices = Devices(None, hosts=hosts, host=host)
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable(
            "memory",
            [rows // hosts, *SHAPE],
            tf.float32,
            tf.initializers.zeros(),
            use_resource=True,
        )
        tf.add_to_collection("memories", variable)
        session.run(variable.initializer)
        files = recurrent_memory.MemoryFiles(str(folder), devices, rows)
        files.begin()
        files.load(session, 5)
        return session.run(variable)


def test_nothing_is_remembered_past_the_start_of_a_stream(graph):
    """Neither NaN nor infinity, which times 0 are NaN."""
    config = types.SimpleNamespace(n_layer=1, d_model=1)
    store = recurrent_memory.Memory(config, 2, tf.constant([1, 0]))
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        session.run(store.update(tf.constant([[[[np.nan], [np.inf]]], [[[1.0], [2.0]]]])))
        assert session.run(store.value).ravel().tolist() == [0.0, 0.0, 1.0, 2.0]


@pytest.mark.parametrize("hosts", (1, 2, 4))
def test_any_number_of_hosts_takes_its_rows(folder, hosts):
    found = [load(folder, hosts, host) for host in range(hosts)]
    np.testing.assert_array_equal(np.concatenate(found), STORED)


def damage(path, place=LATER):
    with open(path, "r+b") as f:
        f.seek(place)
        byte = f.read(1)
        f.seek(place)
        f.write(bytes([byte[0] ^ 1]))


def test_damage_is_found_in_the_rows_that_are_read(folder, caplog):
    caplog.set_level("INFO", "xlnet")
    damage(folder / "memory-5-4.npy")
    for host in (0, 1, 2):  # rows 0 to 5
        np.testing.assert_array_equal(load(folder, 4, host), STORED[2 * host : 2 * host + 2])
    assert not caplog.messages
    assert not load(folder, 4, 3).any()
    assert caplog.messages == [
        f"note: {folder}/memory-5-*.npy is damaged: row 3 of {folder}/memory-5-4.npy; "
        "memories start empty"
    ]


def test_rows_of_other_hosts_are_not_read(tmp_path):
    """309 GB of them, for the largest preset; here 4 MB."""
    rows = 40000
    recurrent_memory.write(str(tmp_path / "memory-5-0.npy"), np.zeros([rows, *SHAPE], np.float32))
    tracemalloc.start()
    try:
        assert load(tmp_path, rows // 2, 7, rows=rows).shape == (2, *SHAPE)
        assert tracemalloc.get_traced_memory()[1] < 1.5e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "change, words",
    (
        (
            lambda folder: (folder / "memory-5-4.npy").unlink(),
            "has shape [4, 2, 3, 4], this run's is ",
        ),
        (lambda folder: (folder / "memory-5-4.npy").write_bytes(b"\x93NUMPY"), "; memories start"),
        (lambda folder: [path.unlink() for path in folder.iterdir()], "is missing"),
    ),
)
def test_what_does_not_fit_is_noted(folder, caplog, change, words):
    caplog.set_level("INFO", "xlnet")
    change(folder)
    assert not load(folder, 2, 0).any()
    assert len(caplog.messages) == 1 and words in caplog.messages[0]
