"""xlnet data beam: the records of data_utils.py, what it says, why it does not run."""

import pathlib
import sys

import pytest
from helpers import command
from helpers.preparation import REUSE_LEN, SEQ_LEN, files_of, make_workspace

SCRIPT = "xlnet data beam"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return make_workspace(str(tmp_path_factory.mktemp("beam")))


def flags(workspace, save_dir):
    return dict(
        input_glob=workspace.path("text.txt"),
        sp_path=workspace.path("sp.model"),
        save_dir=workspace.path(save_dir),
        num_streams=4,
        seq_len=SEQ_LEN,
        reuse_len=REUSE_LEN,
    )


def test_the_records_are_those_of_data_utils(workspace):
    pytest.importorskip(
        "apache_beam", reason="Apache Beam is an extra: pip install '.[beam]'"
    )
    options = dict(beam_options="--runner=DirectRunner --job_name=test")
    done = command.succeed(SCRIPT, **flags(workspace, "beam"), **options)
    assert done.stdout.endswith(f"records: {workspace.path('beam')}\n")
    command.succeed("data_utils.py", **flags(workspace, "plain"))
    assert files_of(workspace.path("beam")) == files_of(workspace.path("plain"))
    again = command.succeed(SCRIPT, **flags(workspace, "beam"))
    assert "nothing to do" in again.stdout
    line = command.refused(SCRIPT, **flags(workspace, "beam"), seed=1)
    assert line.startswith("xlnet data beam: ") and "found seed 0, expected 1" in line
    nul = workspace.path("nul.txt")
    line = command.refused(SCRIPT, **dict(flags(workspace, "bad"), input_glob=nul))
    found = "line 2: found a NUL character, expected text"
    assert line == f"xlnet data beam: {nul}, {found}"
    options = dict(beam_options="--job_name='x")
    line = command.refused(SCRIPT, **flags(workspace, "bad"), **options)
    found = "beam_options: found --job_name='x (No closing quotation), "
    assert line.startswith(f"xlnet data beam: {found}")


def test_without_beam(workspace, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)  # importing it fails
    for name in [name for name in sys.modules if name.startswith("apache_beam.")]:
        monkeypatch.delitem(sys.modules, name)
    assert command.refused(SCRIPT, **flags(workspace, "none")) == (
        "xlnet data beam: Apache Beam: found none, expected an installed one; "
        "pip install 'apache-beam[dask]>=2.50'"
    )
    assert not pathlib.Path(workspace.path("none")).exists()
