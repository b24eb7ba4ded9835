"""The files of `examples/deploy`: what they say of the programs is right.

With the package kubernetes-validate, which is large and not required, also their schemas.
"""

import os
import re
import signal
import subprocess
import time

import pytest
import yaml
from helpers.paths import ROOT
from helpers.serving import Echo, ask, running

from xlnet.server import limits
from xlnet.support.errors import Unfinished

FOLDER = ROOT / "examples" / "deploy"

# A run that saves when it is signalled, or ends on its own.
RUN = """#!/bin/bash
trap 'echo stopped >> log; exit $STATUS' USR1
echo "began $*" >> log
for i in $(seq $STEPS); do sleep 0.05; done
echo ended >> log
exit $STATUS
"""


def documents(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "steps, status, is_signalled, log",
    (
        (1000, 75, True, ["stopped", "requeue 7"]),  # at the time limit
        (1000, 1, True, ["stopped"]),  # it could not be saved
        (1, 0, False, ["ended"]),  # all steps done
        (1, 75, False, ["ended"]),  # stopped by somebody else, as a cancelled job is
    ),
)
def test_a_slurm_job_is_requeued_when_its_time_is_over(
    tmp_path, steps, status, is_signalled, log
):
    script = (FOLDER / "slurm.sh").read_text(encoding="utf-8")
    scontrol = '#!/bin/bash\necho "$*" >> log\n'
    for name, text in (("xlnet", RUN), ("scontrol", scontrol), ("job.sh", script)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    settings = dict(SLURM_JOB_ID="7", STEPS=str(steps), STATUS=str(status))
    environment = dict(os.environ, PATH=path, **settings)
    job = subprocess.Popen(["bash", "job.sh"], cwd=tmp_path, env=environment)
    end = time.monotonic() + 30
    while not (tmp_path / "log").exists() and time.monotonic() < end:
        time.sleep(0.02)
    while is_signalled and job.poll() is None and time.monotonic() < end:
        # again: the first may come before the job's `run=$!`
        job.send_signal(signal.SIGUSR1)
        time.sleep(1)
    assert job.wait(timeout=60) == status
    written = (tmp_path / "log").read_text().splitlines()
    assert written == ["began pretrain --config=run.json", *log]


def test_a_pod_that_was_stopped_and_saved_is_replaced():
    jobset, policy = documents("train.yaml")
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule["action"] == "Ignore"
    assert rule["onExitCodes"] == {
        "containerName": container["name"],
        "operator": "In",
        "values": [Unfinished.status],
    }
    assert pod["restartPolicy"] == "Never"
    assert job["completions"] == job["parallelism"] == 4
    assert "--num_hosts=4" in container["command"]
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (user,) = re.findall(r"^USER (\d+)$", dockerfile, re.MULTILINE)
    assert pod["securityContext"] == {"runAsUser": int(user), "fsGroup": int(user)}
    pods = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "xlnet"}}
    assert policy["spec"]["podSelector"] == pods
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": pods}]}]


def test_the_server_answers_its_probes_and_has_time_to_end():
    deployment, service = documents("serve.yaml")
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    with running(Echo(), "m") as server:
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert ask(server, "GET", container[name]["httpGet"]["path"])[0] == 200
        path = template["metadata"]["annotations"]["prometheus.io/path"]
        assert ask(server, "GET", path)[0] == 200
    labels = template["metadata"]["labels"]
    assert labels == deployment["spec"]["selector"]["matchLabels"]
    assert labels == service["spec"]["selector"]
    sleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    grace = template["spec"]["terminationGracePeriodSeconds"]
    assert grace > sleep + limits.GRACE_SECONDS
