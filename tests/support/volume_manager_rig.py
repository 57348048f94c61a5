"""The volume manager on a real disk, with secrets and config maps from MemoryApi."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from pykubelet.aio.clock import Clock, SystemClock
from pykubelet.api import schema
from pykubelet.api.generated.core import Node, ObjectReference, Pod, Service
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.pods import PodUid
from pykubelet.api.serializer import Document
from pykubelet.kubelet.kubelet_pods import RunContainerOptions
from pykubelet.kubelet.nodestatus.node_status import OwnNode
from pykubelet.kubelet.objectcache.pod_objects import AwaitedObjects, PodObjects, ServiceList
from pykubelet.kubelet.objectcache.secret_and_configmap_manager import ConfigMapManager, SecretManager
from pykubelet.kubelet.token.token_manager import TokenManager
from pykubelet.kubelet.volumemanager.filesystem import SystemMounter
from pykubelet.kubelet.volumemanager.persistent_volumes import ClaimReader
from pykubelet.kubelet.volumemanager.volume_manager import VolumeManager
from pykubelet.runtimes.dns import ClusterDns
from pykubelet.testing.memory_api import MemoryApi


class Told:
    """An event recorder that keeps the events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.events.append(f"{involved.name} {event_type} {reason} {message}")


class Facts:
    """What is known of the node and its cluster."""

    def __init__(self) -> None:
        self.listed: tuple[Service, ...] | None = ()

    def current_or_initial(self) -> Node:
        return Node(metadata=ObjectMeta(name="n1", labels={"kubernetes.io/hostname": "n1"}))

    def allocatable(self) -> Mapping[str, str]:
        return {"cpu": "4", "memory": "64Mi"}

    def host_ips(self) -> tuple[str, ...]:
        return ("192.168.0.1",)

    def services(self) -> tuple[Service, ...] | None:
        return self.listed


class World:
    """All parts, connected as a node connects them."""

    def __init__(self, root: Path, *, has_api: bool = True) -> None:
        clock = SystemClock()
        self.root, self.api, self.told, self.facts = root, MemoryApi(clock), Told(), Facts()
        self.config_maps = ConfigMapManager(client=self.api, clock=clock)
        self.secrets = SecretManager(client=self.api, clock=clock)
        self.tokens = TokenManager(source=None, clock=clock)
        self._objects = PodObjects(
            config_maps=self.config_maps if has_api else None, secrets=self.secrets if has_api else None
        )
        self.mounter = SystemMounter()
        self.manager = self.another_manager()
        self.arrived: list[str] = []
        self.awaited = AwaitedObjects(objects=self._objects, arrived=self.arrived.append)
        self.setup = RunContainerOptions(
            volumes=self.manager,
            objects=self._objects,
            awaited=self.awaited,
            services=cast("ServiceList", self.facts),
            node=cast("OwnNode", self.facts),
            mounter=self.mounter,
            cluster_dns=ClusterDns(domain="cluster.local"),
        )

    def another_manager(self, clock: Clock | None = None) -> VolumeManager:
        """A new volume manager without any state, as after a restart."""
        return VolumeManager(
            root=str(self.root),
            objects=self._objects,
            tokens=self.tokens,
            claims=ClaimReader(self.api),
            node=cast("OwnNode", self.facts),
            mounter=self.mounter,
            recorder=self.told,
            clock=clock or SystemClock(),
        )

    def put_config_map(self, name: str, **data: str) -> None:
        self.api.put(schema.CONFIG_MAPS, object_of(name, {"data": data}))

    def put_secret(self, name: str, **data: str) -> None:
        self.api.put(schema.SECRETS, object_of(name, {"data": data}))

    async def mount(self, pod: Pod, timeout_seconds: float = 5) -> None:
        """Mount the volumes as a pod sync does: make folders, register references, mount."""
        await self.manager.make_directories(pod)
        self.config_maps.register_pod(pod)
        self.secrets.register_pod(pod)
        await self.manager.mount(pod, timeout_seconds=timeout_seconds)

    def path(self, pod: Pod, volume: str) -> Path:
        return Path(self.manager.volumes(PodUid(pod.metadata.uid))[volume].path)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the background tasks of all parts."""
        stations = (self.config_maps, self.secrets, self.manager)
        tasks = []
        for station in stations:
            ready = asyncio.Event()
            tasks.append(asyncio.create_task(station.run(ready)))
            await ready.wait()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


def read(path: Path | str) -> str:
    """The text of a file; empty if there is none."""
    return Path(path).read_text() if Path(path).exists() else ""


def write(path: Path | str, text: str) -> None:
    """Write a text to a file."""
    Path(path).write_text(text)


def facts(path: Path | str) -> os.stat_result:
    """The result of stat for a file."""
    return Path(path).stat()


def replace_by_link(path: Path | str, target: str) -> None:
    """Replace a file by a link, as a container might."""
    Path(path).unlink()
    Path(path).symlink_to(target)


def object_of(name: str, content: Document) -> Document:
    """A document in the default namespace."""
    return {"metadata": {"name": name, "namespace": "default"}, **content}
