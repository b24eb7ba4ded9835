"""The manifest of pretraining records: which versions are read, what is refused."""

import hashlib
import json

import numpy as np
import pytest

from xlnet.corpus import record_files
from xlnet.corpus.manifest import FORMAT_VERSION, MANIFEST_NAME, Manifest
from xlnet.corpus.record_files import ExampleBytes, Feature
from xlnet.support.errors import UserError

VALUES = dict(
    vocab_size=10,
    sp_model="spiece.model",
    sp_model_sha256="0",
    uncased=False,
    keep_accents=False,
    seq_len=8,
    reuse_len=4,
    bi_data=False,
    num_streams=1,
    num_passes=1,
    windows_per_stream=2,
    documents=1,
    sentences=3,
    tokens=16,
    unknown=0,
    dropped=0,
    skipped={},
    seed=0,
    made_from={},
    streams=(
        {"file": "a.tfrecord", "direction": 0, "windows": 2, "bytes": 5, "sha256": "0"},
    ),
)


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(b"12345")
    Manifest(**VALUES).write(str(tmp_path))
    return tmp_path


def rewrite(directory, **changes):
    """Changes values of the manifest, or removes those that are "gone"."""
    path = directory / MANIFEST_NAME
    values = dict(json.loads(path.read_text()), **changes)
    path.write_text(
        json.dumps({name: value for name, value in values.items() if value != "gone"})
    )


def test_what_is_written_is_read(directory):
    assert Manifest.read(str(directory)) == Manifest(**VALUES)
    assert Manifest(**VALUES).format_version == FORMAT_VERSION == 4


@pytest.mark.parametrize("version", [3, "4"])
def test_other_versions_are_refused(directory, version):
    rewrite(directory, format_version=version)
    with pytest.raises(
        UserError, match=f"found format_version {version!r}, expected 4; reg"
    ):
        Manifest.read(str(directory))


def test_files_of_another_size_are_refused(directory):
    (directory / "a.tfrecord").write_bytes(b"1234")
    with pytest.raises(UserError, match="a.tfrecord: found 4 bytes, expected 5"):
        Manifest.read(str(directory))
    (directory / "a.tfrecord").unlink()
    with pytest.raises(FileNotFoundError, match="No such file.*a.tfrecord"):
        Manifest.read(str(directory))


def test_a_directory_without_a_manifest_is_refused(tmp_path):
    with pytest.raises(UserError, match="record_info_dir: found no manifest.json in"):
        Manifest.read(str(tmp_path), "record_info_dir")


# Edited by hand.

STREAM = VALUES["streams"][0]


def test_a_manifest_without_a_field_is_refused(directory):
    rewrite(directory, seq_len="gone")
    with pytest.raises(UserError, match="manifest.json: found .*, expected an object"):
        Manifest.read(str(directory))


# What the files hold.


@pytest.fixture
def whole(tmp_path):
    """A directory of a vocabulary and one stream of three windows; the manifest's values."""
    content = b"".join(record_files.frame(b"window %d" % number) for number in range(3))
    (tmp_path / "a.tfrecord").write_bytes(content)
    (tmp_path / "spiece.model").write_bytes(b"model")
    values = dict(
        VALUES,
        windows_per_stream=3,
        sp_model_sha256=hashlib.sha256(b"model").hexdigest(),
        streams=(
            dict(
                STREAM,
                windows=3,
                bytes=len(content),
                sha256=hashlib.sha256(content).hexdigest(),
            ),
        ),
    )
    Manifest(**values).write(str(tmp_path))
    return tmp_path


def test_a_damaged_file_is_named(whole):
    Manifest.read(str(whole)).verify(str(whole))
    content = bytearray((whole / "a.tfrecord").read_bytes())
    content[30] ^= 1
    (whole / "a.tfrecord").write_bytes(content)
    manifest = Manifest.read(str(whole))
    with pytest.raises(
        UserError,
        match="a.tfrecord: found another checksum, expected that of manifest.json",
    ) as error:
        manifest.verify(str(whole))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [-1, 301])
def test_integers_that_records_cannot_hold_are_named(value):
    encoder = ExampleBytes([Feature("labels", (2,), "int")], largest=300)
    encoder.encode({"labels": np.array([[0, 300]])})
    with pytest.raises(
        UserError, match=f"feature .labels.: found integers from .*{value}"
    ):
        encoder.encode({"labels": np.array([[5, value]])})
