"""What is raised by others, in one line: where, why, what to do."""

from concurrent.futures import process

import pytest
import tensorflow.compat.v1 as tf

from xlnet.support import errors
from xlnet.support.errors import UserError

# As TensorFlow 2.15 says it: the reason between where the graph was made and hints.
GRAPH = """Graph execution error:

Detected at node 'a/b' defined at (most recent call last):
    File "run_classifier.py", line 1, in <module>
    File "xlnet/commands/cli.py", line 2, in run
Node: 'a/b'
{reason}
\t [[{{{{node a/b}}}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations

Original stack trace for 'a/b':
  File "run_classifier.py", line 1, in <module>
"""


def of_graph(error, reason):
    return error(None, None, GRAPH.format(reason=reason))


FULL = (
    "/m/unfinished/model.ckpt-0_temp/part-00000-of-00001.data; No space left on device"
)
OOM = (
    "OOM when allocating tensor with shape[32,12,512,512] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc"
)
SEVERAL = "2 root error(s) found.\n  (0) UNKNOWN: UserError: num_predict is 2\n\t [[x]]"


@pytest.mark.parametrize(
    "error, line",
    [
        (
            of_graph(tf.errors.ResourceExhaustedError, FULL),
            "/m/unfinished/model.ckpt-0: no space left on the disk; free some and start again",
        ),
        (
            OSError(28, "No space left on device", "/from", None, "/to.partial-1a2"),
            "/to: no space left on the disk; free some and start again",
        ),
        (
            PermissionError(13, "Permission denied", "/m/x"),
            "/m/x: Permission denied; change the rights, or give a directory elsewhere",
        ),
        (
            tf.errors.OpError(None, None, "/m/model.data; Input/output error", 2),
            "/m/model.data: Input/output error",
        ),
        (
            MemoryError("Unable to allocate 3.2 GiB"),
            "out of memory: Unable to allocate 3.2 GiB; what",
        ),
        (
            process.BrokenProcessPool("A process was terminated abruptly."),
            "a worker process was killed, perhaps for want of memory; give fewer of them",
        ),
        (
            of_graph(tf.errors.DataLossError, "truncated record at 5780' failed"),
            "records: r.tfrecord is damaged: truncated record at 5780' failed; remove it",
        ),
        (
            of_graph(tf.errors.NotFoundError, "Key a/Adam not found in checkpoint"),
            "model_dir: the checkpoint in m has no a/Adam: its run has other settings",
        ),
        (
            of_graph(tf.errors.ResourceExhaustedError, OOM),
            "out of memory on GPU:1, for a tensor [32,12,512,512]; what helps: more "
            "--grad_accum_steps",
        ),
        (tf.errors.UnknownError(None, None, SEVERAL), "num_predict is 2"),
    ],
)
def test_a_known_failure_is_one_line(error, line):
    with (
        pytest.raises(UserError) as raised,
        errors.translated_errors(
            records="r.tfrecord", fewer="give fewer of them", model_dir="m"
        ),
    ):
        raise error
    assert str(raised.value).startswith(line) and "\n" not in str(raised.value)
    assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a fault of the program"),
        FileNotFoundError(2, "No such file or directory", "x"),
        # A library that is not there, not a file that was.
        tf.errors.NotFoundError(None, None, "a/b.so: cannot open shared object file"),
        # Nobody has said which records are read.
        tf.errors.DataLossError(None, None, "truncated record at 0"),
    ],
)
def test_others_stay_as_they_are(error):
    with pytest.raises(type(error)) as raised, errors.translated_errors():
        raise error
    assert raised.value is error


@pytest.mark.parametrize(
    "error",
    [
        of_graph(tf.errors.OutOfRangeError, "Read less bytes than requested"),
        ValueError("Read less bytes than requested"),
        IndexError("Read less bytes than requested"),
    ],
)
def test_whatever_is_raised_while_a_file_is_read_is_its_fault(error):
    with (
        pytest.raises(errors.UserError) as raised,
        errors.reading("file x", "copy it again"),
    ):
        raise error
    fault = "file x cannot be read: Read less bytes than requested"
    assert str(raised.value) == fault + "; copy it again"
