"""xlnet data beam on a cluster of Dask, a scheduler and two workers as processes on this machine:
the bytes of data_utils.py, also where a worker is killed; one line where the pipeline fails."""

import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

import pytest
from helpers import command
from helpers.paths import ROOT
from helpers.preparation import REUSE_LEN, SEQ_LEN, make_documents, make_workspace
from helpers.pretraining import free_ports

pytest.importorskip(
    "apache_beam", reason="Apache Beam is an extra: pip install '.[beam]'"
)
pytest.importorskip("distributed", reason="Dask is in the extra: pip install '.[beam]'")

RUNNER = "--runner=apache_beam.runners.dask.dask_runner.DaskRunner "
RUNNER += "--dask_partition_size=1 "


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A text of some chunks, and the records of data_utils.py."""
    workspace = make_workspace(str(tmp_path_factory.mktemp("dask")))
    documents = ["\n".join(document) for document in make_documents(1, 300)]
    rng = random.Random(0)
    with open(workspace.path("text.txt"), "w", encoding="utf-8") as f:
        f.write("\n\n".join(rng.choice(documents) for _ in range(3000)))
    command.succeed("data_utils.py", **flags(workspace, "plain"))
    return workspace


def flags(workspace, save_dir, **more):
    return dict(
        dict(
            input_glob=workspace.path("text.txt"),
            sp_path=workspace.path("sp.model"),
            save_dir=workspace.path(save_dir),
            num_streams=64,
            num_passes=2,
            seq_len=SEQ_LEN,
            reuse_len=REUSE_LEN,
        ),
        **more,
    )


def content(directory):
    paths = pathlib.Path(directory).iterdir()
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def start(*words):
    """A process of the cluster, with the library on its path."""
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
    )


@contextlib.contextmanager
def dask(workers=2):
    """Yields the scheduler, the workers and its address."""
    port = free_ports(1)[0]
    processes = [
        start(
            "distributed.cli.dask_scheduler",
            "--host=127.0.0.1",
            f"--port={port}",
            "--no-dashboard",
            "--no-show",
        )
    ]
    try:
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            assert time.monotonic() < end and processes[0].poll() is None
            time.sleep(0.1)
        address = f"tcp://127.0.0.1:{port}"
        processes += [
            start(
                "distributed.cli.dask_worker",
                address,
                "--nthreads=1",
                "--no-nanny",
                "--no-dashboard",
                "--memory-limit=0",
            )
            for _ in range(workers)
        ]
        yield processes[0], processes[1:], address
    finally:
        for process in processes:
            process.kill()
            process.wait()


def begin(workspace, save_dir, address, **more):
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "xlnet",
            "data",
            "beam",
            *command.flags(
                flags(
                    workspace,
                    save_dir,
                    beam_options=RUNNER + "--dask_client_address=" + address,
                    **more,
                )
            ),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    """Status, stdout and the last line of stderr."""
    stdout, stderr = process.communicate(timeout=300)
    assert "Traceback" not in stderr, stderr
    return process.returncode, stdout, (stderr.strip().splitlines() or [""])[-1]


def wait_for(workspace, save_dir, pattern, process):
    limit = time.monotonic() + 120
    while not list(pathlib.Path(workspace.path(save_dir)).glob(pattern)):
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.02)


@pytest.fixture(scope="module")
def killed(workspace):
    """A pipeline of which a worker was killed while tokens were made."""
    with dask() as (_, workers, address):
        process = begin(workspace, "killed", address)
        wait_for(workspace, "killed", "unfinished/tokens-*.json", process)
        workers[0].send_signal(signal.SIGKILL)
        status, stdout, last = end(process)
        assert status == 0 and "records: " in stdout, last

        # On what is left: text that is bad is one line.
        pathlib.Path(workspace.path("bad.txt")).write_bytes(b"fine\n\xff\n")
        refused = end(
            begin(
                workspace,
                "refused",
                address,
                input_glob=workspace.path("bad.txt"),
            )
        )
        return refused


def test_a_killed_worker_changes_nothing(workspace, killed):
    assert content(workspace.path("killed")) == content(workspace.path("plain"))


def test_bad_text_is_one_line(workspace, killed):
    status, _, last = killed
    assert status == 1 and last.startswith(
        "xlnet data beam: {}, line 2: found byte 0xff".format(workspace.path("bad.txt"))
    ), last
