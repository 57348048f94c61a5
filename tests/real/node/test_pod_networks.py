"""`pykubelet up` as root: each process pod has its own ports and host ports, and probes ask the right pod."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubectl import Kubectl
from own_network import links, nft_tables, own_network, routes
from process_lab import end_containers, unmount_below
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(120)
PATIENCE = "--timeout=60s"
# Answers each connection with the pod's address.
_SERVER = """
import os, socket
with socket.create_server(("", 8080)) as server:
    while True:
        connection, _ = server.accept()
        connection.sendall(os.environ["POD_IP"].encode())
        connection.close()
"""
_POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
_READINESS = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}


def template(app: str, *command: str) -> dict[str, Any]:
    """A pod template whose pods are ready when they listen on port 8080."""
    container = {
        "name": "main",
        "image": "example/image:1",
        "command": command,
        "env": [_POD_IP],
        "readinessProbe": _READINESS,
    }
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
    }
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def deployment(app: str, replicas: int, *command: str) -> dict[str, Any]:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": app}},
        "template": template(app, *command),
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app}, "spec": spec}


class OwnNetworkUp:
    """A cluster whose pods have networks of their own."""

    def __init__(self, folder: Path) -> None:
        self.process = UpProcess(folder, "--pod-network", "auto", "--pod-cidr", "10.99.1.0/24")
        self.kubectl = Kubectl(self.process.kubeconfig, "default", folder / "cache")

    def apply(self, *documents: dict[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": documents}
        self.kubectl("apply", "-f", "-", text=json.dumps(items))

    def addresses(self, app: str) -> dict[str, str]:
        """The names of an app's pods and their addresses."""
        pods = self.kubectl.json("get", "pods", "-l", f"app={app}")["items"]
        return {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in pods}


@pytest.fixture
def up(tmp_path: Path) -> Iterator[OwnNetworkUp]:
    """A running cluster in a network namespace of its own; its processes are ended after the test."""
    with own_network():
        made = OwnNetworkUp(tmp_path)
        try:
            made.process.start()
            yield made
        finally:
            if made.process.is_running:
                made.process.kill()
            end_containers(made.process.data / "node" / "process")
            unmount_below(tmp_path)


def answer(address: str) -> str:
    """What the server of a pod says."""
    script = "import socket, sys; print(socket.create_connection((sys.argv[1], 8080), timeout=10).recv(100).decode())"
    found = subprocess.run(["python3", "-c", script, address], capture_output=True, text=True, check=True, timeout=30)
    return found.stdout.strip()


def test_replicas_listen_on_one_port_and_keep_their_networks_through_kill_9(up: OwnNetworkUp) -> None:
    """The downward API has the pod's address, endpoints follow, and nothing is left of deleted pods."""
    service = {"selector": {"app": "web"}, "ports": [{"port": 8080}]}
    up.apply(
        deployment("web", 2, "python3", "-c", _SERVER),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service},
    )
    up.kubectl("rollout", "status", "deployment/web", PATIENCE)
    before = up.addresses("web")
    assert len(set(before.values())) == 2
    assert all(answer(address) == address for address in before.values())
    endpoints = up.kubectl.json("get", "endpoints", "web")["subsets"][0]["addresses"]
    assert {one["ip"] for one in endpoints} == set(before.values())
    up.process.kill()
    assert all(answer(address) == address for address in before.values())
    up.process.start()
    up.kubectl("rollout", "status", "deployment/web", PATIENCE)
    assert up.addresses("web") == before
    assert all(answer(address) == address for address in before.values())
    up.kubectl("delete", "deployment", "web")
    up.kubectl("wait", "--for=delete", PATIENCE, "pod", "-l", "app=web")
    assert up.process.stop() == 0
    assert [links(), routes(), nft_tables()] == [[], [], []]


def test_pod_that_never_listens_is_not_ready_beside_one_that_does(up: OwnNetworkUp) -> None:
    up.apply(deployment("web", 1, "python3", "-c", _SERVER), deployment("silent", 1, "sleep", "1000"))
    up.kubectl("rollout", "status", "deployment/web", PATIENCE)
    (name, address), *_ = up.addresses("silent").items()
    reason = f"--field-selector=reason=Unhealthy,involvedObject.name={name}"
    up.kubectl("wait", "--for=create", PATIENCE, f"pod/{name}")
    with up.kubectl.start("get", "events", "--watch", reason, "-o", "jsonpath={.message}{'\\n'}") as watch:
        assert watch.stdout is not None
        said = watch.stdout.readline()
        watch.kill()
    assert f"dial tcp {address}:8080" in said
    conditions = up.kubectl.json("get", "pod", name)["status"]["conditions"]
    assert next(one["status"] for one in conditions if one["type"] == "Ready") == "False"
