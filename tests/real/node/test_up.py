"""`pykubelet up`: an API server and a node in one process, with pods and other objects from files."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl import Kubectl
from process_lab import end_containers
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(120)
PATIENCE = "--timeout=30s"
WEB = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: example/image:1
    command: [/bin/sh, -c, 'echo "$GREETING"; exec sleep 1000']
    env: [{name: GREETING, valueFrom: {configMapKeyRef: {name: words, key: greeting}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {greeting: good morning}
"""


class Up:
    """A cluster with manifests in two folders."""

    def __init__(self, folder: Path) -> None:
        self.manifests, self.file = folder / "manifests", folder / "more" / "shop.yaml"
        self.manifests.mkdir()
        self.file.parent.mkdir()
        (self.manifests / "web.yaml").write_text(WEB)
        self.file.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
        self.process = UpProcess(folder, str(self.manifests), str(self.file.parent))
        self.kubectl = Kubectl(self.process.kubeconfig, "default", folder / "cache")

    def until_ready(self) -> None:
        """Wait until the static pod is ready."""
        self.kubectl("wait", "--for=create", PATIENCE, "pod/web-node-1")
        self.kubectl("wait", "--for=condition=Ready", PATIENCE, "pod/web-node-1")

    def container(self) -> tuple[str, int]:
        """The ID of the pod's container and its restart count."""
        status = self.kubectl.json("get", "pod", "web-node-1")["status"]["containerStatuses"][0]
        return status["containerID"], status["restartCount"]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """A running cluster; its processes are ended after the test."""
    made = Up(tmp_path)
    try:
        made.process.start()
        yield made
    finally:
        if made.process.is_running:
            made.process.kill()
        end_containers(made.process.data / "node" / "process")


def test_up_runs_the_pods_and_applies_the_objects_of_its_files(up: Up) -> None:
    """A static pod may use a config map of the same file; `kubectl logs` and `exec` work."""
    up.until_ready()
    assert up.kubectl("logs", "web-node-1") == "good morning\n"
    assert up.kubectl("exec", "web-node-1", "--", "echo", "inside") == "inside\n"
    assert "condition met" in up.kubectl("wait", "--for=condition=Ready", PATIENCE, "node/node-1")
    assert up.kubectl("get", "namespace", "shop", "-o", "name") == "namespace/shop\n"
    assert up.process.data.stat().st_mode & 0o777 == 0o700
    assert up.process.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert up.process.stop() == 0


def test_objects_follow_their_files(up: Up) -> None:
    """Edits are applied; an object is deleted when its document or its file is removed."""
    up.until_ready()
    (up.manifests / "web.yaml").write_text(WEB.replace("good morning", "good night"))
    up.kubectl("wait", "--for=jsonpath={.data.greeting}=good night", PATIENCE, "configmap/words")
    (up.manifests / "web.yaml").write_text(WEB.partition("---")[0])
    up.kubectl("wait", "--for=delete", PATIENCE, "configmap/words")
    up.file.unlink()
    up.kubectl("wait", "--for=delete", PATIENCE, "namespace/shop")
    (up.manifests / "web.yaml").unlink()
    up.kubectl("wait", "--for=delete", PATIENCE, "pod/web-node-1")
    assert "No resources found" in up.kubectl.run("get", "pods").stderr


def test_containers_outlive_kills_and_are_found_again(up: Up) -> None:
    """A restart finds the same container, and deletes the objects of files removed meanwhile."""
    up.until_ready()
    before = up.container()
    up.process.kill()
    up.file.unlink()
    up.process.start()
    up.kubectl("wait", "--for=delete", PATIENCE, "namespace/shop")
    assert up.container() == before
    assert up.process.stop(signal.SIGINT) == 0


MISTAKES = {
    "path": (["nowhere"], 2, "'nowhere' does not exist"),
    "runtime": (["--runtime", "docker"], 2, "Invalid value for '--runtime'"),
    "data": (["--data-dir", "file/data"], 1, "Not a directory"),
    "name": (["--runtime", "sim", "--node-name", "my_pc"], 1, 'the node cannot be called "my_pc"'),
}


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES.values(), ids=MISTAKES)
def test_configuration_error_is_one_line(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    """Each error has its exit code and no traceback."""
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "pykubelet", "up", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=20, check=False)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
