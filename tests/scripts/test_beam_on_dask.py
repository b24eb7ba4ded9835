"""xlnet data beam on a cluster of Dask, a scheduler and two workers as processes on this machine:
the bytes of data_utils.py, also where a worker is killed; one line where the pipeline fails."""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest
from helpers import command
from helpers.paths import ROOT
from helpers.preparation import (
    REUSE_LEN,
    SEQ_LEN,
    files_of,
    make_documents,
    make_workspace,
)
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


def flags(workspace, save_dir, input_glob="text.txt"):
    return dict(
        input_glob=workspace.path(input_glob),
        sp_path=workspace.path("sp.model"),
        save_dir=workspace.path(save_dir),
        num_streams=64,
        num_passes=2,
        seq_len=SEQ_LEN,
        reuse_len=REUSE_LEN,
    )


def start(*words, output=subprocess.DEVNULL):
    """A process with the library on its path."""
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        stdout=output,
        stderr=output,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
    )


@contextlib.contextmanager
def dask():
    """Yields two workers, and the address of their scheduler."""
    port = free_ports(1)[0]
    how = ["--host=127.0.0.1", f"--port={port}", "--no-dashboard", "--no-show"]
    processes = [start("distributed.cli.dask_scheduler", *how)]
    address = f"tcp://127.0.0.1:{port}"
    try:
        for _ in range(2):  # they wait for the scheduler
            how = ["--nthreads=1", "--no-nanny", "--no-dashboard", "--memory-limit=0"]
            processes.append(start("distributed.cli.dask_worker", address, *how))
        yield processes[1:], address
    finally:
        for process in processes:
            process.kill()
            process.wait()


def begin(address, **values):
    options = RUNNER + "--dask_client_address=" + address
    words = command.flags(dict(values, beam_options=options))
    return start("xlnet", "data", "beam", *words, output=subprocess.PIPE)


def end(process):
    """Status, stdout and the last line of stderr."""
    stdout, stderr = process.communicate(timeout=300)
    assert "Traceback" not in stderr, stderr
    return process.returncode, stdout, (stderr.strip().splitlines() or [""])[-1]


def test_a_killed_worker_changes_nothing_and_bad_text_is_one_line(workspace):
    plain, killed = (pathlib.Path(workspace.path(name)) for name in ("plain", "killed"))
    with dask() as (workers, address):
        process = begin(address, **flags(workspace, "killed"))
        limit = time.monotonic() + 180
        while not list(killed.glob("unfinished/tokens-*.json")):
            assert process.poll() is None and time.monotonic() < limit
            time.sleep(0.02)
        workers[0].send_signal(signal.SIGKILL)
        status, stdout, last = end(process)
        assert status == 0 and "records: " in stdout, last
        assert files_of(killed) == files_of(plain)

        pathlib.Path(workspace.path("bad.txt")).write_bytes(b"fine\n\xff\n")
        status, _, last = end(begin(address, **flags(workspace, "bad", "bad.txt")))
        found = f"{workspace.path('bad.txt')}, line 2: found byte 0xff"
        assert status == 1 and last.startswith(f"xlnet data beam: {found}"), last
