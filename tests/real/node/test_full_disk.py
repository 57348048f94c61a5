"""`pykubelet up` on a full disk: pods run on, the API tells the truth, deleting works, and all is soon back to normal."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubectl import Kubectl
from process_lab import end_containers
from pykubelet_process import UpProcess
from requirements import needs_root
from small_disk import SmallDisk, small_disk

FOREVER = "trap exit TERM; while :; do echo alive; sleep 0.1; done"
PAUSE = threading.Event()


def pod_spec(script: str) -> dict[str, Any]:
    container = {"name": "main", "image": "shell", "command": ["/bin/sh", "-c", script]}
    return {"terminationGracePeriodSeconds": 1, "containers": [container]}


def deployment(name: str, replicas: int) -> str:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(FOREVER)}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


def bare(name: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(FOREVER)})


class Cluster:
    """A cluster whose data folder is a small disk."""

    def __init__(self, up: UpProcess, disk: SmallDisk, folder: Path) -> None:
        self.up, self.disk = up, disk
        self.kubectl = Kubectl(up.kubeconfig, "default", folder / "cache")

    def pods(self) -> dict[str, dict[str, Any]]:
        return {pod["metadata"]["name"]: pod for pod in self.kubectl.json("get", "pods")["items"]}

    def running(self) -> dict[str, int]:
        """The PID of each running container by pod, from the shims' records and the kernel."""
        found = {}
        for folder in (self.disk.path / "data/node/process/containers").iterdir():
            config, state = json.loads((folder / "config.json").read_bytes()), folder / "state.json"
            main = json.loads(state.read_bytes())["main"] if state.exists() else None
            if main is not None and Path(f"/proc/{main[0]}").exists() and not (folder / "exit.json").exists():
                found[config["facts"]["pod"]["name"]] = main[0]
        return found

    def assert_truthful(self, pids: dict[str, int]) -> None:
        """Exactly these containers run, were never restarted, and the API shows them."""
        assert self.running() == pids
        shown = self.pods()
        assert {name for name, pod in shown.items() if is_ready(pod)} == pids.keys()
        assert {pod["status"].get("reason") for pod in shown.values()} <= {None}
        assert sum(one["restartCount"] for pod in shown.values() for one in containers_of(pod)) == 0

    def node(self) -> tuple[str, bool]:
        """The status of DiskPressure, and whether the node is tainted for it."""
        node = self.kubectl.json("get", "node", "node-1")
        status = next(one["status"] for one in node["status"]["conditions"] if one["type"] == "DiskPressure")
        taints = [taint["key"] for taint in node["spec"].get("taints", [])]
        return status, "node.kubernetes.io/disk-pressure" in taints


def containers_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return pod["status"].get("containerStatuses", [])  # type: ignore[no-any-return]


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    """Poll until it is so."""
    for _ in range(int(seconds / 0.2)):
        if is_so():
            return
        PAUSE.wait(0.2)
    raise AssertionError(f"not within {seconds} s")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with small_disk(tmp_path / "disk", 24) as disk:
        up = UpProcess(disk.path)
        up.start()
        try:
            yield Cluster(up, disk, tmp_path)
        finally:
            disk.free()
            up.stop()
            # Shown if the test fails.
            sys.stdout.write("".join(up.lines))
            end_containers(up.data / "node/process")


@needs_root
@pytest.mark.timeout(180)
def test_full_disk_harms_no_pod_and_is_soon_forgotten(cluster: Cluster) -> None:
    """What was answered on the full disk is there after a crash, too; no pod is evicted, since none fills the disk."""
    kubectl, disk = cluster.kubectl, cluster.disk
    kubectl("apply", "-f", "-", text=deployment("web", 2))
    for name in ("first", "second", "third"):
        kubectl("apply", "-f", "-", text=bare(name))
    until(lambda: len(cluster.running()) == 5 and all(map(is_ready, cluster.pods().values())))
    # The reserve is made half a second after the start.
    PAUSE.wait(1)
    pids = cluster.running()
    disk.fill()
    until(lambda: cluster.node() == ("True", True))
    cluster.assert_truthful(pids)
    assert "storage is full: no object can be created" in kubectl.fails("create", "configmap", "new")
    kubectl("delete", "pod", "first")
    del pids["first"]
    # A deleted pod frees some of the disk.
    disk.fill()
    kubectl("scale", "deployment/web", "--replicas=3")
    PAUSE.wait(3)
    cluster.assert_truthful(pids)
    cluster.up.kill()
    cluster.up.start()
    disk.fill()
    kubectl("delete", "pod", "second", "--timeout=20s")
    del pids["second"]
    cluster.assert_truthful(pids)
    assert cluster.node()[0] == "True"
    disk.free()
    until(lambda: len(cluster.running()) == len(pids) + 1 and all(map(is_ready, cluster.pods().values())))
    kubectl("create", "configmap", "new")
    assert cluster.node() == ("False", False)
    assert pids.items() <= cluster.running().items()
    shown = cluster.pods()
    assert len(shown) == 4
    cluster.assert_truthful(cluster.running())
