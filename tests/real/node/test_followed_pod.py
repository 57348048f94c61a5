"""The verbose log of a node with only its own certificate: one pod's life can be followed by its name."""

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubectl import Kubectl
from process_cluster import PATIENCE
from pykubelet.aio.clock import SystemClock
from pykubelet.apiserver.certs.kubeconfig import Endpoint, ensure_kubeconfig, node_identity
from pykubelet.apiserver.certs.pki import open_pki
from pykubelet_process import ControllersProcess, NodeProcess, ServerProcess, UpProcess

pytestmark = pytest.mark.timeout(120)
NODE = "node-1"
NAMES = tuple(f"other-{number}" for number in range(6))


@dataclass(frozen=True, slots=True)
class Logs:
    """The log lines of the server and the node, from their start to their end."""

    server: list[str]
    node: list[str]

    def of(self, pod: str) -> list[str]:
        """The node's lines about a pod, without their times."""
        return [line.split(" ", 1)[1].strip() for line in self.node if re.search(rf" pod={pod}( |$)", line)]


def pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example/image:1", "command": ["sleep", "1000"]}
    spec = {"nodeName": NODE, "containers": [container], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """Pods are created and deleted, gracefully and by force, and a static pod comes and goes."""
    folder = tmp_path_factory.mktemp("followed")
    server = ServerProcess(folder, "--verbose").start()
    now = SystemClock().now()
    pki = open_pki(server.data / "pki", hosts=(), now=now)
    endpoint = Endpoint(server.url, pki.authority.certificate_pem)
    ensure_kubeconfig(folder / "node.kubeconfig", pki, endpoint, node_identity(NODE), now=now)
    manifests = folder / "manifests"
    manifests.mkdir()
    options = ("--kubeconfig", str(folder / "node.kubeconfig"), "--runtime", "process", "--manifests", str(manifests))
    node = NodeProcess(folder, *options, "--verbose")
    try:
        node.start()
        live(Kubectl(server.kubeconfig, "default", folder / "cache"), manifests)
        assert node.stop() == 0
        assert server.stop() == 0
        assert node.has_said(" I stopped")
        assert server.has_said(" I stopped")
    finally:
        for process in (node, server):
            if process.is_running:
                process.kill()
    return Logs(server.lines, node.lines)


def live(kubectl: Kubectl, manifests: Path) -> None:
    (manifests / "static.json").write_text(json.dumps(pod("static")))
    for name in ("web", *NAMES):
        kubectl("create", "-f", "-", text=json.dumps(pod(name)))
    kubectl("wait", "--for=create", PATIENCE, f"pod/static-{NODE}")
    named = [f"pod/{name}" for name in ("web", f"static-{NODE}", *NAMES)]
    kubectl("wait", "--for=condition=Ready", PATIENCE, *named)
    kubectl("delete", "pod", "web", *NAMES[:3], PATIENCE)
    kubectl("delete", "pod", *NAMES[3:], "--force", "--grace-period=0", PATIENCE)
    (manifests / "static.json").unlink()
    kubectl("wait", "--for=delete", PATIENCE, f"pod/static-{NODE}")


def in_order(lines: list[str], wanted: tuple[str, ...]) -> list[str]:
    """The wanted texts that do not follow each other in the lines."""
    missing, at = [], 0
    for text in wanted:
        found = next((number for number in range(at, len(lines)) if text in lines[number]), None)
        missing += [text] if found is None else []
        at = at if found is None else found + 1
    return missing


START = (
    "by=loop what=added source={source}",
    "by=admission what=admitted",
    'by=workers what=sync why="create requested"',
    "sandbox created",
    "by=events what=Pulled container=main",
    "by=events what=Created container=main",
    "by=events what=Started container=main",
    "by=status what=sent phase=Running ready=True",
)


def test_life_of_a_pod_is_told_in_order(logs: Logs) -> None:
    """Source, admission, worker, sandbox, image, container, ready, terminating, killed, removed.

    The status is sent, and the API's events are read, beside the worker.
    """
    lines, start = logs.of("default/web"), tuple(text.format(source="api") for text in START)
    killed = ("by=workers what=terminating", "by=events what=Killing container=main")
    assert in_order(lines, (*start, *killed, "by=workers what=terminated", "by=loop what=removed source=api")) == []
    assert in_order(lines, (*start, *killed, "by=status what=sent phase=Failed ready=False")) == []
    assert in_order(lines, (*start, *killed, "pod deleted from the API")) == []


def test_life_of_a_static_pod_begins_with_its_file(logs: Logs) -> None:
    """The file is read before the name of the pod is known to the kubelet; the line has it all the same."""
    lines = logs.of(f"default/static-{NODE}")
    start = ("what=read place=", *(text.format(source="file") for text in START), "by=loop what=removed source=file")
    assert in_order(lines, (*start, "by=events what=Killing", "by=workers what=terminated")) == []
    assert in_order(lines, (*start, "mirror pod deleted")) == []


def test_ordinary_life_of_pods_logs_no_warning(logs: Logs) -> None:
    """A pod that is gone is none either: the Node authorizer forbids what is about it."""
    assert [line for line in (*logs.server, *logs.node) if re.match(r"\S+ [WE] ", line)] == []


def test_line_about_a_pod_has_its_name(logs: Logs) -> None:
    """A UID alone says nothing to a reader."""
    assert [line for line in logs.node if "uid=" in line and " pod=" not in line] == []


def test_program_logs_when_it_begins_to_stop_and_when_it_has(logs: Logs, tmp_path: Path) -> None:
    """API server, node, controllers and the whole cluster, for both signals."""
    told = [logs.server, logs.node]
    up = UpProcess(tmp_path, runtime="sim").start()
    controllers = ControllersProcess(up.kubeconfig).start()
    for program, how in ((controllers, signal.SIGTERM), (up, signal.SIGINT)):
        assert program.stop(how) == 0
        assert program.has_said(" I stopped")
        told.append(program.lines)
    for lines in told:
        assert in_order(lines, (" I stopping signal=SIG", " I stopped")) == [], lines[-5:]
    assert any("signal=SIGINT" in line for line in told[-1])
