"""A whole node on virtual time: the real API server without a network, the simulated runtime, everything between."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from node_status_rig import MACHINE
from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import running
from pykubelet.api import schema
from pykubelet.api.generated.core import ContainerStatus, Pod
from pykubelet.api.pods import PodUid
from pykubelet.api.scheme import NODES, PODS, as_documents
from pykubelet.api.serializer import Document
from pykubelet.app.node import Node, node
from pykubelet.app.runtimes import RuntimeParts, simulated
from pykubelet.app.settings import NodeSettings
from pykubelet.client.interface import NOW, Client
from pykubelet.kubelet.eviction.thresholds import Observation
from pykubelet.kubelet.explain.trail import TrailEntry
from pykubelet.kubelet.nodestatus.machine import MachineInfo
from pykubelet.runtimes.protocol import RuntimePod
from pykubelet.runtimes.sim.runtime import Behaviour, ImageBehaviour, SimImages, SimRuntime
from pykubelet.testing.local_api import local_api
from pykubelet.testing.virtual_time import VirtualClock

NODE = "node-1"
NAMESPACE = "default"
POD_DOCUMENTS = as_documents(schema.PODS)


class FixedMachine:
    """MachineFacts of a machine that never changes."""

    def read(self) -> MachineInfo:
        return MACHINE


class NothingMeasured:
    """A SignalReader without any observation."""

    def read(self) -> Mapping[str, Observation]:
        return {}


class World:
    """What outlives a node: the API server, the runtime, the disk. Nodes can be started and stopped."""

    def __init__(self, client: Client | None, folder: Path, sim: SimRuntime, images: SimImages) -> None:
        self.client, self.folder, self.sim, self.images = client, folder, sim, images
        self.runtime: RuntimeParts = simulated(sim, images)
        self.clock: Clock = VirtualClock()
        self.node: Node | None = None
        self._versions: dict[str, list[Pod | None]] = {}
        self._changed = asyncio.Event()

    def use(self, **parts: Any) -> None:
        """Replace parts of the runtime for nodes that are started later."""
        self.runtime = replace(self.runtime, **parts)

    @property
    def api(self) -> Client:
        """The API server, which this world must have."""
        assert self.client is not None
        return self.client

    @asynccontextmanager
    async def running_node(self, **settings: Any) -> AsyncIterator[Node]:
        """Runs a node in this world; yields once it is ready."""
        async with self.starting_node(**settings) as started:
            await started.until_ready()
            yield started

    @asynccontextmanager
    async def starting_node(self, *, client: Client | None = None, **settings: Any) -> AsyncIterator[Node]:
        """Starts a node, with another client if given; yields without waiting until it is ready."""
        wanted = NodeSettings(**{"node_name": NODE, "root_dir": self.folder / "node", **settings})
        machine, signals, way = FixedMachine(), NothingMeasured(), client or self.client
        made = node(wanted, client=way, runtime=self.runtime, clock=self.clock, machine=machine, signals=signals)
        async with made as started:
            self.node = started
            yield started

    async def create(self, name: str, **spec: Any) -> Pod:
        """Create a pod bound to the node; without containers it has one that runs until it is stopped."""
        annotations = spec.pop("annotations", {})
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"nodeName": NODE, "containers": [container()], **spec},
        }
        await self.api.create(POD_DOCUMENTS, body, namespace=NAMESPACE)
        return await self.pod(name)

    async def pod(self, name: str) -> Pod:
        """The pod as the API has it."""
        return await self.api.get(PODS, name, namespace=NAMESPACE)

    async def pods(self) -> tuple[Pod, ...]:
        """All pods in the namespace."""
        return (await self.api.list(PODS, namespace=NAMESPACE)).items

    async def delete(self, name: str) -> None:
        """Delete a pod with its own grace period."""
        await self.api.delete(PODS, name, namespace=NAMESPACE)

    async def force_delete(self, name: str) -> None:
        """Delete a pod from the API at once, even while its containers run."""
        await self.api.delete(PODS, name, namespace=NAMESPACE, options=NOW)

    async def node_message(self) -> str:
        """The message of the node's Ready condition."""
        shown = await self.api.get(NODES, NODE)
        return next(one.message for one in shown.status.conditions if one.type == "Ready")

    async def until(self, name: str, holds: Callable[[Pod], bool], *, within_seconds: float = 30.0) -> Pod:
        """Wait for a version of a pod, from the current one on, of which `holds` is true; in virtual seconds."""
        versions = self._versions.setdefault(name, [])
        at = max(len(versions) - 1, 0)
        async with asyncio.timeout(within_seconds):
            while True:
                for pod in versions[at:]:
                    at += 1
                    if pod is not None and holds(pod):
                        return pod
                await self._next_change()

    async def until_gone(self, name: str, *, within_seconds: float = 30.0) -> None:
        """Wait until the API no longer has the pod."""
        async with asyncio.timeout(within_seconds):
            while self._versions[name][-1] is not None:
                await self._next_change()

    def versions(self, name: str) -> list[Pod]:
        """Everything the API has shown of a pod while a node was there."""
        return [pod for pod in self._versions.get(name, []) if pod is not None]

    async def _next_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _watch(self, ready: asyncio.Event) -> None:
        listed = await self.api.list(PODS, namespace=NAMESPACE)
        for pod in listed.items:
            self._versions.setdefault(pod.metadata.name, []).append(pod)
        start = listed.resource_version
        async with self.api.watch(PODS, namespace=NAMESPACE, resource_version=start) as events:
            ready.set()
            async for event in events:
                if event.object is not None:
                    known = self._versions.setdefault(event.object.metadata.name, [])
                    known.append(event.object)
                    # The removal of a pod is recorded as a version, None.
                    known += [None] if event.type == "DELETED" else []
                    self._changed.set()

    async def observed(self, pod: Pod) -> RuntimePod:
        """The pod as the runtime reports it."""
        found = await self.sim.inspect(PodUid(pod.metadata.uid))
        assert found is not None
        return found

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Reasons and messages of the events about a pod."""
        listed = (await self.api.list(as_documents(schema.EVENTS), namespace=NAMESPACE)).items
        return [(one["reason"], one["message"]) for one in listed if one["involvedObject"]["name"] == name]

    def trail(self, pod: Pod) -> tuple[TrailEntry, ...]:
        """The recorded decisions about a pod."""
        assert self.node is not None
        return self.node.dependencies.trail.entries(PodUid(pod.metadata.uid))


@asynccontextmanager
async def world(
    folder: Path,
    *,
    scripts: Mapping[str, Behaviour] | None = None,
    images: Mapping[str, ImageBehaviour] | None = None,
    sandbox_seconds: float = 0.0,
) -> AsyncIterator[World]:
    """A world with an API server."""
    sim = SimRuntime(clock=VirtualClock(), scripts=scripts, sandbox_seconds=sandbox_seconds)
    async with local_api(folder) as api:
        made = World(api.client, folder, sim, SimImages(images))
        ready = asyncio.Event()
        async with running({"watch of the test": lambda: made._watch(ready)}):
            await ready.wait()
            yield made


def container(name: str = "main", *, image: str = "example/image:1", **fields: Any) -> Document:
    """A container of a pod's document."""
    return {"name": name, "image": image, **fields}


def condition(pod: Pod, kind: str) -> str:
    """The status of a condition of a pod; empty if it has none."""
    return next((one.status for one in pod.status.conditions if one.type == kind), "")


def is_ready(pod: Pod) -> bool:
    """Whether the pod is Ready."""
    return condition(pod, "Ready") == "True"


def status_of(pod: Pod, name: str = "main") -> ContainerStatus:
    """The status of a container."""
    listed = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next(one for one in listed if one.name == name)
