"""What is done with checkpoints beside training, as a library and by the script's verbs."""

import re

import numpy as np
import pytest
from helpers import command
from helpers.finetuning import weights
from helpers.paths import RELEASED

import xlnet
from xlnet.engine import checkpoint, checkpoint_tools
from xlnet.errors import UserError

SCRIPT = "xlnet checkpoints"
PREFIX = str(RELEASED / "xlnet_model.ckpt")


def values(shift, **more):
    return {"model/a": np.float32([[1, 2], [3, 4]]) + np.float32(shift),
            "model/b": np.float32([0.5, -7]), **more}


@pytest.fixture
def run(tmp_path):
    """A run of three checkpoints with an optimizer's slots, the last with moving averages too."""
    directory = tmp_path / "run"
    directory.mkdir()
    for step in (1, 2, 3):
        more = {"model/a/average": np.full([2, 2], 9, np.float32)} if step == 3 else {}
        checkpoint.write_arrays(str(directory / ("model.ckpt-%d" % step)), values(
            step, **more, **{"global_step": np.int64(step), "model/a/adam_m": np.ones([2, 2], "f4"),
                             "model/b/Adam_1": np.ones([2], "f4")}))
    checkpoint.note_newest(str(directory))
    xlnet.XLNetConfig(json_path=str(RELEASED / "xlnet_config.json")).to_json(
        str(directory / "xlnet_config.json"))
    return directory


def tool(verb, *arguments):
    return command.run(SCRIPT, verb, *arguments)


def test_inspect_names_what_there_is(run):
    contents = checkpoint_tools.inspect(str(run / "model.ckpt-1"))
    assert contents.step == 1
    a, b = contents.weights
    assert (a.name, a.shape, a.dtype, a.size, a.bad) == ("model/a", (2, 2), "float32", 4, 0)
    assert a.norm == pytest.approx(np.sqrt(4 + 9 + 16 + 25)) and a.largest == 5
    assert b.largest == 7
    assert [one.name for one in contents.others] == ["model/a/adam_m", "model/b/Adam_1"]


def test_inspect_in_words(run):
    done = tool("inspect", "--checkpoint=%s" % run)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "%s, step 3" % (run / "model.ckpt-3")
    assert lines[1].startswith("XLNetConfig(n_layer=2, d_model=16,")
    assert lines[2] == "weights: 2, 6 numbers"
    assert re.fullmatch(r"  model/a  float32 +11.22 +7  \[2, 2\]", lines[4])
    assert lines[-1] == "others: 3, 10 numbers"
    listed = tool("inspect", "--checkpoint=%s" % run, "--slots=True").stdout
    assert "model/b/Adam_1 " in listed


def test_numbers_that_are_none_are_counted(tmp_path):
    checkpoint.write_arrays(str(tmp_path / "x.ckpt"), {
        "model/a": np.float32([1, np.nan, np.inf, 2])})
    done = tool("inspect", "--checkpoint=%s" % (tmp_path / "x.ckpt"))
    assert "note: model/a has 2 numbers that are NaN or infinite" in done.stdout


def test_strip_keeps_weights_step_and_what_lies_beside(run, tmp_path):
    done = tool("strip", "--checkpoint=%s" % run, "--target=%s" % (tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "%s -> %s\n" % (run / "model.ckpt-3", tmp_path / "out")
    stored = weights(tmp_path / "out")
    assert set(stored) == {"model/a", "model/b", "global_step"} and stored["global_step"] == 3
    np.testing.assert_array_equal(stored["model/a"], np.full([2, 2], 9))    # the moving average
    assert (tmp_path / "out" / "xlnet_config.json").exists()
    assert checkpoint.resolve(str(tmp_path / "out")) == str(tmp_path / "out" / "model.ckpt-3")


def test_checkpoints_of_tensorflow_2_and_of_other_names(tmp_path):
    """They have a text that is not a weight; what is written is found under its directory."""
    prefix, out = str(tmp_path / "my.ckpt"), str(tmp_path / "out")
    checkpoint.write_arrays(prefix, values(0, **{"_CHECKPOINTABLE_OBJECT_GRAPH": np.array("x")}))
    assert [one.name for one in checkpoint_tools.inspect(prefix).weights] == ["model/a", "model/b"]
    checkpoint_tools.average([prefix], out)
    assert len(checkpoint_tools.inspect(checkpoint.resolve(out)).weights) == 2


@pytest.mark.parametrize("how", ("named", "last"))
def test_average(run, tmp_path, how):
    which = ["--checkpoints=%s,%s" % (run / "model.ckpt-1", run / "model.ckpt-2")] \
        if how == "named" else ["--model_dir=%s" % run, "--last=2"]
    done = tool("average", *which, "--target=%s" % (tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    stored = weights(tmp_path / "out")
    expected = values(1.5)["model/a"] if how == "named" else (values(2)["model/a"] + 9) / 2
    np.testing.assert_array_equal(stored["model/a"], expected)
    np.testing.assert_array_equal(stored["model/b"], values(0)["model/b"])
    assert stored["global_step"] == (2 if how == "named" else 3)


def test_averages_of_different_things_are_refused(run, tmp_path):
    target = str(tmp_path / "out")
    with pytest.raises(UserError, match="last is 4, but .* has 3 checkpoints"):
        checkpoint_tools.last(str(run), 4)
    with pytest.raises(UserError, match="^model/a is in .*model.ckpt-1, but not in .*xlnet_model"):
        checkpoint_tools.average([str(run / "model.ckpt-1"), PREFIX], target)
    checkpoint.write_arrays(str(tmp_path / "x.ckpt"), dict(values(0), **{
        "model/b": np.zeros([3], "f4")}))
    with pytest.raises(UserError, match=r"model/b has shape \[2\] in .*, but \[3\] in"):
        checkpoint_tools.average([str(run / "model.ckpt-1"), str(tmp_path / "x.ckpt")], target)
    done = tool("average", "--target=" + target, "--model_dir=%s" % run)
    assert done.returncode == 1 and "give input, or model_dir and last" in done.stderr
    done = tool("average", "--target=" + target, "--checkpoints=%s" % (run / "model.ckpt-1"))
    assert done.returncode == 1 and "two or more checkpoints, found 1" in done.stderr
    assert not (tmp_path / "out").exists()


def test_compare_lists_the_largest_difference_first(run, tmp_path):
    other = dict(values(1), **{"model/b": np.float32([np.nan, -7]), "model/c": np.zeros([1], "f4")})
    other["model/a"][1, 1] += 0.5
    checkpoint.write_arrays(str(tmp_path / "x.ckpt"), other)
    found = checkpoint_tools.compare(str(run / "model.ckpt-1"), str(tmp_path / "x.ckpt"))
    b, a = found.differences            # what is NaN comes before all numbers
    assert b.name == "model/b" and np.isnan(b.largest)
    assert (a.name, a.largest, a.relative) == ("model/a", 0.5, pytest.approx(0.1))
    assert (found.only_first, found.only_second, found.shapes) == ([], ["model/c"], [])
    done = tool("compare", "--first=%s" % (run / "model.ckpt-1"),
                "--second=%s" % (tmp_path / "x.ckpt"))
    assert "2 weights in both, 0 of them equal to the last bit" in done.stdout
    assert "1 only in the second: model/c" in done.stdout
    done = tool("compare", "--first=" + PREFIX, "--second=" + PREFIX)
    assert "33 weights in both, 33 of them equal to the last bit" in done.stdout


def test_weights_of_another_type_are_refused(tmp_path):
    half = str(tmp_path / "x.ckpt")
    checkpoint.write_arrays(half, {name: array.astype(np.float16)
                                   for name, array in checkpoint.read_weights(PREFIX).items()})
    with pytest.raises(UserError, match="is of type float16, expected float32"):
        checkpoint.warm_start(half, xlnet.XLNetConfig(json_path=str(
            RELEASED / "xlnet_config.json")))


def test_subcommands_are_listed_and_wrong_ones_refused():
    done = tool("--help")
    assert done.returncode == 0 and "  checkpoints average  " in done.stdout
    assert "--second=required" in tool("compare", "--help").stdout
    done = tool("stripe")
    assert done.returncode == 2 and "'checkpoints stripe' is not a subcommand; did you mean " \
        "'checkpoints strip'?" in done.stderr
    done = tool("strip", "--checkpoint=" + PREFIX, "--target=%s" % RELEASED)
    assert done.returncode == 1 and "expected a new or an empty directory" in done.stderr
    done = tool("strip", "--checkpoint=/nowhere", "--target=/nowhere")
    assert done.returncode == 1 and "model_dir: no checkpoint /nowhere" in done.stderr
