"""xlnet data beam: the records of data_utils.py, what it says, why it does not run."""

import pathlib
import sys

import pytest
from helpers import command
from helpers.preparation import REUSE_LEN, SEQ_LEN, make_workspace

SCRIPT = "xlnet data beam"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return make_workspace(str(tmp_path_factory.mktemp("beam")))


def flags(workspace, save_dir, **more):
    return dict(
        input_glob=workspace.path("text.txt"),
        sp_path=workspace.path("sp.model"),
        save_dir=workspace.path(save_dir),
        num_streams=4,
        seq_len=SEQ_LEN,
        reuse_len=REUSE_LEN,
        **more,
    )


def content(directory):
    paths = pathlib.Path(directory).iterdir()
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def test_the_records_are_those_of_data_utils(workspace):
    pytest.importorskip(
        "apache_beam", reason="Apache Beam is an extra: pip install '.[beam]'"
    )
    done = command.succeed(
        SCRIPT,
        **flags(
            workspace, "beam", beam_options="--runner=DirectRunner --job_name=test"
        ),
    )
    assert done.stdout.endswith("records: {}\n".format(workspace.path("beam")))
    command.succeed("data_utils.py", **flags(workspace, "plain"))
    assert content(workspace.path("beam")) == content(workspace.path("plain"))
    again = command.succeed(SCRIPT, **flags(workspace, "beam"))
    assert "nothing to do" in again.stdout
    line = command.refused(SCRIPT, **flags(workspace, "beam", seed=1))
    assert line.startswith("xlnet data beam: ") and "found seed 0, expected 1" in line
    bad = command.refused(
        SCRIPT, **dict(flags(workspace, "bad"), input_glob=workspace.path("nul.txt"))
    )
    where = workspace.path("nul.txt")
    assert (
        bad == f"xlnet data beam: {where}, line 2: found a NUL character, expected text"
    )
    bad = command.refused(
        SCRIPT, **flags(workspace, "bad", beam_options="--job_name='x")
    )
    assert bad.startswith(
        "xlnet data beam: beam_options: found --job_name='x (No closing quotation), "
    )


def test_without_beam(workspace, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)  # importing it fails
    for name in [name for name in sys.modules if name.startswith("apache_beam.")]:
        monkeypatch.delitem(sys.modules, name)
    assert command.refused(SCRIPT, **flags(workspace, "none")) == (
        "xlnet data beam: Apache Beam: found none, expected an installed one; "
        "pip install 'apache-beam[dask]>=2.50'"
    )
    assert not pathlib.Path(workspace.path("none")).exists()
