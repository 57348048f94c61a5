"""`pykubelet proxy` and `up` as programs, on a machine with a network of its own."""

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from network_lab import Caller, NetworkLab
from process_lab import end_containers
from proxy_rig import IP, NODE, endpoint_slice, service, until
from pykubelet.api import serializer
from pykubelet.podnetwork.node_address import node_address
from pykubelet_process import PykubeletProcess, ServerProcess, UpProcess

POD = "10.1.0.1"
TABLE = "pykubelet-proxy"


@pytest.fixture(scope="module")
def lab() -> Iterator[NetworkLab]:
    """A node with one pod that serves."""
    made = NetworkLab()
    try:
        made.add_pod(POD)
        made.serve(POD, 8080)
        yield made
    finally:
        made.close()


class _OnNode:
    """Starts a program in the node's network namespace."""

    lab: NetworkLab

    def wrapper(self) -> list[str]:
        return self.lab.node.enter


class Server(_OnNode, ServerProcess):
    pass


class Up(_OnNode, UpProcess):
    pass


class Proxy(_OnNode, PykubeletProcess):
    def __init__(self, *options: str) -> None:
        super().__init__()
        self.options = options

    def command(self) -> list[str]:
        return ["proxy", *self.options]


_HEALTHY = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:10256/healthz').read().decode())"


def kubectl(lab: NetworkLab, kubeconfig: Path, *words: str, text: str = "") -> str:
    return lab.node.run("kubectl", f"--kubeconfig={kubeconfig}", *words, text=text)


def tables(lab: NetworkLab) -> str:
    return lab.node.run("nft", "list", "tables")


def test_command_serves_and_cleans_up(lab: NetworkLab, tmp_path: Path) -> None:
    """Rules stay when it stops, a second one is refused, and --cleanup deletes what it left."""
    Server.lab = Proxy.lab = lab
    server = Server(tmp_path)
    with ExitStack() as stack:
        stack.callback(lambda: server.stop() if server.is_running else None)
        server.start()
        config = str(server.kubeconfig)
        objects = [service(), endpoint_slice(POD)]
        text = serializer.encode({"kind": "List", "apiVersion": "v1", "items": objects}).decode()
        kubectl(lab, server.kubeconfig, "create", "namespace", "shop")
        kubectl(lab, server.kubeconfig, "apply", "-f", "-", text=text)
        proxy = Proxy("--kubeconfig", config, "--hostname-override", NODE)
        assert proxy.start_up() == "proxy"
        caller = Caller(lab.client, IP, 80)
        stack.callback(caller.close)
        assert caller.ask()[0] == POD
        health = lab.node.run(sys.executable, "-c", _HEALTHY)
        assert '"nodeEligible":true' in health
        refused = Proxy("--kubeconfig", config).refusal()
        assert refused == f"process {proxy.pid} runs a service proxy in this network namespace: stop it first"
        assert "stop it first" in Proxy("--cleanup").refusal()
        assert proxy.stop() == 0
        assert caller.ask()[0] == POD
        assert TABLE in tables(lab)
        cleanup = Proxy("--cleanup")
        cleanup.launch().wait(20)
        assert cleanup.stop() == 0
        assert cleanup.has_said("the rules of Services are deleted")
        assert TABLE not in tables(lab)


def test_second_cluster_says_why_it_has_no_addresses(lab: NetworkLab, tmp_path: Path) -> None:
    """Two clusters on one machine: the second runs on without addresses, and gets them when the first has ended."""
    Up.lab = lab
    first, second = (Up(tmp_path / name, "--service-proxy", runtime="sim", name=name) for name in ("one", "two"))
    for one in (first, second):
        one.data.parent.mkdir()
    try:
        first.start()
        until(lambda: TABLE in tables(lab))
        second.start()
        reason = f"process {first.pid} runs a service proxy in this network namespace"
        assert second.has_said(reason)
        events = kubectl(lab, second.kubeconfig, "get", "events", "-o", "jsonpath={.items[*].message}")
        until(lambda: reason in kubectl(lab, second.kubeconfig, "get", "events", "-o", "jsonpath={.items[*].message}"))
        assert "Traceback" not in "".join((*first.lines, *second.lines)) + events
        assert first.stop() == 0
        until(lambda: _owner() == second.pid)
        assert second.stop() == 0
    finally:
        for one in (first, second):
            if one.is_running:
                one.kill()


def test_down_removes_the_rules_unless_another_proxy_uses_them(lab: NetworkLab, tmp_path: Path) -> None:
    """Of two clusters, the second takes over the rules of a killed one, and they end with it."""
    Up.lab = lab
    first, second = (Up(tmp_path / name, "--service-proxy", runtime="sim", name=name) for name in ("one", "two"))
    for one in (first, second):
        one.data.parent.mkdir()
    try:
        first.start()
        until(lambda: TABLE in tables(lab))
        second.start()
        first.kill()
        until(lambda: _owner() == second.pid)
        lab.node.run(sys.executable, "-m", "pykubelet", "down", "--data-dir", str(first.data))
        assert TABLE in tables(lab)
        second.kill()
        assert TABLE in tables(lab)
        lab.node.run(sys.executable, "-m", "pykubelet", "down", "--data-dir", str(second.data))
        assert TABLE not in tables(lab)
    finally:
        for one in (first, second):
            if one.is_running:
                one.kill()


def masquerades(lab: NetworkLab) -> list[str]:
    return [line for line in tables(lab).splitlines() if "pykubelet-" in line and TABLE not in line]


def links(lab: NetworkLab) -> str:
    return lab.node.run(sys.executable, "-c", "import socket; print(socket.if_nameindex())")


def test_down_removes_the_networks_of_pods(lab: NetworkLab, tmp_path: Path) -> None:
    """Their links, addresses, namespaces and masquerading, after a kill."""
    Up.lab = lab
    up = Up(tmp_path, "--pod-network", "own", name="node-1")
    container = {"name": "main", "image": "any", "command": ["sleep", "1000"]}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sleeps"}, "spec": spec}
    networks = up.data / "node/process/networks"
    try:
        up.start()
        kubectl(lab, up.kubeconfig, "apply", "-f", "-", text=serializer.encode(pod).decode())
        kubectl(lab, up.kubeconfig, "wait", "--for=condition=Ready", "--timeout=40s", "pod/sleeps")
        up.kill()
        assert "veth" in links(lab)
        assert "lo:pods" in lab.node.run("ip", "address")
        assert masquerades(lab)
        assert list(networks.iterdir())
        lab.node.run(sys.executable, "-m", "pykubelet", "down", "--data-dir", str(up.data))
        until(lambda: "veth" not in links(lab))
        assert "lo:pods" not in lab.node.run("ip", "address")
        assert not masquerades(lab)
        assert not list(networks.iterdir())
    finally:
        if up.is_running:
            up.kill()
        end_containers(up.data / "node/process")


_IN_CLUSTER = """
import ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
request = urllib.request.Request("https://kubernetes.default/api")
request.add_header("Authorization", "Bearer " + open(f"{folder}/token").read())
context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
print(urllib.request.urlopen(request, context=context, timeout=20).status)
"""


@pytest.mark.parametrize("network", ["host", "own"])
def test_pod_finds_the_api_by_name(lab: NetworkLab, tmp_path: Path, network: str) -> None:
    """Name from the cluster DNS, address of the Service, certificate and token: what every client library relies on."""
    Up.lab = lab
    up = Up(tmp_path, "--service-proxy", "--pod-network", network, name="node-1")
    container = {"name": "main", "image": "any", "command": [sys.executable, "-c", _IN_CLUSTER]}
    spec = {"restartPolicy": "OnFailure", "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks"}, "spec": spec}
    try:
        up.start()
        kubectl(lab, up.kubeconfig, "apply", "-f", "-", text=serializer.encode(pod).decode())
        phase = ("get", "pod", "asks", "-o", "jsonpath={.status.phase}")
        until(lambda: kubectl(lab, up.kubeconfig, *phase) == "Succeeded")
        assert kubectl(lab, up.kubeconfig, "logs", "asks").splitlines()[-1] == "200"
        kubectl(lab, up.kubeconfig, "delete", "pod", "asks", "--wait")
    finally:
        if up.is_running:
            up.stop()
        end_containers(up.data / "node/process")


_SERVE = "import socket; server = socket.create_server(('', 8080))\nwhile True: server.accept()[0].sendall(b'served')"
_CALL = """
import os, socket, sys
print(socket.create_connection((os.environ["HOST_IP"], int(sys.argv[1])), timeout=20).recv(10).decode())
"""
_HOST_IP = {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}


def test_pod_reaches_a_node_port_at_the_address_of_its_node(lab: NetworkLab, tmp_path: Path) -> None:
    """The node's address is not loopback; the API server, which is there, finds the node's API all the same."""
    Up.lab = lab
    up = Up(tmp_path, "--service-proxy", "--pod-network", "own", name="node-1")
    container = {"name": "main", "image": "any", "command": [sys.executable, "-c", _SERVE], "env": [_HOST_IP]}
    ports = [{"port": 80, "targetPort": 8080, "nodePort": 30080}]
    documents = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": ports},
        },
    ]
    try:
        up.start()
        list_ = {"apiVersion": "v1", "kind": "List", "items": documents}
        kubectl(lab, up.kubeconfig, "apply", "-f", "-", text=serializer.encode(list_).decode())
        address = ("get", "node", "node-1", "-o", "jsonpath={.status.addresses[?(@.type=='InternalIP')].address}")
        assert kubectl(lab, up.kubeconfig, *address) == lab.node.call(node_address)
        kubectl(lab, up.kubeconfig, "wait", "pod/web", "--for=condition=Ready", "--timeout=60s")
        pod_ip = kubectl(lab, up.kubeconfig, "get", "pod", "web", "-o", "jsonpath={.status.podIP}")
        until(lambda: f"{pod_ip} . 8080" in lab.node.run("nft", "list", "ruleset"))
        call = ("exec", "web", "--", sys.executable, "-c", _CALL, "30080")
        assert kubectl(lab, up.kubeconfig, *call).strip() == "served"
    finally:
        if up.is_running:
            up.stop()
        end_containers(up.data / "node/process")


def _owner() -> int:
    newest = max(Path("/run/pykubelet").glob("proxy-*.lock"), key=lambda path: path.stat().st_mtime)
    return int(newest.read_text())


def test_health_address_that_is_taken_is_an_error(lab: NetworkLab, tmp_path: Path) -> None:
    """The proxy would otherwise seem to be down."""
    Proxy.lab = lab
    config = tmp_path / "kubeconfig"
    config.write_text(_NO_SERVER)
    with lab.node.inside(), socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = Proxy("--kubeconfig", str(config), "--healthz-bind-address", address).refusal()
    assert said.startswith(f"the health of the proxy cannot be served on {address}: Address already in use; choose")


_NO_SERVER = (
    "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],"
    " clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]}"
)


class Powerless(Proxy):
    """Root without the right to change the network, as in most containers."""

    def wrapper(self) -> list[str]:
        return [*super().wrapper(), "setpriv", "--bounding-set=-net_admin"]


def test_user_without_the_right_is_refused(lab: NetworkLab, tmp_path: Path) -> None:
    """The command ends with one line that says why."""
    Proxy.lab = lab
    config = tmp_path / "kubeconfig"
    config.write_text(_NO_SERVER)
    said = Powerless("--kubeconfig", str(config)).refusal()
    assert said.startswith("the service proxy cannot run: nftables cannot be changed by this user: ")
    assert "Operation not permitted" in said
