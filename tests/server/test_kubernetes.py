"""The Deployment `examples/deploy/serve.yaml`: the server answers its paths, its times fit."""

import pytest
from helpers.paths import ROOT
from helpers.serving import Echo, ask, running

from xlnet.server import limits

yaml = pytest.importorskip("yaml")


def documents():
    return list(yaml.safe_load_all((ROOT / "examples/deploy/serve.yaml").read_text()))


def test_probes_are_paths_of_the_server():
    deployment, service = documents()
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    with running(Echo(), "m") as server:
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert ask(server, "GET", container[name]["httpGet"]["path"])[0] == 200
        path = template["metadata"]["annotations"]["prometheus.io/path"]
        assert ask(server, "GET", path)[0] == 200
    labels = template["metadata"]["labels"]
    assert (
        labels
        == deployment["spec"]["selector"]["matchLabels"]
        == service["spec"]["selector"]
    )


def test_a_pod_has_time_to_end():
    pod = documents()[0]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    sleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > sleep + limits.GRACE_SECONDS
