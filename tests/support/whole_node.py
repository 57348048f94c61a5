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
    """A machine that is always the same; MachineFacts."""

    def read(self) -> MachineInfo:
        return MACHINE


class NothingMeasured:
    """A machine of which nobody knows how much it has left; SignalReader."""

    def read(self) -> Mapping[str, Observation]:
        return {}


class World:
    """What outlives a node: the API server, the runtime, the disk. Nodes come and go."""

    def __init__(self, client: Client | None, folder: Path, sim: SimRuntime, images: SimImages) -> None:
        self.client, self.folder, self.sim, self.images = client, folder, sim, images
        self.runtime: RuntimeParts = simulated(sim, images)
        self.clock: Clock = VirtualClock()
        self.node: Node | None = None
        self._versions: dict[str, list[Pod | None]] = {}
        self._changed = asyncio.Event()

    def use(self, **parts: Any) -> None:
        """Have later nodes find other parts of the runtime."""
        self.runtime = replace(self.runtime, **parts)

    @property
    def api(self) -> Client:
        """The API server, which is there."""
        assert self.client is not None
        return self.client

    @asynccontextmanager
    async def running_node(self, **settings: Any) -> AsyncIterator[Node]:
        """A node at work in this world, ready."""
        async with self.starting_node(**settings) as started:
            await started.until_ready()
            yield started

    @asynccontextmanager
    async def starting_node(self, *, client: Client | None = None, **settings: Any) -> AsyncIterator[Node]:
        """A node that has just been started, perhaps with another way to the API server."""
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
        """All of them."""
        return (await self.api.list(PODS, namespace=NAMESPACE)).items

    async def delete(self, name: str) -> None:
        """Ask for the deletion of a pod, with its own grace."""
        await self.api.delete(PODS, name, namespace=NAMESPACE)

    async def force_delete(self, name: str) -> None:
        """Have the API forget a pod, whatever runs of it."""
        await self.api.delete(PODS, name, namespace=NAMESPACE, options=NOW)

    async def node_message(self) -> str:
        """What the node says of its readiness."""
        shown = await self.api.get(NODES, NODE)
        return next(one.message for one in shown.status.conditions if one.type == "Ready")

    async def until(self, name: str, holds: Callable[[Pod], bool], *, within_seconds: float = 30.0) -> Pod:
        """The first version of a pod, from the present one on, of which something holds; virtual seconds."""
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
        """Return when the API does not have the pod any more."""
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
                    # The end of a pod is a version of its own.
                    known += [None] if event.type == "DELETED" else []
                    self._changed.set()

    async def observed(self, pod: Pod) -> RuntimePod:
        """What the runtime has of a pod."""
        found = await self.sim.inspect(PodUid(pod.metadata.uid))
        assert found is not None
        return found

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Reasons and messages of the events about a pod."""
        listed = (await self.api.list(as_documents(schema.EVENTS), namespace=NAMESPACE)).items
        return [(one["reason"], one["message"]) for one in listed if one["involvedObject"]["name"] == name]

    def trail(self, pod: Pod) -> tuple[TrailEntry, ...]:
        """What was decided about a pod."""
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
