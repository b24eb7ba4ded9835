"""The manifest `examples/deploy/train.yaml`: what it says of this program is right.

With the package kubernetes-validate, which is large and not required, also their schemas.
"""

import re

import pytest
import yaml
from helpers.paths import ROOT

from xlnet.support.errors import Unfinished


@pytest.fixture(scope="module")
def manifests():
    """The JobSet and the NetworkPolicy."""
    return list(yaml.safe_load_all((ROOT / "examples/deploy/train.yaml").read_text()))


def job_of(jobset):
    return jobset["spec"]["replicatedJobs"][0]["template"]["spec"]


def test_a_pod_that_was_stopped_and_saved_is_replaced(manifests):
    job = job_of(manifests[0])
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


def test_pods_run_as_the_user_of_the_image(manifests):
    (user,) = re.findall(
        r"^USER (\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE
    )
    context = job_of(manifests[0])["template"]["spec"]["securityContext"]
    assert context == {"runAsUser": int(user), "fsGroup": int(user)}


def test_only_the_pods_of_the_run_reach_each_other(manifests):
    jobset, policy = manifests
    pods = {
        "matchLabels": {"jobset.sigs.k8s.io/jobset-name": jobset["metadata"]["name"]}
    }
    assert policy["spec"]["podSelector"] == pods
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": pods}]}]


def test_they_fit_the_schemas(manifests):
    """JobSet has none there; the Job in it has."""
    validate = pytest.importorskip("kubernetes_validate")
    jobset, policy = manifests
    job = dict(
        apiVersion="batch/v1", kind="Job", metadata={"name": "x"}, spec=job_of(jobset)
    )
    for version in ("1.29", "1.34"):
        validate.validate(job, version, strict=True)
        validate.validate(policy, version, strict=True)
