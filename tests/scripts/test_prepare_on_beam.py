"""scripts/prepare_on_beam.py: what it says; what it makes is in tests/text/test_preparation.py."""

import sys
import types

import pytest
from helpers import command


@pytest.fixture
def beam(monkeypatch):
    """Stands for Apache Beam and the pipeline."""
    for name in ("apache_beam", "apache_beam.options", "apache_beam.options.pipeline_options"):
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(PipelineOptions=list))
    monkeypatch.setitem(sys.modules, "xlnet.text.beam",
                        types.SimpleNamespace(run=lambda settings, options: True))


@pytest.mark.parametrize("save_dir, is_remote", [("gs://mine/records", True), ("records", False)])
def test_records_that_cannot_be_trained_on_where_they_are_say_so(beam, save_dir, is_remote):
    done = command.run("scripts/prepare_on_beam.py", "--input_glob=text", "--sp_path=sp.model",
                       "--save_dir=" + save_dir)
    assert done.returncode == 0, done.stderr
    note = "note: train_gpu.py reads records from a disk: copy gs://mine/records to one when it is"
    assert done.stdout.startswith(note) == is_remote
    assert done.stdout.endswith("records: %s\n" % save_dir)
