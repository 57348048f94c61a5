"""Quotas, limit ranges and pod security of `pykubelet up`, as kubectl shows them."""

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from kubectl import Kubectl
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(120)
PATIENCE = "--timeout=40s"


class Cluster(NamedTuple):
    """Where kubectl finds the cluster, and its cache."""

    kubeconfig: Path
    cache: Path


@pytest.fixture
def kubectl(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """kubectl for a namespace of its own."""
    name = request.node.name.replace("_", "-")[:60].rstrip("-")
    kubectl = Kubectl(cluster.kubeconfig, name, cluster.cache)
    kubectl("create", "namespace", name)
    yield kubectl
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose containers are simulated."""
    folder = tmp_path_factory.mktemp("up")
    process = UpProcess(folder, runtime="sim")
    try:
        process.start()
        yield Cluster(process.kubeconfig, folder / "cache")
        assert process.stop() == 0
        assert [line for line in process.lines if "Traceback" in line or " E " in line] == []
    finally:
        if process.is_running:
            process.kill()


def test_quota_is_described_and_limits_replicas(kubectl: Kubectl) -> None:
    """No warning says that nothing counts. The event of a replica that does not fit has upstream's words."""
    made = kubectl.run("create", "quota", "few", "--hard=pods=2,count/deployments.apps=3")
    assert made.stderr == ""
    kubectl("wait", "quota/few", "--for=jsonpath={.status.used.pods}=0", PATIENCE)
    kubectl("create", "deployment", "web", "--image=example/image:1", "--replicas=3")
    kubectl("wait", "quota/few", "--for=jsonpath={.status.used.pods}=2", PATIENCE)
    kubectl("wait", "deploy/web", "--for=condition=ReplicaFailure", PATIENCE)
    message = kubectl("get", "deploy/web", "-o", "jsonpath={.status.conditions[?(@.type=='ReplicaFailure')].message}")
    assert "is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2" in message
    rows = [line.split() for line in kubectl("describe", "quota", "few").splitlines()]
    assert rows[2:] == [
        ["Resource", "Used", "Hard"],
        ["--------", "----", "----"],
        ["count/deployments.apps", "1", "3"],
        ["pods", "2", "2"],
    ]
    kubectl("delete", "deploy/web")
    kubectl("wait", "quota/few", "--for=jsonpath={.status.used.pods}=0", PATIENCE)


def test_concurrent_clients_never_exceed_a_quota(kubectl: Kubectl) -> None:
    """Of ten programs that create one object each, as many succeed as the quota allows."""
    kubectl("create", "quota", "three", "--hard=secrets=3")
    kubectl("wait", "quota/three", "--for=jsonpath={.status.used.secrets}=0", PATIENCE)
    commands = [kubectl.command("create", "secret", "generic", f"s{number}") for number in range(10)]
    with ThreadPoolExecutor(5) as pool:
        done = list(pool.map(partial(subprocess.run, capture_output=True, text=True, check=False), commands))
    assert [one.returncode for one in done].count(0) == 3
    assert all("exceeded quota: three, requested: secrets=1" in one.stderr for one in done if one.returncode)


def test_limit_range_completes_pods(kubectl: Kubectl, tmp_path: Path) -> None:
    body = {"type": "Container", "default": {"cpu": "200m"}, "max": {"cpu": "500m"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [body]}}
    path = tmp_path / "limits.json"
    path.write_text(json.dumps(limits))
    assert kubectl.run("create", "-f", str(path)).stderr == ""
    kubectl("run", "a", "--image=example/image:1")
    pod = kubectl.json("get", "pod", "a")
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "200m"}, "requests": {"cpu": "200m"}}
    note = "LimitRanger plugin set: cpu request for container a; cpu limit for container a"
    assert pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == note


def test_restricted_namespace_rejects_and_warns(kubectl: Kubectl) -> None:
    kubectl("run", "a", "--image=example/image:1")
    labelled = kubectl.run("label", "namespace", kubectl.namespace, "pod-security.kubernetes.io/enforce=restricted")
    assert labelled.stderr.splitlines() == [
        f'Warning: existing pods in namespace "{kubectl.namespace}" violate the new PodSecurity enforce level "restricted:latest"',
        "Warning: a: allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile",
    ]
    problems = (
        'allowPrivilegeEscalation != false (container "{0}" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "{0}" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "{0}" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "{0}" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")\n'
    )
    said = kubectl.fails("run", "b", "--image=example/image:1")
    forbidden = 'Error from server (Forbidden): pods "b" is forbidden: violates PodSecurity "restricted:latest": '
    assert said == forbidden + problems.format("b")
    warned = kubectl.run("create", "deployment", "web", "--image=example/image:1").stderr
    assert warned == 'Warning: would violate PodSecurity "restricted:latest": ' + problems.format("image")
