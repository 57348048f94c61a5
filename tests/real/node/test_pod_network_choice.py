"""Which network process pods get by default, and what `up` says where it cannot be one of their own."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubectl import Kubectl
from own_network import links, nft_elements, own_network
from process_lab import end_containers
from pykubelet.podnetwork.node_address import node_address
from pykubelet_process import UpProcess
from requirements import needs_root

pytestmark = [needs_root, pytest.mark.timeout(120)]
PATIENCE = "--timeout=60s"
AUTO = ("--pod-network", "auto", "--pod-cidr", "10.99.1.0/24")
_IN_CLUSTER = """
import ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
request = urllib.request.Request("https://kubernetes.default/api")
request.add_header("Authorization", "Bearer " + open(f"{folder}/token").read())
context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
print(urllib.request.urlopen(request, context=context, timeout=20).status)
"""


class Powerless(UpProcess):
    """Root without the right to change the network, as in most containers."""

    def wrapper(self) -> list[str]:
        return ["setpriv", "--bounding-set=-net_admin"]


@pytest.fixture(autouse=True)
def _own_machine() -> Iterator[None]:
    """A machine with no address but loopback."""
    with own_network():
        yield


@pytest.fixture
def stopped() -> Iterator[list[UpProcess]]:
    """Ends the processes in the list, and their containers."""
    started: list[UpProcess] = []
    yield started
    for one in started:
        if one.is_running:
            one.stop()
        end_containers(one.data / "node/process")


def pod(name: str, *command: str, **spec: Any) -> str:
    container = {"name": "main", "image": "any", "command": command}
    spec = {"restartPolicy": "OnFailure", "containers": [container], "terminationGracePeriodSeconds": 1, **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def test_pods_reach_the_api_by_name_on_a_machine_without_an_address(stopped: list[UpProcess], tmp_path: Path) -> None:
    """It and the cluster DNS are at the pods' gateway, which the machine has until `up` stops."""
    up = UpProcess(tmp_path, *AUTO, "--service-proxy")
    stopped.append(up)
    assert node_address() == ""
    up.start()
    kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
    endpoints = kubectl.json("get", "endpoints", "kubernetes")["subsets"][0]["addresses"]
    assert [one["ip"] for one in endpoints] == [node_address()] == ["10.99.1.1"]
    kubectl("create", "-f", "-", text=pod("asks", sys.executable, "-c", _IN_CLUSTER))
    kubectl("wait", "pod/asks", "--for=jsonpath={.status.phase}=Succeeded", PATIENCE)
    assert kubectl("logs", "asks").splitlines()[-1] == "200"
    kubectl("delete", "pod", "asks", "--wait")
    assert up.stop() == 0
    assert node_address() == ""


def test_host_network_is_the_machines(stopped: list[UpProcess], tmp_path: Path) -> None:
    up = UpProcess(tmp_path, *AUTO).start()
    stopped.append(up)
    kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
    kubectl("create", "-f", "-", text=pod("machine", "sleep", "1000", hostNetwork=True))
    kubectl("wait", "pod/machine", "--for=condition=Ready", PATIENCE)
    assert links() == []


def test_host_port_outlives_kill_9(stopped: list[UpProcess], tmp_path: Path) -> None:
    """It goes with its pod."""
    up = UpProcess(tmp_path, *AUTO).start()
    stopped.append(up)
    kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
    ports = [{"containerPort": 80, "hostPort": 8080}]
    container = {"name": "main", "image": "any", "command": ["sleep", "1000"], "ports": ports}
    kubectl("create", "-f", "-", text=pod("web", "sleep", containers=[container]))
    kubectl("wait", "pod/web", "--for=condition=Ready", PATIENCE)
    before = nft_elements()
    assert any("'tcp', 8080" in one for one in before)
    up.kill()
    assert nft_elements() == before
    up.start()
    assert nft_elements() == before
    kubectl("delete", "pod", "web", "--wait")
    assert nft_elements() == []


def test_machine_that_refuses_is_reported_once_and_shared(stopped: list[UpProcess], tmp_path: Path) -> None:
    """One log line and one event of the node say why, and what it costs; `own` is refused with the same reason."""
    up = Powerless(tmp_path, *AUTO).start()
    stopped.append(up)
    reason = "this machine does not permit pods networks of their own: Operation not permitted"
    costs = "replicas share ports, and a probe may reach another pod"
    assert [one for one in up.lines if "pods share the machine's network" in one and reason in one and costs in one]
    assert len([one for one in up.lines if "network" in one]) == 1
    kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")

    shown = "jsonpath={.involvedObject.kind} {.type} {.message}{'\\n'}"
    with kubectl.start(
        "get", "events", "--watch", "--field-selector=reason=PodNetworkNotAvailable", "-o", shown
    ) as watch:
        assert watch.stdout is not None
        said = watch.stdout.readline()
        watch.kill()
    assert said == f"Node Warning Pods share the machine's network: {reason}. It costs: {costs}\n"
    kubectl("create", "-f", "-", text=pod("machine", "sleep", "1000"))
    kubectl("wait", "pod/machine", "--for=condition=Ready", PATIENCE)
    assert [links(), node_address(), list(Path(up.data / "node/process/networks").glob("*"))] == [[], "", []]
    up.stop()
    end_containers(up.data / "node/process")
    (tmp_path / "own").mkdir()
    refused = Powerless(tmp_path / "own", "--pod-network", "own")
    assert refused.refusal() == f"{reason}: use --pod-network host"
