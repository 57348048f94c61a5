"""Limits of process pods that the machine cannot enforce for an ordinary user: the user is told."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kubectl import Kubectl
from process_lab import end_containers
from pykubelet.runtimes.process.cgroups import MEMORY, find_cgroups
from pykubelet_process import UpProcess
from requirements import missing, needs_root

pytestmark = [needs_root, pytest.mark.timeout(120)]
UID = 12345
PATIENCE = "--timeout=30s"
GREEDY = """
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: example/image:1
    command: [python3, -c, 'len(bytearray(300 << 20))']
    resources: {limits: {memory: 100Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: modest}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: 'example/image:1', command: ['true']}
"""


class Limited:
    """A cluster with a pod that needs three times the memory of its limit, and one without limits."""

    def __init__(self, folder: Path, uid: int) -> None:
        manifests = folder / "manifests"
        manifests.mkdir()
        (manifests / "pods.yaml").write_text(GREEDY)
        self.process = UpProcess(folder, str(manifests), uid=uid)
        self.kubectl = Kubectl(self.process.kubeconfig, "default", folder / "cache")

    def until_ended(self, *phases: str) -> str:
        """Wait for both pods; returns why the container of the greedy one ended."""
        for name, phase in zip(("greedy", "modest"), phases, strict=True):
            self.kubectl("wait", "--for=create", PATIENCE, f"pod/{name}-node-1")
            self.kubectl("wait", f"--for=jsonpath={{.status.phase}}={phase}", PATIENCE, f"pod/{name}-node-1")
        status = self.kubectl.json("get", "pod", "greedy-node-1")["status"]["containerStatuses"][0]
        return str(status["state"]["terminated"]["reason"])

    def events(self) -> list[tuple[str, str, str]]:
        """The events about limits: pod, type and message."""
        found = self.kubectl.json("get", "events", "--field-selector", "reason=ResourceLimitsNotEnforced")["items"]
        return [(one["involvedObject"]["name"], one["type"], one["message"]) for one in found]

    def command(self, *arguments: str) -> str:
        """The output of one of our own commands."""
        environment = {**os.environ, "KUBECONFIG": str(self.process.kubeconfig)}
        command = [sys.executable, "-m", "pykubelet", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30, check=True).stdout


@pytest.fixture
def limited(request: pytest.FixtureRequest) -> Iterator[Limited]:
    """The running cluster of the user that the test names."""
    with TemporaryDirectory() as name:
        folder, uid = Path(name), request.param
        made = Limited(folder, uid)
        shutil.chown(folder, uid, uid)
        try:
            made.process.start()
            yield made
        finally:
            if made.process.is_running:
                made.process.kill()
            end_containers(made.process.data / "node" / "process")


@pytest.mark.parametrize("limited", [UID], indirect=True, ids=["ordinary user"])
def test_user_is_told_that_a_limit_has_no_effect(limited: Limited) -> None:
    """In an event, in `describe` and in `why`; they name the container, the limit and what to do."""
    assert limited.until_ended("Succeeded", "Succeeded") == "Completed"
    ((name, kind, message),) = limited.events()
    assert (name, kind) == ("greedy-node-1", "Warning")
    assert message.startswith("This node does not enforce limits of container main: memory 100Mi; processes of each")
    assert "To have them enforced: run the node as root" in message
    described = limited.command("describe", "pod", "greedy-node-1").splitlines()
    (line,) = [line for line in described if "ResourceLimitsNotEnforced" in line]
    assert line.endswith(message)
    assert f"note       {message}" in limited.command("why", "greedy-node-1")
    assert json.loads(limited.command("why", "greedy-node-1", "-o", "json"))["note"] == message
    assert "note" not in limited.command("why", "modest-node-1")
    # An agent that starts again knows it without having started the pod.
    limited.process.stop()
    limited.process.start()
    limited.kubectl("wait", "--for=condition=Ready", PATIENCE, "node/node-1")
    assert f"note       {message}" in limited.command("why", "greedy-node-1")
    assert len(limited.events()) == 1


@pytest.mark.parametrize("limited", [0], indirect=True, ids=["root"])
def test_enforced_limit_is_no_event(limited: Limited) -> None:
    """Root has cgroups: the same pod is killed."""
    if MEMORY not in find_cgroups().folders:
        missing("this machine has no memory cgroups")
    assert limited.until_ended("Failed", "Succeeded") == "OOMKilled"
    assert limited.events() == []
    assert "note" not in limited.command("why", "greedy-node-1")
