"""`pykubelet up` of an ordinary user: pods have networks of their own, Services, DNS and probes work."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from ordinary_up import PATIENCE, OrdinaryUp, ordinary_up
from own_network import another_machine, own_network
from process_lab import processes_with
from requirements import missing

pytestmark = pytest.mark.timeout(180)
# Answers each request with the pod's name.
_SERVER = """
import http.server, os, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ["HOSTNAME"].encode())
    def log_message(self, *_): pass
http.server.HTTPServer.server_bind = socketserver.TCPServer.server_bind  # the other one asks a name server
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
"""


def deployment(app: str, replicas: int, *command: str, **container: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "example/image:1", "command": command, **container}
    template = {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [main], "terminationGracePeriodSeconds": 0},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app}, "spec": spec}


def pod(name: str, *command: str, **spec: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "example/image:1", "command": command}
    spec = {"containers": [main], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def service(name: str, **spec: Any) -> dict[str, Any]:
    ports = [{"port": 80, "targetPort": 8080}]
    spec = {"selector": {"app": name}, "ports": ports, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def up() -> Iterator[OrdinaryUp]:
    with ordinary_up("--pod-network", "own") as made:
        yield made


_READINESS = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
_CALL_API = """
import os, ssl, urllib.request
token = open("/var/run/secrets/kubernetes.io/serviceaccount/token").read()
trust = ssl.create_default_context(cafile="/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
for where in (f"{host}:{port}", "kubernetes.default.svc"):
    request = urllib.request.Request(f"https://{where}/api/v1/namespaces/default", headers={"Authorization": f"Bearer {token}"})
    try:
        urllib.request.urlopen(request, context=trust, timeout=10)
    except urllib.error.HTTPError as error:
        print("answered", error.code, error.read().decode())
"""
_ASK = "import sys, urllib.request; print('heard', urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"
_ECHO_UDP = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); server.bind(("", 5353))
while True:
    data, peer = server.recvfrom(1000); server.sendto(data.upper(), peer)
"""


def get(url: str) -> str:
    """The answer to a request, without a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as response:
        return str(response.read().decode())


def start_web(up: OrdinaryUp, **spec: Any) -> set[str]:
    """Run two replicas behind a Service; returns the names of their pods."""
    up.apply(deployment("web", 2, "python3", "-c", _SERVER, readinessProbe=_READINESS), service("web", **spec))
    up.kubectl("rollout", "status", "deployment/web", PATIENCE)
    return set(up.addresses("web"))


def test_app_works_as_on_a_cluster(up: OrdinaryUp) -> None:
    """Replicas on one port, Services by name, node ports, port-forward, the API's proxy, and the API from a pod."""
    names = start_web(up, type="NodePort", ports=[{"port": 80, "targetPort": 8080, "nodePort": 30080}])
    assert len(set(up.addresses("web").values())) == 2
    up.apply(pod("client", "python3", "-c", _ASK, "http://web.default"), pod("api", "python3", "-c", _CALL_API))
    assert up.until_log("client", "heard").split()[1] in names
    # Each replica is asked in turn, at random.
    seen = set[str]()
    for _ in range(60):
        seen.add(get("http://127.0.0.1:30080"))
    assert seen == names
    assert up.kubectl("get", "--raw", "/api/v1/namespaces/default/services/web:80/proxy/") in names
    name = min(names)
    assert up.kubectl("get", "--raw", f"/api/v1/namespaces/default/pods/{name}:8080/proxy/") == name
    with up.kubectl.start("port-forward", f"pod/{name}", ":8080") as forward:
        assert forward.stdout is not None
        port = forward.stdout.readline().partition("127.0.0.1:")[2].partition(" ")[0]
        assert get(f"http://127.0.0.1:{port}") == name
        forward.terminate()
    up.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", PATIENCE, "pod/api")
    assert up.kubectl("logs", "api").count("system:serviceaccount:default:default") == 2
    assert up.kubectl("exec", name, "--", "sh", "-c", "cut -d: -f1 /proc/net/dev | tail -n +3").split() == [
        "lo",
        "eth0",
    ]


def test_readiness_asks_the_right_pod(up: OrdinaryUp) -> None:
    """A pod that never listens is not ready beside one that does; TCP and exec hooks too."""
    start_web(up)
    silent = deployment("silent", 1, "sleep", "1000", readinessProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1})
    up.apply(silent)
    up.kubectl("wait", "--for=jsonpath={.status.unavailableReplicas}=1", PATIENCE, "deployment/silent")
    ((name, address),) = wait_for_addresses(up, "silent").items()
    reason = f"--field-selector=reason=Unhealthy,involvedObject.name={name}"
    with up.kubectl.start("get", "events", "--watch", reason, "-o", "jsonpath={.message}{'\\n'}") as watch:
        assert watch.stdout is not None
        said = watch.stdout.readline()
        watch.kill()
    assert f"dial tcp {address}:8080: connect: connection refused" in said


def wait_for_addresses(up: OrdinaryUp, app: str) -> dict[str, str]:
    up.kubectl("wait", "--for=jsonpath={.status.podIP}", PATIENCE, "pod", "-l", f"app={app}")
    return up.addresses(app)


def test_datagrams_reach_a_node_port(up: OrdinaryUp) -> None:
    ports = [{"port": 53, "targetPort": 5353, "protocol": "UDP", "nodePort": 30053}]
    up.apply(deployment("echo", 1, "python3", "-c", _ECHO_UDP), service("echo", type="NodePort", ports=ports))
    up.kubectl("rollout", "status", "deployment/echo", PATIENCE)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1)
        client.connect(("127.0.0.1", 30053))
        for _ in range(20):
            client.send(b"hello")
            with suppress(TimeoutError, ConnectionRefusedError):
                assert client.recv(100) == b"HELLO"
                return
    raise AssertionError("no answer")


def test_taken_node_port_is_an_event_on_the_service(up: OrdinaryUp) -> None:
    with socket.create_server(("127.0.0.1", 30080)):
        start_web(up, type="NodePort", ports=[{"port": 80, "targetPort": 8080, "nodePort": 30080}])
        reason = "--field-selector=reason=NodePortNotAvailable,involvedObject.kind=Service"
        with up.kubectl.start("get", "events", "--watch", reason, "-o", "jsonpath={.message}{'\\n'}") as watch:
            assert watch.stdout is not None
            said = watch.stdout.readline()
            watch.kill()
    assert said == "node port 30080 (TCP) is not available: address already in use\n"


def test_host_port_leads_to_the_pod_while_it_is_there(up: OrdinaryUp) -> None:
    ports = [{"containerPort": 8080, "hostPort": 18080}]
    up.apply(deployment("web", 1, "python3", "-c", _SERVER, readinessProbe=_READINESS, ports=ports))
    up.kubectl("rollout", "status", "deployment/web", PATIENCE)
    (name,) = up.addresses("web")
    assert get("http://127.0.0.1:18080") == name
    up.kill()
    up.start()
    assert get("http://127.0.0.1:18080") == name
    delete(up, "deployment/web")
    with pytest.raises(urllib.error.URLError, match="refused"):
        get("http://127.0.0.1:18080")


def test_host_network_stays_on_the_machine(up: OrdinaryUp) -> None:
    up.apply(pod("on-host", "sh", "-c", "cut -d: -f1 /proc/net/dev | tail -n +3; echo done", hostNetwork=True))
    assert up.until_log("on-host", "done").split() == ["lo", "done"]


def test_networks_survive_kill_9_and_end_with_their_pods(up: OrdinaryUp) -> None:
    names = start_web(up, type="NodePort", ports=[{"port": 80, "targetPort": 8080, "nodePort": 30080}])
    before, holders = up.addresses("web"), up.holders
    assert len(holders) == 1
    up.kill()
    up.start()
    up.kubectl("rollout", "status", "deployment/web", PATIENCE)
    assert (up.addresses("web"), up.holders) == (before, holders)
    restarts = up.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={..restartCount}")
    assert restarts == "0 0"
    assert get("http://127.0.0.1:30080") in names
    delete(up, "deployment/web")
    assert up.stop() == 0
    until(lambda: not up.holders)
    assert not (up.state / "holder" / "socket").exists()


def test_down_ends_pods_and_the_holder(up: OrdinaryUp) -> None:
    start_web(up)
    assert len(up.holders) == 1
    command = [*up.wrapper(), sys.executable, "-m", "pykubelet", "down", "--data-dir", str(up.data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    until(lambda: not up.holders)
    assert not any((up.state / "networks").iterdir())


def test_killed_holder_is_replaced_and_pods_get_new_networks(up: OrdinaryUp) -> None:
    start_web(up, type="NodePort", ports=[{"port": 80, "targetPort": 8080, "nodePort": 30080}])
    before, (holder,) = up.addresses("web"), up.holders
    os.kill(holder, signal.SIGKILL)
    until(lambda: up.holders not in ([], [holder]))
    until(lambda: not set(up.addresses("web").values()) & set(before.values()), 60)
    up.kubectl("rollout", "status", "deployment/web", PATIENCE)
    assert get("http://127.0.0.1:30080") in up.addresses("web")


_CONNECT = """
import socket, time
print("heard", socket.create_connection(("192.0.2.2", 80), timeout=10).recv(100).decode(), flush=True)
time.sleep(1000)
"""
# A machine whose tun device any user may open.
_OPEN_TUN = "test -e tun || mknod -m 666 tun c 10 200; mount --bind tun /dev/net/tun; exec"
# The kernel permits no user namespaces to a process whose root is not that of its mount namespace.
_NO_USER_NAMESPACES = "mkdir root; mount --rbind / root; exec chroot root"


def events(up: OrdinaryUp, reason: str) -> list[str]:
    items = up.kubectl.json("get", "events", f"--field-selector=reason={reason}")["items"]
    return [item["message"] for item in items]


def test_pods_reach_other_machines_through_pasta(tmp_path: Path) -> None:
    if shutil.which("pasta") is None:
        missing("pasta is not installed: scripts/setup --for-tests")
    with own_network(), another_machine(tmp_path / "machines") as other, other.listener(80) as listener:
        subprocess.run(["ip", "route", "add", "default", "via", other.address], check=True)
        with ordinary_up("--pod-network", "own", script=_OPEN_TUN, network=nullcontext()) as up:
            up.apply(pod("client", "python3", "-c", _CONNECT))
            connection, (peer, _) = listener.accept()
            assert peer == other.own_address
            connection.sendall(b"the other machine")
            connection.close()
            assert "heard the other machine" in up.until_log("client", "heard")
            assert events(up, "PodEgressNotAvailable") == []
            (pasta,) = processes_with(f"{up.state}/holder/egress.pid")
            up.kill()
            up.start()
            assert processes_with(f"{up.state}/holder/egress.pid") == [pasta]
            delete(up, "pod/client")
            assert up.stop() == 0
            until(lambda: not processes_with(f"{up.state}/holder/egress.pid"))


def test_missing_way_out_is_said_once() -> None:
    script = "mknod -m 600 tun c 10 200; mount --bind tun /dev/net/tun; exec"
    with ordinary_up("--pod-network", "own", script=script) as up:
        until(lambda: len(events(up, "PodEgressNotAvailable")) == 1)
        assert sum("pods do not reach other machines" in line for line in up.lines) == 1
        (message,) = events(up, "PodEgressNotAvailable")
        assert "They reach each other, Services and the API" in message


def test_machine_without_user_namespaces_shares_its_network() -> None:
    with ordinary_up("--pod-network", "auto", script=_NO_USER_NAMESPACES) as up:
        until(lambda: len(events(up, "PodNetworkNotAvailable")) == 1)
        (message,) = events(up, "PodNetworkNotAvailable")
        assert "a user namespace: Operation not permitted" in message
        up.apply(pod("client", "sh", "-c", "cut -d: -f1 /proc/net/dev | tail -n +3; echo done"))
        assert up.until_log("client", "done").split() == ["lo", "done"]
        assert not up.holders


def delete(up: OrdinaryUp, name: str) -> None:
    """Delete all that has pods, and wait until their networks are gone: without a grace period the API forgets pods first."""
    up.kubectl("delete", name)
    until(lambda: not any((up.state / "networks").iterdir()))


def until(is_so: Callable[[], bool], seconds: float = 20) -> None:
    pause = threading.Event()
    for _ in range(int(seconds / 0.1)):
        if is_so():
            return
        pause.wait(0.1)
    raise AssertionError("it did not happen")
