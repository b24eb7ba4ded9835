"""The manifest of pretraining records: which versions are read, what is refused."""

import dataclasses
import json

import numpy as np
import pytest

from xlnet.corpus.manifest import FORMAT_VERSION, MANIFEST_NAME, Manifest
from xlnet.corpus.record_files import ExampleBytes, Feature
from xlnet.support.errors import UserError

STREAM = dict(file="a.tfrecord", direction=0, windows=2, bytes=5, sha256="0")
VALUES = dict.fromkeys(field.name for field in dataclasses.fields(Manifest))
VALUES.update(sp_model="spiece.model", seq_len=8, made_from={}, streams=(STREAM,))
del VALUES["format_version"]


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(b"12345")
    Manifest(**VALUES).write(str(tmp_path))
    return tmp_path


def test_what_is_written_is_read(directory):
    assert Manifest.read(str(directory)) == Manifest(**VALUES)
    assert Manifest(**VALUES).format_version == FORMAT_VERSION == 4


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(format_version="4"), "found format_version '4', expected 4; reg"),
        (dict(seq_len="gone"), "manifest.json: found .*, expected an object"),
    ],
)
def test_a_manifest_that_was_edited_or_is_old_is_refused(directory, changes, message):
    """With "gone" in the place of a value there is none."""
    path = directory / MANIFEST_NAME
    values = dict(json.loads(path.read_text()), **changes)
    path.write_text(
        json.dumps({name: value for name, value in values.items() if value != "gone"})
    )
    with pytest.raises(UserError, match=message):
        Manifest.read(str(directory))


def test_files_of_another_size_are_refused(directory):
    (directory / "a.tfrecord").write_bytes(b"1234")
    with pytest.raises(UserError, match="a.tfrecord: found 4 bytes, expected 5"):
        Manifest.read(str(directory))
    (directory / "a.tfrecord").unlink()
    with pytest.raises(UserError, match="a.tfrecord: found 0 bytes, expected 5"):
        Manifest.read(str(directory))


def test_a_file_that_is_gone_is_named_with_the_flag(directory):
    manifest = Manifest.read(str(directory))
    with pytest.raises(UserError, match=f"^input: .*{manifest.sp_model}"):
        manifest.verify(str(directory))


def test_a_directory_without_a_manifest_is_refused(tmp_path):
    with pytest.raises(UserError, match="record_info_dir: found no manifest.json in"):
        Manifest.read(str(tmp_path), "record_info_dir")


@pytest.mark.parametrize("value", [-1, 301])
def test_integers_that_records_cannot_hold_are_named(value):
    encoder = ExampleBytes([Feature("labels", (2,), "int")], largest=300)
    encoder.encode({"labels": np.array([[0, 300]])})
    with pytest.raises(UserError, match=f"'labels': found integers from .*{value}"):
        encoder.encode({"labels": np.array([[5, value]])})
