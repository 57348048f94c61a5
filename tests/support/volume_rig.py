"""Persistent volumes on an in-process API: the controllers, the scheduler, and a provisioner with folders on disk."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from controller_rig import Bench
from pykubelet.api.generated.core import PersistentVolume, PersistentVolumeClaim
from pykubelet.api.pods import condition_of
from pykubelet.api.schema import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from pykubelet.api.scheme import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from pykubelet.api.scheme import PERSISTENT_VOLUMES as VOLUMES
from pykubelet.api.scheme import PODS as TYPED_PODS
from pykubelet.client.interface import NOW
from pykubelet.controllers.persistentvolume.local_provisioner import LocalVolumes
from pykubelet.controllers.persistentvolume.volume_controllers import volume_controllers
from pykubelet.kubelet.volumemanager.volume_folders import VolumeFolders
from pykubelet.scheduler.schedule_one import Scheduler
from pykubelet.testing.local_api import local_api

NODE = "n1"
MANUAL = "manual"


class VolumeBench(Bench):
    """A bench with short methods for claims, volumes, classes and pods."""

    folder: Path

    async def add_claim(
        self, name: str, size: str = "1Gi", *, metadata: dict[str, Any] | None = None, **spec: Any
    ) -> None:
        body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
        await self.make(PERSISTENT_VOLUME_CLAIMS, name, metadata=metadata or {}, spec=body)

    async def add_volume(
        self, name: str, size: str = "1Gi", *, metadata: dict[str, Any] | None = None, **spec: Any
    ) -> None:
        body = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
            "storageClassName": MANUAL,
            **spec,
        }
        await self.make(PERSISTENT_VOLUMES, name, metadata=metadata or {}, spec=body)

    async def add_class(self, name: str, *, provisioner: str = "example.com/disks", **rest: Any) -> None:
        await self.make(STORAGE_CLASSES, name, provisioner=provisioner, **rest)

    async def add_node(self, name: str = NODE) -> None:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        status = {"capacity": amounts, "allocatable": amounts}
        await self.make(NODES, name, metadata={"labels": {"kubernetes.io/hostname": name}}, status=status)
        # A node that has not reported yet is tainted.
        await self.change(NODES, name, {"spec": {"taints": None}})

    async def add_pod(self, name: str, claim: str = "", **spec: Any) -> None:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
        body = {"containers": [{"name": "main", "image": "example/image:1"}], "volumes": volumes, **spec}
        await self.make(PODS, name, spec=body)

    async def remove_pod(self, name: str) -> None:
        """Deletes a pod at once, as its node would after its end."""
        await self.plain.delete(TYPED_PODS, name, namespace="default", options=NOW)

    async def claim(self, name: str) -> PersistentVolumeClaim:
        return await self.plain.get(CLAIMS, name, namespace="default")

    async def volume(self, name: str) -> PersistentVolume:
        return await self.plain.get(VOLUMES, name)

    async def until_claim(self, name: str, phase: str) -> PersistentVolumeClaim:
        async def holds() -> bool:
            return (await self.claim(name)).status.phase == phase

        await self.until(holds)
        return await self.claim(name)

    async def until_volume(self, name: str, phase: str) -> PersistentVolume:
        async def holds() -> bool:
            return (await self.volume(name)).status.phase == phase

        await self.until(holds)
        return await self.volume(name)

    async def until_event(self, reason: str, text: str) -> None:
        async def holds() -> bool:
            return text in await self.events(reason)

        await self.until(holds)

    async def until_unschedulable(self, name: str, text: str) -> None:
        """Waits until the scheduler's message about a pod contains a text."""

        async def holds() -> bool:
            condition = condition_of(await self.plain.get(TYPED_PODS, name, namespace="default"), "PodScheduled")
            return condition is not None and condition.status == "False" and text in condition.message

        await self.until(holds)

    async def until_placed(self, name: str) -> str:
        async def holds() -> bool:
            return bool((await self.plain.get(TYPED_PODS, name, namespace="default")).spec.node_name)

        await self.until(holds)
        return (await self.plain.get(TYPED_PODS, name, namespace="default")).spec.node_name

    async def until_gone(self, resource: Any, name: str) -> None:
        async def holds() -> bool:
            return await self.get(resource, name, namespace="default" if resource.namespaced else "") is None

        await self.until(holds)


@asynccontextmanager
async def volume_bench(folder: Path, *, provisions: bool = False) -> AsyncIterator[VolumeBench]:
    """Runs the volume controllers and the scheduler; `provisions` adds the local provisioner of NODE."""
    async with local_api(folder) as api:
        bench = VolumeBench(api.client)
        bench.folder = folder / "volumes"
        folders = VolumeFolders(bench.folder)
        here = LocalVolumes(node_name=NODE, root=bench.folder, make=folders.make, remove=folders.remove)
        made = volume_controllers(
            client=api.client,
            recorder_of=lambda _: bench.recorder,
            informers=bench.informers,
            local_volumes=here if provisions else None,
        )
        pods = bench.informers.pods
        scheduler = Scheduler(client=api.client, recorder=bench.recorder, pods=pods, clock=bench.clock)
        async with bench.running(*list(made.values()), scheduler):
            yield bench
