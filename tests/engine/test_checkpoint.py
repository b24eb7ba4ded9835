"""Starting from released checkpoints: found, compared, refused."""

import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from helpers.golden import assert_close
from helpers.paths import DATA, RELEASED

import xlnet
from xlnet.engine import checkpoint
from xlnet.model import modeling
from xlnet.support import files
from xlnet.support.errors import UserError

PREFIX = str(RELEASED / "xlnet_model.ckpt")


def config_of(folder=RELEASED, **changes):
    config = xlnet.XLNetConfig(json_path=str(folder / "xlnet_config.json"))
    return xlnet.XLNetConfig(**dict(config.to_dict(), **changes))


def build(config):
    run = xlnet.RunConfig(False, False, False, 0.0, 0.0)
    with tf.variable_scope("model"):
        modeling.transformer_xl(
            config,
            run,
            input_ids=tf.zeros([1, 4], tf.int32),
            seg_ids=tf.zeros([1, 4], tf.int32),
            query=modeling.Query(masked=tf.ones([1, 4])),
        )


def test_warm_start_takes_the_values_and_says_so(graph, caplog):
    caplog.set_level("INFO", "xlnet")
    build(config_of())
    fresh = tf.get_variable(
        "model/classification_x/logit/kernel", [16, 2], use_resource=True
    )
    reader = tf.train.NewCheckpointReader(PREFIX)
    with tf.Session() as session:
        session.run(fresh.initializer)
        checkpoint.start_from(session, PREFIX)
        for variable in tf.trainable_variables():
            if variable is not fresh:
                np.testing.assert_array_equal(
                    session.run(variable), reader.get_tensor(variable.op.name)
                )
    lines = caplog.messages
    assert "32 of 33 variables" in lines[0]
    assert "1 not in the checkpoint, started fresh: " + fresh.op.name in lines[1]


@pytest.mark.parametrize("updates, value", ((0, 1.0), (1, 2.0)))
def test_averages_are_read_from_the_first_update_on(tmp_path, updates, value):
    """Before it they are 0."""
    prefix = str(tmp_path / "model.ckpt-3")
    arrays = {"model/w": np.float32([1.0]), "model/w/average": np.float32([2.0])}
    arrays[checkpoint.UPDATES] = np.array(updates, np.float32)
    checkpoint.write_arrays(prefix, dict(arrays, global_step=np.array(3)))
    assert checkpoint.read_weights(prefix) == {"model/w": [value]}


def test_a_run_starts_from_the_weights_that_every_other_reader_takes(graph, tmp_path):
    """The EMA, as inference and `best/` do; a weight that was frozen has none."""
    prefix = str(tmp_path / "model.ckpt-3")
    names = ("model/w", "model/w/average", "model/w/Adam", "model/frozen")
    arrays = {name: np.full([2], value, "f4") for value, name in enumerate(names, 1)}
    checkpoint.write_arrays(prefix, arrays)
    variables = {}
    for name in ("model/w", "model/frozen"):
        variables[name] = tf.get_variable(name, [2], use_resource=True)
    with tf.Session() as session:
        checkpoint.start_from(session, prefix)
        found = session.run(variables)
    for values in (found, checkpoint.read_weights(prefix)):
        values = {name: value.tolist() for name, value in values.items()}
        assert values == {"model/w": [2, 2], "model/frozen": [4, 4]}


def test_weights_that_are_not_finite_are_refused_by_name(graph, tmp_path):
    """By all that read them: a start, an evaluation or a server, a conversion."""
    name = "model/transformer/layer_1/ff/layer_1/kernel"
    damaged = checkpoint.read_weights(PREFIX)
    damaged[name][2, 3] = np.nan
    prefix = str(tmp_path / "x.ckpt")
    checkpoint.write_arrays(prefix, damaged)
    build(config_of())
    expected = rf"x\.ckpt: {name}: found 1 of 384 values that are NaN or infinite"
    with pytest.raises(UserError, match=expected):
        checkpoint.read_weights(prefix)
    weights = tf.trainable_variables()
    with tf.Session() as session:
        checkpoint.restore(session, PREFIX, weights)
        with pytest.raises(UserError, match=expected):
            checkpoint.restore(session, prefix, weights)


def test_wrong_checkpoints_are_refused(graph, tmp_path):
    build(config_of(n_token=50))
    with pytest.raises(UserError, match=r"no checkpoint .*nowhere"):
        checkpoint.resolve(str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=f"no checkpoint {tmp_path}"):
        checkpoint.resolve(str(tmp_path))
    with pytest.raises(UserError, match=r"^init_checkpoint: found run\[3\], expected"):
        checkpoint.resolve("run[3]")
    with pytest.raises(UserError, match="found n_token 37, expected 50"):
        checkpoint.check_config(PREFIX, config_of(n_token=50))
    other = tf.get_variable("unknown/w", [2], use_resource=True)
    damaged = str(tmp_path / "xlnet_model.ckpt")
    shutil.copy(PREFIX + ".data-00000-of-00001", damaged + ".data-00000-of-00001")
    (tmp_path / "xlnet_model.ckpt.index").write_bytes(b"not an index")
    table = tf.trainable_variables()[0]
    with tf.Session() as session:
        for prefix, variables, found in (
            (PREFIX, [table], r"shape \[37, 16\], expected \[50, 16\]"),
            (PREFIX, [other], "found no variable of the model"),
            (damaged, [other], "cannot be read"),
        ):
            with pytest.raises(UserError, match=found):
                checkpoint.restore(session, prefix, variables)


@pytest.mark.parametrize("name, mem_len", (("tune", 5), ("empty", None)))
def test_outputs_of_an_independent_implementation(graph, name, mem_len):
    """Two more checkpoints, with the outputs that another implementation computed from them."""
    folder = DATA / "xlnet_tiny_ckpt" / name
    if not folder.exists():
        pytest.skip("needs ../shared/data/xlnet_tiny_ckpt")
    array = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    config = config_of(folder)
    run = xlnet.RunConfig(False, False, False, 0.0, 0.0, mem_len=mem_len)
    mems = None
    if mem_len:
        mems = [tf.constant(array[f"mems_{i}"], tf.float32) for i in range(2)]
    with tf.variable_scope("model"):
        outputs = modeling.transformer_xl(
            config,
            run,
            attn_type="uni",
            mems=mems,
            input_ids=tf.constant(array["input_ids"], tf.int32),
            seg_ids=tf.constant(array["seg_ids"], tf.int32),
        )
    with tf.Session() as session:
        checkpoint.start_from(session, str(folder / "xlnet_model.ckpt"))
        sequence, new_mems = session.run([outputs.sequence, outputs.new_mems or []])
    assert_close(sequence, array[name + "_output"], "output")
    assert len(new_mems) == (config.n_layer if mem_len else 0)
    for i, memory in enumerate(new_mems):
        assert_close(memory, array[f"{name}_new_mems_{i}"], f"memory {i}")


def test_a_checkpoint_is_there_once_its_index_is(graph, tmp_path, monkeypatch):
    """So that comes last: a run that is killed before it has no checkpoint of that step."""
    put, names = files.sync_and_rename, []

    def noting(source, target):
        names.append(os.path.basename(target))
        put(source, target)

    monkeypatch.setattr(files, "sync_and_rename", noting)
    weight = tf.get_variable("w", [2])
    saver = tf.train.Saver([weight])
    with tf.Session() as session:
        session.run(weight.initializer)
        checkpoint.write(saver, session, str(tmp_path), 3)
        assert names == ["model.ckpt-3.data-00000-of-00001", "model.ckpt-3.index"]
        assert checkpoint.newest(str(tmp_path)) == str(tmp_path / "model.ckpt-3")
        for step in (9, 10):
            checkpoint.write(saver, session, str(tmp_path), step, max_save=2)
    assert [step for step, _ in checkpoint.all_prefixes(str(tmp_path))] == [9, 10]
    # A checkpoint is named by its prefix, its directory, or as the latest one there.
    for name in (tmp_path, tmp_path / "latest", tmp_path / "model.ckpt-10"):
        assert checkpoint.resolve(str(name)) == str(tmp_path / "model.ckpt-10")
    assert checkpoint.resolve(PREFIX) == checkpoint.resolve(str(RELEASED)) == PREFIX
