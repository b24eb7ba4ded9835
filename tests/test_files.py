"""Files that are there whole or not at all, whatever happens meanwhile."""

import errno
import os
import pathlib
import re
import stat
import threading

import pytest
from helpers import command

import xlnet
from xlnet import figure, files
from xlnet.commands import COMMANDS
from xlnet.errors import UserError


@pytest.fixture
def done(monkeypatch):
    """What happened on the disk, in order: ("sync" or "replace", the name that was meant)."""
    happened = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor):
        happened.append(("sync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))
        sync(descriptor)

    def replaced(source, target):
        happened.append(("replace", os.path.basename(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    return happened


def test_the_disk_has_a_file_before_it_has_its_name(tmp_path, done):
    files.write_text(str(tmp_path / "x"), "text")
    partial = f"x.partial-{os.getpid()}"
    assert done == [("sync", partial), ("replace", "x"), ("sync", tmp_path.name)]


def test_nobody_waits_for_what_need_not_last(tmp_path, done):
    files.write_json(str(tmp_path / "x"), {}, is_lasting=False)
    assert done == [("replace", "x")]


def test_and_all_files_of_a_directory(tmp_path, done):
    with files.new_directory(str(tmp_path / "new")) as directory:
        os.mkdir(os.path.join(directory, "part"))
        for name in ("a", "part/b"):
            with open(os.path.join(directory, name), "w", encoding="utf-8") as f:
                f.write(name)
    place = [action for action, _ in done].index("replace")
    assert {name for _, name in done[:place]} == {"a", "b", "part", f"new.partial-{os.getpid()}"}
    assert done[place:] == [("replace", "new"), ("sync", tmp_path.name)]


def test_a_new_directory_may_be_a_link_to_an_empty_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with files.new_directory(str(tmp_path / "link")) as directory:
        os.mkdir(os.path.join(directory, "part"))
    assert os.listdir(tmp_path / "real") == ["part"] and os.path.islink(tmp_path / "link")


def test_a_new_directory_is_no_mount_point(tmp_path, monkeypatch):
    """The work would be done, and then could not be renamed to it."""
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(tmp_path))
    with pytest.raises(UserError, match="is where a file system is mounted; give a directory in"):
        with files.new_directory(str(tmp_path)):
            pass
    assert not list(tmp_path.parent.glob(tmp_path.name + ".partial-*"))


def test_a_failed_write_names_its_file(tmp_path):
    path = tmp_path / "records"
    with pytest.raises(OSError, match="No space left") as e:
        with files.writing(str(path)):
            raise OSError(errno.ENOSPC, "No space left on device")
    assert e.value.filename == str(path) and not list(tmp_path.iterdir())


def test_what_a_killed_run_of_the_same_number_left_is_no_hindrance(tmp_path):
    """In a container all runs are process 1, say."""
    left = tmp_path / (f"new.partial-{os.getpid()}")
    left.mkdir()
    (left / "old").write_text("half")
    with files.new_directory(str(tmp_path / "new")) as directory:
        assert directory == str(left) and os.listdir(directory) == []
    assert os.listdir(tmp_path) == ["new"] and os.listdir(tmp_path / "new") == []


def test_a_disk_that_cannot_keep_it_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_text("before")

    def fails(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space left on device: .*x.partial"):
        files.write_text(str(path), "after")
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["x"]


def test_a_directory_that_goes_away_while_it_is_looked_at(tmp_path, monkeypatch):
    """`os.makedirs` finds it there, then finds no directory."""

    def is_gone(path):
        monkeypatch.undo()
        os.rmdir(path)
        return False

    (tmp_path / "a").mkdir()
    monkeypatch.setattr(os.path, "isdir", is_gone)
    files.make_directory(str(tmp_path / "a"))
    assert (tmp_path / "a").is_dir()
    (tmp_path / "b").write_text("")
    with pytest.raises(FileExistsError):
        files.make_directory(str(tmp_path / "b"))


def test_what_leads_out_of_a_directory(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    for name in ("file", "inside/file"):
        (tmp_path / name).write_text(name)
    os.symlink("file", inside / "link")
    os.symlink("../file", inside / "away")
    os.symlink(inside, tmp_path / "other")  # the directory itself may be one
    for name in ("file", "link"):
        files.require_inside(str(tmp_path / "other" / name), str(tmp_path / "other"), "the data's")
    with pytest.raises(UserError, match="away leads to .*, outside of the data's"):
        files.require_inside(str(inside / "away"), str(inside), "the data's")


def test_the_public_api_takes_path_objects(permuted, tmp_path):
    path = pathlib.Path(permuted.folder)
    config = xlnet.XLNetConfig(json_path=path / "xlnet_config.json")
    config.to_json(tmp_path / "copy.json")
    assert xlnet.XLNetConfig(json_path=tmp_path / "copy.json") == config
    with pytest.raises(UserError, match="none.json"):
        xlnet.XLNetConfig(json_path=tmp_path / "none.json")
    for place in (path, next(path.glob("model.ckpt*.index")).with_suffix("")):
        with xlnet.load(
            place,
            device="cpu",
            model_config_path=path / "xlnet_config.json",
            spiece_model_file=path / "spiece.model",
        ) as model:
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


def test_a_path_from_a_remote_directory_does_not_lead_out_of_it():
    files.require_inside("gs://a/b/c", "gs://a/b", "the records'")
    for path in ("/etc/passwd", "gs://a/b/../c", "gs://a/bc"):
        with pytest.raises(UserError, match="is outside of the records' directory"):
            files.require_inside(path, "gs://a/b", "the records'")


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


def test_links_to_nowhere_are_no_files_of_a_pattern(tmp_path):
    (tmp_path / "a").write_text("text")
    (tmp_path / "b").symlink_to("none")
    assert files.match(str(tmp_path / "*")) == {str(tmp_path / "a"): 4}


# Outputs that are no regular files. None of these tests touches /dev: devices are copies, made in
# the test's directory.


def write_text(path):
    files.write_text(str(path), "new\n")


def write_with_matplotlib(path):
    figure.save(figure.new(1, 1), path)


def copy(path):
    source = path.parent / "source"
    source.write_text("new\n")
    files.copy(str(source), str(path))


WRITERS = (write_text, write_with_matplotlib, copy)


def content_of(write, folder):
    write(folder / "plain")
    return (folder / "plain").read_bytes()


@pytest.mark.parametrize("write", WRITERS)
def test_a_fifo_stays_and_its_reader_gets_everything(tmp_path, write):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()), daemon=True)
    reader.start()
    write(path)
    assert stat.S_ISFIFO(os.lstat(path).st_mode)
    reader.join(30)
    assert received == [content_of(write, tmp_path)]


def device(path, minor):
    """A copy of a device of memory: 3 is /dev/null, 7 /dev/full."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        with open(path, "rb"):
            return path
    except PermissionError:
        pytest.skip("only root can make devices, where the file system allows them")


@pytest.mark.parametrize("write", WRITERS)
def test_a_device_stays(tmp_path, write):
    null = device(tmp_path / "null", 3)
    write(null)
    link = tmp_path / "link"
    link.symlink_to("null")
    write(link)
    assert stat.S_ISCHR(os.lstat(null).st_mode) and os.readlink(link) == "null"


@pytest.mark.parametrize("write", WRITERS)
def test_a_device_that_is_full_is_an_error_with_its_name(tmp_path, write):
    full = device(tmp_path / "full", 7)
    with pytest.raises(OSError) as caught:
        write(full)
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(full)
    assert stat.S_ISCHR(os.lstat(full).st_mode)


@pytest.mark.parametrize("write", WRITERS)
def test_a_link_stays_and_its_file_is_replaced_or_made(tmp_path, write):
    (tmp_path / "below").mkdir()
    existing = tmp_path / "below" / "existing"
    existing.write_text("old")
    links = {"a": "below/existing", "b": "a", "c": "below/new"}  # a link of a link; to nowhere
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    for name, target in links.items():
        write(tmp_path / name)
        assert os.readlink(tmp_path / name) == target
        assert (tmp_path / name).read_bytes() == content_of(write, tmp_path)
    assert existing.read_bytes() == (tmp_path / "below" / "new").read_bytes()
    assert sorted(os.listdir(tmp_path / "below")) == ["existing", "new"]


@pytest.mark.parametrize("write", WRITERS)
def test_a_link_to_a_directory_or_in_a_circle_is_an_error(tmp_path, write):
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("directory")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(IsADirectoryError, match="link"):
        write(tmp_path / "link")
    with pytest.raises(OSError, match="circle"):
        write(tmp_path / "circle")
    assert os.path.islink(tmp_path / "link") and os.path.islink(tmp_path / "circle")
    assert os.listdir(tmp_path / "directory") == []


def test_a_stream_gets_nothing_of_a_failed_write(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(KeyError), files.replacing(str(path)) as temporary:
        pathlib.Path(temporary).write_text("half")
        raise KeyError
    assert os.read(reader, 100) == b""
    os.close(reader)


def test_an_open_descriptor_is_written_to_where_it_stands(tmp_path):
    """`command >> file` with --output=/dev/fd/N: the shell's file is not replaced."""
    path = tmp_path / "log"
    path.write_text("before\n")
    with open(path, "ab") as f:
        names = (f"/dev/fd/{f.fileno()}", f"/proc/self/fd/{f.fileno()}", str(tmp_path / "link"))
        os.symlink(names[0], names[2])
        for name in names:
            files.write_json(name, {})
    assert path.read_text() == "before\n" + 3 * "{}\n"


def test_standard_output_by_its_names(tmp_path, capfd):
    """Never by /dev/stdout itself: code that replaces what is at a path would replace it."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    for name in ("-", str(tmp_path / "link"), "/proc/self/fd/1"):
        files.write_text(name, "text\n")
    assert capfd.readouterr().out == 3 * "text\n" and os.path.islink(tmp_path / "link")
    assert files.is_standard_output("/dev/stdout") and not files.is_standard_output("stdout")


# Flags that name an output file: program and flags without it, and the flag.
OUTPUT_FLAGS = {
    "data vocabulary": ("--input_glob=none.txt", "sp_path"),
    "plot masks": ("--input=none", "output"),
    "plot curves": ("--model_dir=none", "output"),
    "plot attention": ("--model_dir=none --text=x", "output"),
    "explain": ("--model_dir=none --text=x", "output"),
    "fill": ("--model_dir=none --text=x", "output"),
    "generate": ("--model_dir=none --text=x", "output"),
}


def test_all_flags_of_output_files_are_here():
    """Those of predictions have a test of their own; the others name directories."""
    of_file = re.compile(
        r"^  --(\w+)=.*(?:(?:file|image|model) to write|file for the pred|file of JSON lines)", re.M
    )
    found = {
        (name, flag)
        for name in COMMANDS
        for flag in of_file.findall(command.succeed("xlnet " + name, "--helpfull").stdout)
    }
    of_predictions = {(name, "predict_output") for name in ("classify", "squad", "tag")}
    of_predictions.add(("predict", "output"))
    of_masks = {("data inspect", "output"), ("data verify", "output")}  # programs of plot masks
    given = {(name, flag) for name, (_, flag) in OUTPUT_FLAGS.items()}
    assert found - of_masks == given | of_predictions


@pytest.mark.parametrize("name", OUTPUT_FLAGS)
def test_an_output_that_is_a_link_to_a_directory_is_refused_before_work_begins(name, tmp_path):
    others, flag = OUTPUT_FLAGS[name]
    (tmp_path / "directory").mkdir()
    link = tmp_path / "link.png"
    link.symlink_to("directory")
    line = command.refused("xlnet " + name, *others.split(), f"--{flag}={link}")
    assert f"{flag}: {link} is a directory" in line and os.path.islink(link)


@pytest.mark.parametrize("name", OUTPUT_FLAGS)
def test_an_output_in_a_directory_that_does_not_exist_is_refused(name, tmp_path):
    """It was made, also where its name was misspelt."""
    others, flag = OUTPUT_FLAGS[name]
    line = command.refused("xlnet " + name, *others.split(), f"--{flag}={tmp_path}/new/x.png")
    assert f"{flag}: no such directory: {tmp_path}/new" in line and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ("predict", "classify"))
def test_predictions_leave_the_output_what_it_is(name, tmp_path, model_of, quick_start):
    (tmp_path / "in.csv").write_text("first,second\nkamat,ka\n")
    (tmp_path / "link.tsv").symlink_to("real.tsv")
    os.mkfifo(tmp_path / "fifo.tsv")
    received = []
    fifo = tmp_path / "fifo.tsv"
    reader = threading.Thread(target=lambda: received.append(fifo.read_text()), daemon=True)
    reader.start()
    flags = {
        "predict": ("input", "output", ()),
        "classify": ("predict_file", "predict_output", ("--task_name=custom", "--do_predict")),
    }
    source, target, more = flags[name]
    for output in ("link.tsv", "fifo.tsv"):
        command.succeed(
            "xlnet " + name,
            *more,
            f"--model_dir={model_of('classification')}",
            f"--{source}={tmp_path / 'in.csv'}",
            f"--{target}={tmp_path / output}",
        )
    reader.join(30)
    assert os.readlink(tmp_path / "link.tsv") == "real.tsv"
    assert stat.S_ISFIFO(os.lstat(fifo).st_mode)
    assert received == [(tmp_path / "real.tsv").read_text()] and received[0].count("\n") == 2
