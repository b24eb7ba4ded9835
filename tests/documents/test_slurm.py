"""The job script `examples/deploy/slurm.sh`, with programs in place of SLURM's."""

import os
import signal
import subprocess
import time

import pytest
from helpers.paths import ROOT

# A run that saves when it is signalled, or ends on its own.
RUN = """#!/bin/bash
trap 'echo stopped >> log; exit $STATUS' USR1
echo "began $*" >> log
for i in $(seq $STEPS); do sleep 0.05; done
echo ended >> log
exit $STATUS
"""


@pytest.mark.parametrize(
    "steps, status, is_signalled, log",
    (
        (1000, 75, True, ["stopped", "requeue 7"]),  # at the time limit
        (1000, 1, True, ["stopped"]),  # it could not be saved
        (1000, 0, True, ["stopped"]),  # its last step
        (1, 0, False, ["ended"]),  # all steps done
        (1, 1, False, ["ended"]),  # an error
        (1, 75, False, ["ended"]),  # stopped by somebody else, as a cancelled job is
    ),
)
def test_the_job_is_requeued_when_its_time_is_over(
    tmp_path, steps, status, is_signalled, log
):
    script = (ROOT / "examples/deploy/slurm.sh").read_text()
    for name, text in (
        ("xlnet", RUN),
        ("scontrol", '#!/bin/bash\necho "$*" >> log\n'),
        ("job.sh", script),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    job = subprocess.Popen(
        ["bash", "job.sh"],
        cwd=tmp_path,
        env=dict(
            os.environ,
            PATH="{}:{}".format(tmp_path, os.environ["PATH"]),
            SLURM_JOB_ID="7",
            STEPS=str(steps),
            STATUS=str(status),
        ),
    )
    end = time.monotonic() + 30
    while not (tmp_path / "log").exists() and time.monotonic() < end:
        time.sleep(0.02)
    while is_signalled and job.poll() is None and time.monotonic() < end:
        job.send_signal(
            signal.SIGUSR1
        )  # again: the first may come before the job's `run=$!`
        time.sleep(1)
    assert job.wait(timeout=60) == status
    assert (tmp_path / "log").read_text().splitlines() == [
        "began pretrain --config=run.json",
        *log,
    ]
