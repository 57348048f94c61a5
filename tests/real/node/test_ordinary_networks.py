"""`pykubelet up` of an ordinary user: pods have networks of their own, Services, DNS and probes work."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ordinary_up import PATIENCE, OrdinaryUp, ordinary_up

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


def test_replicas_services_and_names_work(up: OrdinaryUp) -> None:
    up.apply(deployment("web", 2, "python3", "-c", _SERVER, readinessProbe=_READINESS), service("web"))
    up.kubectl("rollout", "status", "deployment/web", PATIENCE)
    assert len(set(up.addresses("web").values())) == 2
    print(up.addresses("web"))
    ask = "import urllib.request; print(urllib.request.urlopen('http://web.default.svc.cluster.local', timeout=10).read().decode())"
    up.apply(pod("client", "python3", "-c", ask))
    log = up.until_log("client", "web-")
    print(json.dumps(log))
