"""Ingresses of `pykubelet up`, as root in a network of their own: kubectl, curl, pods, classes, events and a taken port."""

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from kubectl import Kubectl
from own_network import own_network
from process_lab import end_containers, unmount_below
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(180)
HTTP, HTTPS = 18080, 18443
PATIENCE = "--timeout=60s"
# Answers each request with the version of the app, and ends cleanly when it is told to stop.
_SERVER = """
import http.server, os, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = os.environ["VERSION"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
"""


class IngressUp:
    """A cluster with pods in networks of their own."""

    def __init__(self, folder: Path) -> None:
        ports = ("--ingress-http-port", str(HTTP), "--ingress-https-port", str(HTTPS))
        self.process = UpProcess(folder, "--pod-network", "own", "--pod-cidr", "10.99.2.0/24", *ports)
        self.kubectl = Kubectl(self.process.kubeconfig, "default", folder / "cache")

    def apply(self, *documents: dict[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": documents}
        self.kubectl("apply", "-f", "-", text=json.dumps(items))

    def expect_event(self, name: str, reason: str) -> str:
        """The message of an event of an Ingress, waiting for it."""
        fields = f"--field-selector=reason={reason},involvedObject.name={name}"
        with self.kubectl.start("get", "events", "--watch", fields, "-o", "jsonpath={.message}{'\\n'}") as watch:
            timer = threading.Timer(30, watch.kill)
            timer.start()
            assert watch.stdout is not None
            said = watch.stdout.readline()
            timer.cancel()
            watch.kill()
        assert said, f"no event {reason} of {name}"
        return said

    def expect_address(self, name: str) -> None:
        """Wait until an Ingress has its address."""
        self.kubectl(
            "wait", PATIENCE, f"ingress/{name}", "--for=jsonpath={.status.loadBalancer.ingress[0].ip}=127.0.0.1"
        )


@pytest.fixture
def up(tmp_path: Path) -> Iterator[IngressUp]:
    with own_network():
        made = IngressUp(tmp_path)
        try:
            made.process.start()
            yield made
        finally:
            if made.process.is_running:
                made.process.kill()
            end_containers(made.process.data / "node" / "process")
            unmount_below(tmp_path)


def curl(url: str, *options: str, code: int = 0) -> str:
    """What curl prints for a URL of web.example.com, without proxy settings."""
    places = [f"web.example.com:{port}:127.0.0.1" for port in (HTTP, HTTPS)]
    resolved = [option for place in places for option in ("--resolve", place)]
    retries = ("--retry", "5", "--retry-connrefused", "--noproxy", "*")
    command = ["curl", "-sS", "--max-time", "20", *retries, *resolved, *options, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout


def app(version: str) -> list[dict[str, Any]]:
    """A Deployment with two replicas that answer with a version, and its Service."""
    container = {
        "name": "main",
        "image": "example/image:1",
        "command": ["python3", "-c", _SERVER],
        "env": [{"name": "VERSION", "value": version}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 5, "automountServiceAccountToken": False}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    labels = {"matchLabels": {"app": "web"}}
    deployment = {"replicas": 2, "selector": labels, "template": template}
    service = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": deployment},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service},
    ]


def ingress(
    name: str = "web", *, service: str = "web", metadata: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    backend = {"service": {"name": service, "port": {"name": "http"}}}
    rule = {"host": "web.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"rules": [rule], **spec},
    }


def secret(authority: trustme.CA, host: str) -> dict[str, Any]:
    issued = authority.issue_cert(host)
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    data = {"tls.crt": chain.decode(), "tls.key": issued.private_key_pem.bytes().decode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "web-tls"},
        "type": "kubernetes.io/tls",
        "stringData": data,
    }


def test_app_is_served_through_a_rolling_update_without_a_failed_request(up: IngressUp) -> None:
    up.apply(*app("1"), ingress())
    up.kubectl("rollout", "status", "deployment/web", PATIENCE)
    up.expect_address("web")
    (ports,) = up.kubectl.json("get", "ingress", "web")["status"]["loadBalancer"]["ingress"]
    assert [each["port"] for each in ports["ports"]] == [HTTP, HTTPS]
    assert curl(f"http://web.example.com:{HTTP}/") == "1"
    assert up.kubectl("get", "ingressclass", "--no-headers").split()[:3] == [
        "pykubelet",
        "pykubelet.io/ingress-controller",
        "<none>",
    ]
    described = up.kubectl("describe", "ingress", "web")
    assert "Ingress Class:    pykubelet" in described
    assert "web:http (10.99.2." in described
    assert "Warning" not in described
    stopping, answers = threading.Event(), list[str]()

    def ask() -> None:
        while not stopping.is_set():
            answers.append(curl(f"http://web.example.com:{HTTP}/", "--retry", "0", "-w", " %{http_code}"))

    asking = threading.Thread(target=ask)
    asking.start()
    up.apply(*app("2"))
    up.kubectl("rollout", "status", "deployment/web", PATIENCE)
    while answers[-1:] != ["2 200"]:
        assert asking.is_alive()
        stopping.wait(0.05)
    stopping.set()
    asking.join()
    assert set(answers) == {"1 200", "2 200"}
    up.kubectl("delete", "service", "web")
    assert "Service default/web does not exist" in up.expect_event("web", "ServiceNotFound")
    up.kubectl("wait", "--for=delete", PATIENCE, "endpointslice", "-l", "kubernetes.io/service-name=web")
    assert curl(f"http://web.example.com:{HTTP}/", "--retry", "0", "-w", "%{http_code}", "-o", "/dev/null") == "503"


def test_tls_follows_its_secret_and_http_is_redirected(up: IngressUp, tmp_path: Path) -> None:
    tls = [{"hosts": ["web.example.com"], "secretName": "web-tls"}]
    up.apply(*app("1"), ingress(tls=tls))
    assert "secret default/web-tls" in up.expect_event("web", "CertificateNotUsed")
    up.kubectl("rollout", "status", "deployment/web", PATIENCE)
    up.expect_address("web")
    url, ca = f"https://web.example.com:{HTTPS}/", tmp_path / "ca.pem"
    assert curl(url, "--insecure") == "1"
    for _ in range(2):
        authority = trustme.CA()
        authority.cert_pem.write_to_path(ca)
        curl(url, "--cacert", str(ca), code=60)
        up.apply(secret(authority, "web.example.com"))
        pause = threading.Event()
        for _ in range(200):
            shown = subprocess.run(
                [
                    "curl",
                    "-s",
                    "--noproxy",
                    "*",
                    "--cacert",
                    ca,
                    "--resolve",
                    f"web.example.com:{HTTPS}:127.0.0.1",
                    url,
                ],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            if shown.returncode == 0:
                break
            pause.wait(0.05)
        assert shown.stdout == "1"
    assert curl(f"http://web.example.com:{HTTP}/x?y", "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}") == (
        f"308 https://web.example.com:{HTTPS}/x?y"
    )
    assert curl(f"http://web.example.com:{HTTP}/x", "--location", "--cacert", str(ca)) == "1"


def test_class_decides_who_serves_an_ingress(up: IngressUp) -> None:
    up.kubectl("wait", "--for=create", PATIENCE, "ingressclass/pykubelet")
    other = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": "other"},
        "spec": {"controller": "example.com/other"},
    }
    annotated = {"annotations": {"kubernetes.io/ingress.class": "pykubelet"}}
    up.apply(other, ingress("theirs", ingressClassName="other"), ingress("nobodys", ingressClassName="missing"))
    up.apply(ingress("annotated", metadata=annotated), ingress("default"))
    assert "IngressClass missing does not exist" in up.expect_event("nobodys", "IngressClassNotFound")
    for name in ("annotated", "default"):
        up.expect_address(name)
    names = {one["metadata"]["name"]: one for one in up.kubectl.json("get", "ingress")["items"]}
    assert [name for name in sorted(names) if names[name]["status"]["loadBalancer"]] == ["annotated", "default"]
    assert names["default"]["spec"]["ingressClassName"] == "pykubelet"
    # The second one wants what the first one has.
    assert "path / of host web.example.com belongs to Ingress default/annotated" in up.expect_event(
        "default", "RouteConflict"
    )
    up.kubectl("patch", "ingress", "default", "-p", '{"spec": {"ingressClassName": "other"}}')
    pause = threading.Event()
    for _ in range(200):
        if not (withdrawn := not up.kubectl.json("get", "ingress", "default")["status"]["loadBalancer"]):
            pause.wait(0.05)
    assert withdrawn


def test_taken_port_is_an_event_and_is_served_once_it_is_free(up: IngressUp) -> None:
    external = {"type": "ExternalName", "externalName": "localhost", "ports": [{"name": "http", "port": 80}]}
    with socket.create_server(("127.0.0.1", HTTP)):
        up.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "out"}, "spec": external})
        up.apply(ingress(service="out"))
        said = up.expect_event("web", "ListenFailed")
        assert f"127.0.0.1:{HTTP}: the port is taken" in said
        assert "--ingress-http-port" in said
        assert "ExternalName" in up.expect_event("web", "ExternalNameRefused")
    assert up.process.has_said(f"ingress listens address=127.0.0.1:{HTTP}", within_seconds=20)
    assert curl(f"http://web.example.com:{HTTP}/", "--retry", "0", "-w", "%{http_code}").endswith("503")
    assert up.process.stop() == 0
