"""A cluster that knows itself: its pods reach the API with what every client library expects, and nobody else does."""

import base64
import json
import os
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from kubectl import Kubectl
from process_lab import end_containers
from pykubelet.podnetwork.node_address import node_address
from pykubelet_process import ServerProcess, UpProcess
from requirements import missing, needs_root

pytestmark = pytest.mark.timeout(120)
CLIENT = Path(__file__).parent / "clients/in_cluster.py"
SUPPORT = Path(__file__).parents[2] / "support"
UID = 12345
_AS_USER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from ordinary_user import become_ordinary
become_ordinary(int(sys.argv[2]))
os.execvp(sys.argv[3], sys.argv[3:])
"""
READERS = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "readers"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "readers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "readers"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
        },
    ],
}


class UserUp(UpProcess):
    """A cluster run by an ordinary user, if this is root."""

    def wrapper(self) -> list[str]:
        return [sys.executable, "-c", _AS_USER, str(SUPPORT), str(UID)] if os.geteuid() == 0 else []


@pytest.fixture(scope="module", params=["root", "an ordinary user"])
def up(request: pytest.FixtureRequest) -> Iterator[UpProcess]:
    """A cluster of processes."""
    if not node_address():
        missing("this machine has no address but loopback")
    as_root = request.param == "root"
    if as_root and os.geteuid() != 0:
        missing("only root can be both users")
    with TemporaryDirectory() as folder:
        if not as_root and os.geteuid() == 0:
            os.chown(folder, UID, UID)
        process = (UpProcess if as_root else UserUp)(Path(folder)).start()
        try:
            yield process
        finally:
            process.stop()
            end_containers(process.data / "node/process")


def endpoint(kubectl: Kubectl) -> tuple[str, int]:
    """Where the endpoint slice of the service `kubernetes` says that the API is."""
    found = kubectl.json("get", "endpointslices", "-l", "kubernetes.io/service-name=kubernetes")["items"]
    assert len(found) == 1
    return found[0]["endpoints"][0]["addresses"][0], found[0]["ports"][0]["port"]


def openid_configuration(kubectl: Kubectl) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl("get", "--raw", "/.well-known/openid-configuration"))
    return found


def test_client_library_in_a_pod_needs_no_configuration(up: UpProcess, tmp_path: Path) -> None:
    """The pod is created right after the start; its token lists what a role allows, and no more."""
    kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
    kubectl("create", "-f", "-", text=json.dumps(READERS))
    address, port = endpoint(kubectl)
    # Without a service proxy the service's own address leads nowhere.
    environment = {"KUBERNETES_SERVICE_HOST": address, "KUBERNETES_SERVICE_PORT": str(port)}
    container: dict[str, Any] = {
        "name": "main",
        "image": "example/client:1",
        "command": [sys.executable, str(CLIENT)],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
    }
    spec = {"containers": [container], "restartPolicy": "Never"}
    made = kubectl.json(
        "create",
        "-f",
        "-",
        text=json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": spec}),
    )
    assert made["spec"]["serviceAccountName"] == "default"
    try:
        kubectl("wait", "pod/client", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=40s")
    except AssertionError as error:
        raise AssertionError(kubectl("describe", "pod", "client") + kubectl("logs", "client")) from error
    told = json.loads(kubectl("logs", "client"))
    assert told == {"pods": ["client"], "secrets": 403, "port": "tcp://10.96.0.1:443", "uid": told["uid"]}
    kubectl("delete", "pod", "client", "--grace-period=1")


def test_pod_with_a_missing_account_is_refused(up: UpProcess, tmp_path: Path) -> None:
    """The message is upstream's."""
    kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
    overrides = json.dumps({"spec": {"serviceAccountName": "nobody"}})
    said = kubectl.fails("run", "x", "--image=example/x:1", f"--overrides={overrides}")
    why = 'error looking up service account default/nobody: serviceaccount "nobody" not found'
    assert said == f'Error from server (Forbidden): pods "x" is forbidden: {why}\n'


def test_what_nothing_acts_on_is_stored_with_a_warning(up: UpProcess, tmp_path: Path) -> None:
    """The warning of kubectl names the kind or field; dry runs and updates have it too, other writes none."""
    kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
    create = ("create", "service", "loadbalancer", "shop", "--tcp=80")
    warning = "Warning: Service spec.type LoadBalancer: nothing here assigns it an external address\n"
    assert kubectl.run(*create, "--dry-run=server").stderr == warning
    assert kubectl.run(*create).stderr == warning
    assert kubectl.run("label", "service", "shop", "a=b").stderr == warning
    patch = json.dumps({"spec": {"type": "ClusterIP"}})
    assert kubectl.run("patch", "service", "shop", "-p", patch).stderr == ""
    kubectl("delete", "service/shop")


def test_listener_for_pods_is_the_same_server(up: UpProcess, tmp_path: Path) -> None:
    """Its certificate is of the cluster's authority and names the service; strangers on this machine get nothing."""
    address, port = endpoint(Kubectl(up.kubeconfig, "default", tmp_path / "cache"))
    assert address == node_address()
    trusted = ssl.create_default_context(cafile=str(up.data / "pki/ca.crt"))
    for name in (address, "10.96.0.1", "localhost", "kubernetes", "kubernetes.default.svc.cluster.local"):
        with (
            socket.create_connection((address, port), timeout=20) as plain,
            trusted.wrap_socket(plain, server_hostname=name) as opened,
        ):
            opened.sendall(b"GET /api/v1/secrets HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert opened.recv(12) == b"HTTP/1.1 403"


def test_keys_of_tokens_are_where_pods_reach_them(up: UpProcess, tmp_path: Path) -> None:
    """A pod that verifies another one's token fetches the keys from the address that the discovery document names."""
    kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
    address, port = endpoint(kubectl)
    found = openid_configuration(kubectl)
    assert found["jwks_uri"] == f"https://{address}:{port}/openid/v1/jwks"
    token = kubectl("create", "token", "default").strip()
    signed_with = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))["kid"]
    trusted = ssl.create_default_context(cafile=str(up.data / "pki/ca.crt"))
    request = urllib.request.Request(found["jwks_uri"], headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=20, context=trusted) as answer:
        assert signed_with in {key["kid"] for key in json.load(answer)["keys"]}


def test_server_alone_on_loopback_has_no_endpoints(tmp_path: Path) -> None:
    """The service is there all the same, and one line of the log says why nothing reaches it."""
    server = ServerProcess(tmp_path).start()
    try:
        kubectl = Kubectl(server.kubeconfig, "default", tmp_path / "cache")
        assert kubectl.json("get", "service", "kubernetes")["spec"]["clusterIP"] == "10.96.0.1"
        assert kubectl.json("get", "endpointslices,endpoints")["items"] == []
        # Only programs of this machine reach the server, and the keys with it.
        assert openid_configuration(kubectl)["jwks_uri"].startswith(server.url)
        assert server.has_said("has no endpoints")
    finally:
        assert server.stop() == 0


@needs_root
def test_other_machines_are_refused_before_tls(tmp_path: Path) -> None:
    """In networks of their own: a neighbour of the machine is refused, and the machine itself is not."""
    command = ["unshare", "--net", sys.executable, str(SUPPORT / "neighbours.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"own": "HTTP/1.1 200", "neighbour": "closed"}
