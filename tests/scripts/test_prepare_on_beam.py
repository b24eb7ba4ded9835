"""xlnet data beam: the records of data_utils.py, what it says, why it does not run."""

import pathlib
import sys
import types

import pytest
from helpers import command
from helpers.preparation import REUSE_LEN, SEQ_LEN, make_workspace

import xlnet.text

SCRIPT = "xlnet data beam"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return make_workspace(str(tmp_path_factory.mktemp("beam")))


def flags(workspace, save_dir, **more):
    return dict(input_glob=workspace.path("text.txt"), sp_path=workspace.path("sp.model"),
                save_dir=workspace.path(save_dir), num_streams=4, seq_len=SEQ_LEN,
                reuse_len=REUSE_LEN, **more)


def content(directory):
    return {path.name: path.read_bytes() for path in pathlib.Path(directory).iterdir()}


def test_the_records_are_those_of_data_utils(workspace):
    pytest.importorskip("apache_beam", reason="Apache Beam is an extra: pip install '.[beam]'")
    done = command.succeed(SCRIPT, **flags(
        workspace, "beam", beam_options="--runner=DirectRunner --job_name=test"))
    assert done.stdout.endswith("records: %s\n" % workspace.path("beam"))
    command.succeed("data_utils.py", **flags(workspace, "plain"))
    assert content(workspace.path("beam")) == content(workspace.path("plain"))
    again = command.succeed(SCRIPT, **flags(workspace, "beam"))
    assert "nothing to do: these records were made before" in again.stdout
    line = command.refused(SCRIPT, **flags(workspace, "beam", seed=1))
    assert line.startswith("xlnet data beam: ") and "seed 0 there, 1 now" in line


def test_without_beam(workspace, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)      # importing it fails
    for name in [name for name in sys.modules if name.startswith("apache_beam.")]:
        monkeypatch.delitem(sys.modules, name)
    assert command.refused(SCRIPT, **flags(workspace, "none")) == (
        "xlnet data beam: Apache Beam is not installed; pip install '.[beam]'")
    assert not pathlib.Path(workspace.path("none")).exists()


@pytest.fixture
def beam(monkeypatch):
    """Stands for Apache Beam and the pipeline."""
    for name in ("apache_beam", "apache_beam.options", "apache_beam.options.pipeline_options"):
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(PipelineOptions=list))
    pipeline = types.SimpleNamespace(run=lambda settings, options: True)
    monkeypatch.setitem(sys.modules, "xlnet.text.beam", pipeline)
    monkeypatch.setattr(xlnet.text, "beam", pipeline, raising=False)    # where it was imported


@pytest.mark.parametrize("save_dir, is_remote", [("gs://mine/records", True), ("records", False)])
def test_records_that_cannot_be_trained_on_where_they_are_say_so(beam, save_dir, is_remote):
    done = command.succeed(SCRIPT, input_glob="text", sp_path="sp.model", save_dir=save_dir)
    note = "note: xlnet pretrain reads records from a disk: copy gs://mine/records to one when"
    assert done.stdout.startswith(note) == is_remote
    assert done.stdout.endswith("records: %s\n" % save_dir)
