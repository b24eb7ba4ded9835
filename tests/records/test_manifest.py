"""The manifest of pretraining records: which versions are read, what is refused."""

import dataclasses
import json

import pytest

from xlnet.errors import UserError
from xlnet.records.manifest import FORMAT_VERSION, MANIFEST_NAME, Manifest

VALUES = dict(
    vocab_size=10, sp_model="spiece.model", sp_model_sha256="0", uncased=False, keep_accents=False,
    seq_len=8, reuse_len=4, bi_data=False, num_streams=1, num_passes=1, windows_per_stream=2,
    documents=1, sentences=3, tokens=16, unknown=0, dropped=0, skipped={}, seed=0, made_from={},
    streams=({"file": "a.tfrecord", "direction": 0, "windows": 2, "bytes": 5, "sha256": "0"},))


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(b"12345")
    Manifest(**VALUES).write(str(tmp_path))
    return tmp_path


def rewrite(directory, **changes):
    path = directory / MANIFEST_NAME
    path.write_text(json.dumps(dict(json.loads(path.read_text()), **changes)))


def test_what_is_written_is_read(directory):
    assert Manifest.read(str(directory)) == Manifest(**VALUES)
    assert Manifest(**VALUES).format_version == FORMAT_VERSION == 3


def test_records_of_the_version_before_are_read(directory):
    """In format 2 punctuation belonged to the word before it; nothing else differs."""
    rewrite(directory, format_version=2)
    assert Manifest.read(str(directory)) == dataclasses.replace(Manifest(**VALUES),
                                                                format_version=2)


@pytest.mark.parametrize("version", [1, 4, None, "3"])
def test_other_versions_are_refused(directory, version):
    rewrite(directory, format_version=version)
    with pytest.raises(UserError, match="format_version is %r, this program reads 2 and 3" % (
            version,)):
        Manifest.read(str(directory))


@pytest.mark.parametrize("size, found", [(b"1234", "4 bytes"), (None, "no bytes")])
def test_files_of_another_size_are_refused(directory, size, found):
    path = directory / "a.tfrecord"
    if size is None:
        path.unlink()
    else:
        path.write_bytes(size)
    with pytest.raises(UserError, match="a.tfrecord has %s, expected 5" % found):
        Manifest.read(str(directory))
