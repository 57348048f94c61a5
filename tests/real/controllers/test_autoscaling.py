"""Autoscaling and `top` on `pykubelet up`, with containers that are processes and use the machine's processor."""

import json
from collections.abc import Iterator

import pytest

from cli_lab import Pykubelet, Sides
from kubectl import Kubectl
from process_cluster import shell
from process_lab import end_containers
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(120)
# A process every 20 ms takes some hundredths of a core, far above half of the request, and leaves the machine to others.
BUSY = shell("while :; do sleep 0.02; done", resources={"requests": {"cpu": "10m", "memory": "1Mi"}})
LABELS = {"app": "busy"}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "busy"},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [BUSY]},
        },
    },
}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    folder = tmp_path_factory.mktemp("up")
    process = UpProcess(folder)
    try:
        process.start()
        kubectl = Kubectl(process.kubeconfig, "default", folder / "cache")
        kubectl("create", "-f", "-", text=json.dumps(DEPLOYMENT))
        kubectl("rollout", "status", "deploy/busy", "--timeout=40s")
        yield Sides(Pykubelet(process.kubeconfig), kubectl)
        assert process.stop() == 0
        assert [line for line in process.lines if "Traceback" in line or " E " in line] == []
    finally:
        process.kill()
        end_containers(process.data / "node" / "process")


def test_workload_is_scaled_by_its_usage(sides: Sides) -> None:
    """kubectl writes the autoscaler in version 1 of its group, and reads both versions."""
    kubectl = sides.kubectl
    name, cpu, memory = kubectl("top", "pods", "--no-headers", "-l", "app=busy").split()
    assert name.startswith("busy-")
    assert int(cpu.removesuffix("m")) > 5
    assert memory.endswith("Mi")
    kubectl("autoscale", "deployment", "busy", "--cpu-percent=50", "--min=1", "--max=2")
    kubectl("wait", "deploy/busy", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=80s")
    kubectl("wait", "hpa/busy", "--for=condition=ScalingActive", "--timeout=20s")
    _, reference, _, targets, least, most, *_ = kubectl("get", "hpa", "busy", "--no-headers").split()
    assert (reference, targets.partition("/")[2], least, most) == ("Deployment/busy", "50%", "1", "2")
    assert "SuccessfulRescale" in kubectl("describe", "hpa", "busy")
    old = kubectl.json("get", "horizontalpodautoscalers.v1.autoscaling", "busy")
    assert (old["apiVersion"], old["spec"]["targetCPUUtilizationPercentage"]) == ("autoscaling/v1", 50)
    new = kubectl.json("get", "horizontalpodautoscalers.v2.autoscaling", "busy")
    assert new["spec"]["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 50}


def test_top_prints_what_kubectl_prints(sides: Sides) -> None:
    for words in (
        "node node-1",
        "pods -A --containers --sort-by=cpu",
        "po -n kube-public",
    ):
        assert sides.difference("top", *words.split()) == ""
    assert sides.difference("top", "pod", "nobody", code=1) == ""


def test_group_is_discovered_and_its_access_is_limited(sides: Sides) -> None:
    """The default roles admin, edit and view may read the usage of pods; other users may not."""
    kubectl = sides.kubectl
    rows = kubectl("api-resources", "--api-group=metrics.k8s.io", "--no-headers").splitlines()
    assert [row.split() for row in rows] == [
        ["nodes", "metrics.k8s.io/v1beta1", "false", "NodeMetrics"],
        ["pods", "metrics.k8s.io/v1beta1", "true", "PodMetrics"],
    ]
    kubectl("create", "rolebinding", "reader", "--clusterrole=view", "--user=jane")
    assert kubectl("auth", "can-i", "list", "pods.metrics.k8s.io", "--as=jane") == "yes\n"
    assert "Forbidden" in kubectl.fails("top", "pods", "--as=joe")
    assert "MethodNotAllowed" in kubectl.fails("delete", "pods.metrics.k8s.io", "--all")
    assert kubectl("get", "pods.metrics.k8s.io").split()[:4] == ["NAME", "CPU", "MEMORY", "WINDOW"]
    assert "usage" in kubectl("explain", "podmetrics.containers", "--api-version=metrics.k8s.io/v1beta1")
