"""What is raised by others, in one line: where, why, what to do."""

import errno
import subprocess
import sys
from concurrent.futures import process

import pytest
import tensorflow.compat.v1 as tf
from helpers.paths import ROOT

from xlnet import errors, files
from xlnet.errors import UserError

# As TensorFlow 2.15 says it: the reason between where the graph was made and hints.
GRAPH = """Graph execution error:

Detected at node '{node}' defined at (most recent call last):
    File "run_classifier.py", line 1, in <module>
    File "xlnet/cli.py", line 2, in run
Node: '{node}'
{reason}
\t [[{{{{node {node}}}}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations

Original stack trace for '{node}':
  File "run_classifier.py", line 1, in <module>
"""
FULL = "/m/unfinished/model.ckpt-0_temp/part-00000-of-00001.data; No space left on device"


def of_graph(error, node, reason):
    return error(None, None, GRAPH.format(node=node, reason=reason))


@pytest.mark.parametrize(
    "error, line",
    [
        (
            of_graph(tf.errors.ResourceExhaustedError, "save/SaveV2", FULL),
            "/m/unfinished/model.ckpt-0: no space left on the disk; free some and start again",
        ),
        (
            tf.errors.ResourceExhaustedError(
                None, None, "From /job:worker/replica:0/task:0:\n" + FULL
            ),
            "/m/unfinished/model.ckpt-0: no space left on the disk; free some and start again",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "/from", None, "/to.partial-12"),
            "/to: no space left on the disk; free some and start again",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "/m/training.lock"),
            "/m/training.lock: the file system is read-only; copy what is needed to another one",
        ),
        (
            PermissionError(errno.EPERM, "Operation not permitted", "/m/model"),
            "/m/model: operation not permitted; is its directory immutable",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/m/x"),
            "/m/x: permission denied; change",
        ),
        (
            tf.errors.OpError(
                None, None, "/m/model.ckpt-5.data-00000-of-00001; Input/output error", 2
            ),
            "/m/model.ckpt-5.data-00000-of-00001: Input/output error; nothing was changed",
        ),
        (
            tf.errors.NotFoundError(
                None,
                None,
                "/m/ours.partial-7/x.ckpt.data-00000.tempstate94; No such file or directory",
            ),
            "/m/ours/x.ckpt.data-00000: its directory is gone; was it moved, or a disk taken away?",
        ),
        (
            of_graph(
                tf.errors.NotFoundError,
                "IteratorGetNext",
                "/m/records/dev.tfrecord; No such file or directory",
            ),
            "records: r.tfrecord is gone; was it removed, or a disk taken away? start again when",
        ),
        (
            tf.errors.OutOfRangeError(
                None,
                None,
                "/m/unfinished/model.ckpt-2_temp/part-00000-of-00001."
                "data-00000-of-00001; File too large",
            ),
            "/m/unfinished/model.ckpt-2: file too large: the limit of file size (ulimit -f)",
        ),
        (OSError(errno.EFBIG, "File too large", "/m/x"), "/m/x: file too large: the limit of file"),
        (
            OSError(errno.ESTALE, "Stale file handle", "/m/x"),
            "/m/x: Stale file handle; nothing was changed: start again when the disk",
        ),
        (
            FileExistsError(errno.EEXIST, "File exists", "/m/x"),
            "/m/x: a file is where a directory is expected; remove it, or give a "
            "directory elsewhere",
        ),
        (
            NotADirectoryError(errno.ENOTDIR, "Not a directory", "/m/x/y"),
            "/m/x/y: a file is where this path has a directory; give a directory elsewhere",
        ),
        (
            ImportError("libtensorflow_cc.so.2: failed to map segment from shared object"),
            "out of memory while libraries are loaded: libtensorflow_cc.so.2: failed to "
            "map segment",
        ),
        (
            MemoryError("Unable to allocate 3.2 GiB"),
            "out of memory: Unable to allocate 3.2 GiB; what",
        ),
        (
            process.BrokenProcessPool(
                "A process in the process pool was terminated abruptly while the "
                "future was running or pending."
            ),
            "a worker process was killed, perhaps for want of memory; give fewer of them",
        ),
        (
            of_graph(
                tf.errors.DataLossError,
                "IteratorGetNext",
                "truncated record at 5780' failed with Read less bytes than requested",
            ),
            "records: r.tfrecord is damaged: truncated record at 5780' failed with Read "
            "less bytes than "
            "requested; remove it and start again",
        ),
        (
            of_graph(
                tf.errors.ResourceExhaustedError,
                "gradients/MatMul",
                "OOM when allocating tensor with shape[32,12,512,512] and type float on "
                "/job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc",
            ),
            "out of memory on GPU:1, for a tensor [32,12,512,512]; what helps: more "
            "--grad_accum_steps ",
        ),
        (
            of_graph(
                tf.errors.UnknownError, "PyFunc", "UserError: num_predict is 2\nTraceback (most"
            ),
            "num_predict is 2",
        ),
        (
            tf.errors.UnknownError(
                None,
                None,
                "2 root error(s) found.\n"
                "  (0) UNKNOWN: UserError: num_predict is 2\n\t [[{{node x}}]]",
            ),
            "num_predict is 2",
        ),
    ],
)
def test_a_known_failure_is_one_line(error, line):
    with (
        pytest.raises(UserError) as raised,
        errors.translated_errors(records="r.tfrecord", fewer="give fewer of them"),
    ):
        raise error
    assert str(raised.value).startswith(line) and "\n" not in str(raised.value)
    assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a fault of the program"),
        tf.errors.InvalidArgumentError(None, None, "shapes"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "x"),
        # A library that is not there, not a file that was.
        tf.errors.NotFoundError(
            None, None, "a/b.so: cannot open shared object file: No such file or directory"
        ),
        # Nobody has said which records are read.
        tf.errors.DataLossError(None, None, "truncated record at 0"),
        tf.errors.NotFoundError(None, None, "/m/x.data-00000-of-00001; No such file or directory"),
    ],
)
def test_others_stay_as_they_are(error):
    with pytest.raises(type(error)) as raised, errors.translated_errors():
        raise error
    assert raised.value is error


@pytest.mark.parametrize(
    "error",
    [
        of_graph(tf.errors.OutOfRangeError, "RestoreV2", "Read less bytes than requested"),
        ValueError("Read less bytes than requested"),
        IndexError("Read less bytes than requested"),
    ],
)
def test_whatever_is_raised_while_a_file_is_read_is_its_fault(error):
    with pytest.raises(errors.Unreadable) as raised, errors.reading("file x", "copy it again"):
        raise error
    fault = "file x cannot be read: Read less bytes than requested"
    assert (str(raised.value), raised.value.fault) == (fault + "; copy it again", fault)


def test_numpy_and_safetensors_name_the_file_and_the_reason(tmp_path):
    """Beyond the limit of file size, as on a full disk: NumPy's error has no number."""
    program = """import resource, sys
import numpy as np
from xlnet import errors, files
from xlnet.convert import safetensors
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
values = np.arange(10000, dtype=np.float32)
for name, write in (("a.safetensors", lambda path: safetensors.write(path, {"x": values})),
                    ("b.npy", None)):
    path = sys.argv[1] + "/" + name
    try:
        with errors.translated_errors():
            if write:
                write(path)
            else:
                with files.replacing(path) as temporary, open(temporary, "wb") as f:
                    np.save(f, values)
    except errors.UserError as e:
        print(e)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=True,
    )
    a, b = done.stdout.splitlines()
    assert a.startswith(f"{tmp_path}/a.safetensors: file too large: ")
    assert b.startswith(f"{tmp_path}/b.npy: ") and "None" not in b
    assert not list(tmp_path.iterdir())


def test_a_failed_write_names_its_file(tmp_path):
    """That of a write itself does not: only opening and renaming do."""
    with pytest.raises(UserError, match="^%s: no space left" % (tmp_path / "x")):
        with errors.translated_errors(), files.replacing(str(tmp_path / "x")):
            with open("/dev/full", "wb") as full:
                full.write(b"x" * 100000)
    assert not list(tmp_path.iterdir())
