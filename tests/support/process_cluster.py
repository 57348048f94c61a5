"""A cluster of real processes, as a user runs it: an API server, a node and kubectl.

By default the node's containers are processes, too.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubectl import Kubectl
from oci_images import BUSYBOX
from process_lab import end_containers
from pykubelet_process import NodeProcess, ServerProcess

NODE = "node-1"
# Far more than anything here takes: the machine may be busy.
PATIENCE = "--timeout=30s"


@dataclass(frozen=True)
class NodeRuntime:
    """The runtime of a node: the node's options, and how to end all containers that it has left.

    `end` takes the root folder of the node.
    """

    options: tuple[str, ...]
    end: Callable[[Path], None]


PROCESSES = NodeRuntime(("--runtime", "process"), lambda folder: end_containers(folder / "process"))


def shell(script: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container that runs a script; on the process runtime with the shell of the machine."""
    return {"name": name, "image": BUSYBOX, "command": ["/bin/sh", "-c", script], **fields}


def pod(name: str, *containers: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod as a user writes it, bound to the node, with a short grace period."""
    wanted = {"nodeName": NODE, "terminationGracePeriodSeconds": 2, "containers": list(containers)}
    metadata = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**wanted, **spec}}


@dataclass(frozen=True)
class WebPod:
    """A pod that serves `/file` at a port."""

    name: str
    port: int
    content: bytes


def serve_file(cluster: "ProcessCluster", folder: Path) -> WebPod:
    """Run a pod that serves a file on the machine's loopback; it has the label `app=web`."""
    content, port = os.urandom(300_000), free_port()
    (folder / "file").write_bytes(content)
    ready = {"tcpSocket": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1}
    serve = f"exec python3 -m http.server --bind 127.0.0.1 --directory {folder} {port}"
    cluster.run(pod("web", shell(serve, readinessProbe=ready), labels={"app": "web"}))
    return WebPod("web", port, content)


def free_port() -> int:
    """A port where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def process_cluster(
    folder: Path, runtime: NodeRuntime = PROCESSES, *, node_name: str = NODE
) -> Iterator["ProcessCluster"]:
    """Runs a cluster in one folder; kills what is still running at the end."""
    cluster = ProcessCluster(folder, runtime, node_name)
    try:
        cluster.server.start()
        cluster.node.start()
        yield cluster
        cluster.kubectl("delete", "pods", "--all", "--grace-period=1", PATIENCE)
        assert cluster.node.stop() == 0
        assert cluster.server.stop() == 0
    finally:
        cluster.kill()


class ProcessCluster:
    """An API server, a node that also runs static pods from a folder, and kubectl."""

    def __init__(self, folder: Path, runtime: NodeRuntime = PROCESSES, node_name: str = NODE) -> None:
        self.manifests = folder / "manifests"
        self.manifests.mkdir(exist_ok=True)
        self._root, self._runtime = folder / "node", runtime
        self.server = ServerProcess(folder)
        self.kubectl = Kubectl(self.server.kubeconfig, "default", folder / "cache")
        options = ("--kubeconfig", str(self.server.kubeconfig), "--manifests", str(self.manifests))
        self.node = NodeProcess(folder, *options, *runtime.options, name=node_name)

    def kill(self) -> None:
        """End everything that still runs, containers too."""
        for program in (self.node, self.server):
            if program.is_running:
                program.kill()
        self._runtime.end(self._root)

    def create(self, *documents: dict[str, Any]) -> None:
        """Create objects with kubectl."""
        items = {"apiVersion": "v1", "kind": "List", "items": documents}
        self.kubectl("create", "-f", "-", text=json.dumps(items))

    def pod(self, name: str) -> Any:
        """A pod as the API has it now."""
        return self.kubectl.json("get", "pod", name)

    def until(self, what: str, *names: str) -> None:
        """Wait until `kubectl wait --for` succeeds for all these pods."""
        self.kubectl("wait", f"--for={what}", PATIENCE, *(f"pod/{name}" for name in names))

    def until_field(self, path: str, value: str, *names: str) -> None:
        """Wait until a field of all these pods has a value."""
        self.until(f"jsonpath={{{path}}}={value}", *names)

    def run(self, document: dict[str, Any]) -> Any:
        """Create a pod and wait until it is ready."""
        self.create(document)
        self.until("condition=Ready", document["metadata"]["name"])
        return self.pod(document["metadata"]["name"])

    def finish(self, document: dict[str, Any], phase: str = "Succeeded") -> Any:
        """Create a pod and wait until it has ended."""
        self.create(document)
        self.until_field(".status.phase", phase, document["metadata"]["name"])
        return self.pod(document["metadata"]["name"])

    def until_seen(self, words: str, template: str, *what: str) -> str:
        """Watch objects with `kubectl get` and a template until a line has these words; returns that line."""
        told = ("--watch", "-o", f"jsonpath={template}{{'\\n'}}", "--request-timeout=30s")
        seen: list[str] = []
        with self.kubectl.start("get", *what, *told) as watch:
            assert watch.stdout is not None
            for line in watch.stdout:
                seen.append(line.strip())
                if words in line:
                    watch.kill()
                    return seen[-1]
        raise AssertionError(f"{what}: {words!r} not in {seen}; the node:\n{''.join(self.node.lines[-20:])}")

    def until_said(self, about: str, reason: str, words: str) -> str:
        """Wait for an event about an object with this reason and these words; returns its message."""
        chosen = f"--field-selector=reason={reason},involvedObject.name={about}"
        return self.until_seen(words, "{.message}", "events", chosen)

    def until_labelled(self, labels: str) -> None:
        """Wait until a pod with these labels, which need not exist yet, is ready."""
        self.until_seen("True", "{.status.conditions[?(@.type=='Ready')].status}", "pods", f"--selector={labels}")

    def container_id(self, name: str) -> str:
        """The id of the first container of a pod."""
        return str(self.pod(name)["status"]["containerStatuses"][0]["containerID"])
