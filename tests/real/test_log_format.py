"""`--log-format json`: every line of every program is a JSON object with time, level and message."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from kubectl import Kubectl
from pykubelet_process import ControllersProcess, NodeProcess, PykubeletProcess, ServerProcess, UpProcess

pytestmark = pytest.mark.timeout(120)
AS_JSON = ("--log-format", "json", "--verbose")
PATIENCE = "--timeout=30s"
# The second pod cannot start, so that there is something to warn about.
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, image: "example/main:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: broken, annotations: {"sim.pykubelet.dev/main": '{"startError": "no\\nsuch luck"}'}}
spec: {containers: [{name: main, image: "example/main:1"}]}
"""


def all_json(lines: list[str]) -> None:
    """Fails unless each line is a JSON object with a time, a level and a message."""
    assert lines
    for line in lines:
        found = json.loads(line, parse_constant=pytest.fail)
        assert datetime.fromisoformat(found["at"]).tzinfo is not None
        assert found["level"] in {"debug", "info", "warning", "error"}
        assert found["message"]


@contextmanager
def told(process: PykubeletProcess) -> Iterator[None]:
    """Stops the process at the end; its exit code must be 0 and all of its lines JSON."""
    try:
        yield
        assert process.stop() == 0
    finally:
        if process.is_running:
            process.kill()
    all_json(process.lines)


def test_every_line_of_a_cluster_is_json(tmp_path: Path) -> None:
    """That includes a warning about a pod and one about a manifest."""
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "pods.yaml").write_text(PODS)
    (manifests / "bad.yaml").write_text("kind: [")
    up = UpProcess(tmp_path, str(manifests), *AS_JSON, runtime="sim")
    with told(up):
        up.start()
        kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
        kubectl("wait", "--for=create", PATIENCE, "pod/web-node-1")
        kubectl("wait", "--for=condition=Ready", PATIENCE, "pod/web-node-1")
        assert up.has_said("such luck", within_seconds=30)
        assert up.has_said("bad.yaml", within_seconds=30)
    assert any(json.loads(line)["level"] == "warning" for line in up.lines)


def test_every_line_of_the_single_programs_is_json(tmp_path: Path) -> None:
    """API server, node and controllers run as separate processes."""
    server = ServerProcess(tmp_path, *AS_JSON)
    with told(server):
        server.start()
        kubeconfig = str(server.kubeconfig)
        node = NodeProcess(tmp_path, "--runtime", "sim", "--kubeconfig", kubeconfig, *AS_JSON)
        controllers = ControllersProcess(server.kubeconfig, *AS_JSON)
        with told(node), told(controllers):
            node.start()
            controllers.start()


def test_error_that_prevents_a_start_is_json(tmp_path: Path) -> None:
    """The program prints one line and exits with code 1."""
    command = [sys.executable, "-m", "pykubelet", "node", "--runtime", "cri", "--cri-socket", str(tmp_path / "none")]
    ended = subprocess.run(
        [*command, "--root-dir", str(tmp_path / "node"), "--log-format", "json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "does not answer" in json.loads(ended.stderr)["message"]
