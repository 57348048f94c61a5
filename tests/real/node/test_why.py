"""`pykubelet why` against a real `pykubelet up`, and with a volume mount that hangs."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubectl import Kubectl
from pykubelet.aio.clock import SystemClock
from pykubelet.app.node import node
from pykubelet.app.runtimes import simulated
from pykubelet.app.settings import NodeSettings
from pykubelet.runtimes.sim.runtime import SimImages, SimRuntime
from pykubelet.testing.local_api import local_api
from pykubelet_process import UpProcess
from whole_node import World, container

pytestmark = pytest.mark.timeout(120)
WEB = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: main, image: 'example/image:1', env: [{name: A, valueFrom: {configMapKeyRef: {name: words, key: a}}}]}
"""
LONELY = """
apiVersion: v1
kind: Pod
metadata: {name: lonely}
spec:
  nodeSelector: {disk: ssd}
  containers: [{name: main, image: 'example/image:1'}]
"""


class Asking:
    """A cluster with a static pod, and the `why` command for it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.manifest = folder, folder / "manifests" / "web.yaml"
        self.manifest.parent.mkdir()
        self.manifest.write_text(WEB)
        self.process = UpProcess(folder, str(self.manifest.parent), runtime="sim")
        self.kubectl = Kubectl(self.process.kubeconfig, "default", folder / "cache")

    def why(self, *arguments: str, code: int = 0) -> str:
        """Run the command and return its output."""
        command = [sys.executable, "-m", "pykubelet", "why", *arguments]
        environment = {**os.environ, "KUBECONFIG": str(self.process.kubeconfig)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30, check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def step(self, name: str) -> str:
        """The step that a pod waits for."""
        found: Any = json.loads(self.why(name, "-o", "json"))
        return str(found["waitsFor"]["step"])

    def until(self, name: str, step: str) -> None:
        """Repeat the command until the pod waits for this step."""
        for _ in range(20):
            if (last := self.step(name)) == step:
                return
        raise AssertionError(f"{name} waits for {last}, not for {step}")


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    made = Asking(tmp_path)
    try:
        made.process.start()
        made.kubectl("wait", "--for=create", "--timeout=30s", "pod/web-node-1")
        yield made
    finally:
        if made.process.is_running:
            made.process.kill()


def test_static_pod_is_explained_by_its_node(asking: Asking) -> None:
    """The output starts with what the pod waits for, and has its manifest file; once fixed, it waits for nothing."""
    asking.until("web", "configuration")
    told = asking.why("web-node-1", "-n", "default").splitlines()
    assert told[0] == "pod default/web-node-1: Pending on node-1"
    assert told[1].startswith("  waits for  what container main is configured with: ")
    assert "create the configmap words" in told[2]
    assert any(str(asking.manifest) in line for line in told)
    assert not any("\x1b" in line for line in told)
    asking.kubectl("create", "configmap", "words", "--from-literal=a=b")
    asking.until("web", "nothing")
    asking.manifest.write_text("{")
    asking.until("web", "manifest")


def test_pod_without_a_node_is_explained_by_the_api_alone(asking: Asking) -> None:
    """Its conditions say why no node fits; after a deletion, the finalizer is the reason."""
    asking.kubectl("create", "-f", "-", text=LONELY)
    asking.kubectl("wait", "--for=condition=PodScheduled=false", "--timeout=30s", "pod/lonely")
    told = asking.why("pod/lonely")
    assert "a node that it fits on" in told
    assert "node affinity" in told
    assert asking.step("lonely") == "scheduling"
    asking.kubectl("patch", "pod", "lonely", "-p", '{"metadata":{"finalizers":["example.com/keep"]}}')
    asking.kubectl("delete", "pod", "lonely", "--wait=false")
    assert asking.step("lonely") == "finalizer"


def test_unknown_pod_and_missing_kubeconfig_are_one_line(asking: Asking) -> None:
    """The exit code is 1 in both cases."""
    assert 'error: pods "nobody" not found' in asking.why("nobody", code=1)
    missing = subprocess.run(
        [sys.executable, "-m", "pykubelet", "why", "web"],
        capture_output=True,
        text=True,
        cwd=asking.folder,
        env={**os.environ, "KUBECONFIG": ""},
        timeout=30,
        check=False,
    )
    assert missing.returncode == 1
    assert missing.stderr.startswith("error: no kubeconfig found: .pykubelet/admin.kubeconfig")


class HangingMounter:
    """Its calls block until the test releases them."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def mount_memory(self, path: str, *, size_bytes: int, mode: int, group: int | None) -> None:
        self.released.wait()

    def bind(self, source: str, target: str) -> None:
        self.released.wait()

    def unmount(self, path: str) -> None:
        self.released.wait()


async def test_volume_that_hangs_is_named(tmp_path: Path) -> None:
    """The explanation names the volume whose mount hangs."""
    clock, mounter = SystemClock(), HangingMounter()
    settings = NodeSettings(node_name="node-1", root_dir=tmp_path / "node")
    runtime = simulated(SimRuntime(clock=clock), SimImages())
    async with local_api(tmp_path, clock=clock) as api:
        outside = World(api.client, tmp_path, SimRuntime(clock=clock), SimImages())
        async with node(settings, client=api.client, runtime=runtime, clock=clock, mounter=mounter) as started:
            await started.until_ready()
            mounted = container(volumeMounts=[{"name": "slow", "mountPath": "/v"}])
            volumes = [{"name": "slow", "emptyDir": {"medium": "Memory"}}]
            await outside.create("web", volumes=volumes, containers=[mounted])
            await asyncio.sleep(1)
            found = started.explainer().explain("default", "web")
            mounter.released.set()
    assert found is not None
    assert found["waitsFor"]["step"] == "volume"
    assert "slow" in found["waitsFor"]["what"]
