"""Deletes pods at every moment of their start, and lists what they have left on the machine.

The node is whole and real, in this process: its runtime is containerd or processes, its API server has no network.
"""

import asyncio
import os
import random  # noqa: TID251  the seed is reported, so a run can be repeated
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from cgroup_files import CGROUPS
from containerd_lab import ContainerdLab
from oci_images import BUSYBOX
from own_network import links
from process_lab import all_processes, unmount_below
from pykubelet.aio.clock import SystemClock
from pykubelet.aio.ids import RandomIds
from pykubelet.api import schema
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.scheme import PODS, as_documents
from pykubelet.app.node import node
from pykubelet.app.runtimes import open_runtime
from pykubelet.app.settings import NodeSettings
from pykubelet.client.interface import NOW, Client
from pykubelet.runtimes.process.cgroups import find_cgroups
from pykubelet.testing.local_api import local_api
from whole_node import NODE, FixedMachine, NothingMeasured

NAMESPACE = "default"
_MARK = "LEAK_LAB"
_POD_DOCUMENTS = as_documents(schema.PODS)
# Obeys TERM, and leaves a process of its own.
_PROGRAM = "trap 'exit 0' TERM; sleep 1000000 & wait"


@dataclass(frozen=True)
class PlannedPod:
    """A pod to create, and to delete after so many seconds; forced means without a grace period."""

    name: str
    deleted_after_seconds: float
    is_forced: bool
    has_init_container: bool
    has_memory_volume: bool


def planned_pods(count: int, *, seed: int, within_seconds: float = 2.0) -> Sequence[PlannedPod]:
    """Pods that are deleted at random moments; the same for the same seed."""
    dice = random.Random(seed)
    return [
        PlannedPod(
            name=f"leak-{number}",
            deleted_after_seconds=dice.uniform(0, within_seconds),
            is_forced=dice.random() < 0.5,
            has_init_container=dice.random() < 0.3,
            has_memory_volume=dice.random() < 0.5,
        )
        for number in range(count)
    ]


class LeakLab:
    """A running node, a client of its API server, and what finds leftovers of its pods."""

    def __init__(
        self, root: Path, client: Client, containerd: ContainerdLab | None, *, with_links: bool = False
    ) -> None:
        self.root, self.client, self._containerd, self._with_links = root, client, containerd, with_links
        self._folders = [root / "pods", root / "logs/pods", root / "logs/containers"]
        self._folders += [root / "process/containers", root / "process/sandboxes", root / "process/networks"]
        if containerd is not None:
            folder, plugin = containerd.folder, "io.containerd.grpc.v1.cri"
            self._folders += [folder / part / plugin / kind for part in ("root", "state") for kind in _CRI_FOLDERS]
            self._folders += [folder / "state/io.containerd.runtime.v2.task/k8s.io", folder / "runc/k8s.io"]
            self._folders += [folder / "state/netns", Path("/sys/class/net", containerd.bridge, "brif")]
        # Other runtimes of this machine have their cgroups beside those of process containers.
        self._before = self._cgroups() if containerd is None else set()

    async def churn(self, pods: Sequence[PlannedPod], *, at_once: int) -> list[float]:
        """Create and delete the pods; how many seconds each took to disappear from the API after its deletion."""
        waiting = iter(pods)
        took: list[float] = []

        async def work() -> None:
            took.extend([await self._live(planned) for planned in waiting])

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())
        return took

    async def _live(self, planned: PlannedPod) -> float:
        await self.client.create(_POD_DOCUMENTS, self._document(planned), namespace=NAMESPACE)
        await asyncio.sleep(planned.deleted_after_seconds)
        began = perf_counter()
        await self.delete(planned.name, is_forced=planned.is_forced)
        return perf_counter() - began

    async def run_pod(self, name: str) -> str:
        """Create a pod and wait until its container runs; the pod's UID."""
        planned = PlannedPod(name, 0, is_forced=False, has_init_container=False, has_memory_volume=True)
        await self.client.create(_POD_DOCUMENTS, self._document(planned), namespace=NAMESPACE)
        while (pod := await self.client.get(PODS, name, namespace=NAMESPACE)).status.phase != "Running":
            await asyncio.sleep(0.05)
        return pod.metadata.uid

    async def restarts(self, name: str) -> int:
        """How often the containers of a pod were restarted."""
        pod = await self.client.get(PODS, name, namespace=NAMESPACE)
        return sum(status.restart_count for status in pod.status.container_statuses)

    async def delete(self, name: str, *, is_forced: bool = False) -> None:
        """Delete a pod and wait until the API no longer has it."""
        options = NOW if is_forced else DeleteOptions()
        with suppress(NotFound):
            await self.client.delete(PODS, name, namespace=NAMESPACE, options=options)
            while True:
                await self.client.get(PODS, name, namespace=NAMESPACE)
                await asyncio.sleep(0.05)

    def _document(self, planned: PlannedPod) -> dict[str, Any]:
        def container(name: str, script: str) -> dict[str, Any]:
            mounts = [{"name": "memory", "mountPath": "/memory"}] if planned.has_memory_volume else []
            mark = {"name": _MARK, "value": str(self.root)}
            command = ["/bin/sh", "-c", script]
            return {"name": name, "image": BUSYBOX, "command": command, "env": [mark], "volumeMounts": mounts}

        volumes = [{"name": "memory", "emptyDir": {"medium": "Memory"}}] if planned.has_memory_volume else []
        spec = {
            "nodeName": NODE,
            "terminationGracePeriodSeconds": 1,
            "initContainers": [container("init", "exit 0")] if planned.has_init_container else [],
            "containers": [container("main", _PROGRAM)],
            "volumes": volumes,
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": planned.name}, "spec": spec}

    def kinds(self) -> set[str]:
        """The kinds of things that pods have on the machine now."""
        return {found.partition(" ")[0] for found in self.leftovers()}

    async def until_clean(self, within_seconds: float) -> list[str]:
        """Wait until nothing is left; what is still left after that time."""
        until = perf_counter() + within_seconds
        while (found := await asyncio.to_thread(self.leftovers)) and perf_counter() < until:
            await asyncio.sleep(0.5)
        return found

    async def until_only_cgroups(self, cgroups: list[str], within_seconds: float) -> None:
        """Wait until these are the only cgroups of pods; TimeoutError after that time."""
        async with asyncio.timeout(within_seconds):
            while [found for found in self.leftovers() if found.startswith("cgroup ")] != cgroups:
                await asyncio.sleep(0.2)

    def leftovers(self) -> list[str]:
        """What is left of pods: folders, mounts, cgroups, addresses, processes, shims and links."""
        found = (f"link {name}" for name in (links() if self._with_links else ()))
        folders = (f"folder {found}" for folder in self._folders for found in _entries(folder))
        cgroups = (f"cgroup {found}" for found in self._cgroups() - self._before)
        return [*folders, *cgroups, *self._mounts(), *self._processes(), *self._addresses(), *found]

    def _mounts(self) -> Iterator[str]:
        places = [self.root] if self._containerd is None else [self.root, self._containerd.folder]
        for line in Path("/proc/self/mounts").read_text().splitlines():
            if any(Path(line.split()[1]).is_relative_to(place) for place in places):
                yield f"mount {line.split()[1]}"

    def _cgroups(self) -> set[str]:
        """The names of the cgroups of pods, or of process containers, in any hierarchy."""
        if self._containerd is None:
            parents = [Path(folder) for folder in find_cgroups().folders.values()]
            return {found.name for parent in parents for found in _entries(parent) if found.is_dir()}
        name = self._containerd.cgroup_parent.removeprefix("/")
        parents = [*CGROUPS.glob(f"*/{name}/kubepods"), *CGROUPS.glob(f"{name}/kubepods")]
        return {found.name for parent in parents for found in parent.glob("**/pod*")}

    def _processes(self) -> Iterator[str]:
        for pid in all_processes():
            with suppress(OSError):
                if pid != os.getpid() and self._is_ours(Path(f"/proc/{pid}")):
                    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    yield f"process {pid} {command[:100]}"
        if self._containerd is not None:
            yield from (f"shim {shim.pid}" for shim in self._containerd.shims())

    def _is_ours(self, process: Path) -> bool:
        if (process / "cwd").readlink().is_relative_to(self.root):
            return True
        if self._containerd is not None and self._containerd.cgroup_parent in (process / "cgroup").read_text():
            return True
        return f"{_MARK}={self.root}".encode() in (process / "environ").read_bytes()

    def _addresses(self) -> Iterator[str]:
        if self._containerd is not None:
            for found in self._containerd.folder.glob("addresses/*/*.*.*.*"):
                yield f"address {found.name}"


_CRI_FOLDERS = ("sandboxes", "containers")


def _entries(folder: Path) -> list[Path]:
    return [*folder.iterdir()] if folder.exists() else []


@asynccontextmanager
async def open_leak_lab(
    folder: Path, containerd: ContainerdLab | None = None, *, pod_network: str = "host"
) -> AsyncIterator[LeakLab]:
    """A lab whose node runs containers on this containerd, else as processes.

    With `pod_network="own"` all links but loopback count as those of pods: the test needs a network namespace of its own.
    """
    root, clock = folder / "node", SystemClock()
    settings = NodeSettings(node_name=NODE, root_dir=root, pod_network=pod_network)
    if containerd is not None:
        settings = NodeSettings(
            node_name=NODE,
            root_dir=root,
            runtime="cri",
            cri_socket=str(containerd.socket),
            cgroup_root=containerd.cgroup_parent,
        )
    async with local_api(folder, clock=clock, ids=RandomIds()) as api, open_runtime(settings, clock=clock) as runtime:
        made = LeakLab(root, api.client, containerd, with_links=pod_network == "own")
        facts: dict[str, Any] = {"machine": FixedMachine(), "signals": NothingMeasured()}
        try:
            async with node(settings, client=api.client, runtime=runtime, clock=clock, **facts) as started:
                await started.until_ready()
                yield made
        finally:
            # After a failed test; the folder could not be removed.
            unmount_below(root)
