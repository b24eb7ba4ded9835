"""Files that are there whole or not at all, whatever happens meanwhile."""

import math
import os
import pathlib
import stat
import threading

import pytest
from helpers import command

import xlnet
from xlnet.support import files
from xlnet.support.errors import UserError


def test_the_disk_has_a_file_before_it_has_its_name(tmp_path, monkeypatch):
    happened, sync, replace = [], os.fsync, os.replace

    def synced(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        happened.append(("sync", os.path.basename(path)))
        sync(descriptor)

    def replaced(source, target):
        happened.append(("replace", os.path.basename(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    files.write_text(str(tmp_path / "x"), "text")
    (first, partial), *rest = happened
    assert first == "sync" and partial.startswith("x.partial-")
    assert rest == [("replace", "x"), ("sync", tmp_path.name)]


def test_a_disk_that_cannot_keep_it_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_text("before")

    def fails(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space left on device: .*x"):
        files.write_text(str(path), "after")
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["x"]


def test_the_public_api_takes_path_objects(permuted, tmp_path):
    path = pathlib.Path(permuted.folder)
    config = xlnet.XLNetConfig(json_path=path / "xlnet_config.json")
    config.to_json(tmp_path / "copy.json")
    assert xlnet.XLNetConfig(json_path=tmp_path / "copy.json") == config
    with pytest.raises(UserError, match="none.json"):
        xlnet.XLNetConfig(json_path=tmp_path / "none.json")
    beside = dict(model_config_path=path / "xlnet_config.json")
    beside.update(spiece_model_file=path / "spiece.model")
    for place in (path, path / "model.ckpt-4"):
        with xlnet.load(place, device="cpu", **beside) as model:
            assert len(model.vectors(["the cat"])) == 1
    with pytest.raises(UserError, match="none"):
        xlnet.load(tmp_path / "none")


def test_a_file_has_its_name_once_it_is_complete(tmp_path):
    path = tmp_path / "below" / "a"
    with files.writing(str(path)) as f:
        f.write(b"complete")
        assert not path.exists() and len(list(path.parent.iterdir())) == 1
    assert path.read_bytes() == b"complete"
    with pytest.raises(KeyError), files.writing(str(path)) as f:
        f.write(b"half")
        raise KeyError
    assert path.read_bytes() == b"complete" and list(path.parent.iterdir()) == [path]
    files.remove([str(path), str(path)])
    assert not path.exists()


def test_nan_is_a_missing_value_in_rows_alone(tmp_path):
    assert files.parse_json('{"a": NaN}', nan_is_null=True) == {"a": None}
    (tmp_path / "run.json").write_text('{"a": NaN}')
    assert math.isnan(files.read_json(str(tmp_path / "run.json"), "run")["a"])


def test_the_digest_of_a_directory_is_of_names_and_contents(tmp_path):
    """Also of names that are not UTF-8, as of archives from elsewhere."""
    inner = tmp_path / "data" / "pos"
    inner.mkdir(parents=True)
    odd = inner / os.fsdecode(b"\xff.txt")
    odd.write_text("a")
    digests = {files.digest_of(str(tmp_path / "data"))}
    os.rename(odd, inner / "b.txt")
    digests.add(files.digest_of(str(tmp_path / "data")))
    (inner / "b.txt").write_text("b")
    digests.add(files.digest_of(str(tmp_path / "data")))
    assert len(digests) == 3
    os.rename(tmp_path / "data", tmp_path / "moved")
    assert files.digest_of(str(tmp_path / "moved")) in digests


def test_outputs_that_are_not_regular_files_stay(tmp_path, capfd):
    """A link is followed, a FIFO is written to."""
    (tmp_path / "link").symlink_to("below")
    files.write_text(str(tmp_path / "link"), "new")
    assert os.readlink(tmp_path / "link") == "below"
    assert (tmp_path / "below").read_text() == "new"
    os.mkfifo(tmp_path / "fifo")
    fifo, received = tmp_path / "fifo", []
    reader = threading.Thread(target=lambda: received.append(fifo.read_text()))
    reader.start()
    files.write_text(str(fifo), "new")
    reader.join(30)
    assert received == ["new"] and stat.S_ISFIFO(os.lstat(fifo).st_mode)
    with pytest.raises(IsADirectoryError):
        files.write_text(str(tmp_path), "new")
    for name in ("-", "/dev/stdout"):
        files.write_text(name, "text\n")
    assert capfd.readouterr().out == 2 * "text\n"


# Flags that name an output file: program and flags without it, and the flag.
OUTPUT_FLAGS = {
    "data vocabulary": ("--input_glob=none.txt", "sp_path"),
    "plot masks": ("--text=x --spiece_model_file=none", "output"),
    "plot curves": ("--model_dir=none", "output"),
    "plot attention": ("--model_dir=none --text=x", "output"),
    "fill": ("--model_dir=none --text=x", "output"),
    "generate": ("--model_dir=none --text=x", "output"),
}


@pytest.mark.parametrize("name", OUTPUT_FLAGS)
def test_an_output_that_cannot_be_written_is_refused_before_work_begins(name, tmp_path):
    """A directory that does not exist was made, also where its name was misspelt."""
    others, flag = OUTPUT_FLAGS[name]
    (tmp_path / "directory").mkdir()
    (tmp_path / "link.png").symlink_to("directory")
    expected = {"link.png": "found the directory", "new/x.png": "no such directory"}
    if not name.startswith("plot"):  # a picture's name ends in .png
        expected["x.gz"] = "expected the name of a text file, not compressed"
    for path, said in expected.items():
        output = f"--{flag}={tmp_path / path}"
        done = command.run("xlnet " + name, *others.split(), output)
        (line,) = done.errors
        assert done.returncode in (1, 2) and f"{flag}: " in line and said in line
    assert not (tmp_path / "new").exists()
